//! Runs clients, records their histories, and checks them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use carnet_base::{Bytes, ErrorKind, Moment, Rng, SeededRng, block_on};
use carnet_tree::memory::{Faults, Memory};
use carnet_tree::micro::{Answer, Op};
use carnet_tree::{Options, Timer, Tree};

use crate::sim::Sim;

/// Parameters of a run.
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) options: Options,
    pub(crate) faults: Faults,
    pub(crate) transactors: usize,
    pub(crate) clients: usize,
    pub(crate) transactions: usize,
    pub(crate) keys: u64,
    /// Clients wait up to this time between their transactions.
    pub(crate) pause: Duration,
    pub(crate) is_strict: bool,
}

impl Plan {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            seed,
            options: Options::default(),
            faults: Faults::default(),
            transactors: 3,
            clients: 6,
            transactions: 20,
            keys: 25,
            pause: Duration::from_millis(4),
            is_strict: true,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Ok,
    Failed,
    Unknown,
}

pub(crate) struct Report {
    pub(crate) violation: Option<String>,
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) in_doubt: u64,
    pub(crate) calls: u64,
    pub(crate) took: Moment,
}

/// A transaction and its outcome.
struct Done {
    number: u64,
    ops: Vec<Op>,
    called: Moment,
    returned: Moment,
    outcome: Outcome,
    answers: Vec<Answer>,
}

type State = BTreeMap<Bytes, Vec<Bytes>>;

fn order() -> Bytes {
    Bytes::from_static(b"order")
}

fn name(number: u64) -> Bytes {
    Bytes::from(number.to_string())
}

/// Draws a transaction. Its first operation reads the order.
fn draw(rng: &mut SeededRng, number: u64, keys: u64) -> Vec<Op> {
    let mut ops = vec![Op::ReadList(order())];
    let is_reader = rng.chance(300);
    for _ in 0..=rng.below(4) {
        let key = Bytes::from(format!("k{}", rng.below(keys)));
        ops.push(match rng.below(if is_reader { 1 } else { 3 }) {
            0 => Op::ReadList(key),
            1 => Op::Append(key, name(number)),
            _ => Op::Append(key, Bytes::from(vec![b'x'; usize::try_from(rng.below(40)).unwrap()])),
        });
    }
    if !is_reader {
        ops.push(Op::Append(order(), name(number)));
    }
    ops
}

pub(crate) fn run(plan: &Plan) -> Report {
    let mut sim = Sim::new(plan.seed);
    let mut rng = SeededRng::new(!plan.seed);
    let memory = Memory::new(Arc::new(sim.timer()), rng.next_u64());
    memory.set_faults(plan.faults);
    let done: Arc<Mutex<Vec<Done>>> = Arc::default();
    let mut trees = Vec::new();
    for _ in 0..plan.transactors {
        let (timer, rng) = (Arc::new(sim.timer()), Box::new(SeededRng::new(rng.next_u64())));
        trees.push(Tree::open(memory.clone(), memory.clone(), timer, rng, plan.options.clone()));
    }
    for client in 0..plan.clients {
        let tree = trees[client % trees.len()].clone();
        let (timer, done) = (sim.timer(), Arc::clone(&done));
        let mut rng = SeededRng::new(rng.next_u64());
        let (count, keys, pause) = (plan.transactions, plan.keys, plan.pause);
        sim.spawn(async move {
            for n in 0..count {
                let number = (client * count + n) as u64;
                let ops = draw(&mut rng, number, keys);
                let called = timer.now();
                let result = tree.transact(ops.clone()).await;
                let returned = timer.now();
                let outcome = match result.as_ref().map_err(carnet_base::Error::kind) {
                    Ok(_) => Outcome::Ok,
                    Err(ErrorKind::Unknown { .. }) => Outcome::Unknown,
                    Err(_) => Outcome::Failed,
                };
                let answers = result.unwrap_or_default();
                done.lock().unwrap().push(Done { number, ops, called, returned, outcome, answers });
                timer.wait(pause.mul_f64(rng.below(1000) as f64 / 1000.0)).await;
            }
        });
    }
    let stuck = sim.run();
    let took = sim.timer().now();
    assert_eq!(stuck, 0, "seed {}: clients are stuck", plan.seed);
    memory.set_faults(Faults::default());
    // Wait for delayed requests before the final read.
    let timer = sim.timer();
    sim.spawn(async move { timer.wait(Duration::from_secs(10)).await });
    assert_eq!(sim.run(), 0);
    let reader = Tree::open(
        memory.clone(),
        memory,
        Arc::new(sim.timer()),
        Box::new(SeededRng::new(1)),
        Options::default(),
    );
    let last = block_on(reader.transact(vec![Op::ReadList(order())])).unwrap();
    let done = std::mem::take(&mut *done.lock().unwrap());
    let stats: Vec<_> = trees.iter().map(Tree::stats).collect();
    Report {
        violation: check(&done, list(&last[0]), plan.is_strict).err(),
        outcomes: done.iter().map(|done| done.outcome).collect(),
        in_doubt: stats.iter().map(|stats| stats.swaps_in_doubt).sum(),
        calls: stats.iter().map(carnet_tree::Stats::calls).sum(),
        took,
    }
}

