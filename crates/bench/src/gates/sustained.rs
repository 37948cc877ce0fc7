//! Writes for a while, with flushes and compaction, to a data set several times the memory budget.
//!
//! Batches of 8 puts overwrite random rows of a fixed number. Every few seconds it prints what the
//! process has in memory, and in the end the longest time that a write took, waiting included.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use carnet_base::{CellKey, Clock, Error, PartitionKey, Result, Rng, SeededRng, SystemClock};
use carnet_storage::{Durability, Engine, Mutation, Options};
use clap::Args;

use super::{TABLE, append, noise, open, plain_entries, time};

const PUTS: u64 = 8;
const KEY_BYTES: usize = 8;
const VALUE_BYTES: usize = 100;

/// The program's settings.
#[derive(Args)]
pub(crate) struct Sustained {
    /// How long it writes.
    #[arg(long, default_value_t = 120)]
    seconds: u64,
    /// Writers.
    #[arg(long, default_value_t = 2)]
    threads: u64,
    /// Rows of 108 bytes that are written again and again.
    #[arg(long, default_value_t = 5_000_000)]
    rows: u64,
    /// Bytes of a memtable, in MiB; at most five of them are in memory.
    #[arg(long, default_value_t = 16)]
    memtable_mib: usize,
    /// Bytes of the cache, in MiB.
    #[arg(long, default_value_t = 32)]
    cache_mib: usize,
    /// How often it prints, in seconds.
    #[arg(long, default_value_t = 10)]
    every: u64,
}

impl Sustained {
    pub(crate) fn run(&self, dir: &Path) -> Result<()> {
        let options = Options {
            durability: Durability::None,
            flush_bytes: self.memtable_mib << 20,
            cache_bytes: self.cache_mib << 20,
            ..Options::default()
        };
        let budget = self.memtable_mib * (options.memtables_waiting_max + 2) + self.cache_mib;
        let engine = open(dir.join("data"), options, plain_entries())?;
        println!(
            "memory budget {budget} MiB, {} MB of rows",
            self.rows * (KEY_BYTES + VALUE_BYTES) as u64 / 1_000_000
        );
        println!(
            "{:>8} {:>9} {:>12} {:>7} {:>9}",
            "seconds", "RSS MiB", "keys/s", "tables", "disk MB"
        );
        let shared = Shared::default();
        let results: Vec<Result<()>> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..self.threads)
                .map(|thread| {
                    let (engine, shared) = (&engine, &shared);
                    scope.spawn(move || {
                        let written = self.write(engine, shared, thread);
                        shared.failed.fetch_or(written.is_err(), Ordering::Relaxed);
                        written
                    })
                })
                .collect();
            let joined = writers.into_iter().map(std::thread::ScopedJoinHandle::join);
            joined.map(|result| result.expect("no writer panics")).collect()
        });
        results.into_iter().collect::<Result<()>>()?;
        self.report(&engine, &shared)
    }

    fn write(&self, engine: &Engine, shared: &Shared, thread: u64) -> Result<()> {
        let mut rng = SeededRng::new(thread);
        let began = SystemClock.now();
        let (mut last, mut printed, mut before) = (began, Duration::ZERO, 0);
        while last.since(began) < Duration::from_secs(self.seconds) {
            if shared.failed.load(Ordering::Relaxed) {
                return Err(Error::unavailable("another writer failed"));
            }
            let rows: Vec<(CellKey, Vec<u8>)> = (0..PUTS)
                .map(|_| {
                    let key = rng.below(self.rows).to_be_bytes().to_vec();
                    let cell = CellKey::new(TABLE, &PartitionKey::new(key), "");
                    (cell, noise(&mut rng, VALUE_BYTES))
                })
                .collect();
            let puts = rows.iter().map(|(key, value)| Mutation::put_or_delete(key, Some(value)));
            let start = time(shared.clock.load(Ordering::Relaxed));
            append(engine, start, &puts, || {
                time(shared.clock.fetch_add(1, Ordering::Relaxed) + 1)
            })?;
            let now = SystemClock.now();
            let spent = u64::try_from(now.since(last).as_micros()).unwrap_or(u64::MAX);
            shared.longest_micros.fetch_max(spent, Ordering::Relaxed);
            shared.keys.fetch_add(PUTS, Ordering::Relaxed);
            last = now;
            if thread == 0 && last.since(began) >= printed + Duration::from_secs(self.every) {
                let keys = shared.keys.load(Ordering::Relaxed);
                let time = last.since(began) - printed;
                printed = last.since(began);
                shared.print(engine, printed, (keys - before) as f64 / time.as_secs_f64())?;
                before = keys;
                // What is printed is no part of a write.
                last = SystemClock.now();
            }
        }
        Ok(())
    }

    fn report(&self, engine: &Engine, shared: &Shared) -> Result<()> {
        let keys = shared.keys.load(Ordering::Relaxed);
        let written = keys * (KEY_BYTES + VALUE_BYTES) as u64;
        engine.flush()?;
        let metrics = engine.metrics();
        let rows = self.rows * (KEY_BYTES + VALUE_BYTES) as u64;
        let files = metrics.flush_bytes + metrics.compaction_bytes;
        println!(
            "{keys} keys; the longest write took {:.1} ms; most memory {} MiB",
            shared.longest_micros.load(Ordering::Relaxed) as f64 / 1e3,
            shared.rss_max_mib.load(Ordering::Relaxed)
        );
        println!(
            "write amplification: files {:.2}, with the log {:.2}; space amplification {:.2} of all \
             rows, not compacted further",
            files as f64 / written as f64,
            (files + metrics.log_bytes) as f64 / written as f64,
            metrics.table_bytes as f64 / rows as f64
        );
        Ok(())
    }
}

#[derive(Default)]
struct Shared {
    clock: AtomicU64,
    keys: AtomicU64,
    longest_micros: AtomicU64,
    rss_max_mib: AtomicU64,
    failed: AtomicBool,
}

impl Shared {
    fn print(&self, engine: &Engine, at: Duration, rate: f64) -> Result<()> {
        let rss = rss_mib()?;
        self.rss_max_mib.fetch_max(rss, Ordering::Relaxed);
        let metrics = engine.metrics();
        println!(
            "{:>8} {rss:>9} {rate:>12.0} {:>7} {:>9}",
            at.as_secs(),
            metrics.tables,
            metrics.table_bytes / 1_000_000
        );
        Ok(())
    }
}

/// What the process has in memory.
fn rss_mib() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(|error| {
        Error::unavailable("/proc/self/status tells the memory of a process").with_source(error)
    })?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.map(|kib| kib >> 10).ok_or_else(|| Error::unavailable("/proc/self/status has no VmRSS"))
}
