//! The processes of a run, and the state that its tasks share.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use carnet::Db;
use carnet_base::Timestamp;
use carnet_sequencer::{Address, ClusterLog, Environment, MakeOrder};
use carnet_store::{Context, LogStart};
use carnet_txn::{CommitChecker, IdleLimits, IdleWatch, Limits};

use super::endpoint::{Endpoint, Term};
use super::network::Network;
use super::seams::Seam;
use super::setup::Setup;
use super::weak::{FaultRates, WeakCluster};
use crate::client::Client;
use crate::database::{Bare, Database};
use crate::executor::{Executor, Process, SimClock};
use crate::mutant::Mutant;
use crate::order::Order;
use crate::random::Random;
use crate::rules::{Known, Rules};
use crate::run_record::RunRecord;
use crate::workload::{Numbers, Work, raw_tables};

pub(super) const PROCESSES: u32 = 3;
/// Time for a fault to take effect, unless enough transactions end before.
pub(super) const PATIENCE: Duration = Duration::from_millis(400);

pub(super) type Log = ClusterLog<Seam, Network>;

pub(super) struct World {
    pub(super) executor: Executor,
    pub(super) cluster: WeakCluster,
    pub(super) network: Network,
    pub(super) run_record: RunRecord,
    pub(super) numbers: Numbers,
    pub(super) setup: Setup,
    pub(super) order: Order,
    pub(super) clocks: BTreeMap<Process, SimClock>,
    pub(super) logs: RefCell<BTreeMap<Process, Arc<Log>>>,
    /// Database of each process, if clients use the API of the `carnet` crate.
    pub(super) databases: RefCell<BTreeMap<Process, Db>>,
    /// Idle watch of each process, if they do not.
    pub(super) watches: RefCell<BTreeMap<Process, Arc<IdleWatch>>>,
    pub(super) random: RefCell<Random>,
    pub(super) faults: Cell<usize>,
}

