//! Point reads from the device during a continuous compaction, with and without the I/O scheduler.
#![expect(clippy::disallowed_methods, reason = "it measures")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use carnet_base::{
    CellKey, Error, PartitionKey, Result, Rng, SeededRng, SystemClock, ThreadSpawn, block_on_one,
};
use carnet_storage::disk::{Disk, RealDisk};
use carnet_storage::io::Class;
use carnet_storage::{Durability, Engine, IoOptions, Mutation, Options};
use clap::Args;

use super::{TABLE, noise, plain_entries, time};

const CELLS: u64 = 300_000;
const VALUE_BYTES: usize = 1024;
/// Number of reads between evictions of the page cache.
const EVICT_EVERY: u64 = 64;

/// Measure point reads from the device during a continuous compaction of 300 MiB: the compaction's
/// speed alone, the reads alone, and both together.
#[derive(Args)]
pub(crate) struct Interference {
    /// Number of rounds, each with and without the I/O scheduler.
    #[arg(long, default_value_t = 3)]
    rounds: u64,
}

impl Interference {
    pub(crate) fn run(&self, dir: &Path) -> Result<()> {
        let disk = Arc::new(RealDisk::open(dir.join("data"))?);
        fill(&disk)?;
        println!(
            "scheduler, compaction alone MB/s, reads alone p50 p99 us, both: MB/s p50 p99 us, \
             reads/s, waited s"
        );
        for round in 0..self.rounds {
            for scheduler in [false, true] {
                measure(&disk, scheduler, round)?;
            }
        }
        Ok(())
    }
}

fn open(disk: &Arc<RealDisk>, scheduler: bool) -> Result<Engine> {
    let options = Options {
        durability: Durability::None,
        memory_bytes: 64 << 20,
        cache_bytes: 1 << 20,
        io: IoOptions { scheduler, ..IoOptions::default() },
        ..Options::default()
    };
    let (disk, clock) = (Arc::clone(disk), Arc::new(SystemClock));
    Engine::open(disk, clock, &ThreadSpawn, options, plain_entries())
}

fn key(number: u64) -> CellKey {
    CellKey::new(TABLE, &PartitionKey::new(number.to_be_bytes().to_vec()), "")
}

fn put(engine: &Engine, number: u64, rng: &mut SeededRng) -> Result<()> {
    let (key, value) = (key(number), noise(rng, VALUE_BYTES));
    let next = engine.published().get().max(engine.timestamp_bound().get()) + 2;
    let (start, commit) = (time(next - 1), time(next));
    block_on_one(engine.ready(VALUE_BYTES))?;
    let prepared = engine.prepare(start, [Mutation::put_or_delete(&key, Some(&value))])?;
    block_on_one(engine.append(prepared, || Ok::<_, Error>(commit))?).map(drop)
}

fn fill(disk: &Arc<RealDisk>) -> Result<()> {
    let engine = open(disk, true)?;
    let mut rng = SeededRng::new(1);
    (0..CELLS).try_for_each(|number| put(&engine, number, &mut rng))?;
    engine.compact()?;
    engine.close()
}

fn measure(disk: &Arc<RealDisk>, scheduler: bool, seed: u64) -> Result<()> {
    let engine = open(disk, scheduler)?;
    let alone =
        thread::scope(|scope| compacting(scope, &engine, Duration::from_secs(5), seed, || {}))?;
    let (mut idle, mut beside) = (Vec::new(), Vec::new());
    read(&engine, disk, Duration::from_secs(4), seed, &mut idle)?;
    let time = Duration::from_secs(8);
    let both = thread::scope(|scope| {
        compacting(scope, &engine, time, seed + 100, || {
            read(&engine, disk, time, seed, &mut beside).expect("the disk is readable");
        })
    })?;
    let [idle, loaded] = [&mut idle, &mut beside].map(|latencies| {
        latencies.sort_unstable();
        [50, 99].map(|at| latencies[latencies.len() * at / 100].as_micros())
    });
    let waited = engine
        .io_totals()
        .map_or(0.0, |totals| totals[Class::Compaction.kind()].waited.as_secs_f64());
    println!(
        "{scheduler:5} | {alone:6.0} | {:6} {:6} | {both:6.0} {:6} {:6} | {:6.0} | {waited:.2}",
        idle[0],
        idle[1],
        loaded[0],
        loaded[1],
        beside.len() as f64 / time.as_secs_f64(),
    );
    engine.close()
}

/// Compacts everything repeatedly during the measurement; returns MB per second.
fn compacting<'scope, 'env>(
    scope: &'scope thread::Scope<'scope, 'env>,
    engine: &'env Engine,
    time: Duration,
    seed: u64,
    mut beside: impl FnMut(),
) -> Result<f64> {
    let ended = Arc::new(AtomicBool::new(false));
    let begun = Instant::now();
    let rounds = Arc::new(AtomicU64::new(0));
    let compactor = scope.spawn({
        let (ended, rounds) = (Arc::clone(&ended), Arc::clone(&rounds));
        move || -> Result<Duration> {
            let mut rng = SeededRng::new(seed);
            while !ended.load(Ordering::Relaxed) {
                put(engine, rng.below(CELLS), &mut rng)?;
                engine.compact()?;
                rounds.fetch_add(1, Ordering::Relaxed);
            }
            Ok(begun.elapsed())
        }
    });
    beside();
    thread::sleep(time.saturating_sub(begun.elapsed()));
    ended.store(true, Ordering::Relaxed);
    let took = compactor.join().expect("it does not panic")?;
    // Each compaction rewrites every cell.
    let bytes = rounds.load(Ordering::Relaxed) as f64 * (CELLS * VALUE_BYTES as u64) as f64;
    Ok(bytes / took.as_secs_f64() / 1e6)
}

fn read(
    engine: &Engine,
    disk: &Arc<RealDisk>,
    time: Duration,
    seed: u64,
    latencies: &mut Vec<Duration>,
) -> Result<()> {
    let (mut rng, begun) = (SeededRng::new(seed), Instant::now());
    while begun.elapsed() < time {
        if (latencies.len() as u64).is_multiple_of(EVICT_EVERY) {
            evict(disk);
        }
        let key = key(rng.below(CELLS));
        let before = Instant::now();
        block_on_one(engine.get(&key, engine.published()))?.expect("it was written");
        latencies.push(before.elapsed());
    }
    Ok(())
}

fn evict(disk: &Arc<RealDisk>) {
    for name in disk.list().unwrap_or_default() {
        if name.ends_with(".sst") || name.starts_with("sst-") {
            // A compaction may have removed it.
            let _ = disk.open(&name).and_then(|file| file.evict());
        }
    }
}
