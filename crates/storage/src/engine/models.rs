//! Models of the whole engine on a simulated disk, with a scheduler that chooses the next thread at
//! each operation of a lock or an atomic. Built with `--cfg shuttle` only; see CONTRIBUTING.md.
//!
//! Shuttle instead of loom: it draws random schedules from a seed instead of enumerating all, so
//! that the model is the engine itself with workers, disk and recovery, and not a small part. It
//! reports lost wake-ups as deadlocks. It does not model weak memory orders; Miri tests these.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use carnet_base::{
    CellKey, Error, ErrorKind, PartitionKey, Result, Signal, Spawn, Step, Stepped, SystemClock,
    TableId, Timestamp, Worker, WorkerHandle, block_on,
};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::sync::Mutex as ModelMutex;
use shuttle::{Config, MaxSteps, Runner, thread};

use super::publication::Publication;
use super::*;
use crate::ReadOptions;
use crate::batch::Mutation;
use crate::disk::sim::{Kind, SimDisk};
use crate::options::{Durability, Options};
use crate::wal::Lsn;

/// Runs `CARNET_SCHEDULES` schedules, drawn from `CARNET_SEED`; both have defaults. A failure
/// prints its schedule; seed and count replay it too.
fn explore(model: impl Fn() + Send + Sync + 'static) {
    explore_by(RandomScheduler::new_from_seed, MaxSteps::FailAfter(1_000_000), model);
}

/// Like [`explore`], with few thread switches at few places: one thread can complete all its work
/// between two steps of another, which random scheduling of each step makes very unlikely. The
/// scheduler is unfair: schedules in which a thread waits for another one in a loop are cut.
fn explore_few_switches(model: impl Fn() + Send + Sync + 'static) {
    let scheduler = |seed, schedules| PctScheduler::new_from_seed(seed, 3, schedules);
    explore_by(scheduler, MaxSteps::ContinueAfter(20_000), model);
}

fn explore_by<S: Scheduler + 'static>(
    scheduler: impl Fn(u64, usize) -> S,
    max_steps: MaxSteps,
    model: impl Fn() + Send + Sync + 'static,
) {
    let number = |name, or| match std::env::var(name) {
        Ok(number) => number.parse().unwrap(),
        Err(_) => or,
    };
    let (seed, schedules) = (number("CARNET_SEED", 1), number("CARNET_SCHEDULES", 500));
    println!("replay: CARNET_SEED={seed} CARNET_SCHEDULES={schedules}");
    let mut config = Config::new();
    config.stack_size = 1 << 20;
    config.max_steps = max_steps;
    config.silence_warnings = true;
    let scheduler = scheduler(seed, usize::try_from(schedules).unwrap());
    Runner::new(scheduler, config).run(model);
}

/// Runs each worker on a thread of the model.
struct ModelSpawn(Arc<ModelMutex<Vec<thread::JoinHandle<()>>>>);

impl Spawn for ModelSpawn {
    fn spawn(&self, _: &str, signal: Signal, mut worker: Box<dyn Worker>) -> WorkerHandle {
        let worker = thread::spawn(move || {
            loop {
                match worker.step() {
                    Step::Again => {}
                    Step::Idle(None) => signal.wait(None),
                    // The model has no time: other threads run first.
                    Step::Idle(Some(_)) => thread::yield_now(),
                    Step::Done => return,
                }
            }
        });
        self.0.lock().unwrap().push(worker);
        WorkerHandle::detached()
    }
}

fn time(number: u64) -> Timestamp {
    Timestamp::new(number).unwrap()
}

fn key(number: u64) -> CellKey {
    CellKey::new(TableId(1), &PartitionKey::new(number.to_be_bytes().to_vec()), "")
}

fn entry_cell() -> EntryCell {
    Arc::new(|start, commit| {
        let partition = PartitionKey::new(start.get().to_be_bytes().to_vec());
        let value = commit.get().to_be_bytes().to_vec().into();
        Ok((CellKey::new(TableId(0), &partition, ""), value))
    })
}

