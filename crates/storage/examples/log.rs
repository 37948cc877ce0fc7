//! Measures syncs of the log with different kinds of files: growing ones, ones with zeros written
//! ahead, and recycled ones. Each append of 8 puts (16 B keys, 100 B values) is acknowledged when
//! it is synced; memtables are flushed meanwhile.
//!
//! ```text
//! cargo run --release -p carnet-storage --example log -- [DIR] [SECONDS] [ROUNDS]
//! ```
//!
//! The variants alternate. Prints the median of their keys per second, and of an append's latency
//! in microseconds (median and p99).
#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock and starts threads")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use carnet_base::{
    Bytes, CellKey, PartitionKey, Result, Rng, SeededRng, SystemClock, TableId, ThreadSpawn,
    Timestamp, block_on,
};
use carnet_storage::disk::RealDisk;
use carnet_storage::{Engine, Mutation, Options};

const PUTS: usize = 8;
/// Kinds of files, with `log_ahead_bytes` and `log_spares_max`.
const FILES: [(&str, usize, usize); 3] =
    [("growing", 0, 0), ("zeros ahead", 256 << 10, 0), ("written again", 256 << 10, 4)];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let base = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let seconds: f64 = arguments.next().map_or(Ok(3.0), |text| text.parse())?;
    let rounds: usize = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let directory = base.join(format!("carnet-log-{}", std::process::id()));
    println!("{:>14} {:>8} {:>9} {:>9} {:>9}", "files", "threads", "keys/s", "p50 us", "p99 us");
    for threads in [1, 8, 32] {
        let mut measured = [const { Vec::new() }; FILES.len()];
        for _ in 0..rounds {
            for (files, measured) in FILES.iter().zip(&mut measured) {
                let run = run(&directory, files, threads, Duration::from_secs_f64(seconds));
                std::fs::remove_dir_all(&directory)?;
                measured.push(run?);
            }
        }
        for ((name, ..), measured) in FILES.iter().zip(&measured) {
            let median = |of: usize| {
                let mut all: Vec<f64> = measured.iter().map(|run| run[of]).collect();
                all.sort_unstable_by(f64::total_cmp);
                all[all.len() / 2]
            };
            println!(
                "{name:>14} {threads:>8} {:>9.0} {:>9.1} {:>9.1}",
                median(0),
                median(1),
                median(2)
            );
        }
    }
    Ok(())
}

/// Returns keys per second, and the median and the p99 of an append in microseconds.
fn run(
    directory: &Path,
    &(_, log_ahead_bytes, log_spares_max): &(&str, usize, usize),
    threads: u64,
    time: Duration,
) -> Result<[f64; 3]> {
    let (flush_bytes, segment_bytes) = (16 << 20, 16 << 20);
    let options = Options {
        flush_bytes,
        segment_bytes,
        log_ahead_bytes,
        log_spares_max,
        ..Options::default()
    };
    let disk = Arc::new(RealDisk::open(directory)?);
    let entry = Arc::new(|start: Timestamp, commit: Timestamp| {
        let partition = PartitionKey::new(start.get().to_be_bytes().to_vec());
        let value = commit.get().to_be_bytes().to_vec().into();
        Ok((CellKey::new(TableId(0), &partition, ""), value))
    });
    let engine = Engine::open(disk, Arc::new(SystemClock), &ThreadSpawn, options, entry)?;
    let clock = AtomicU64::new(2);
    // Some segments first, which are recycled later.
    many(&engine, &clock, 32, |engine| engine.metrics().log_bytes > 6 * segment_bytes)?;
    let until = Instant::now() + time;
    let (mut times, elapsed) = many(&engine, &clock, threads, |_| Instant::now() >= until)?;
    times.sort_unstable();
    let at = |share: usize| times[(times.len() - 1) * share / 100].as_secs_f64() * 1e6;
    Ok([(times.len() * PUTS) as f64 / elapsed, at(50), at(99)])
}

/// Appends with a number of threads until `enough`; returns the latencies and the total time.
fn many(
    engine: &Engine,
    clock: &AtomicU64,
    threads: u64,
    enough: impl Fn(&Engine) -> bool + Sync,
) -> Result<(Vec<Duration>, f64)> {
    let (times, failed) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    let began = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (times, failed, enough) = (&times, &failed, &enough);
            scope.spawn(move || {
                let mut own = Vec::new();
                let mut rng = SeededRng::new(thread);
                while !enough(engine) && !failed.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    if let Err(error) = append(engine, clock, &mut rng) {
                        eprintln!("{error}");
                        failed.store(true, Ordering::Relaxed);
                    }
                    own.push(began.elapsed());
                }
                times.lock().unwrap_or_else(PoisonError::into_inner).extend(own);
            });
        }
    });
    let elapsed = began.elapsed().as_secs_f64();
    Ok((times.into_inner().unwrap_or_else(PoisonError::into_inner), elapsed))
}

fn append(engine: &Engine, clock: &AtomicU64, rng: &mut SeededRng) -> Result<()> {
    let value = Bytes::from(vec![0x5a; 100]);
    let mut key = || {
        let key = [rng.next_u64().to_be_bytes(), rng.next_u64().to_be_bytes()].concat();
        CellKey::new(TableId(1), &PartitionKey::new(key), "")
    };
    let keys: Vec<CellKey> = (0..PUTS).map(|_| key()).collect();
    let puts = keys.iter().map(|key| Mutation::put_or_delete(key, Some(&value)));
    let start = Timestamp::new(clock.load(Ordering::Relaxed)).expect("a small number");
    let prepared = engine.prepare(start, puts)?;
    block_on(engine.ready(prepared.bytes()))?;
    let decide = || {
        let commit = clock.fetch_add(1, Ordering::Relaxed) + 1;
        Ok::<_, carnet_base::Error>(Timestamp::new(commit).expect("a small number"))
    };
    block_on(engine.append(prepared, decide)?)?;
    Ok(())
}
