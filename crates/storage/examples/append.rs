//! Measures appends of 8 puts (16 B keys, 100 B values) to the engine: the speed of log, memtable
//! and group commit without transactions.
//!
//! ```text
//! cargo run --release -p carnet-storage --example append -- [DIR] [SECONDS]
//! ```
//!
//! Prints, for each durability and number of threads, thousands of keys per second, the mean number
//! of appends per log write, and the latency of an append in microseconds (median and p99).
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
use carnet_storage::{Durability, Engine, Mutation, Options};

const PUTS: usize = 8;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let base = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let seconds: f64 = arguments.next().map_or(Ok(1.6), |text| text.parse())?;
    println!(
        "{:>10} {:>8} {:>9} {:>7} {:>9} {:>9}",
        "durability", "threads", "k keys/s", "group", "p50 us", "p99 us"
    );
    for durability in [Durability::None, Durability::Always] {
        for threads in [1, 2, 8, 32] {
            let directory = base.join(format!("carnet-append-{}", std::process::id()));
            let measured = run(&directory, durability, threads, Duration::from_secs_f64(seconds));
            std::fs::remove_dir_all(&directory)?;
            println!("{:>10} {threads:>8} {}", format!("{durability:?}"), measured?);
        }
    }
    Ok(())
}

fn run(directory: &Path, durability: Durability, threads: u64, time: Duration) -> Result<String> {
    // The memtable is not flushed during the measurement, like in the peers' runs.
    let options = Options { durability, flush_bytes: 4 << 30, ..Options::default() };
    let disk = Arc::new(RealDisk::open(directory)?);
    let entry = Arc::new(|start: Timestamp, commit: Timestamp| {
        let partition = PartitionKey::new(start.get().to_be_bytes().to_vec());
        let value = commit.get().to_be_bytes().to_vec().into();
        Ok((CellKey::new(TableId(0), &partition, ""), value))
    });
    let engine = Engine::open(disk, Arc::new(SystemClock), &ThreadSpawn, options, entry)?;
    let clock = AtomicU64::new(2);
    let stop = AtomicBool::new(false);
    let times = Mutex::new(Vec::new());
    let began = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (engine, clock, stop, times) = (&engine, &clock, &stop, &times);
            scope.spawn(move || {
                let mut own = Vec::new();
                let mut rng = SeededRng::new(thread);
                while !stop.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    append(engine, clock, &mut rng).expect("the disk takes the measurement");
                    own.push(began.elapsed());
                }
                times.lock().unwrap_or_else(PoisonError::into_inner).extend(own);
            });
        }
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
    });
    let elapsed = began.elapsed().as_secs_f64();
    let mut times = times.into_inner().unwrap_or_else(PoisonError::into_inner);
    times.sort_unstable();
    let at = |share: usize| times[(times.len() - 1) * share / 100].as_secs_f64() * 1e6;
    let metrics = engine.metrics();
    let rate = (times.len() * PUTS) as f64 / elapsed / 1e3;
    let group = metrics.appends as f64 / metrics.log_writes.max(1) as f64;
    Ok(format!("{rate:>9.0} {group:>7.1} {:>9.1} {:>9.1}", at(50), at(99)))
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
    let decide = || {
        let commit = clock.fetch_add(1, Ordering::Relaxed) + 1;
        Ok::<_, carnet_base::Error>(Timestamp::new(commit).expect("a small number"))
    };
    block_on(engine.append(prepared, decide)?)?;
    Ok(())
}