impl World {
    /// Starts a process, or a new incarnation of it.
    pub(super) fn start(&self, process: Process) {
        let tasks = self.executor.tasks(process);
        let mutant = self.order.mutant;
        let environment = Environment {
            timer: Arc::new(self.executor.timer()),
            clock: Arc::new(self.clocks[&process].clone()),
            tasks: Arc::new(tasks.clone()),
            row_tables: Arc::default(),
        };
        environment.row_tables.set_raw(raw_tables());
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
        let make_order: MakeOrder = Arc::new(move |LogStart { first, swept }| {
            led.begin(first);
            let first = match mutant {
                Some(Mutant::StartsHandedOutTwice) => {
                    Timestamp::new(first.get().saturating_sub(50).max(1)).unwrap_or(first)
                }
                _ => first,
            };
            let life = LogStart { first, swept };
            let inner = CommitChecker::with_conflict_bytes(life, conflict_bytes);
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
        let log = Arc::new(log);
        self.logs.borrow_mut().insert(process, Arc::clone(&log));
        if self.setup.facade {
            let db = self.open_facade(process, log);
            // Like a server, which continues the builds of dead ones.
            db.build_derived();
            self.databases.borrow_mut().insert(process, db);
        } else if let Some(limits) = self.setup.idle {
            let clock = Arc::new(self.clocks[&process].clone());
            let watch = IdleWatch::start(limits, clock, &self.executor.spawner(process));
            self.watches.borrow_mut().insert(process, Arc::new(watch));
        }
    }

    fn open_facade(&self, process: Process, log: Arc<Log>) -> Db {
        let idle = self.setup.idle.unwrap_or(IdleLimits::NONE);
        Db::builder()
            .idle_timeout(idle.writer)
            .snapshot_idle_timeout(idle.reader)
            .sweep_warning(idle.warning)
            .clock(Arc::new(self.clocks[&process].clone()))
            .spawn(Arc::new(self.executor.spawner(process)))
            .open_log(log)
    }

    /// Starts the clients of a process.
    pub(super) fn employ<D: OfProcess>(self: &Rc<Self>, process: Process) {
        for _ in 0..self.setup.clients {
            let (world, client) = (Rc::clone(self), self.client::<D>(process));
            self.executor.spawn(clients_of(process), async move {
                let only = world.order.workload;
                let work = Work { only, numbers: &world.numbers, may_leave: true };
                work.done_by(client, world.setup.think_micros, |_| {}).await;
            });
        }
    }

    pub(super) fn client<D: OfProcess>(&self, process: Process) -> Client<D> {
        Client {
            executor: self.executor.clone(),
            db: D::open_in(self, process),
            run_record: self.run_record.clone(),
            isolation: self.setup.isolation,
            may_expire: self.setup.idle.is_some(),
            random: self.random.borrow_mut().fork(),
            process: self.run_record.new_client(),
        }
    }

    pub(super) fn fault_rates(&self, is_faulty: bool) {
        let setup = &self.setup;
        self.cluster.set_fault_rates(if is_faulty {
            setup.fault_rates
        } else {
            FaultRates::default()
        });
        let (lost, late) = if is_faulty { (setup.lost, 3) } else { (0, 0) };
        self.network.set_fault_rates(lost, late);
    }

    pub(super) fn heal(&self) {
        self.cluster.heal();
        self.network.heal();
        self.fault_rates(true);
    }

    pub(super) async fn wait_for(&self, transactions: usize) {
        let until = self.executor.now() + PATIENCE;
        while self.run_record.ended() < transactions && self.executor.now() < until {
            self.executor.sleep(Duration::from_micros(500)).await;
        }
    }

    pub(super) fn kill(&self, process: Process) {
        self.executor.kill(clients_of(process));
        self.executor.kill(process);
        let dead = self.logs.borrow_mut().remove(&process);
        let closed = self.databases.borrow_mut().remove(&process);
        let unwatched = self.watches.borrow_mut().remove(&process);
        drop((dead, closed, unwatched));
        // Tasks that it spawned while it was dropped end, too.
        self.executor.kill(process);
    }
}

/// Database that the clients of a process use.
pub(super) trait OfProcess: Database {
    /// Returns the database of a process that runs.
    fn open_in(world: &World, process: Process) -> Self;
}

impl OfProcess for Bare<Log> {
    fn open_in(world: &World, process: Process) -> Self {
        let context = Context::unbounded();
        let is_stale = world.order.mutant == Some(Mutant::SnapshotWithoutProof);
        Self {
            store: Arc::clone(&world.logs.borrow()[&process]),
            context: if is_stale { context.accepting_stale() } else { context },
            limits: Limits::default(),
            idle: world.watches.borrow().get(&process).cloned(),
        }
    }
}

impl OfProcess for Db {
    fn open_in(world: &World, process: Process) -> Self {
        world.databases.borrow()[&process].clone()
    }
}

/// Runs a transaction that must succeed soon.
pub(super) async fn without_faults<D: OfProcess>(
    world: &World,
    run: impl AsyncFn(&mut Client<D>) -> carnet_base::Result<()>,
) -> Result<(), String> {
    let mut last = None;
    for _ in 0..20 {
        match run(&mut world.client::<D>(Process(1))).await {
            Ok(()) => return Ok(()),
            Err(error) => last = Some(error),
        }
        world.executor.sleep(Duration::from_millis(50)).await;
    }
    let why = last.map(|error| error.to_string()).unwrap_or_default();
    Err(format!("no transaction commits after the faults have ended: {why}"))
}

pub(super) fn processes() -> impl Iterator<Item = Process> {
    (1..=PROCESSES).map(Process)
}

/// The clients of a process end with it, and can be ended separately.
pub(super) const fn clients_of(process: Process) -> Process {
    Process(process.0 + 100)
}

pub(super) fn address(process: Process) -> Address {
    Address::new(format!("process-{}", process.0)).expect("it is short")
}
