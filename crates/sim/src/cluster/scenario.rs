//! Runs the scenario: transactions and faults, and the judgement.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use carnet::Db;
use carnet_base::CommitEntry;
use carnet_store::Outcome;

use super::growth;
use super::network::Network;
use super::setup::Setup;
use super::weak::WeakCluster;
use super::world::{Log, OfProcess, World, clients_of, processes, without_faults};
use crate::database::Bare;
use crate::executor::{Executor, Process, SimClock};
use crate::mutant::Mutant;
use crate::order::Order;
use crate::random::Random;
use crate::run::Run;
use crate::run_record::RunRecord;
use crate::verdict;
use crate::workload::{self, Numbers, Workload};

const TURNS_MAX: u64 = 6_000_000;

/// Runs a seed to its end.
pub(crate) fn run(order: &Order) -> Run {
    let mut random = Random::new(order.seed);
    let executor = Executor::new(random.seed());
    let mut setup = Setup::draw(&mut random);
    let depends_on_time = order.workload == Some(Workload::Expiring);
    if depends_on_time {
        setup.run_with_clocks();
    }
    order.mutant.or(order.suits).into_iter().for_each(|mutant| setup.suit(mutant));
    let is_alone = order.workload == Some(Workload::Derived);
    setup.facade = is_alone || setup.facade && order.mutant.is_none();
    let world = Rc::new(World {
        cluster: WeakCluster::new(random.fork(), executor.timer(), setup.forgets),
        network: Network::new(random.fork(), executor.timer()),
        clocks: clocks(&executor, &setup, order.mutant),
        executor: executor.clone(),
        run_record: RunRecord::default(),
        numbers: Numbers::default(),
        setup,
        order: order.clone(),
        logs: RefCell::default(),
        databases: RefCell::default(),
        watches: RefCell::default(),
        random: RefCell::new(random),
        faults: Cell::new(0),
    });
    let of_run = Rc::clone(&world);
    let ended = executor.run(TURNS_MAX, async move {
        if of_run.setup.facade { live::<Db>(of_run).await } else { live::<Bare<Log>>(of_run).await }
    });
    let isolation = world.setup.isolation;
    let promise = verdict::Promise { isolation, is_always_fresh: false, orders_by_commit: false };
    let verdict = match ended {
        None => Err("the run is stuck: a task waits for ever".to_owned()),
        Some(ended) => ended.and_then(|()| verdict::judge(&world.run_record, promise)),
    };
    processes().for_each(|process| world.kill(process));
    Run::new(&world.executor, &world.run_record, world.faults.get(), &world.setup, verdict)
}

async fn live<D: OfProcess>(world: Rc<World>) -> Result<(), String> {
    let setup = &world.setup;
    world.run_record.begin_incarnation();
    processes().for_each(|process| world.start(process));
    without_faults::<D>(&world, async |client| workload::prepare(client).await).await?;
    world.fault_rates(true);
    processes().for_each(|process| world.employ::<D>(process));
    while world.faults.get() < setup.faults || world.run_record.ended() < setup.transactions {
        let injected = world.faults.get();
        let due = setup.transactions * (injected + 1) / (setup.faults + 1);
        world.wait_for(due).await;
        world.faults.set(injected + 1);
        // Sometimes two faults overlap.
        if world.random.borrow_mut().percent(70) {
            world.heal();
        }
        world.inject::<D>().await;
    }
    world.heal();
    world.fault_rates(false);
    processes().for_each(|process| world.executor.kill(clients_of(process)));
    // Messages in flight arrive, and paused processes resume.
    world.executor.sleep(Duration::from_secs(1)).await;
    without_faults::<D>(&world, async |client| workload::prepare(client).await).await?;
    let swept = |start, _| match world.cluster.swept(start) {
        Some(CommitEntry::Committed(commit)) => Some(Outcome::Committed(commit)),
        Some(CommitEntry::Aborted) | None => Some(Outcome::Aborted),
    };
    verdict::settle(&world.client::<D>(Process(1)).db, &world.run_record, .., false, swept).await?;
    without_faults::<D>(&world, async |client| workload::read_all(client).await).await?;
    if world.order.workload == Some(Workload::Expiring) {
        growth::check::<D>(&world).await?;
    }
    Ok(())
}

/// Returns the clocks of the processes, each with its error.
fn clocks(
    executor: &Executor,
    setup: &Setup,
    mutant: Option<Mutant>,
) -> BTreeMap<Process, SimClock> {
    const MINUTE_MICROS: i64 = 60_000_000;
    let broken = match mutant {
        Some(Mutant::ExpiredKept) => -1_000 * MINUTE_MICROS,
        Some(Mutant::ExpiredByOneClock) => MINUTE_MICROS,
        _ => 0,
    };
    let clock = |(process, error): (Process, i64)| {
        let clock = executor.clock();
        clock.jump(error + broken);
        (process, clock)
    };
    processes().zip(setup.clock_micros).map(clock).collect()
}