fn open(disk: &SimDisk, spawn: &dyn Spawn, options: Options) -> Engine {
    let (disk, clock) = (Arc::new(disk.clone()), Arc::new(SystemClock));
    Engine::open(disk, clock, spawn, options, entry_cell()).unwrap()
}

/// An engine under test, and the commits promised by it.
struct Model {
    disk: SimDisk,
    options: Options,
    engine: Arc<Engine>,
    workers: ModelSpawn,
    decided: Arc<ModelMutex<u64>>,
    acknowledged: Arc<ModelMutex<Vec<Timestamp>>>,
    observed: Arc<Observed>,
}

#[derive(Default)]
struct Observed(std::sync::Mutex<Vec<Timestamp>>);

impl Publish for Observed {
    fn publish(&self, commit: Timestamp) {
        self.0.lock().unwrap().push(commit);
    }
}

impl Model {
    fn new(options: Options) -> Self {
        let disk = SimDisk::new(1);
        let workers = ModelSpawn(Arc::default());
        let engine = Arc::new(open(&disk, &workers, options.clone()));
        let observed = Arc::<Observed>::default();
        assert!(engine.observe(Arc::clone(&observed) as _));
        let (decided, acknowledged) = (Arc::new(ModelMutex::new(0)), Arc::default());
        Self { disk, options, engine, workers, decided, acknowledged, observed }
    }

    /// Starts a thread that appends `records` records and awaits each.
    fn writer(&self, records: u64) -> thread::JoinHandle<Result<()>> {
        let (engine, decided) = (Arc::clone(&self.engine), Arc::clone(&self.decided));
        let acknowledged = Arc::clone(&self.acknowledged);
        thread::spawn(move || {
            for _ in 0..records {
                let commit = block_on(append(&engine, &decided)?)?;
                assert!(engine.published() >= commit);
                assert!(is_done(&engine, commit), "{commit} is published and not to be read");
                acknowledged.lock().unwrap().push(commit);
            }
            Ok(())
        })
    }

    /// Closes the engine, and compares the recovered records with the promised ones.
    fn end(self) -> Result<()> {
        let engine = Arc::into_inner(self.engine).expect("the writers have ended");
        let closed = engine.close();
        for worker in std::mem::take(&mut *self.workers.0.lock().unwrap()) {
            worker.join().unwrap();
        }
        let observed = self.observed.0.lock().unwrap();
        assert!(observed.is_sorted_by(|one, other| one < other), "{observed:?}");
        let engine = open(&self.disk.kill(), &Stepped::default(), self.options);
        for &commit in &*self.acknowledged.lock().unwrap() {
            assert!(is_done(&engine, commit), "{commit} was acknowledged");
        }
        closed
    }
}

fn append(engine: &Engine, decided: &ModelMutex<u64>) -> Result<Appended> {
    loop {
        block_on(engine.ready(100))?;
        let (start, key) = (time(1), key(1));
        let put = Mutation::put_or_delete(&key, Some(b"value"));
        let prepared = engine.prepare(start, [put])?;
        let decide = || {
            let mut decided = decided.lock().unwrap();
            *decided += 10;
            Ok::<_, Error>(time(*decided))
        };
        match engine.append(prepared, decide).map_err(Error::from) {
            Err(error) if matches!(error.kind(), ErrorKind::Overloaded { .. }) => {}
            appended => return appended,
        }
        thread::yield_now();
    }
}

fn is_done(engine: &Engine, commit: Timestamp) -> bool {
    let found = block_on(engine.get(&key(1), commit)).unwrap();
    found.is_some_and(|version| version.commit == Some(commit))
}

/// Every record after the first starts a new segment, usually in the middle of a write.
fn rotating(durability: Durability) -> Options {
    Options { durability, segment_bytes: 200, log_ahead_bytes: 0, ..Options::default() }
}

