//! Models of the snapshots in use: a scheduler decides after each step of a lock or an atomic which
//! thread runs next. Built only by `--cfg shuttle`; see CONTRIBUTING.md.
//!
//! Shuttle does not model weak memory orders. The tests beside the code check the fences with
//! threads that race.

use std::sync::Arc;

use carnet_base::{CellKey, PartitionKey, TableId, Timestamp, Token};
use carnet_store::{BeginKind, CommitOrder, CommitRequest, LogStart, ReadSet, Write};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner, thread};

use crate::commit_checker::CommitChecker;
use crate::snapshots::Snapshots;
use crate::sync::atomic::{AtomicU64, Ordering};

/// Draws `CARNET_SCHEDULES` schedules (default 500) of each kind, from the seed `CARNET_SEED`
/// (default 1).
fn explore(model: impl Fn() + Send + Sync + 'static) {
    let number = |name, or| match std::env::var(name) {
        Ok(number) => number.parse().unwrap(),
        Err(_) => or,
    };
    let (seed, schedules) = (number("CARNET_SEED", 1), number("CARNET_SCHEDULES", 500));
    println!("replay: CARNET_SEED={seed} CARNET_SCHEDULES={schedules}");
    let mut config = Config::new();
    config.silence_warnings = true;
    let (schedules, model) = (usize::try_from(schedules).unwrap(), Arc::new(model));
    let random = RandomScheduler::new_from_seed(seed, schedules);
    Runner::new(random, config.clone()).run({
        let model = Arc::clone(&model);
        move || model()
    });
    // Few thread switches at few places: one thread can complete all its work between two steps of
    // another, which random scheduling of each step makes very unlikely.
    let few_changes = PctScheduler::new_from_seed(seed, 3, schedules);
    Runner::new(few_changes, config).run(move || model());
}

fn at(number: u64) -> Timestamp {
    Timestamp::new(number).unwrap()
}

/// State shared by the threads of a model.
struct World {
    snapshots: Snapshots,
    /// The last published commit, P.
    published: AtomicU64,
    /// The highest mark that a sweep was granted: versions hidden below it are gone.
    gone: AtomicU64,
    clock: AtomicU64,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            snapshots: Snapshots::swept_below(Timestamp::ZERO),
            published: AtomicU64::new(1),
            gone: AtomicU64::new(0),
            clock: AtomicU64::new(1),
        })
    }

    fn publish(&self, commit: u64) {
        self.published.store(commit, Ordering::Release);
    }

    fn sweep(&self) {
        let published = at(self.published.load(Ordering::Acquire));
        let mark = self.snapshots.raise_mark(published, published);
        self.gone.fetch_max(mark.get(), Ordering::SeqCst);
    }

    fn holds(&self, read: Timestamp) {
        let gone = self.gone.load(Ordering::SeqCst);
        assert!(gone <= read.get(), "versions at {read} are gone: swept up to {gone}");
    }

    fn draw(&self) -> Timestamp {
        at(self.clock.fetch_add(1, Ordering::SeqCst) + 1)
    }
}

fn spawn(world: &Arc<World>, run: impl Fn(&World) + Send + 'static) -> thread::JoinHandle<()> {
    let world = Arc::clone(world);
    thread::spawn(move || run(&world))
}

fn join(threads: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// More snapshots than there are slots begin and end while commits are published and swept.
#[test]
fn sweep_spares_versions_that_a_snapshot_sees() {
    explore(|| {
        let world = World::new();
        let readers = (0..3).map(|_| {
            spawn(&world, |world| {
                for _ in 0..2 {
                    let (read, slot) = world.snapshots.begin(&world.published, false);
                    world.holds(read);
                    thread::yield_now();
                    world.holds(read);
                    world.snapshots.end(slot);
                }
            })
        });
        let readers: Vec<_> = readers.collect();
        let sweeper = spawn(&world, |world| {
            for commit in 2..5 {
                world.publish(commit);
                world.sweep();
            }
        });
        join(readers.into_iter().chain([sweeper]));
        assert_eq!(world.snapshots.oldest(at(9)).any, at(9), "a slot was not given back");
    });
}

/// An earlier snapshot is taken up again, or refused; never taken up and swept.
#[test]
fn resumed_snapshot_holds_the_mark_back() {
    explore(|| {
        let world = World::new();
        world.publish(5);
        let again = |read: u64| {
            spawn(&world, move |world| {
                let begun = world.snapshots.begin_at(at(read));
                assert!(begun.is_ok() || read < 5, "nothing is swept at the last commit");
                if let Ok(slot) = begun {
                    world.holds(at(read));
                    thread::yield_now();
                    world.holds(at(read));
                    world.snapshots.end(slot);
                }
            })
        };
        join([again(3), again(5), spawn(&world, World::sweep)]);
    });
}

/// A start that was handed out counts as running until it is given back.
#[test]
fn drawn_start_counts_as_running() {
    explore(|| {
        let world = World::new();
        let ended = Arc::new(AtomicU64::new(0));
        let writer = |ended: Arc<AtomicU64>| {
            spawn(&world, move |world| {
                let (_, slot) = world.snapshots.begin(&world.published, true);
                let start = world.snapshots.draw(slot, || Ok(world.draw())).unwrap();
                assert!(world.snapshots.is_open(slot, start));
                world.snapshots.decided(slot, start);
                assert!(!world.snapshots.is_open(slot, start));
                ended.fetch_or(1 << start.get(), Ordering::SeqCst);
                world.snapshots.end(slot);
            })
        };
        let asker = |ended: Arc<AtomicU64>| {
            spawn(&world, move |world| {
                let last = world.clock.load(Ordering::SeqCst);
                for start in 2..=last {
                    let runs = world.snapshots.is_running(at(start));
                    let over = ended.load(Ordering::SeqCst) & (1 << start) != 0;
                    assert!(runs || over, "start {start} was handed out and is not over");
                }
            })
        };
        join([writer(Arc::clone(&ended)), writer(Arc::clone(&ended)), asker(ended)]);
    });
}

/// A snapshot that includes a schema change has a schema version that is not older.
#[test]
fn snapshot_never_misses_a_schema_change() {
    explore(|| {
        let checker = CommitChecker::resuming(LogStart { first: at(100), swept: at(100) });
        checker.extend(at(1000));
        let checker = Arc::new(checker);
        let readers = [BeginKind::ReadOnly, BeginKind::ReadWrite].map(|kind| {
            let checker = Arc::clone(&checker);
            thread::spawn(move || {
                let begun = checker.begin(kind).unwrap();
                checker.end(begun);
                (begun.read, begun.schema)
            })
        });
        let begun = checker.begin(BeginKind::ReadWrite).unwrap();
        let key = CellKey::new(TableId(3), &PartitionKey::first_at(Token(0)), "t");
        let writes = vec![Write { key, payload: None }];
        let start = begun.start.unwrap();
        let request = CommitRequest::new(begun, start, ReadSet::default(), writes);
        let changed = checker.decide(&mut request.into_claim()).unwrap();
        checker.publish(changed);
        checker.end(begun);
        for reader in readers {
            let (read, schema) = reader.join().unwrap();
            assert!(read < changed || schema >= changed, "{read} has schema {schema}");
        }
    });
}
