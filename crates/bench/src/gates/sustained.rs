//! Sustained writes, with flushes and compaction, to a data set several times the memory budget.
//!
//! Batches of 8 puts overwrite random rows of a fixed number. The program prints its memory every
//! few seconds, and at the end the longest time of a write, throttling included. It fails if the
//! memory or that time exceeds its limit.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use carnet_base::{
    CellKey, Clock, Error, PartitionKey, Result, Rng, SeededRng, SystemClock, TableId, Timestamp,
};
use carnet_storage::compaction::merge::{GcHook, Mark};
use carnet_storage::{Durability, Engine, Mutation, Options};
use clap::Args;

use super::{TABLE, append, entries, noise, open, time};

const PUTS: u64 = 8;
const KEY_BYTES: usize = 8;
const VALUE_BYTES: usize = 100;

/// Settings of the program.
#[derive(Args)]
pub(crate) struct Sustained {
    /// Duration of the writes, in seconds.
    #[arg(long, default_value_t = 120)]
    seconds: u64,
    /// Number of writers.
    #[arg(long, default_value_t = 2)]
    threads: u64,
    /// Number of rows of 108 bytes, which are overwritten.
    #[arg(long, default_value_t = 5_000_000)]
    rows: u64,
    /// Size of a memtable in MiB; at most five are in memory.
    #[arg(long, default_value_t = 16)]
    memtable_mib: usize,
    /// Size of the cache in MiB.
    #[arg(long, default_value_t = 32)]
    cache_mib: usize,
    /// Memory of the process in MiB allowed above the budget: buffers of flushes, compaction and
    /// the log, indexes of open tables, and the program itself.
    #[arg(long, default_value_t = 96)]
    beside_mib: u64,
    /// Maximum time of a write, in milliseconds.
    #[arg(long, default_value_t = 2000)]
    longest_ms: u64,
    /// Interval between reports, in seconds.
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
        let engine = Arc::new(open(dir.join("data"), options, entries())?);
        // There are no readers of older timestamps, so that overwritten versions may be dropped.
        engine.set_gc(Arc::new(Newest(Arc::downgrade(&engine))));
        println!(
            "memory budget {budget} MiB, {} MB of rows",
            self.rows * (KEY_BYTES + VALUE_BYTES) as u64 / 1_000_000
        );
        println!(
            "{:>8} {:>9} {:>12} {:>10} {:>7} {:>9} {:>8} {:>11}",
            "seconds",
            "RSS MiB",
            "keys/s",
            "longest ms",
            "tables",
            "disk MB",
            "level 0",
            "level 0 MB"
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
        self.report(&engine, &shared)?;
        self.judge(budget as u64, &shared)
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
            shared.longest_lately_micros.fetch_max(spent, Ordering::Relaxed);
            shared.waits.add(spent);
            shared.keys.fetch_add(PUTS, Ordering::Relaxed);
            last = now;
            if thread == 0 && last.since(began) >= printed + Duration::from_secs(self.every) {
                let keys = shared.keys.load(Ordering::Relaxed);
                let time = last.since(began) - printed;
                printed = last.since(began);
                shared.print(engine, printed, (keys - before) as f64 / time.as_secs_f64())?;
                before = keys;
                // Printing must not count as a part of a write.
                last = SystemClock.now();
            }
        }
        Ok(())
    }

    fn judge(&self, budget_mib: u64, shared: &Shared) -> Result<()> {
        let memory = shared.rss_max_mib.load(Ordering::Relaxed);
        if memory > budget_mib + self.beside_mib {
            return Err(Error::invalid(format!(
                "{memory} MiB were in memory, with a budget of {budget_mib} and {} beside it",
                self.beside_mib
            )));
        }
        let longest_ms = shared.longest_micros.load(Ordering::Relaxed) / 1000;
        if longest_ms > self.longest_ms {
            return Err(Error::invalid(format!(
                "a write took {longest_ms} ms, more than {} ms",
                self.longest_ms
            )));
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
            "{keys} keys; of a hundred thousand writes all but {} took less than 1 ms, {} than 10 ms, \
             {} than 100 ms; the longest took {:.1} ms; most memory {} MiB",
            shared.waits.beyond(0),
            shared.waits.beyond(1),
            shared.waits.beyond(2),
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
    /// Longest time since the last report.
    longest_lately_micros: AtomicU64,
    waits: Waits,
    rss_max_mib: AtomicU64,
    failed: AtomicBool,
}

impl Shared {
    fn print(&self, engine: &Engine, at: Duration, rate: f64) -> Result<()> {
        let rss = rss_mib()?;
        self.rss_max_mib.fetch_max(rss, Ordering::Relaxed);
        let metrics = engine.metrics();
        println!(
            "{:>8} {rss:>9} {rate:>12.0} {:>10.1} {:>7} {:>9} {:>8} {:>11}",
            at.as_secs(),
            self.longest_lately_micros.swap(0, Ordering::Relaxed) as f64 / 1e3,
            metrics.tables,
            metrics.table_bytes / 1_000_000,
            metrics.level0_tables,
            metrics.level0_bytes / 1_000_000
        );
        Ok(())
    }
}

/// Histogram of write times.
#[derive(Default)]
struct Waits {
    /// Numbers of writes below 1, 10 and 100 ms, and above.
    counts: [AtomicU64; 4],
}

impl Waits {
    fn add(&self, micros: u64) {
        let at = [1_000, 10_000, 100_000].iter().filter(|limit| micros >= **limit).count();
        self.counts[at].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many of a hundred thousand writes took longer than the buckets up to `at`.
    fn beyond(&self, at: usize) -> u64 {
        let counts = self.counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        let all: u64 = counts.iter().sum();
        counts[at + 1..].iter().sum::<u64>() * 100_000 / all.max(1)
    }
}

/// GC watermark at the newest commit: compaction drops all older versions.
struct Newest(Weak<Engine>);

impl GcHook for Newest {
    fn mark(&self) -> Mark {
        let read = self.0.upgrade().map_or(Timestamp::ZERO, |engine| engine.published());
        Mark { read, ..Mark::default() }
    }

    fn is_dropped(&self, _: TableId) -> bool {
        false
    }
}

/// Returns the resident memory of the process.
fn rss_mib() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(|error| {
        Error::unavailable("/proc/self/status tells the memory of a process").with_source(error)
    })?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.map(|kib| kib >> 10).ok_or_else(|| Error::unavailable("/proc/self/status has no VmRSS"))
}