fn list(answer: &Answer) -> &[Bytes] {
    match answer {
        Answer::List(list) => list,
        other => panic!("{other:?} is not a list"),
    }
}

fn is_writer(done: &Done) -> bool {
    done.ops.iter().any(|op| matches!(op, Op::Append(..)))
}

/// Applies a transaction to the map, and returns the expected answers.
fn apply(state: &mut State, ops: &[Op]) -> Vec<Answer> {
    let answer = |op: &Op| match op {
        Op::ReadList(key) => Answer::List(state.get(key).cloned().unwrap_or_default()),
        Op::Append(key, element) => {
            state.entry(key.clone()).or_default().push(element.clone());
            Answer::Done
        }
        other => panic!("{other:?} is not drawn"),
    };
    ops.iter().map(answer).collect()
}

/// Checks all answers against the order.
fn check(all: &[Done], order: &[Bytes], is_strict: bool) -> Result<(), String> {
    let by_name: BTreeMap<Bytes, &Done> =
        all.iter().filter(|done| is_writer(done)).map(|done| (name(done.number), done)).collect();
    let mut places = BTreeMap::new();
    for (place, name) in order.iter().enumerate() {
        if places.insert(name.clone(), place).is_some() {
            return Err(format!("transaction {name:?} committed twice"));
        }
    }
    // States between the writing transactions.
    let mut states = vec![State::new()];
    for name in order {
        let done = by_name.get(name).ok_or_else(|| format!("{name:?} was never called"))?;
        let mut state = states.last().unwrap().clone();
        apply(&mut state, &done.ops);
        states.push(state);
    }
    for done in all {
        let place = places.get(&name(done.number));
        match (done.outcome, place) {
            (Outcome::Failed, Some(_)) => {
                return Err(format!("{} failed and committed", done.number));
            }
            (Outcome::Ok, None) if is_writer(done) => {
                return Err(format!("the update of {} is lost", done.number));
            }
            (Outcome::Ok, _) => {}
            _ => continue,
        }
        let at = place.copied().unwrap_or_else(|| list(&done.answers[0]).len());
        let seen = states.get(at).cloned().map(|mut state| apply(&mut state, &done.ops));
        if seen.as_ref() != Some(&done.answers) {
            let number = done.number;
            return Err(format!("{number} at {at} saw {:?}, not {seen:?}", done.answers));
        }
        if is_strict {
            check_times(done, at, order, &by_name)?;
        }
    }
    Ok(())
}

/// Checks that a transaction is ordered after all that returned before its call, and before all
/// that were called after its return.
fn check_times(
    done: &Done,
    at: usize,
    order: &[Bytes],
    by_name: &BTreeMap<Bytes, &Done>,
) -> Result<(), String> {
    for (place, name) in order.iter().enumerate() {
        let other = by_name[name];
        if place < at && other.called > done.returned {
            return Err(format!("{} saw {}, which began later", done.number, other.number));
        }
        let is_after = place > at || place == at && other.number != done.number;
        if is_after && other.outcome == Outcome::Ok && other.returned < done.called {
            return Err(format!("{} is stale: {} had returned", done.number, other.number));
        }
    }
    Ok(())
}
