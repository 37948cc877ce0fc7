//! Tables: build rate, memory of large rows, point reads, scans.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use carnet_base::{Bytes, PartitionKey, Result, Rng, SeededRng, Timestamp, block_on};
use carnet_storage::disk::{Disk, RealDisk};
use carnet_storage::sstable::cache::Cache;
use carnet_storage::sstable::{
    Builder, Built, Compression, EntryRef, ReadOptions, Table, TableCursor, TableOptions, Walk,
    describe,
};
use clap::{Args, ValueEnum};

use super::time;

type Entry = (Bytes, u64, u64, Bytes);

/// Measure the builder, reads and scans of one table, and the memory of a table with large rows.
#[derive(Args)]
pub(crate) struct Tables {
    /// The parts to measure; all of them by default.
    #[arg(value_enum)]
    parts: Vec<Part>,
    /// Number of rows; each part has a default.
    #[arg(long)]
    rows: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Speed of the builder.
    Build,
    /// Point reads and scans in cache.
    Reads,
    /// Memory of a table with rows of 1 KiB.
    Large,
}

impl Tables {
    pub(crate) fn run(&self, dir: &Path) -> Result<()> {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(dir.join("data"))?);
        let parts = if self.parts.is_empty() { Part::value_variants() } else { &self.parts };
        let rows = |default| self.rows.unwrap_or(default);
        parts.iter().try_for_each(|part| match part {
            Part::Build => build_rates(&disk, rows(500_000)),
            Part::Reads => reads(&disk, rows(2_000_000)),
            Part::Large => large_rows(&disk, rows(200_000)),
        })
    }
}

/// Returns the CPU time of this thread in nanoseconds, which excludes most effects of other
/// processes.
fn ran_ns() -> f64 {
    let line = std::fs::read_to_string("/proc/thread-self/schedstat").expect("this is Linux");
    line.split(' ').next().and_then(|first| first.parse().ok()).expect("a number comes first")
}

fn flat(table: u32, partition: &[u8], clustering: &[u8]) -> Vec<u8> {
    let partition = PartitionKey::new(Bytes::copy_from_slice(partition));
    let token = partition.token().0.cast_unsigned() ^ (1 << 63);
    let partition = partition.bytes();
    let len = u16::try_from(partition.len()).expect("a short key");
    [&table.to_be_bytes()[..], &token.to_be_bytes(), &len.to_be_bytes(), partition, clustering]
        .concat()
}

fn build(
    disk: &Arc<dyn Disk>,
    number: u64,
    entries: &[Entry],
    options: TableOptions,
) -> Result<Built> {
    let mut builder = Builder::begin(Arc::clone(disk), number, move |_| options)?;
    for (key, start, commit, payload) in entries {
        let (start, commit) = (time(*start), time(*commit));
        builder.push(&EntryRef { key, commit, start, expiry: None, payload: Some(payload) })?;
    }
    Ok(builder.finish()?.expect("there are entries"))
}

/// Makes rows of 16-byte keys and 100-byte values: in separate partitions, or all in one.
fn rows(count: u64, hashed: bool) -> Vec<Entry> {
    let mut rng = SeededRng::new(2);
    let mut rows: Vec<Entry> = (0..count)
        .map(|n| {
            let key: Vec<u8> =
                [rng.next_u64().to_be_bytes(), rng.next_u64().to_be_bytes()].concat();
            let key = if hashed { flat(1, &key, b"") } else { flat(1, b"", &key) };
            // Half of a value is compressible.
            let mut value = vec![b'v'; 100];
            for at in (0..56).step_by(8) {
                value[at..at + 8].copy_from_slice(&rng.next_u64().to_le_bytes());
            }
            (key.into(), 2 * n + 1, 2 * n + 2, value.into())
        })
        .collect();
    rows.sort_unstable();
    packed(&rows)
}

/// Makes entries contiguous, so that the builder is measured and not access to their memory.
fn packed(rows: &[Entry]) -> Vec<Entry> {
    let all = rows.iter().flat_map(|(key, .., value)| [&key[..], value]).collect::<Vec<_>>();
    let mut all = Bytes::from(all.concat());
    rows.iter()
        .map(|(key, start, commit, value)| {
            (all.split_to(key.len()), *start, *commit, all.split_to(value.len()))
        })
        .collect()
}

fn build_rates(disk: &Arc<dyn Disk>, count: u64) -> Result<()> {
    let rows = rows(count, true);
    let raw: usize = rows.iter().map(|(key, .., value)| key.len() + value.len()).sum();
    println!("build, {} rows of 130 bytes, one partition each:", rows.len());
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd(1)] {
        let options = TableOptions { compression, ..TableOptions::default() };
        let mut best = f64::MAX;
        let mut bytes = 0;
        for _ in 0..5 {
            let began = ran_ns();
            bytes = build(disk, 2, &rows, options)?.bytes;
            best = best.min((ran_ns() - began) / 1e9);
        }
        println!(
            "  {compression:?}: {:.0} MB/s, {:.0} ns a row, {:.2} of the raw bytes stored",
            raw as f64 / best / 1e6,
            best * 1e9 / rows.len() as f64,
            bytes as f64 / raw as f64
        );
    }
    Ok(())
}

