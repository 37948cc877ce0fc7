//! One process, one directory: the embedded database on a simulated disk.
//!
//! ```text
//!  life 1                     │ life 2             │ …  │ last life
//!  prepare, clients, faults ──┴ settle, clients … ─┴ … ─┴ settle all, read all, judge
//!                             ▲ loss of power, kill or close; the disk as that left it
//! ```
//!
//! Beside the clients somebody takes backups, which are restored and read, and migrates the commit
//! table.
//!
//! Every life but the last ends by a fault while clients are at work. Each new one is asked what
//! became of the transactions before: nothing acknowledged may be gone, nothing refused there.

mod admin;
mod faults;
mod setup;
mod store;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use carnet::{Builder, Db};
use carnet_base::{EncodingMap, ErrorKind, Result, Timestamp};
use carnet_storage::backup::sim::SimVault;
use carnet_storage::disk::sim::SimDisk;
use carnet_storage::manifest::Manifest;
use carnet_storage::{Durability, Options};
use carnet_store::{CommitLog, Context, Life, Outcome};
use carnet_store_local::{DEFAULT_ENCODING, LocalStore};
use carnet_txn::{IdleLimits, IdleWatch, Sequencer, VersionOrder};

use self::admin::{Administered, Administrator, COPY};
use self::faults::{End, Fault};
use self::setup::Setup;
use self::store::Store;
use crate::client::Client;
use crate::database::{Bare, Database};
use crate::dice::Dice;
use crate::executor::{Executor, Process, SimClock};
use crate::ledger::{Ledger, Told};
use crate::mutant::Mutant;
use crate::rules::{Known, Rules};
use crate::run::{Order, Run};
use crate::verdict;
use crate::workload::{self, Numbers, Work};

/// The process that has the database, its workers and its clients.
const DATABASE: Process = Process(1);

/// No run takes so many events; one that does waits for something that never comes.
const TURNS_MAX: u64 = 3_000_000;

/// How long a fault has time to show, unless something else happens first.
const PATIENCE: Duration = Duration::from_millis(300);

/// What everybody in a run knows.
struct World {
    executor: Executor,
    clock: SimClock,
    ledger: Ledger,
    numbers: Numbers,
    setup: Setup,
    order: Order,
    /// A client was told that the store has stopped.
    trouble: Cell<bool>,
    faults: Cell<usize>,
    /// The map of encodings as the first life read it.
    first_map: RefCell<Option<EncodingMap>>,
    /// What each life's rules decided, where they can be watched.
    known: RefCell<Vec<Arc<Known>>>,
}

/// Runs a seed to its end.
pub(crate) fn run(order: &Order) -> Run {
    let mut dice = Dice::new(order.seed);
    let executor = Executor::new(dice.seed());
    let mut setup = Setup::draw(&mut dice);
    // Behind the façade only what administrators do can be broken.
    setup.facade &= order.mutant.is_none_or(|mutant| {
        matches!(mutant, Mutant::BackupNamedAfterItsEnd | Mutant::RestoreForgetsToCut)
    });
    let world = Rc::new(World {
        clock: executor.clock(),
        executor: executor.clone(),
        ledger: Ledger::default(),
        numbers: Numbers::default(),
        setup,
        order: order.clone(),
        trouble: Cell::new(false),
        faults: Cell::new(0),
        first_map: RefCell::default(),
        known: RefCell::default(),
    });
    let of_run = Rc::clone(&world);
    let isolation = world.setup.isolation;
    let promise = verdict::Promise { isolation, is_always_fresh: true, orders_by_commit: true };
    let lives = async move {
        if of_run.setup.facade {
            live(&of_run, dice, open_facade).await
        } else {
            live(&of_run, dice, open_bare).await
        }
    };
    let ended = executor.run(TURNS_MAX, lives);
    executor.kill(DATABASE);
    let verdict = match ended {
        None => Err("it stands still: somebody waits for what never comes".to_owned()),
        Some(ended) => ended.and_then(|()| verdict::judge(&world.ledger, promise)),
    };
    Run::of(&executor, &world.ledger, world.faults.get(), &world.setup, verdict)
}

fn open_facade(world: &World, disk: &SimDisk) -> Result<Db> {
    let idle = world.setup.idle.unwrap_or(IdleLimits::NONE);
    facade(world, DATABASE, idle).open_on(Arc::new(disk.clone()))
}

fn facade(world: &World, process: Process, idle: IdleLimits) -> Builder {
    let Options { durability, memory_bytes, flush_bytes, cache_bytes, .. } = world.setup.options;
    Db::builder()
        .durability(durability)
        .memory_bytes(memory_bytes)
        .flush_bytes(flush_bytes)
        .cache_bytes(cache_bytes)
        .compaction_style(world.setup.options.compaction_style)
        .retention(world.setup.retention)
        .transaction_limits(world.setup.limits())
        // Whoever looks for idle ones now and then keeps a world that stands still awake: in most
        // runs nobody does.
        .idle_timeout(idle.writer)
        .snapshot_idle_timeout(idle.reader)
        .sweep_warning(idle.warning)
        .clock(Arc::new(world.clock.clone()))
        .spawn(Arc::new(world.executor.spawner(process)))
}

