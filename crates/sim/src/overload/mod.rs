//! More requests than the processors can serve: the gate, the run queue and time slices under load.
//!
//! ```text
//!  clients ──▶ connection ──▶ gate (carnet::admission) ──▶ statement in turns ──▶ answer
//!  open loop,    a task          the real one               reads of the real
//!  batch, slow,                                             database, each cell
//!  disconnecting                                            costs processor time
//! ```
//!
//! The server's crate lies above the simulator's, so connections and the order of running
//! statements are reimplemented here (`server`, `turns`), with the same gate, run queue and time
//! slices.
//!
//! The load of the level *gold* rises from half of the capacity to ten times as much and falls
//! again; after that gold and *silver* are both saturated. All the time *batch* clients have the
//! maximum number of statements in flight, clients disconnect, and some read late.

mod load;
mod server;
mod setup;
mod tally;
mod turns;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use carnet::admission::{Class, Figures, Level};
use carnet::{Db, Durability, RawTable};
use carnet_base::{Clock, Moment};
use carnet_storage::disk::sim::SimDisk;

use self::server::Connection;
use self::setup::{BATCH, GOLD, LEVELS, SILVER, Setup};
use self::tally::{Span, Tally};
use self::turns::Turns;
use crate::executor::{Executor, Process, SimClock};
use crate::mutant::Mutant;
use crate::processors::Processor;
use crate::random::Random;
use crate::run::{Order, Run};

const SERVER: Process = Process(1);
const CLIENTS: Process = Process(2);

/// Maximum number of events of a run.
const TURNS_MAX: u64 = 10_000_000;
/// Number of rows of the table.
const ROWS: u64 = 1_000;
/// Offered loads of gold, as multiples of the capacity.
const FACTORS: [f64; 5] = [0.5, 1.0, 2.0, 5.0, 10.0];
/// Offered load of silver meanwhile.
const ASIDE: f64 = 0.05;
/// Time for which each load is counted, and time before that to settle.
const OFFERED_FOR: Duration = Duration::from_millis(500);
const SETTLES_IN: Duration = Duration::from_millis(150);
/// Time after the largest load within which a small load must be served again.
const RECOVERS_IN: Duration = Duration::from_secs(2);
/// Offered load of gold and silver while both are saturated, and its duration.
const SATURATED: f64 = 3.0;
const SATURATED_FOR: Duration = Duration::from_millis(1_500);
/// Time for statements in flight to complete at the end.
const DRAINS_IN: Duration = Duration::from_secs(5);
/// Maximum length of a poll.
const POLL_MAX: Duration = Duration::from_millis(1);

/// State that all tasks of a run share.
struct World {
    executor: Executor,
    clock: SimClock,
    processor: Processor,
    db: Db,
    table: RawTable,
    setup: Setup,
    mutant: Option<Mutant>,
    levels: [Level; LEVELS],
    turns: Turns,
    tally: RefCell<Tally>,
    connections: RefCell<[Vec<Rc<Connection>>; LEVELS]>,
    opened: Cell<u64>,
    /// Number of clients that disconnected.
    left: Cell<usize>,
    /// Whether the load has ended.
    is_over: Cell<bool>,
}

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

impl World {
    async fn open(
        executor: Executor,
        setup: Setup,
        mutant: Option<Mutant>,
        random: &mut Random,
    ) -> carnet::Result<Self> {
        let clock = executor.clock();
        let db = Db::builder()
            .durability(Durability::None)
            .admission(setup.limits(mutant))
            .clock(Arc::new(clock.clone()))
            .spawn(Arc::new(executor.spawner(SERVER)))
            .open_on(Arc::new(SimDisk::new(random.seed())))?;
        let table = db.raw_async("sim.rows").await?;
        let rows = &table;
        db.run(|tx| async move {
            for number in 0..ROWS {
                rows.put(&tx, key(number), "value").await?;
            }
            Ok(())
        })
        .await?;
        executor.give_processors(SERVER, setup.processors);
        Ok(Self {
            clock,
            processor: executor.processor(),
            db,
            table,
            mutant,
            levels: setup::levels(mutant),
            turns: Turns::new(setup.processors),
            setup,
            executor,
            tally: RefCell::default(),
            connections: RefCell::default(),
            opened: Cell::new(0),
            left: Cell::new(0),
            is_over: Cell::new(false),
        })
    }