/// Measures the memory of a table with rows of 1 KiB.
fn large_rows(disk: &Arc<dyn Disk>, count: u64) -> Result<()> {
    let rows = rows(count, true);
    let value = vec![b'v'; 1024];
    let options = TableOptions { compression: Compression::None, ..TableOptions::default() };
    let mut builder = Builder::begin(Arc::clone(disk), 4, move |_| options)?;
    for (key, start, commit, _) in &rows {
        let (start, commit) = (time(*start), time(*commit));
        builder.push(&EntryRef { key, commit, start, expiry: None, payload: Some(&value) })?;
    }
    let built = builder.finish()?.expect("there are rows");
    let table = Table::open(Arc::clone(disk), 4, built.bytes, Cache::new(0))?;
    let description = describe(&table)?;
    println!(
        "{} rows of 1 KiB, {} MB: {} blocks, {} index pages of {} KB with {} KB of filters, \
         resident {} bytes: {:.0} KB for 10 GB",
        rows.len(),
        built.bytes / 1_000_000,
        description.blocks,
        description.pages.len(),
        description.index_bytes / 1000,
        description.filter_bytes / 1000,
        description.memory_bytes,
        description.memory_bytes as f64 * 1e7 / built.bytes as f64,
    );
    Ok(())
}

fn reads(disk: &Arc<dyn Disk>, count: u64) -> Result<()> {
    for hashed in [true, false] {
        let rows = rows(count, hashed);
        let built = build(disk, 3, &rows, TableOptions::default())?;
        let cache = Cache::new(2 << 30);
        let table = Arc::new(Table::open(Arc::clone(disk), 3, built.bytes, Arc::clone(&cache))?);
        println!(
            "{count} {}:",
            if hashed { "rows with a partition each" } else { "rows in one partition" }
        );
        let began = ran_ns();
        let mut cursor = TableCursor::new(Arc::clone(&table), whole(false));
        block_on(cursor.advance())?;
        while cursor.peek_key().is_some() {
            block_on(cursor.advance())?;
        }
        println!(
            "  cold full scan: {:.0} ns a row, cache then {} MiB, resident {} KiB",
            (ran_ns() - began) / rows.len() as f64,
            cache.bytes() >> 20,
            table.memory_bytes() >> 10
        );
        gets(&table, &rows);
        scans(&table, &rows);
    }
    Ok(())
}

fn whole(reverse: bool) -> Walk {
    Walk { read: Timestamp::MAX, reverse, ..Walk::default() }
}

fn gets(table: &Table, rows: &[Entry]) {
    for (name, absent) in [("present", false), ("absent", true)] {
        let mut rng = SeededRng::new(3);
        let mut keys: Vec<Vec<u8>> = Vec::new();
        for _ in 0..1_000_000 {
            let at = usize::try_from(rng.below(rows.len() as u64)).expect("an index");
            let mut key = rows[at].0.to_vec();
            if absent {
                *key.last_mut().expect("no key is empty") ^= 1;
            }
            keys.push(key);
        }
        let mut best = f64::MAX;
        for _ in 0..5 {
            let began = ran_ns();
            for key in &keys {
                let _ = black_box(table.get_cached(key, Timestamp::MAX, ReadOptions::default()));
            }
            best = best.min((ran_ns() - began) / 1e9);
        }
        println!("  get, in cache, {name}: {:.0} ns", best * 1e9 / keys.len() as f64);
    }
}

fn scans(table: &Arc<Table>, rows: &[Entry]) {
    let mut figures = [f64::MAX; 2];
    for _ in 0..5 {
        for (at, reverse) in [false, true].into_iter().enumerate() {
            let mut rng = SeededRng::new(4);
            let began = ran_ns();
            let scans = 20_000;
            for _ in 0..scans {
                let from =
                    100 + usize::try_from(rng.below(rows.len() as u64 - 200)).expect("an index");
                let key = rows[from].0.clone();
                let walk = if reverse {
                    Walk { upper: Some(key), ..whole(true) }
                } else {
                    Walk { lower: key, ..whole(false) }
                };
                let mut cursor = TableCursor::new(Arc::clone(table), walk);
                for _ in 0..100 {
                    assert!(cursor.try_advance());
                    black_box((cursor.peek_key(), cursor.version()));
                }
            }
            let each = ((ran_ns() - began) / 1e9) * 1e9 / f64::from(scans) / 100.0;
            figures[at] = figures[at].min(each);
        }
    }
    println!(
        "  scans of 100 rows, in cache: {:.1} ns a row, reversed {:.1}",
        figures[0], figures[1]
    );
}
