//! Syncs of the log with different kinds of files: growing ones, ones with zeros written ahead, and
//! recycled ones.
#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock and starts threads")]

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use carnet_base::sync::lock;
use carnet_base::{CellKey, Error, PartitionKey, Result, SeededRng, block_on};
use carnet_storage::{Engine, Mutation, Options};
use clap::Args;

use super::{TABLE, median, noise, open, plain_entries, time};

const PUTS: usize = 8;
/// Kinds of files, with `log_ahead_bytes` and `log_spares_max`.
const FILES: [(&str, usize, usize); 3] =
    [("growing", 0, 0), ("zeros ahead", 256 << 10, 0), ("written again", 256 << 10, 4)];

/// Measure syncs of the log with different kinds of files. Each append of 8 puts is acknowledged
/// when it is synced; memtables are flushed meanwhile. The variants alternate.
#[derive(Args)]
pub(crate) struct Log {
    /// Duration of each variant in each round, in milliseconds.
    #[arg(long, default_value_t = 3000)]
    millis: u64,
    /// Number of rounds; medians are printed.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

impl Log {
    pub(crate) fn run(&self, dir: &Path) -> Result<()> {
        let time = Duration::from_millis(self.millis);
        println!(
            "{:>14} {:>8} {:>9} {:>9} {:>9}",
            "files", "threads", "keys/s", "p50 us", "p99 us"
        );
        for threads in [1, 8, 32] {
            let mut measured = [const { Vec::new() }; FILES.len()];
            for _ in 0..self.rounds.max(1) {
                for (files, measured) in FILES.iter().zip(&mut measured) {
                    measured.push(run(dir, files, threads, time)?);
                }
            }
            for ((name, ..), measured) in FILES.iter().zip(&measured) {
                let of =
                    |at: usize| median(measured.iter().map(|run: &[f64; 3]| run[at]).collect());
                let [rate, p50, p99] = [0, 1, 2].map(of);
                println!("{name:>14} {threads:>8} {rate:>9.0} {p50:>9.1} {p99:>9.1}");
            }
        }
        Ok(())
    }
}

/// Returns keys per second, and the median and the p99 of an append in microseconds.
fn run(
    dir: &Path,
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
    let dir = super::directory(Some(dir))?;
    let engine = open(dir.path().join("data"), options, plain_entries())?;
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
                lock(times).extend(own);
            });
        }
    });
    let elapsed = began.elapsed().as_secs_f64();
    let times = std::mem::take(&mut *lock(&times));
    Ok((times, elapsed))
}

fn append(engine: &Engine, clock: &AtomicU64, rng: &mut SeededRng) -> Result<()> {
    let value = [0x5a; 100];
    let keys: Vec<CellKey> =
        (0..PUTS).map(|_| CellKey::new(TABLE, &PartitionKey::new(noise(rng, 16)), "")).collect();
    let puts = keys.iter().map(|key| Mutation::put_or_delete(key, Some(&value)));
    let prepared = engine.prepare(time(clock.load(Ordering::Relaxed)), puts)?;
    block_on(engine.ready(prepared.bytes()))?;
    let commit = || Ok::<_, Error>(time(clock.fetch_add(1, Ordering::Relaxed) + 1));
    block_on(engine.append(prepared, commit)?).map(drop)
}
