//! Several processes over a weak cluster: leaders that die, are paused or cut off, and come back
//! believing that they lead.

mod agreed;
mod endpoint;
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
use carnet_sequencer::{Address, ClusterLog, Environment, MakeOrder};
use carnet_store::{Context, Life, Outcome};
use carnet_txn::{CommitChecker, IdleWatch, Limits};

use self::endpoint::{Endpoint, Term};
use self::network::Network;
use self::seams::Seam;
use self::setup::Setup;
use self::weak::{FaultRates, WeakCluster};
use crate::client::Client;
use crate::database::Bare;
use crate::executor::{Executor, Process, SimClock};
use crate::mutant::Mutant;
use crate::random::Random;
use crate::rules::{Known, Rules};
use crate::run::{Order, Run};
use crate::run_record::RunRecord;
use crate::verdict;
use crate::workload::{self, Numbers, Work};

const PROCESSES: u32 = 3;
const TURNS_MAX: u64 = 6_000_000;
/// Time for a fault to take effect, unless enough transactions end before.
const PATIENCE: Duration = Duration::from_millis(400);

type Log = ClusterLog<Seam, Network>;

struct World {
    executor: Executor,
    cluster: WeakCluster,
    network: Network,
    run_record: RunRecord,
    numbers: Numbers,
    setup: Setup,
    order: Order,
    clocks: BTreeMap<Process, SimClock>,
    logs: RefCell<BTreeMap<Process, Arc<Log>>>,
    /// Idle watch of each process.
    watches: RefCell<BTreeMap<Process, Arc<IdleWatch>>>,
    random: RefCell<Random>,
    faults: Cell<usize>,
}

/// Runs a seed to its end.
pub(crate) fn run(order: &Order) -> Run {
    let mut random = Random::new(order.seed);
    let executor = Executor::new(random.seed());
    let mut setup = Setup::draw(&mut random);
    order.mutant.or(order.suits).into_iter().for_each(|mutant| setup.suit(mutant));
    let world = Rc::new(World {
        cluster: WeakCluster::new(random.fork(), executor.timer(), setup.forgets),
        network: Network::new(random.fork(), executor.timer()),
        clocks: processes().map(|process| (process, executor.clock())).collect(),
        executor: executor.clone(),
        run_record: RunRecord::default(),
        numbers: Numbers::default(),
        setup,
        order: order.clone(),
        logs: RefCell::default(),
        watches: RefCell::default(),
        random: RefCell::new(random),
        faults: Cell::new(0),
    });
    let ended = executor.run(TURNS_MAX, live(Rc::clone(&world)));
    let isolation = world.setup.isolation;
    let promise = verdict::Promise { isolation, is_always_fresh: false, orders_by_commit: false };
    let verdict = match ended {
        None => Err("the run is stuck: a task waits for ever".to_owned()),
        Some(ended) => ended.and_then(|()| verdict::judge(&world.run_record, promise)),
    };
    processes().for_each(|process| world.kill(process));
    Run::new(&world.executor, &world.run_record, world.faults.get(), &world.setup, verdict)
}

fn processes() -> impl Iterator<Item = Process> {
    (1..=PROCESSES).map(Process)
}

async fn live(world: Rc<World>) -> Result<(), String> {
    let setup = &world.setup;
    world.run_record.begin_incarnation();
    processes().for_each(|process| world.start(process));
    without_faults(&world, async |client| workload::prepare(client).await).await?;
    world.fault_rates(true);
    processes().for_each(|process| world.employ(process));
    while world.faults.get() < setup.faults || world.run_record.ended() < setup.transactions {
        let injected = world.faults.get();
        let due = setup.transactions * (injected + 1) / (setup.faults + 1);
        world.wait_for(due).await;
        world.faults.set(injected + 1);
        // Sometimes two faults overlap.
        if world.random.borrow_mut().percent(70) {
            world.heal();
        }
        world.inject().await;
    }
    world.heal();
    world.fault_rates(false);
    processes().for_each(|process| world.executor.kill(clients_of(process)));
    // Messages in flight arrive, and paused processes resume.
    world.executor.sleep(Duration::from_secs(1)).await;
    without_faults(&world, async |client| workload::prepare(client).await).await?;
    let swept = |start, _| match world.cluster.swept(start) {
        Some(CommitEntry::Committed(commit)) => Some(Outcome::Committed(commit)),
        Some(CommitEntry::Aborted) | None => Some(Outcome::Aborted),
    };
    verdict::settle(&world.client(Process(1)).db, &world.run_record, .., false, swept).await?;
    without_faults(&world, async |client| workload::read_all(client).await).await
}

/// Runs a transaction that must succeed soon.
async fn without_faults(
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
    Err(format!("nothing works in fine fault_rates: {why}"))
}

/// The clients of a process end with it, and can be ended separately.
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
        let environment = Environment {
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
                CommitChecker::with_conflict_bytes(Life { first, swept: first }, conflict_bytes);
            Box::new(Rules { inner: Box::new(inner), known: Arc::new(Known::default()), mutant })
        });
        let network = self.network.seen_by(process);
        let log = Log::open(
            Arc::new(seam),
            network.clone(),
            address(process),
            environment,
            self.random.borrow_mut().rng(),
            self.setup.options,
            make_order,
        );
        network.listen(address(process), tasks, Endpoint::new(&log.handler(), term, mutant));
        self.logs.borrow_mut().insert(process, Arc::new(log));
        if let Some(limits) = self.setup.idle {
            let clock = Arc::new(self.clocks[&process].clone());
            let watch = IdleWatch::start(limits, clock, &self.executor.spawner(process));
            self.watches.borrow_mut().insert(process, Arc::new(watch));
        }
    }

    /// Starts the clients of a process.
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
            run_record: self.run_record.clone(),
            isolation: self.setup.isolation,
            may_expire: self.setup.idle.is_some(),
            random: self.random.borrow_mut().fork(),
            process: self.run_record.new_client(),
        }
    }

    fn fault_rates(&self, is_faulty: bool) {
        let setup = &self.setup;
        self.cluster.set_fault_rates(if is_faulty {
            setup.fault_rates
        } else {
            FaultRates::default()
        });
        let (lost, late) = if is_faulty { (setup.lost, 3) } else { (0, 0) };
        self.network.set_fault_rates(lost, late);
    }

    fn heal(&self) {
        self.cluster.heal();
        self.network.heal();
        self.fault_rates(true);
    }

    async fn wait_for(&self, transactions: usize) {
        let until = self.executor.now() + PATIENCE;
        while self.run_record.ended() < transactions && self.executor.now() < until {
            self.executor.sleep(Duration::from_micros(500)).await;
        }
    }

    fn kill(&self, process: Process) {
        self.executor.kill(clients_of(process));
        self.executor.kill(process);
        let dead = self.logs.borrow_mut().remove(&process);
        let unwatched = self.watches.borrow_mut().remove(&process);
        drop((dead, unwatched));
        // Tasks that it spawned while it was dropped end, too.
        self.executor.kill(process);
    }
}
