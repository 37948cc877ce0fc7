//! Measures put-unless-exists, and its effect on other writers.
//!
//! `cargo run --release -p carnet-storage --example conditional [DIRECTORY] [SECONDS]`: batches of
//! 8 plain puts by one thread, alone and concurrently with callers that put 100 entries each; then
//! such callers with a sync before every acknowledgement. Medians of five rounds.
#![expect(clippy::expect_used, clippy::disallowed_methods, reason = "it measures")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use carnet_base::{
    Bytes, CellKey, Error, PartitionKey, Result, Rng, SeededRng, SystemClock, TableId, ThreadSpawn,
    Timestamp, block_on,
};
use carnet_storage::disk::RealDisk;
use carnet_storage::{Durability, Engine, Mutation, Options, PutUnlessExists};

const PUTS: u64 = 8;
const ENTRIES: u64 = 100;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let base = PathBuf::from(arguments.next().unwrap_or_else(|| ".".to_owned()));
    let seconds: f64 = arguments.next().map_or(Ok(0.5), |text| text.parse())?;
    println!(
        "{:>10} {:>7} {:>7} {:>12} {:>12}",
        "durability", "writers", "callers", "puts/s", "entries/s"
    );
    let none = Durability::None;
    let always = Durability::Always;
    for (durability, writers, callers) in
        [(none, 1, 0), (none, 1, 1), (none, 0, 1), (always, 0, 1), (always, 0, 8), (always, 0, 32)]
    {
        let mut rounds = Vec::new();
        for _ in 0..5 {
            let directory = base.join(format!("carnet-conditional-{}", std::process::id()));
            let time = Duration::from_secs_f64(seconds);
            rounds.push(run(&directory, durability, writers, callers, time)?);
            std::fs::remove_dir_all(&directory)?;
        }
        let median = |of: fn(&(u64, u64)) -> u64| {
            let mut all: Vec<u64> = rounds.iter().map(of).collect();
            all.sort_unstable();
            all[all.len() / 2]
        };
        let (puts, entries) = (median(|round| round.0), median(|round| round.1));
        let durability = format!("{durability:?}");
        println!("{durability:>10} {writers:>7} {callers:>7} {puts:>12} {entries:>12}");
    }
    Ok(())
}

/// Returns puts and entries per second.
fn run(
    directory: &Path,
    durability: Durability,
    writers: u64,
    callers: u64,
    time: Duration,
) -> Result<(u64, u64)> {
    let options = Options { durability, flush_bytes: 2 << 30, ..Options::default() };
    let disk = Arc::new(RealDisk::open(directory)?);
    let entry = Arc::new(|start: Timestamp, _| {
        let partition = PartitionKey::new(start.get().to_be_bytes().to_vec());
        Ok((CellKey::new(TableId(0), &partition, ""), Bytes::new()))
    });
    let engine = Engine::open(disk, Arc::new(SystemClock), &ThreadSpawn, options, entry)?;
    let (clock, stop) = (AtomicU64::new(2), AtomicBool::new(false));
    let (puts, entries) = (AtomicU64::new(0), AtomicU64::new(0));
    let began = Instant::now();
    std::thread::scope(|scope| {
        let (engine, clock, stop, puts, entries) = (&engine, &clock, &stop, &puts, &entries);
        for writer in 0..writers {
            scope.spawn(move || {
                let mut rng = SeededRng::new(writer);
                while !stop.load(Ordering::Relaxed) {
                    append(engine, clock, &mut rng).expect("the disk takes the measurement");
                    puts.fetch_add(PUTS, Ordering::Relaxed);
                }
            });
        }
        for caller in 0..callers {
            scope.spawn(move || {
                let mut first = caller << 40;
                while !stop.load(Ordering::Relaxed) {
                    put(engine, clock, first).expect("the disk takes the measurement");
                    first += ENTRIES;
                    entries.fetch_add(ENTRIES, Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
    });
    let millis = u64::try_from(began.elapsed().as_millis()).expect("a short time").max(1);
    Ok((puts.into_inner() * 1000 / millis, entries.into_inner() * 1000 / millis))
}

fn draw(clock: &AtomicU64) -> Timestamp {
    Timestamp::new(clock.fetch_add(1, Ordering::Relaxed) + 1).expect("a small number")
}

fn append(engine: &Engine, clock: &AtomicU64, rng: &mut SeededRng) -> Result<()> {
    let value = [0x5a; 100];
    let mut key = || {
        let key = [rng.next_u64().to_be_bytes(), rng.next_u64().to_be_bytes()].concat();
        CellKey::new(TableId(1), &PartitionKey::new(key), "")
    };
    let keys: Vec<CellKey> = (0..PUTS).map(|_| key()).collect();
    let changes = keys.iter().map(|key| Mutation::put_or_delete(key, Some(&value)));
    let prepared = engine.prepare(Timestamp::new(1).expect("one"), changes)?;
    block_on(engine.append(prepared, || Ok::<_, Error>(draw(clock)))?)?;
    Ok(())
}

fn put(engine: &Engine, clock: &AtomicU64, first: u64) -> Result<()> {
    let entry = |number: u64| {
        let row = PartitionKey::new((number / 1000).to_be_bytes().to_vec());
        (CellKey::new(TableId(2), &row, number.to_be_bytes()), Bytes::from_static(&[1; 8]))
    };
    let entries: Vec<_> = (first..first + ENTRIES).map(entry).collect();
    let start = Timestamp::new(1).expect("one");
    match block_on(engine.put_unless_exists(start, &entries, || Ok::<_, Error>(draw(clock))))? {
        PutUnlessExists::Put(appended) => block_on(appended).map(drop),
        PutUnlessExists::Exists(_) => Err(Error::corrupted("an entry was put twice")),
    }
}
