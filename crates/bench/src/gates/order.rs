//! Benefit of writers that do not wait for each other's memtable inserts.
//!
//! Runs the same appends of 8 puts unordered, as the engine takes them, and ordered, by [`Groups`] in
//! front of it: a writer appends with its group, and leaves it when its record is published. The settings alternate within a pass. Nothing is synced and no memtable is flushed.

mod groups;

use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use carnet_base::{CellKey, Clock, Error, PartitionKey, Result, SeededRng, SystemClock, block_on};
use carnet_storage::{Durability, Engine, Mutation, Options};
use clap::Args;

use self::groups::Groups;
use super::{TABLE, median, noise, open, plain_entries, time};

const PUTS: u64 = 8;
const VALUE_BYTES: usize = 100;

/// Settings of the program.
#[derive(Args)]
pub(crate) struct Order {
    /// Numbers of threads.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16, 32])]
    threads: Vec<usize>,
    /// Duration of each setting in each pass, in milliseconds.
    #[arg(long, default_value_t = 2000)]
    millis: u64,
    /// Number of passes; medians are printed.
    #[arg(long, default_value_t = 5)]
    passes: usize,
    /// Write no log.
    #[arg(long)]
    no_log: bool,
}

impl Order {
    pub(crate) fn run(&self, dir: &Path) -> Result<()> {
        println!(
            "{:>7} {:>16} {:>18} {:>7}",
            "threads", "ordered keys/s", "unordered keys/s", "ratio"
        );
        for &threads in &self.threads {
            let mut rates = [Vec::new(), Vec::new()];
            for pass in 0..self.passes.max(1) {
                for at in [pass % 2, 1 - pass % 2] {
                    let groups = (at == 0).then(Groups::default);
                    rates[at].push(self.measure(dir, groups.as_ref(), threads)?);
                }
            }
            let [ordered, unordered] = rates.map(median);
            let ratio = unordered / ordered;
            println!("{threads:>7} {ordered:>16.0} {unordered:>18.0} {ratio:>7.2}");
        }
        Ok(())
    }

    /// Returns the throughput in keys per second.
    fn measure(&self, dir: &Path, groups: Option<&Groups>, threads: usize) -> Result<f64> {
        let dir = super::directory(Some(dir))?;
        let durability = if self.no_log { Durability::Memory } else { Durability::None };
        let options = Options { durability, flush_bytes: 2 << 30, ..Options::default() };
        let engine = open(dir.path().join("data"), options, plain_entries())?;
        let clock = AtomicU64::new(2);
        let barrier = Barrier::new(threads);
        let millis = Duration::from_millis(self.millis);
        let results: Vec<Result<f64>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads as u64)
                .map(|thread| {
                    let (engine, clock, barrier) = (&engine, &clock, &barrier);
                    scope.spawn(move || {
                        let mut rng = SeededRng::new(thread);
                        let value = noise(&mut rng, VALUE_BYTES);
                        barrier.wait();
                        let began = SystemClock.now();
                        let mut appends = 0_u64;
                        while SystemClock.now().since(began) < millis {
                            put(engine, groups, clock, &mut rng, &value)?;
                            appends += 1;
                        }
                        let spent = SystemClock.now().since(began).as_secs_f64();
                        Ok::<_, Error>((appends * PUTS) as f64 / spent)
                    })
                })
                .collect();
            let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
            joined.map(|result| result.expect("no thread of a measurement panics")).collect()
        });
        results.into_iter().sum()
    }
}

fn put(
    engine: &Engine,
    groups: Option<&Groups>,
    clock: &AtomicU64,
    rng: &mut SeededRng,
    value: &[u8],
) -> Result<()> {
    let keys: Vec<CellKey> =
        (0..PUTS).map(|_| CellKey::new(TABLE, &PartitionKey::new(noise(rng, 16)), "")).collect();
    let puts = keys.iter().map(|key| Mutation::put_or_delete(key, Some(value)));
    let start = time(clock.load(Ordering::Relaxed));
    let prepared = engine.prepare(start, puts)?;
    block_on(engine.ready(prepared.bytes()))?;
    let _turn = groups.map(Groups::enter);
    let commit = || Ok::<_, Error>(time(clock.fetch_add(1, Ordering::Relaxed) + 1));
    block_on(engine.append(prepared, commit)?).map(drop)
}
