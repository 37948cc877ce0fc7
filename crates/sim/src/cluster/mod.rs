//! Several processes over a weak cluster: leaders that die, sleep, are cut off, and come back
//! believing that they lead.

mod agreed;
mod desk;
mod faults;
mod network;
mod seams;
mod setup;
mod weak;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use carnet_base::{CommitEntry, Timestamp};
use carnet_sequencer::{Address, ClusterLog, Doors, MakeOrder};
use carnet_store::{Context, Life, Outcome};
use carnet_txn::{IdleWatch, Limits, Sequencer};

use self::desk::{Desk, Term};
use self::network::Network;
use self::seams::Seam;
use self::setup::Setup;
use self::weak::{WeakCluster, Weather};
use crate::client::Client;
use crate::database::Bare;
use crate::dice::Dice;
use crate::executor::{Executor, Process, SimClock};
use crate::ledger::Ledger;
use crate::mutant::Mutant;
use crate::rules::{Known, Rules};
use crate::run::{Order, Run};
use crate::verdict;
use crate::workload::{self, Numbers, Work};

const PROCESSES: u32 = 3;
const TURNS_MAX: u64 = 6_000_000;
/// How long a fault has time to show, unless enough transactions end before.
const PATIENCE: Duration = Duration::from_millis(400);

type Log = ClusterLog<Seam, Network>;

struct World {
    executor: Executor,
    cluster: WeakCluster,
    network: Network,
    ledger: Ledger,
    numbers: Numbers,
    setup: Setup,
    order: Order,
    clocks: BTreeMap<Process, SimClock>,
    logs: RefCell<BTreeMap<Process, Arc<Log>>>,
    /// Who ends transactions that are left alone, at each process.
    watches: RefCell<BTreeMap<Process, Arc<IdleWatch>>>,
    dice: RefCell<Dice>,
    faults: Cell<usize>,
}

/// Runs a seed to its end.
pub(crate) fn run(order: &Order) -> Run {
    let mut dice = Dice::new(order.seed);
    let executor = Executor::new(dice.seed());
    let mut setup = Setup::draw(&mut dice);
    order.mutant.or(order.suits).into_iter().for_each(|mutant| setup.suit(mutant));
    let world = Rc::new(World {
        cluster: WeakCluster::new(dice.fork(), executor.timer(), setup.forgets),
        network: Network::new(dice.fork(), executor.timer()),
        clocks: processes().map(|process| (process, executor.clock())).collect(),
        executor: executor.clone(),
        ledger: Ledger::default(),
        numbers: Numbers::default(),
        setup,
        order: order.clone(),
        logs: RefCell::default(),
        watches: RefCell::default(),
        dice: RefCell::new(dice),
        faults: Cell::new(0),
    });
    let ended = executor.run(TURNS_MAX, live(Rc::clone(&world)));
    let isolation = world.setup.isolation;
    let promise = verdict::Promise { isolation, is_always_fresh: false, orders_by_commit: false };
    let verdict = match ended {
        None => Err("it stands still: somebody waits for what never comes".to_owned()),
        Some(ended) => ended.and_then(|()| verdict::judge(&world.ledger, promise)),
    };
    processes().for_each(|process| world.kill(process));
    Run::of(&world.executor, &world.ledger, world.faults.get(), &world.setup, verdict)
}

fn processes() -> impl Iterator<Item = Process> {
    (1..=PROCESSES).map(Process)
}

async fn live(world: Rc<World>) -> Result<(), String> {
    let setup = &world.setup;
    world.ledger.begin_life();
    processes().for_each(|process| world.start(process));
    in_fine_weather(&world, async |client| workload::prepare(client).await).await?;
    world.weather(true);
    processes().for_each(|process| world.employ(process));
    while world.faults.get() < setup.faults || world.ledger.ended() < setup.transactions {
        let struck = world.faults.get();
        let due = setup.transactions * (struck + 1) / (setup.faults + 1);
        world.wait_for(due).await;
        world.faults.set(struck + 1);
        // Sometimes one trouble comes on top of another.
        if world.dice.borrow_mut().percent(70) {
            world.heal();
        }
        world.strike().await;
    }
    world.heal();
    world.weather(false);
    processes().for_each(|process| world.executor.kill(clients_of(process)));
    // What is under way arrives, and who slept wakes up.
    world.executor.sleep(Duration::from_secs(1)).await;
    in_fine_weather(&world, async |client| workload::prepare(client).await).await?;
    let swept = |start, _| match world.cluster.swept(start) {
        Some(CommitEntry::Committed(commit)) => Some(Outcome::Committed(commit)),
        Some(CommitEntry::Aborted) | None => Some(Outcome::Aborted),
    };
    verdict::settle(&world.client(Process(1)).db, &world.ledger, .., false, swept).await?;
    in_fine_weather(&world, async |client| workload::read_all(client).await).await
}

