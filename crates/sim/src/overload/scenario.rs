//! Runs the scenario: all parts of the load, one after the other.

use std::rc::Rc;
use std::time::Duration;

use carnet_base::Clock;

use super::judgement::{at_the_end, goodput, nothing_starves, recovered, shares};
use super::phases::{
    ASIDE, DRAINS_IN, FACTORS, OFFERED_FOR, RECOVERS_IN, SATURATED, SATURATED_FOR, SETTLES_IN,
    STORE_PAUSES_FOR,
};
use super::setup::{GOLD, LEVELS, SILVER, Setup};
use super::tally::Span;
use super::world::{CLIENTS, SERVER, World};
use super::{load, server};
use crate::executor::Executor;
use crate::order::Order;
use crate::random::Random;
use crate::run::Run;

/// Maximum number of events of a run.
const TURNS_MAX: u64 = 10_000_000;

/// Runs a seed to its end.
pub(crate) fn run(order: &Order) -> Run {
    let mut random = Random::new(order.seed);
    let executor = Executor::new(random.seed());
    let setup = Setup::draw(&mut random);
    let (machine, of_run, mutant) = (executor.clone(), setup.clone(), order.mutant);
    let ended = executor.run(TURNS_MAX, async move {
        let world = World::open(machine, of_run, mutant, &mut random).await;
        let world = Rc::new(world.map_err(|error| format!("cannot open the database: {error}"))?);
        let verdict = live(&world, random).await;
        let tally = world.tally.borrow();
        Ok((verdict, tally.requests(), tally.done(), world.left.get()))
    });
    let ended = ended.unwrap_or_else(|| Err("the run is stuck".to_owned()));
    let (verdict, transactions, committed, faults) =
        ended.unwrap_or_else(|error| (Err(error), 0, 0, 0));
    let polls = executor.polls(SERVER);
    let run = Run {
        verdict,
        transactions,
        committed,
        expired: 0,
        copies: 0,
        faults,
        trace: executor.trace(),
        events: executor.turns(),
        virtual_time: executor.now(),
        setup: format!("{setup:?}, polls {:?}", polls.buckets().collect::<Vec<_>>()),
    };
    executor.kill(CLIENTS);
    executor.kill(SERVER);
    run
}

/// Runs all parts of the load, one after the other.
async fn live(world: &Rc<World>, mut random: Random) -> Result<(), String> {
    for level in 0..LEVELS {
        let connections = (0..world.setup.connections)
            .map(|_| server::open(world, level, false, &mut random))
            .collect();
        world.connections.borrow_mut()[level] = connections;
    }
    let slow = server::open(world, SILVER, true, &mut random);
    let reader = load::read_slowly(Rc::clone(world), Rc::clone(&slow));
    world.executor.spawn(CLIENTS, reader);
    world.executor.spawn(CLIENTS, load::ask_slowly(Rc::clone(world), slow, random.fork()));
    world.executor.spawn(CLIENTS, load::leave(Rc::clone(world), random.fork()));

    let mut spans = Vec::new();
    for factor in FACTORS {
        offer(world, [factor, ASIDE], SETTLES_IN, &mut random).await;
        spans.push(offer(world, [factor, ASIDE], OFFERED_FOR, &mut random).await);
    }
    offer(world, [0.5, ASIDE], RECOVERS_IN, &mut random).await;
    let after = offer(world, [0.5, ASIDE], OFFERED_FOR, &mut random).await;
    // Statements that the pause made slow, and their missed deadlines, say nothing about later ones.
    world.store_paused_until.set(world.clock.now().after(STORE_PAUSES_FOR));
    offer(world, [0.5, ASIDE], STORE_PAUSES_FOR + RECOVERS_IN, &mut random).await;
    let after_pause = offer(world, [0.5, ASIDE], OFFERED_FOR, &mut random).await;
    offer(world, [SATURATED; 2], SETTLES_IN, &mut random).await;
    let saturated = offer(world, [SATURATED; 2], SATURATED_FOR, &mut random).await;
    drain(world).await;

    world.tally.borrow().judge()?;
    at_the_end(world)?;
    goodput(world, &spans, after)?;
    recovered(world, after_pause)?;
    nothing_starves(world, spans.iter().chain([&after, &saturated]).copied())?;
    shares(saturated)
}

/// Offers loads of gold and silver for a time.
async fn offer(
    world: &Rc<World>,
    [gold, silver]: [f64; 2],
    time: Duration,
    random: &mut Random,
) -> Span {
    let (from, before) = (world.clock.now(), world.tally.borrow().used());
    let aside = load::offer(Rc::clone(world), SILVER, world.rate(silver), time, random.fork());
    world.executor.spawn(CLIENTS, aside);
    load::offer(Rc::clone(world), GOLD, world.rate(gold), time, random.fork()).await;
    let after = world.tally.borrow().used();
    Span { from, to: world.clock.now(), used: std::array::from_fn(|it| after[it] - before[it]) }
}

async fn drain(world: &World) {
    world.is_over.set(true);
    world.connections.borrow().iter().flatten().for_each(|connection| connection.wake());
    let until = world.clock.now().after(DRAINS_IN);
    while world.clock.now() < until && world.tally.borrow().open() > 0 {
        world.executor.sleep(Duration::from_millis(10)).await;
    }
    // Statements cancelled last must give back their permits.
    world.executor.sleep(Duration::from_millis(100)).await;
}
