//! Runs the scenario: incarnations of a database, and the judgement.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use carnet_base::{ErrorKind, Result};
use carnet_storage::backup::sim::SimVault;
use carnet_storage::disk::sim::SimDisk;
use carnet_store::{CommitLog, Outcome};

use super::admin::{Administered, Administrator, COPY};
use super::faults::{End, Fault};
use super::open::{open_bare, open_facade};
use super::setup::Setup;
use super::world::{DATABASE, World};
use crate::executor::Executor;
use crate::mutant::Mutant;
use crate::order::Order;
use crate::random::Random;
use crate::run::Run;
use crate::run_record::RunRecord;
use crate::verdict;
use crate::workload::{self, Numbers, Work, Workload};

/// Maximum number of events; a run that exceeds it has a task that waits for ever.
const TURNS_MAX: u64 = 3_000_000;
/// Time for a fault to take effect, unless something else happens before.
const PATIENCE: Duration = Duration::from_millis(300);

/// Runs a seed to its end.
pub(crate) fn run(order: &Order) -> Run {
    let mut random = Random::new(order.seed);
    let executor = Executor::new(random.seed());
    let mut setup = Setup::draw(&mut random);
    setup.facade |= order.workload == Some(Workload::Derived);
    // With the full API, only the administrator's rules can be broken.
    setup.facade &= order.mutant.is_none_or(|mutant| {
        matches!(mutant, Mutant::BackupNamedAfterItsEnd | Mutant::RestoreForgetsToCut)
    });
    let world = Rc::new(World {
        clock: executor.clock(),
        executor: executor.clone(),
        run_record: RunRecord::default(),
        numbers: Numbers::default(),
        setup,
        order: order.clone(),
        has_stopped: Cell::new(false),
        faults: Cell::new(0),
        first_map: RefCell::default(),
        known: RefCell::default(),
    });
    let of_run = Rc::clone(&world);
    let isolation = world.setup.isolation;
    let promise = verdict::Promise { isolation, is_always_fresh: true, orders_by_commit: true };
    let incarnations = async move {
        if of_run.setup.facade {
            live(&of_run, random, open_facade).await
        } else {
            live(&of_run, random, open_bare).await
        }
    };
    let ended = executor.run(TURNS_MAX, incarnations);
    executor.kill(DATABASE);
    let verdict = match ended {
        None => Err("the run is stuck: a task waits for ever".to_owned()),
        Some(ended) => ended.and_then(|()| verdict::judge(&world.run_record, promise)),
    };
    Run::new(&executor, &world.run_record, world.faults.get(), &world.setup, verdict)
}