    fn breaks(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// Returns the gate's figures of each level.
    fn figures(&self) -> [Figures; LEVELS] {
        let admission = self.db.admission().expect("the database has a gate");
        let by_name = admission.figures_of_levels(Class::Read);
        std::array::from_fn(|level| {
            let is_it = |(name, _): &&(Arc<str>, Figures)| *name == self.levels[level].name;
            by_name.iter().find(is_it).map(|(_, figures)| *figures).unwrap_or_default()
        })
    }

    fn check_gate(&self) {
        let limits = self.setup.limits(self.mutant).statements;
        self.tally.borrow_mut().check_gate(limits, &self.figures());
    }

    fn rate(&self, factor: f64) -> f64 {
        self.setup.capacity() * factor
    }
}

/// Returns the key of a row.
const fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
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
    offer(world, [SATURATED; 2], SETTLES_IN, &mut random).await;
    let saturated = offer(world, [SATURATED; 2], SATURATED_FOR, &mut random).await;
    drain(world).await;

    world.tally.borrow().judge()?;
    at_the_end(world)?;
    goodput(world, &spans, after)?;
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

/// Compares the goodput at the largest load with the best, and afterwards with the offered load. At
/// least nine tenths must remain, less the random variation: three standard deviations of a count
/// of that size.
#[expect(clippy::cast_precision_loss, reason = "counts are small")]
fn goodput(world: &World, spans: &[Span], after: Span) -> Result<(), String> {
    let tally = world.tally.borrow();
    let good: Vec<usize> = spans.iter().map(|span| tally.count(GOLD, *span).1).collect();
    let peak = good.iter().max().copied().unwrap_or_default();
    let least = 0.9 * peak as f64 - 3.0 * (peak as f64).sqrt();
    if good.last().is_none_or(|last| (*last as f64) < least) {
        return Err(format!("goodput falls under overload: {good:?} at {FACTORS:?} capacities"));
    }
    let (due, good, _) = tally.count(GOLD, after);
    if good * 100 < due * 95 {
        return Err(format!("{good} of {due} answers are good {RECOVERS_IN:?} after the load"));
    }
    Ok(())
}

/// Checks that interactive statements of each level completed in each part, and that batch
/// statements, which always wait, used at least a quarter of their share.
fn nothing_starves(world: &World, spans: impl Iterator<Item = Span>) -> Result<(), String> {
    for span in spans {
        let Span { from: Moment(from), to: Moment(to), used } = span;
        let processors = u32::try_from(world.setup.processors).unwrap_or(u32::MAX);
        let has_share = used[BATCH] * 48 >= (to - from) * processors;
        let is_done = |level| world.tally.borrow().count(level, span).2 > 0;
        if !is_done(GOLD) || !is_done(SILVER) || !has_share {
            return Err(format!("a level starves from {from:?} to {to:?}: used {used:?}"));
        }
    }
    Ok(())
}

/// Compares the use of two saturated levels with their shares, 1,000 and 100.
fn shares(saturated: Span) -> Result<(), String> {
    let [gold, silver] = [GOLD, SILVER].map(|level| saturated.used[level].as_secs_f64());
    if (9.0..=11.0).contains(&(gold / silver)) {
        return Ok(());
    }
    Err(format!("levels of 1000 and 100 shares used {gold:.3} s and {silver:.3} s"))
}

/// Checks that everything was given back, and that no poll was long.
fn at_the_end(world: &World) -> Result<(), String> {
    let figures = world.figures();
    if figures.iter().any(|figures| figures.running + figures.waiting > 0) {
        return Err(format!("the gate is not empty at the end: {figures:?}"));
    }
    if !world.turns.is_empty() {
        return Err("a statement has a turn at the end".to_owned());
    }
    let longest = world.executor.polls(SERVER).longest();
    if longest > POLL_MAX {
        return Err(format!("a poll took {longest:?}"));
    }
    Ok(())
}