#[test]
fn records_and_rotations_keep_order() {
    for durability in [Durability::None, Durability::Always, Durability::Interval(Duration::ZERO)] {
        explore(move || {
            let model = Model::new(rotating(durability));
            for writer in [model.writer(3), model.writer(3), model.writer(2)] {
                writer.join().unwrap().unwrap();
            }
            model.end().unwrap();
        });
    }
}

/// The ring alone, so that few schedules cover it: records are inserted and settled by different
/// threads, with every kind of waiter.
#[test]
fn slot_waiters_are_woken() {
    explore(|| {
        let publication = Arc::new(Publication::new(Timestamp::ZERO, Lsn(0), Vec::new()));
        let numbers: Vec<u64> =
            (1..=7).map(|n| publication.open(time(10 * n), time(10 * n + 1), Lsn(n))).collect();
        let run = |work: Box<dyn FnOnce(&Publication) + Send>| {
            let publication = Arc::clone(&publication);
            thread::spawn(move || work(&publication))
        };
        let mut threads = Vec::new();
        for stride in 0..2 {
            let numbers: Vec<u64> = numbers.iter().copied().skip(stride).step_by(2).collect();
            threads.push(run(Box::new(move |publication| {
                for number in numbers {
                    publication.filled(number, Bytes::new());
                    publication.inserted(number);
                }
            })));
        }
        threads.push(run(Box::new(|publication| {
            for lsn in [3, 7] {
                publication.settled(Lsn(lsn));
            }
        })));
        for number in [0, 3, 6] {
            threads.push(run(Box::new(move |publication| {
                block_on(poll_fn(|context| publication.poll(number, context))).unwrap();
                assert!(publication.resolved() > number);
            })));
        }
        threads.push(run(Box::new(|publication| {
            block_on(poll_fn(|context| publication.poll_room(context)));
        })));
        threads.push(run(Box::new(|publication| {
            let published = Signal::new();
            publication.mark(5, published.clone());
            published.wait(None);
            assert!(publication.resolved() >= 5);
        })));
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!((publication.resolved(), publication.published()), (7, time(71)));
    });
}

