//! Workloads of one thread, and the aggregation of all threads' figures.

use std::path::PathBuf;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use carnet::{Db, Durability, Isolation, Key, RawTable, Result, Table, record};
use carnet_base::{Clock, Rng, SeededRng, SystemClock};
use hdrhistogram::Histogram;

record! {
    /// A row of 100 bytes.
    pub(crate) struct Blob {
        value: Vec<u8>,
    }
}

type Hashed = Table<Key<(Vec<u8>,)>, Blob>;

/// Number of keys per transaction of puts.
const BATCH: usize = 8;
/// Size of a value in bytes. Values do not compress.
const VALUE_BYTES: usize = 100;
/// Number of keys loaded before reads are measured.
const LOADED: u64 = 200_000;

/// Layout of the keys.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// One partition per key.
    Hashed,
    /// All keys in one ordered partition.
    Raw,
}

/// Settings of one measurement.
pub(crate) struct Setting {
    pub(crate) shape: Shape,
    pub(crate) durability: Durability,
    pub(crate) threads: usize,
    pub(crate) time: Duration,
    pub(crate) seed: u64,
    pub(crate) dir: Option<PathBuf>,
}

/// Result of one measurement.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    pub(crate) transactions_per_second: f64,
    pub(crate) keys_per_second: f64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
}

/// Returns the pass with the median throughput.
pub(crate) fn median(mut passes: Vec<Figures>) -> Figures {
    passes.sort_by(|a, b| a.keys_per_second.total_cmp(&b.keys_per_second));
    passes.swap_remove(passes.len() / 2)
}

enum Target {
    Hashed(Hashed),
    Raw(RawTable),
}

impl Target {
    fn open(db: &Db, shape: Shape) -> Result<Self> {
        Ok(match shape {
            Shape::Hashed => Self::Hashed(db.table("bench")?),
            Shape::Raw => Self::Raw(db.raw("bench")?),
        })
    }

    fn put_batch(&self, db: &Db, keys: &[Vec<u8>], value: &[u8]) -> Result<()> {
        db.transact(|tx| {
            for key in keys {
                match self {
                    Self::Hashed(table) => {
                        table.put(tx, &Key((key.clone(),), ()), &Blob { value: value.to_vec() })?;
                    }
                    Self::Raw(table) => table.put(tx, key, value)?,
                }
            }
            Ok(())
        })
    }

    fn get(&self, db: &Db, key: Vec<u8>) -> Result<bool> {
        let snapshot = db.snapshot()?;
        Ok(match self {
            Self::Hashed(table) => table.get(&snapshot, &Key((key,), ()))?.is_some(),
            Self::Raw(table) => table.get(&snapshot, key)?.is_some(),
        })
    }
}

/// Returns a key of 16 bytes; keys are spread over the whole key space.
fn key(number: u64) -> Vec<u8> {
    let mut rng = SeededRng::new(number);
    [rng.next_u64().to_be_bytes(), number.to_be_bytes()].concat()
}

fn value(rng: &mut SeededRng) -> Vec<u8> {
    (0..VALUE_BYTES).map(|_| rng.next_u64().to_le_bytes()[0]).collect()
}

/// Measures transactions of blind puts of new keys.
pub(crate) fn puts(setting: &Setting) -> Result<Figures> {
    let (db, target, _dir) = open(setting)?;
    measure(setting, BATCH, |thread| {
        let mut rng = SeededRng::new(setting.seed ^ thread.rotate_left(32));
        let value = value(&mut rng);
        let (db, target) = (&db, &target);
        let mut number = thread << 40;
        move || {
            let keys: Vec<Vec<u8>> =
                (0..BATCH).map(|n| key(number + u64::try_from(n).unwrap_or(0))).collect();
            number += u64::try_from(BATCH).unwrap_or(0);
            target.put_batch(db, &keys, &value)
        }
    })
}

/// Measures reads of single keys, in memory.
pub(crate) fn gets(setting: &Setting) -> Result<Figures> {
    let (db, target, _dir) = open(setting)?;
    let value = value(&mut SeededRng::new(setting.seed));
    for first in (0..LOADED).step_by(100) {
        let keys: Vec<Vec<u8>> = (first..first + 100).map(key).collect();
        target.put_batch(&db, &keys, &value)?;
    }
    measure(setting, 1, |thread| {
        let mut rng = SeededRng::new(setting.seed ^ thread.rotate_left(32));
        let (db, target) = (&db, &target);
        move || {
            let found = target.get(db, key(rng.below(LOADED)))?;
            assert!(found, "every key that is read was loaded");
            Ok(())
        }
    })
}

fn open(setting: &Setting) -> Result<(Db, Target, tempfile::TempDir)> {
    let dir = match &setting.dir {
        Some(parent) => tempfile::tempdir_in(parent),
        None => tempfile::tempdir(),
    };
    let dir = dir.map_err(|error| {
        carnet::Error::unavailable("cannot make a directory for the database").with_source(error)
    })?;
    let db = Db::builder()
        .durability(setting.durability)
        .isolation(Isolation::StrictSerializable)
        .flush_bytes(1 << 30)
        .open(dir.path().join("data"))?;
    let target = Target::open(&db, setting.shape)?;
    Ok((db, target, dir))
}

/// Runs an operation on every thread until the time is over.
fn measure<O>(setting: &Setting, keys: usize, make: impl Fn(u64) -> O + Sync) -> Result<Figures>
where
    O: FnMut() -> Result<()>,
{
    let clock = SystemClock;
    let barrier = Barrier::new(setting.threads);
    let run_thread = |thread: usize| -> Result<(u64, Duration, Histogram<u64>)> {
        let mut operation = make(u64::try_from(thread).unwrap_or(0) + 1);
        let mut histogram =
            Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are valid");
        barrier.wait();
        let begin = clock.now();
        let mut count = 0;
        let mut last = begin;
        while last.since(begin) < setting.time {
            operation()?;
            let now = clock.now();
            histogram.saturating_record(u64::try_from(now.since(last).as_nanos()).unwrap_or(0));
            last = now;
            count += 1;
        }
        Ok((count, last.since(begin), histogram))
    };
    let results: Vec<Result<_>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..setting.threads)
            .map(|thread| {
                let run_thread = &run_thread;
                scope.spawn(move || run_thread(thread))
            })
            .collect();
        let joined = threads.into_iter().map(thread::ScopedJoinHandle::join);
        joined.map(|result| result.expect("no thread of a benchmark panics")).collect()
    });
    let mut total: Option<Histogram<u64>> = None;
    let mut rate = 0.0;
    for result in results {
        let (count, time, histogram) = result?;
        rate += f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / time.as_secs_f64();
        match &mut total {
            Some(total) => total.add(&histogram).expect("all histograms have the same bounds"),
            None => total = Some(histogram),
        }
    }
    let total = total.expect("there is at least one thread");
    Ok(Figures {
        transactions_per_second: rate,
        keys_per_second: rate * f64::from(u32::try_from(keys).unwrap_or(1)),
        p50: Duration::from_nanos(total.value_at_quantile(0.5)),
        p99: Duration::from_nanos(total.value_at_quantile(0.99)),
    })
}