/// Runs a transaction that must succeed soon.
async fn in_fine_weather(
    world: &World,
    run: impl AsyncFn(&mut Client<Bare<Log>>) -> carnet_base::Result<()>,
) -> Result<(), String> {
    let mut last = None;
    for _ in 0..20 {
        match run(&mut world.client(Process(1))).await {
            Ok(()) => return Ok(()),
            Err(error) => last = Some(error),
        }
        world.executor.sleep(Duration::from_millis(50)).await;
    }
    let why = last.map(|error| error.to_string()).unwrap_or_default();
    Err(format!("nothing works in fine weather: {why}"))
}

/// The clients of a process end with it, and can be ended alone.
const fn clients_of(process: Process) -> Process {
    Process(process.0 + 100)
}

fn address(process: Process) -> Address {
    Address::new(format!("process-{}", process.0)).expect("it is short")
}

impl World {
    /// Starts a process, or a new incarnation of it.
    fn start(&self, process: Process) {
        let tasks = self.executor.tasks(process);
        let mutant = self.order.mutant;
        let doors = Doors {
            timer: Arc::new(self.executor.timer()),
            clock: Arc::new(self.clocks[&process].clone()),
            tasks: Arc::new(tasks.clone()),
        };
        let seam = Seam {
            inner: self.cluster.seen_by(process),
            tasks: tasks.clone(),
            mutant,
            believed: Arc::default(),
            seen: Arc::default(),
        };
        let conflict_bytes = self.setup.conflict_bytes;
        let term = Term::default();
        let led = term.clone();
        let make_order: MakeOrder = Arc::new(move |first: Timestamp| {
            led.begin(first);
            let first = match mutant {
                Some(Mutant::StartsHandedOutTwice) => {
                    Timestamp::new(first.get().saturating_sub(50).max(1)).unwrap_or(first)
                }
                _ => first,
            };
            let inner =
                Sequencer::with_conflict_bytes(Life { first, swept: first }, conflict_bytes);
            Box::new(Rules { inner: Box::new(inner), known: Arc::new(Known::default()), mutant })
        });
        let network = self.network.seen_by(process);
        let log = Log::open(
            Arc::new(seam),
            network.clone(),
            address(process),
            doors,
            self.dice.borrow_mut().rng(),
            self.setup.options,
            make_order,
        );
        network.listen(address(process), tasks, Desk::of(&log.handler(), term, mutant));
        self.logs.borrow_mut().insert(process, Arc::new(log));
        if let Some(limits) = self.setup.idle {
            let clock = Arc::new(self.clocks[&process].clone());
            let watch = IdleWatch::start(limits, clock, &self.executor.spawner(process));
            self.watches.borrow_mut().insert(process, Arc::new(watch));
        }
    }

    /// Has clients work at a process.
    fn employ(self: &Rc<Self>, process: Process) {
        for _ in 0..self.setup.clients {
            let (world, client) = (Rc::clone(self), self.client(process));
            self.executor.spawn(clients_of(process), async move {
                let work = Work { order: &world.order, numbers: &world.numbers, may_leave: true };
                work.done_by(client, world.setup.think_micros, |_| {}).await;
            });
        }
    }

    fn client(&self, process: Process) -> Client<Bare<Log>> {
        let context = Context::unbounded();
        let is_stale = self.order.mutant == Some(Mutant::SnapshotWithoutProof);
        Client {
            executor: self.executor.clone(),
            db: Bare {
                store: Arc::clone(&self.logs.borrow()[&process]),
                context: if is_stale { context.accepting_stale() } else { context },
                limits: Limits::default(),
                idle: self.watches.borrow().get(&process).cloned(),
            },
            ledger: self.ledger.clone(),
            isolation: self.setup.isolation,
            may_expire: self.setup.idle.is_some(),
            dice: self.dice.borrow_mut().fork(),
            process: self.ledger.new_client(),
        }
    }

    fn weather(&self, is_foul: bool) {
        let setup = &self.setup;
        self.cluster.set_weather(if is_foul { setup.weather } else { Weather::default() });
        let (lost, late) = if is_foul { (setup.lost, 3) } else { (0, 0) };
        self.network.set_weather(lost, late);
    }

    fn heal(&self) {
        self.cluster.heal();
        self.network.heal();
        self.weather(true);
    }

    async fn wait_for(&self, transactions: usize) {
        let until = self.executor.now() + PATIENCE;
        while self.ledger.ended() < transactions && self.executor.now() < until {
            self.executor.sleep(Duration::from_micros(500)).await;
        }
    }

    fn kill(&self, process: Process) {
        self.executor.kill(clients_of(process));
        self.executor.kill(process);
        let dead = self.logs.borrow_mut().remove(&process);
        let unwatched = self.watches.borrow_mut().remove(&process);
        drop((dead, unwatched));
        // What it spawned in dying dies with it.
        self.executor.kill(process);
    }
}
