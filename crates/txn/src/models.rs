//! The snapshots in use, with threads under a scheduler that decides after each step of a lock or an
//! atomic who runs next. Built by `--cfg shuttle` only; see CONTRIBUTING.md.
//!
//! What shuttle does not know is a weaker order of memory than the program's: that the fences are
//! where they must be is tried by the tests beside the code, by threads that race.

use std::sync::Arc;

use carnet_base::Timestamp;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner, thread};

use crate::snapshots::Snapshots;
use crate::sync::atomic::{AtomicU64, Ordering};

/// Draws `CARNET_SCHEDULES` schedules of each kind, or some, from `CARNET_SEED`, or one.
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
    // Few changes of threads at few places: one thread may do all that it does between two steps of
    // another, which drawn step by step happens next to never.
    let few_changes = PctScheduler::new_from_seed(seed, 3, schedules);
    Runner::new(few_changes, config).run(move || model());
}

fn at(number: u64) -> Timestamp {
    Timestamp::new(number).unwrap()
}

/// What the threads of a model share.
struct World {
    snapshots: Snapshots,
    /// P.
    published: AtomicU64,
    /// How far the mark was raised, as whoever raised it was told: what lies hidden below is gone.
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
        assert!(gone <= read.get(), "what {read} sees is gone: swept up to {gone}");
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
fn nothing_is_swept_that_a_snapshot_sees() {
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

/// A snapshot of before is taken up again, or refused; never taken up and swept.
#[test]
fn a_snapshot_that_is_taken_up_again_holds_the_mark_back() {
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

/// Whoever knows that a start was handed out finds it running until it is given back.
#[test]
fn a_start_that_was_handed_out_is_found_running() {
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