fn open_bare(world: &World, disk: &SimDisk) -> Result<Bare<Store>> {
    let mutant = world.order.mutant;
    match mutant {
        Some(Mutant::TableNotSynced) => disk.lie_about_syncs("sst-"),
        Some(Mutant::ManifestNotSynced) => disk.lie_about_syncs("MANIFEST"),
        _ => {}
    }
    let mut options = world.setup.options.clone();
    if mutant == Some(Mutant::AcknowledgedBeforeDurable) {
        options.durability = Durability::None;
    }
    if mutant == Some(Mutant::MapReadOnce) {
        forget_migrations(world, disk)?;
    }
    let known = Arc::new(Known::default());
    world.known.borrow_mut().push(Arc::clone(&known));
    let of_rules = Arc::clone(&known);
    let rules = |mut life: Life| {
        if mutant == Some(Mutant::StartsHandedOutTwice) {
            life.first = last_commit(&world.ledger).unwrap_or(life.first);
        }
        let inner = Sequencer::with_conflict_bytes(life, world.setup.conflict_bytes)
            .with_version_order(VersionOrder::Commit);
        Box::new(Rules { inner: Box::new(inner), known: of_rules, mutant }) as _
    };
    let inner = LocalStore::open(
        Arc::new(disk.clone()),
        Arc::new(world.clock.clone()),
        &world.executor.spawner(DATABASE),
        options,
        world.setup.retention,
        DEFAULT_ENCODING,
        rules,
    )?;
    let store = Arc::new(Store { inner, known, mutant });
    let watch = |limits| {
        let clock = Arc::new(world.clock.clone());
        Arc::new(IdleWatch::start(limits, clock, &world.executor.spawner(DATABASE)))
    };
    let idle = world.setup.idle.map(watch);
    Ok(Bare { store, context: Context::unbounded(), limits: world.setup.limits(), idle })
}

/// Makes the map say of all starts what the first one that was read says of its last.
fn forget_migrations(world: &World, disk: &SimDisk) -> Result<()> {
    let Some(manifest) = Manifest::load(disk)?.filter(|manifest| !manifest.notes.is_empty()) else {
        return Ok(());
    };
    let mut first = world.first_map.borrow_mut();
    let map = match &*first {
        Some(map) => map,
        None => first.insert(EncodingMap::decode(&manifest.notes)?),
    };
    let notes = map.extended(manifest.bound).encode();
    Manifest { notes, ..manifest }.store(disk)
}

fn last_commit(ledger: &Ledger) -> Option<Timestamp> {
    let told = |told| if let Told::Committed(commit) = told { Some(commit) } else { None };
    ledger.records().iter().filter_map(|record| told(record.told)).max()
}

/// Lets a database live and die until all transactions and faults of the seed are through.
async fn live<D: Administered>(
    world: &Rc<World>,
    mut dice: Dice,
    open: impl Fn(&World, &SimDisk) -> Result<D>,
) -> Result<(), String> {
    let setup = &world.setup;
    let decided = |start, before: Option<Outcome>| before.or_else(|| world.decided(start));
    let mut disk = SimDisk::new(dice.seed());
    let mut vault = SimVault::new(dice.seed());
    let mut may_have_lost = false;
    loop {
        let db = reopen(world, &mut disk, &mut dice, &mut may_have_lost, &open)?;
        // Before anybody could ask, what became of the transactions before must not be swept.
        world.executor.stall_workers(DATABASE, "carnet-compact", Duration::from_secs(3600));
        if may_have_lost && setup.may_lose() {
            verdict::settle(&db, &world.ledger, .., true, &decided).await?;
        }
        let life = world.ledger.begin_life();
        if life > 1 {
            verdict::settle(&db, &world.ledger, life - 1..life, false, &decided).await?;
        }
        world.executor.stall_workers(DATABASE, "carnet-compact", Duration::ZERO);
        let mut client = world.client(&db, &mut dice);
        workload::prepare(&mut client).await.map_err(|error| error.to_string())?;
        if world.faults.get() >= setup.faults && world.ledger.ended() >= setup.transactions {
            verdict::settle(&db, &world.ledger, .., false, &decided).await?;
            return workload::read_all(&mut client).await.map_err(|error| error.to_string());
        }
        for _ in 0..setup.clients {
            let client = world.client(&db, &mut dice);
            let of_client = Rc::clone(world);
            world.executor.spawn(DATABASE, async move {
                let (order, numbers) = (&of_client.order, &of_client.numbers);
                let work = Work { order, numbers, may_leave: !of_client.setup.facade };
                let work = work.done_by(client, of_client.setup.think_micros, |kind| {
                    if matches!(kind, ErrorKind::Unknown { .. } | ErrorKind::Unavailable) {
                        of_client.trouble.set(true);
                    }
                });
                work.await;
            });
        }
        drop(client);
        let administrator = Administrator {
            world: Rc::clone(world),
            db: db.clone(),
            vault: vault.clone(),
            first: db.local().published(),
            dice: dice.fork(),
        };
        world.executor.spawn(DATABASE, administrator.work());
        let end = until_the_end(world, &disk, &mut dice).await;
        disk = die(world, db, &disk, end, &mut dice);
        vault = if end == End::PowerLoss { vault.crash(dice.rng()) } else { vault.kill() };
        may_have_lost = end == End::PowerLoss;
    }
}