/// Like [`slot_waiters_are_woken`], but the store stops at some point.
#[test]
fn slot_waiters_are_woken_when_the_store_stops() {
    explore(|| {
        let worker = Signal::new();
        let workers = vec![worker.clone()];
        let publication = Arc::new(Publication::new(Timestamp::ZERO, Lsn(0), workers));
        for n in 1..=7 {
            publication.open(time(10 * n), time(10 * n + 1), Lsn(n));
        }
        let run = |work: Box<dyn FnOnce(&Publication) + Send>| {
            let publication = Arc::clone(&publication);
            thread::spawn(move || work(&publication))
        };
        let threads = [
            run(Box::new(|publication| publication.stop("the model says so"))),
            run(Box::new(|publication| {
                assert!(block_on(poll_fn(|context| publication.poll(6, context))).is_err());
            })),
            run(Box::new(|publication| {
                block_on(poll_fn(|context| publication.poll_room(context)));
            })),
            run(Box::new(|publication| {
                let published = Signal::new();
                publication.mark(5, published.clone());
                published.wait(None);
            })),
            run(Box::new(move |_| worker.wait(None))),
        ];
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

/// More commits are in flight than slots exist, and every waiter is woken.
#[test]
fn full_ring_frees_slots() {
    for durability in [Durability::None, Durability::Always] {
        explore(move || {
            let model = Model::new(Options { durability, ..Options::default() });
            let busy = {
                let (engine, decided) = (Arc::clone(&model.engine), Arc::clone(&model.decided));
                thread::spawn(move || {
                    // The commits are not awaited one by one: publication continues without
                    // waiters.
                    let appended: Vec<_> =
                        (0..12).map(|_| append(&engine, &decided).unwrap()).collect();
                    for appended in appended {
                        block_on(appended).unwrap();
                    }
                })
            };
            let writer = model.writer(4);
            busy.join().unwrap();
            writer.join().unwrap().unwrap();
            model.end().unwrap();
        });
    }
}

/// Each record fills a memtable; the worker flushes, and so do two threads that call `flush`.
#[test]
fn memtables_are_flushed_during_writes() {
    explore(|| {
        let options = Options {
            durability: Durability::Always,
            flush_bytes: 1,
            memtables_waiting_max: 2,
            log_ahead_bytes: 0,
            ..Options::default()
        };
        let model = Model::new(options);
        let writers = [model.writer(3), model.writer(2)];
        let flushes = [(); 2].map(|()| {
            let engine = Arc::clone(&model.engine);
            thread::spawn(move || engine.flush())
        });
        for writer in writers {
            writer.join().unwrap().unwrap();
        }
        for flush in flushes {
            flush.join().unwrap().unwrap();
        }
        model.end().unwrap();
    });
}

/// Writers race with the closing of the engine: each commit is published or gets an error, so no
/// writer waits for ever.
#[test]
fn close_resolves_every_decided_commit() {
    for durability in [Durability::Always, Durability::None] {
        explore(move || {
            let options = Options { flush_bytes: 2000, ..rotating(durability) };
            let model = Model::new(options);
            let writers = [model.writer(3), model.writer(3), model.writer(2)];
            let engine = Arc::clone(&model.engine);
            let closed = thread::spawn(move || engine.shut_down());
            for writer in writers {
                if let Err(error) = writer.join().unwrap() {
                    assert!(error.to_string().contains("the database was closed"), "{error}");
                }
            }
            closed.join().unwrap().unwrap();
            model.end().unwrap();
        });
    }
}

/// Each commit writes the cell. A read at the last published commit finds this commit's version, also
/// while memtables are sealed and flushed.
#[test]
fn newest_read_finds_the_published_commit() {
    explore_few_switches(|| {
        let options = Options {
            durability: Durability::None,
            flush_bytes: 1,
            memtables_waiting_max: 2,
            log_ahead_bytes: 0,
            ..Options::default()
        };
        let model = Model::new(options);
        model.writer(1).join().unwrap().unwrap();
        let writers = [model.writer(2), model.writer(1)];
        let engine = Arc::clone(&model.engine);
        let reader = thread::spawn(move || {
            for _ in 0..2 {
                let cell = key(1);
                let (cell, reads) = (cell.as_key_ref(), ReadOptions::default());
                let newest = engine.get_newest(cell, reads, || engine.published());
                let (read, version) = block_on(newest).unwrap();
                assert_eq!(version.unwrap().commit, Some(read));
            }
        });
        reader.join().unwrap();
        for writer in writers {
            writer.join().unwrap().unwrap();
        }
        model.end().unwrap();
    });
}

/// The disk fails at some point: every waiter is notified, the store stays stopped, and the next
/// process recovers the acknowledged records.
#[test]
fn all_waiters_end_when_the_store_stops() {
    for kind in [Kind::Write, Kind::Sync, Kind::Create, Kind::Rename] {
        for after in 1..4 {
            explore(move || {
                let options = Options {
                    flush_bytes: 2000,
                    memtables_waiting_max: 1,
                    ..rotating(Durability::Always)
                };
                let model = Model::new(options);
                let nth = model.disk.count(kind) + after;
                model.disk.fail_nth(kind, nth, std::io::ErrorKind::Other);
                let writers = [model.writer(3), model.writer(3)];
                let engine = Arc::clone(&model.engine);
                let flush = thread::spawn(move || engine.flush());
                let mut outcomes = Vec::from(writers.map(|writer| writer.join().unwrap()));
                outcomes.push(flush.join().unwrap());
                let disk = model.disk.clone();
                outcomes.push(model.end());
                let failed = disk.count(kind) >= nth;
                assert_eq!(failed, outcomes.iter().any(Result::is_err), "{outcomes:?}");
            });
        }
    }
}
