//! Callers that share a batch or its driver must not affect each other.

use std::collections::HashMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use carnet_base::{Bytes, ErrorKind, Result, SeededRng, VirtualTimer, block_on};
use carnet_tree::{NodeId, NodeStore, Options, RootPointer, Shape, Swap, Tree};

/// A store that answers at once, or, after a test closed its gate, when the gate is opened.
#[derive(Clone, Default)]
struct Store(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    nodes: HashMap<NodeId, Bytes>,
    root: Option<Bytes>,
    is_closed: bool,
    panics: bool,
    waiting: Option<Waker>,
    /// Called between a read of the root and its answer.
    on_read: Option<Box<dyn FnOnce() + Send>>,
}

impl Store {
    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.0.lock().unwrap())
    }

    fn open_gate(&self) {
        let waiting = self.with(|state| {
            state.is_closed = false;
            state.waiting.take()
        });
        waiting.into_iter().for_each(Waker::wake);
    }

    fn gate(&self) -> impl Future<Output = ()> + Send + use<> {
        let store = self.clone();
        std::future::poll_fn(move |context| {
            store.with(|state| {
                if state.is_closed {
                    state.waiting = Some(context.waker().clone());
                    return Poll::Pending;
                }
                Poll::Ready(())
            })
        })
    }
}

impl NodeStore for Store {
    async fn put(&self, id: NodeId, bytes: Bytes) -> Result<()> {
        self.with(|state| state.nodes.insert(id, bytes));
        Ok(())
    }

    async fn get(&self, id: NodeId) -> Result<Option<Bytes>> {
        Ok(self.with(|state| state.nodes.get(&id).cloned()))
    }
}

impl RootPointer for Store {
    async fn read(&self) -> Result<Option<Bytes>> {
        self.gate().await;
        let panics = self.with(|state| std::mem::take(&mut state.panics));
        assert!(!panics, "the store has a bug");
        let (root, on_read) = self.with(|state| (state.root.clone(), state.on_read.take()));
        on_read.into_iter().for_each(|happen| happen());
        Ok(root)
    }

    async fn compare_and_set(&self, from: Option<Bytes>, to: Bytes) -> Result<Swap> {
        Ok(self.with(|state| {
            if state.root != from {
                return Swap::Mismatch;
            }
            state.root = Some(to);
            Swap::Done
        }))
    }
}

fn open(store: &Store, options: Options) -> Tree<Store, Store> {
    let (timer, rng) = (Arc::new(VirtualTimer::default()), Box::new(SeededRng::new(1)));
    Tree::open(store.clone(), store.clone(), timer, rng, options)
}

fn key(name: &'static str) -> Bytes {
    Bytes::from_static(name.as_bytes())
}

/// Counts the wakes of a task.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn poll<F: Future>(future: Pin<&mut F>, wakes: &Arc<Wakes>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(&Waker::from(Arc::clone(wakes))))
}

#[test]
fn kept_answers_do_not_block_other_callers() {
    const ROUNDS: usize = 8_000;
    let tree = open(&Store::default(), Options::default());
    let (at_start, at_end, left) = <(AtomicUsize, AtomicUsize, AtomicUsize)>::default();
    let meet = |place: &AtomicUsize, round: usize| {
        place.fetch_add(1, Ordering::SeqCst);
        while place.load(Ordering::SeqCst) < 2 * (round + 1) {
            std::hint::spin_loop();
        }
    };
    let run = |delays: usize| {
        for round in 0..ROUNDS {
            let wakes = Arc::default();
            meet(&at_start, round);
            (0..round % (delays + 1)).for_each(|_| std::hint::spin_loop());
            let mut call = Box::pin(tree.get(key("a")));
            let is_ready = poll(call.as_mut(), &wakes).is_ready();
            // The other thread keeps its future as well, so no further wakes occur.
            meet(&at_end, round);
            let is_left = !is_ready && wakes.0.load(Ordering::Relaxed) == 0;
            left.fetch_add(usize::from(is_left), Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| run(0));
        scope.spawn(|| run(400));
    });
    assert_eq!(left.into_inner(), 0, "callers would never be woken");
}

/// Calls a transaction whose code calls the next one.
fn chain(tree: &Tree<Store, Store>, left: usize, called: &Arc<AtomicUsize>) {
    let (tree_of_next, called) = (tree.clone(), Arc::clone(called));
    drop(tree.update(Vec::new(), move |_| {
        if left > 0 {
            called.fetch_add(1, Ordering::Relaxed);
            chain(&tree_of_next, left - 1, &called);
        }
        Ok(())
    }));
}

#[test]
fn answered_caller_stops_driving_the_batches() {
    let store = Store::default();
    let tree = open(&store, Options::default());
    let called = Arc::new(AtomicUsize::new(0));
    chain(&tree, 1000, &called);
    block_on(tree.get(key("a"))).unwrap();
    let called = called.load(Ordering::Relaxed);
    assert!(called < 10, "{called} other transactions ran first");
}