/// Opens the database, sometimes only after the power went in the middle of it.
fn reopen<D>(
    world: &World,
    disk: &mut SimDisk,
    dice: &mut Dice,
    may_have_lost: &mut bool,
    open: impl Fn(&World, &SimDisk) -> Result<D>,
) -> Result<D, String> {
    while dice.percent(20) {
        *may_have_lost = true;
        disk.halt_at(disk.operations() + dice.between(1, 40));
        if open(world, disk).is_ok() {
            disk.halt();
        }
        world.executor.kill(DATABASE);
        *disk = disk.crash(dice.rng());
    }
    open(world, disk).map_err(|error| format!("the database cannot be opened: {error}"))
}

/// Lets faults strike until one ends the database's life, or all is done.
async fn until_the_end(world: &World, disk: &SimDisk, dice: &mut Dice) -> End {
    let setup = &world.setup;
    loop {
        let struck = world.faults.get();
        let due = setup.transactions * (struck + 1) / (setup.faults + 1);
        wait_for(world, due).await;
        if world.trouble.get() {
            return dice.pick(&[End::PowerLoss, End::Kill, End::Close]);
        }
        if struck >= setup.faults {
            return dice.pick(&[End::PowerLoss, End::Kill, End::Close]);
        }
        world.faults.set(struck + 1);
        let fault = Fault::draw(dice);
        world.executor.note(fault as u64);
        if let Some(end) = fault.strike(world, disk, dice) {
            // Mostly the device has not come to what was written last.
            if end == End::PowerLoss && dice.percent(60) {
                let stalled = dice.micros(100, 3_000);
                world.executor.stall_workers(DATABASE, "carnet-log", stalled * 2);
                world.executor.sleep(stalled).await;
            }
            return end;
        }
        wait_for(world, due + setup.transactions / (setup.faults + 1) / 2).await;
        if world.trouble.get() {
            return fault.aftermath(dice);
        }
    }
}

/// Waits until so many transactions have ended, the store has stopped, or for long enough.
async fn wait_for(world: &World, transactions: usize) {
    let until = world.executor.now() + PATIENCE;
    while world.ledger.ended() < transactions
        && !world.trouble.get()
        && world.executor.now() < until
    {
        world.executor.sleep(Duration::from_micros(200)).await;
    }
}

/// Ends a life; returns the disk as it is found afterwards.
fn die<D>(world: &World, db: D, disk: &SimDisk, end: End, dice: &mut Dice) -> SimDisk {
    world.trouble.set(false);
    world.executor.kill(COPY);
    let left = match end {
        End::PowerLoss => {
            disk.halt();
            disk.crash(dice.rng())
        }
        End::Kill => {
            let left = disk.kill();
            disk.halt();
            left
        }
        End::Close => {
            world.executor.kill_tasks(DATABASE);
            drop(db);
            world.executor.kill(DATABASE);
            return disk.kill();
        }
    };
    world.executor.kill(DATABASE);
    left
}

impl World {
    /// What was decided of a start, where the rules can be watched: through the façade they cannot,
    /// and nobody leaves a transaction there of which he does not know what became.
    fn decided(&self, start: Timestamp) -> Option<Outcome> {
        let known = self.known.borrow();
        let commit = known.iter().find_map(|known| known.commit_of(start));
        let outcome = commit.map_or(Outcome::Aborted, Outcome::Committed);
        (!known.is_empty()).then_some(outcome)
    }

    fn client<D: Database>(&self, db: &D, dice: &mut Dice) -> Client<D> {
        Client {
            executor: self.executor.clone(),
            db: db.clone(),
            ledger: self.ledger.clone(),
            isolation: self.setup.isolation,
            may_expire: self.setup.idle.is_some(),
            dice: dice.fork(),
            process: self.ledger.new_client(),
        }
    }
}