/// Lets a database start and end until all transactions and faults of the seed are done.
async fn live<D: Administered>(
    world: &Rc<World>,
    mut random: Random,
    open: impl Fn(&World, &SimDisk) -> Result<D>,
) -> Result<(), String> {
    let setup = &world.setup;
    let decided = |start, before: Option<Outcome>| before.or_else(|| world.decided(start));
    let mut disk = SimDisk::new(random.seed());
    let mut vault = SimVault::new(random.seed());
    let mut may_have_lost = false;
    loop {
        let db = reopen(world, &mut disk, &mut random, &mut may_have_lost, &open)?;
        // Outcomes of earlier transactions must not be swept before they are checked.
        world.executor.stall_workers(DATABASE, "carnet-compact", Duration::from_secs(3600));
        if may_have_lost && setup.may_lose() {
            verdict::settle(&db, &world.run_record, .., true, &decided).await?;
        }
        let incarnation = world.run_record.begin_incarnation();
        if incarnation > 1 {
            verdict::settle(&db, &world.run_record, incarnation - 1..incarnation, false, &decided)
                .await?;
        }
        world.executor.stall_workers(DATABASE, "carnet-compact", Duration::ZERO);
        let mut client = world.client(&db, &mut random);
        workload::prepare(&mut client).await.map_err(|error| error.to_string())?;
        if world.faults.get() >= setup.faults && world.run_record.ended() >= setup.transactions {
            verdict::settle(&db, &world.run_record, .., false, &decided).await?;
            return workload::read_all(&mut client).await.map_err(|error| error.to_string());
        }
        for _ in 0..setup.clients {
            let client = world.client(&db, &mut random);
            let of_client = Rc::clone(world);
            world.executor.spawn(DATABASE, async move {
                let (order, numbers) = (&of_client.order, &of_client.numbers);
                let work =
                    Work { only: order.workload, numbers, may_leave: !of_client.setup.facade };
                let work = work.done_by(client, of_client.setup.think_micros, |kind| {
                    if matches!(kind, ErrorKind::Unknown { .. } | ErrorKind::Unavailable) {
                        of_client.has_stopped.set(true);
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
            random: random.fork(),
        };
        world.executor.spawn(DATABASE, administrator.work());
        let end = until_the_end(world, &disk, &mut random).await;
        disk = die(world, db, &disk, end, &mut random);
        vault = if end == End::PowerLoss { vault.crash(random.rng()) } else { vault.kill() };
        may_have_lost = setup.may_lose_at_end(end == End::PowerLoss);
    }
}

/// Opens the database, sometimes after a loss of power during an earlier attempt.
fn reopen<D>(
    world: &World,
    disk: &mut SimDisk,
    random: &mut Random,
    may_have_lost: &mut bool,
    open: impl Fn(&World, &SimDisk) -> Result<D>,
) -> Result<D, String> {
    while random.percent(20) {
        *may_have_lost = true;
        disk.halt_at(disk.operations() + random.between(1, 40));
        if open(world, disk).is_ok() {
            disk.halt();
        }
        world.executor.kill(DATABASE);
        *disk = disk.crash(random.rng());
    }
    open(world, disk).map_err(|error| format!("the database cannot be opened: {error}"))
}

/// Injects faults until one ends the incarnation, or all are done.
async fn until_the_end(world: &World, disk: &SimDisk, random: &mut Random) -> End {
    let setup = &world.setup;
    loop {
        let injected = world.faults.get();
        let due = setup.transactions * (injected + 1) / (setup.faults + 1);
        wait_for(world, due).await;
        if world.has_stopped.get() {
            return random.pick(&[End::PowerLoss, End::Kill, End::Close]);
        }
        if injected >= setup.faults {
            return random.pick(&[End::PowerLoss, End::Kill, End::Close]);
        }
        world.faults.set(injected + 1);
        let fault = Fault::draw(random);
        world.executor.note(fault as u64);
        if let Some(end) = fault.inject(world, disk, random) {
            // In most cases the device has not yet written the latest data.
            if end == End::PowerLoss && random.percent(60) {
                let stalled = random.micros(100, 3_000);
                world.executor.stall_workers(DATABASE, "carnet-log", stalled * 2);
                world.executor.sleep(stalled).await;
            }
            return end;
        }
        wait_for(world, due + setup.transactions / (setup.faults + 1) / 2).await;
        if world.has_stopped.get() {
            return fault.aftermath(random);
        }
    }
}

/// Waits until `transactions` have ended, the store has stopped, or the time is over.
async fn wait_for(world: &World, transactions: usize) {
    let until = world.executor.now() + PATIENCE;
    while world.run_record.ended() < transactions
        && !world.has_stopped.get()
        && world.executor.now() < until
    {
        world.executor.sleep(Duration::from_micros(200)).await;
    }
}

/// Ends an incarnation; returns the remaining disk.
fn die<D>(world: &World, db: D, disk: &SimDisk, end: End, random: &mut Random) -> SimDisk {
    world.has_stopped.set(false);
    world.executor.kill(COPY);
    let left = match end {
        End::PowerLoss => {
            disk.halt();
            disk.crash(random.rng())
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
