//! Stores that answer late or never.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use carnet_base::{Bytes, ErrorKind, Moment, Result, SeededRng, VirtualTimer};
use carnet_tree::{NodeId, NodeStore, Options, RootPointer, Stats, Swap, Timer, Tree};

use crate::sim::Sim;

const MILLISECOND: Duration = Duration::from_millis(1);
/// Longer than any test.
const NEVER: Duration = Duration::from_secs(86_400);

/// A store that executes requests at once and answers later.
#[derive(Clone)]
struct Slow {
    timer: VirtualTimer,
    state: Arc<Mutex<State>>,
}

struct State {
    nodes: HashMap<NodeId, Bytes>,
    root: Option<Bytes>,
    /// Times until the answers of the next calls; then `usual` applies.
    delays: VecDeque<Duration>,
    usual: Duration,
}

impl Slow {
    async fn answer<T>(&self, work: impl FnOnce(&mut State) -> T) -> Result<T> {
        let (answer, delay) = {
            let mut state = self.state.lock().unwrap();
            let answer = work(&mut state);
            (answer, state.delays.pop_front().unwrap_or(state.usual))
        };
        if !delay.is_zero() {
            self.timer.wait(delay).await;
        }
        Ok(answer)
    }
}

impl NodeStore for Slow {
    async fn put(&self, id: NodeId, bytes: Bytes) -> Result<()> {
        self.answer(|state| drop(state.nodes.insert(id, bytes))).await
    }

    async fn get(&self, id: NodeId) -> Result<Option<Bytes>> {
        self.answer(|state| state.nodes.get(&id).cloned()).await
    }
}

impl RootPointer for Slow {
    async fn read(&self) -> Result<Option<Bytes>> {
        self.answer(|state| state.root.clone()).await
    }

    async fn compare_and_set(&self, from: Option<Bytes>, to: Bytes) -> Result<Swap> {
        self.answer(|state| {
            if state.root != from {
                return Swap::Mismatch;
            }
            state.root = Some(to);
            Swap::Done
        })
        .await
    }
}

struct Outcome {
    results: Vec<Result<()>>,
    took: Moment,
    stats: Stats,
}

/// Writes a key `count` times in sequence. The store's calls are repeated after 10 ms.
fn write(count: usize, usual: Duration, delays: &[Duration]) -> Outcome {
    let mut sim = Sim::new(1);
    let state = State {
        nodes: HashMap::new(),
        root: None,
        delays: delays.iter().copied().collect(),
        usual,
    };
    let store = Slow { timer: sim.timer(), state: Arc::new(Mutex::new(state)) };
    let options = Options {
        answer_timeout: Some(10 * MILLISECOND),
        retry_timeout: 1000 * MILLISECOND,
        ..Options::default()
    };
    let (timer, rng) = (Arc::new(sim.timer()), Box::new(SeededRng::new(1)));
    let tree = Tree::open(store.clone(), store, timer, rng, options);
    let outcome: Arc<Mutex<Option<Outcome>>> = Arc::default();
    let (timer, slot) = (sim.timer(), Arc::clone(&outcome));
    sim.spawn(async move {
        let mut results = Vec::new();
        for _ in 0..count {
            results.push(tree.put(Bytes::from_static(b"k"), Bytes::from_static(b"v")).await);
        }
        let (took, stats) = (timer.now(), tree.stats());
        *slot.lock().unwrap() = Some(Outcome { results, took, stats });
    });
    assert_eq!(sim.run(), 0, "the writer is stuck");
    outcome.lock().unwrap().take().unwrap()
}

#[test]
fn late_read_counts_while_it_is_repeated() {
    // The first read of the root is answered late, its repetitions never.
    let Outcome { results, took, .. } = write(1, Duration::ZERO, &[50 * MILLISECOND, NEVER, NEVER]);
    assert!(results[0].is_ok(), "{results:?}");
    assert_eq!(took, Moment(50 * MILLISECOND));
}

#[test]
fn late_compare_and_set_counts_while_it_is_resolved() {
    // The read is answered, the compare-and-set late, and the reads that resolve it never.
    let Outcome { results, took, stats } = write(1, NEVER, &[Duration::ZERO, 50 * MILLISECOND]);
    assert!(results[0].is_ok(), "{results:?}");
    assert_eq!((took, stats.swaps_in_doubt), (Moment(50 * MILLISECOND), 1));
}

#[test]
fn slow_store_is_not_asked_twice_for_long() {
    let Outcome { results, took, stats } = write(20, 50 * MILLISECOND, &[]);
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    // At most one read and one compare-and-set per write; the first read is repeated twice.
    assert!(stats.calls() <= 2 * 20 + 2, "{stats:?}");
    assert!(took <= Moment(2 * 20 * 50 * MILLISECOND), "{took:?}");
}

#[test]
fn silent_store_fails_at_the_deadline() {
    let Outcome { results, took, .. } = write(1, NEVER, &[]);
    assert_eq!(results[0].as_ref().unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(took < Moment(1050 * MILLISECOND), "{took:?}");
    let Outcome { results, took, .. } = write(1, NEVER, &[Duration::ZERO]);
    assert!(matches!(results[0].as_ref().unwrap_err().kind(), ErrorKind::Unknown { .. }));
    assert!(took < Moment(1050 * MILLISECOND), "{took:?}");
}