#[test]
fn batch_wakes_each_caller_a_few_times() {
    let store = Store::default();
    let tree = open(&store, Options::default());
    store.with(|state| state.is_closed = true);
    let count = 1000;
    let wakes: Vec<Arc<Wakes>> = (0..count).map(|_| Arc::default()).collect();
    let mut calls: Vec<_> = (0..count).map(|_| Box::pin(tree.get(key("a")))).collect();
    for (call, wakes) in calls.iter_mut().zip(&wakes) {
        assert!(poll(call.as_mut(), wakes).is_pending());
    }
    store.open_gate();
    for (mut call, wakes) in calls.into_iter().zip(&wakes) {
        assert!(poll(call.as_mut(), wakes).is_ready());
    }
    let woken: usize = wakes.iter().map(|wakes| wakes.0.load(Ordering::Relaxed)).sum();
    assert!(woken < 10 * count, "{woken} wakes for {count} calls");
}

#[test]
fn damaged_node_fails_only_its_readers() {
    let store = Store::default();
    let shape = Shape { inline_bytes_max: 4, ..Shape::default() };
    let options = || Options { shape: shape.clone(), cache_bytes: 0, ..Options::default() };
    let tree = open(&store, options());
    block_on(tree.put(key("bad"), Bytes::from_static(b"a long value"))).unwrap();
    block_on(tree.put(key("good"), Bytes::from_static(b"x"))).unwrap();
    store.with(|state| state.nodes.values_mut().for_each(|node| node.truncate(9)));
    let bad = tree.get(key("bad"));
    let good = tree.get(key("good"));
    let put = tree.put(key("new"), Bytes::from_static(b"y"));
    assert_eq!(block_on(bad).unwrap_err().kind(), ErrorKind::Corrupted);
    assert_eq!(block_on(good).unwrap(), Some(Bytes::from_static(b"x")));
    block_on(put).unwrap();
}

#[test]
fn panic_of_a_store_answers_all_callers() {
    let store = Store::default();
    let tree = open(&store, Options::default());
    store.with(|state| state.panics = true);
    let (first, second) = (tree.get(key("a")), tree.put(key("b"), Bytes::from_static(b"b")));
    let is_unknown = |kind| matches!(kind, ErrorKind::Unknown { .. });
    assert!(is_unknown(block_on(first).unwrap_err().kind()));
    let mut second = pin!(second);
    let Poll::Ready(answer) = poll(second.as_mut(), &Arc::default()) else {
        panic!("the second call waits forever")
    };
    assert!(is_unknown(answer.unwrap_err().kind()));
    assert_eq!(block_on(tree.get(key("b"))).unwrap(), None);
}

#[test]
fn suggested_root_saves_a_read_unless_outdated() {
    let store = Store::default();
    // Time does not advance in this test.
    let options = || Options { backoff: Duration::ZERO, ..Options::default() };
    let (first, second) = (open(&store, options()), open(&store, options()));
    let put = |tree: &Tree<Store, Store>, value: &'static [u8]| {
        block_on(tree.put(key("a"), Bytes::from_static(value))).unwrap();
        store.with(|state| state.root.clone().unwrap())
    };
    // The second transactor gains confidence in its cached root.
    let old = put(&first, b"0");
    (0..4).for_each(|_| drop(put(&second, b"1")));
    let before = second.stats();
    for _ in 0..10 {
        let root = put(&first, b"2");
        second.suggest_root(root).unwrap();
        second.suggest_root(old.clone()).unwrap();
        put(&second, b"3");
    }
    let after = second.stats();
    assert_eq!(after.root_reads, before.root_reads);
    assert_eq!(after.root_swaps - before.root_swaps, 10, "no compare-and-set is lost");
    assert_eq!(after.roots_suggested - before.roots_suggested, 10);
    // Without the suggestion, each put loses a move or reads the root.
    put(&first, b"4");
    put(&second, b"5");
    assert!(second.stats().root_reads > after.root_reads);
    assert!(second.suggest_root(Bytes::from_static(b"no root")).is_err());
}

#[test]
fn joining_a_lost_batch_reads_the_newest_root() {
    let store = Store::default();
    let options = || Options { backoff: Duration::ZERO, ..Options::default() };
    let (first, second) = (open(&store, options()), open(&store, options()));
    let put = |tree: &Tree<Store, Store>, value: &'static [u8]| {
        block_on(tree.put(key("a"), Bytes::from_static(value))).unwrap();
    };
    // The first transactor is confident of its cached root, which is outdated.
    (0..4).for_each(|_| put(&first, b"0"));
    put(&second, b"1");
    let late = Arc::new(Mutex::new(None));
    let (caller, other, answer) = (first.clone(), second.clone(), Arc::clone(&late));
    let newcomer = move || {
        block_on(other.put(key("a"), Bytes::from_static(b"2"))).unwrap();
        *answer.lock().unwrap() = Some(caller.get(key("a")));
    };
    store.with(|state| state.on_read = Some(Box::new(newcomer)));
    // On its second run, it writes nothing.
    let only_if_0 = first.update(vec![key("a")], |view| {
        let is_0 = view.get(b"a")?.as_deref() == Some(b"0");
        if is_0 { view.put(key("a"), Bytes::from_static(b"x")) } else { Ok(()) }
    });
    block_on(only_if_0).unwrap();
    let late = late.lock().unwrap().take().unwrap();
    assert_eq!(block_on(late).unwrap(), Some(Bytes::from_static(b"2")));
}
