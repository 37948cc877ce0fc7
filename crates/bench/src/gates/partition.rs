//! A wide partition: disk reads per point read, and the cost of a page.
//!
//! The engine counts the reads, after it is reopened with a cache of a tenth of the data. *Cold*:
//! the first read in a region of the partition. *Hot*: reads after the partition was scanned once,
//! page by page. *Pages* are timed from the device: before each, the tables are dropped from the
//! operating system's page cache, because otherwise a partition of 10 MB would be read from memory
//! and a larger one would not.

use std::ops::Bound;
use std::path::Path;
use std::time::Duration;

use carnet_base::{
    Bytes, CellKey, Clock, KeyRange, PartitionKey, Result, Rng, SeededRng, SystemClock, block_on,
};
use carnet_storage::{Durability, Engine, Mutation, Options, PageLimit};
use clap::Args;

use super::files::Files;
use super::{TABLE, append, median, noise, open, plain_entries, processor_time, time};

/// Size of a value in bytes.
const VALUE_BYTES: usize = 1024;
/// Number of rows per append.
const BATCH: u64 = 64;
/// Number of rows per page.
const PAGE_ROWS: u64 = 100;
/// A number of rows smaller than an index page covers.
const INDEX_ROWS: u64 = 64;

/// Settings of the program.
#[derive(Args)]
pub(crate) struct Partition {
    /// Numbers of rows of 1 KiB: 10,000 are 10 MB, 10,000,000 are 10 GB.
    #[arg(long, value_delimiter = ',', default_values_t = [10_000, 1_000_000])]
    #[arg(value_parser = clap::value_parser!(u64).range(1_000..))]
    rows: Vec<u64>,
    /// Number of counted point reads of each kind.
    #[arg(long, default_value_t = 2_000)]
    gets: u64,
    /// Number of timed pages per direction and pass.
    #[arg(long, default_value_t = 500)]
    pages: u64,
    /// Number of passes; medians are printed.
    #[arg(long, default_value_t = 5)]
    passes: usize,
}

impl Partition {
    pub(crate) fn run(&self, dir: &Path) -> Result<()> {
        for &rows in &self.rows {
            let wide = Wide::make(&dir.join(rows.to_string()), rows)?;
            let counted = wide.count(self.gets)?;
            println!("{rows} rows, {} MB:", rows * VALUE_BYTES as u64 / 1_000_000);
            println!("  reads by a cold get: {}", shares(&counted.cold));
            println!("  reads by a hot get:  {}", shares(&counted.hot));
            wide.time_pages(self.pages, self.passes)?;
        }
        Ok(())
    }
}

/// Numbers of gets with 0, 1, 2, … disk reads.
#[derive(Debug, Default)]
struct Counted {
    cold: Vec<u64>,
    hot: Vec<u64>,
}

fn shares(counts: &[u64]) -> String {
    let each = counts.iter().enumerate().filter(|(_, gets)| **gets > 0);
    let each: Vec<String> = each.map(|(reads, gets)| format!("{reads} in {gets} gets")).collect();
    each.join(", ")
}

/// Costs of a page, one figure per pass: microseconds, microseconds of processor time, block reads,
/// and blocks read along with others.
#[derive(Debug, Default)]
struct Pages([Vec<f64>; 4]);

impl Pages {
    fn add(&mut self, spent: [Duration; 2], read: [u64; 2], pages: u64) {
        let [micros, processor] = spent.map(|spent| spent.as_secs_f64() * 1e6);
        let [reads, brought] = read.map(|count| count as f64);
        for (figures, sum) in self.0.iter_mut().zip([micros, processor, reads, brought]) {
            figures.push(sum / pages as f64);
        }
    }

    fn medians(self) -> [f64; 4] {
        self.0.map(median)
    }
}

/// A partition, reopened after it was written.
struct Wide {
    engine: Engine,
    files: Files,
    rows: u64,
}

fn partition() -> PartitionKey {
    PartitionKey::new(&b"wide"[..])
}

fn cell(row: u64) -> CellKey {
    CellKey::new(TABLE, &partition(), row.to_be_bytes())
}

impl Wide {
    fn make(dir: &Path, rows: u64) -> Result<Self> {
        let data_bytes = usize::try_from(rows).unwrap_or(usize::MAX).saturating_mul(VALUE_BYTES);
        let options = Options {
            durability: Durability::None,
            flush_bytes: (data_bytes / 16).clamp(1 << 20, 64 << 20),
            cache_bytes: data_bytes / 10,
            ..Options::default()
        };
        let engine = open(dir.to_owned(), options.clone(), plain_entries())?;
        let mut rng = SeededRng::new(rows);
        for first in (0..rows).step_by(usize::try_from(BATCH).unwrap_or(1)) {
            let cells: Vec<(CellKey, Vec<u8>)> = (first..rows.min(first + BATCH))
                .map(|row| (cell(row), noise(&mut rng, VALUE_BYTES)))
                .collect();
            let puts = cells.iter().map(|(key, value)| Mutation::put_or_delete(key, Some(value)));
            append(&engine, time(2 * first + 1), &puts, || time(2 * first + 2))?;
        }
        engine.flush()?;
        engine.compact()?;
        engine.close()?;
        let files = Files::open(dir)?;
        Ok(Self { engine: open(dir.to_owned(), options, plain_entries())?, files, rows })
    }

    fn count(&self, gets: u64) -> Result<Counted> {
        let mut counted = Counted::default();
        let mut rng = SeededRng::new(1);
        let stretch = (self.rows / gets).max(2 * INDEX_ROWS);
        for first in (0..self.rows.saturating_sub(stretch)).step_by(2 * usize_of(stretch)) {
            add(&mut counted.cold, self.get(first + rng.below(stretch))?);
        }
        for first in (0..self.rows).step_by(usize_of(PAGE_ROWS)) {
            self.page(first.min(self.rows - PAGE_ROWS), false)?;
        }
        for _ in 0..gets {
            add(&mut counted.hot, self.get(rng.below(self.rows))?);
        }
        Ok(counted)
    }

    /// Reads a row; returns the number of disk reads.
    fn get(&self, row: u64) -> Result<usize> {
        let reads = || {
            let metrics = self.engine.metrics();
            usize_of(metrics.index_reads + metrics.block_reads)
        };
        let before = reads();
        let found = block_on(self.engine.get(&cell(row), self.engine.published()))?;
        let len = found.and_then(|version| version.payload).map(|payload| payload.len());
        assert_eq!(len, Some(VALUE_BYTES), "row {row} is there");
        Ok(reads() - before)
    }

    /// Times pages at random positions, in alternating directions and at separate positions for
    /// each direction, so that pages cached by one do not help the other.
    fn time_pages(&self, pages: u64, passes: usize) -> Result<()> {
        let mut taken = [Pages::default(), Pages::default()];
        let mut rng = SeededRng::new(2);
        for pass in 0..passes.max(1) {
            for way in [pass % 2, 1 - pass % 2] {
                let before = self.read();
                let mut spent = [Duration::ZERO; 2];
                for _ in 0..pages {
                    let at = PAGE_ROWS + rng.below(self.rows - 2 * PAGE_ROWS);
                    self.files.leave_memory()?;
                    let now = || (SystemClock.now(), processor_time());
                    let began = now();
                    self.page(at, way == 1)?;
                    let ended = now();
                    spent[0] += ended.0.since(began.0);
                    spent[1] += ended.1.saturating_sub(began.1);
                }
                let after = self.read();
                taken[way].add(spent, [after.0 - before.0, after.1 - before.1], pages);
            }
        }
        let [forward, reversed] = taken.map(Pages::medians);
        for (direction, [micros, processor, reads, brought]) in
            [("ascending", forward), ("descending", reversed)]
        {
            println!(
                "  a page of {PAGE_ROWS} rows {direction}: {micros:.0} µs, {processor:.0} of the processor; \
                 {reads:.1} reads of blocks, {brought:.1} blocks more that they brought"
            );
        }
        println!("    descending {:.2} times as long", reversed[0] / forward[0]);
        Ok(())
    }

    /// Returns the total block reads, and the blocks read along with others.
    fn read(&self) -> (u64, u64) {
        let metrics = self.engine.metrics();
        (metrics.block_reads, metrics.block_reads_ahead)
    }

    /// Reads the page that begins at a row, or ends before it if reversed; returns its bytes.
    fn page(&self, at: u64, reverse: bool) -> Result<usize> {
        let bound = Bytes::copy_from_slice(&at.to_be_bytes());
        let (lower, upper) = match reverse {
            true => (Bound::Unbounded, Bound::Excluded(bound)),
            false => (Bound::Included(bound), Bound::Unbounded),
        };
        let range = KeyRange::clustering(TABLE, &partition(), lower, upper);
        let limit = PageLimit { cells: usize_of(PAGE_ROWS), bytes: 1 << 20 };
        let page = block_on(self.engine.range(&range, self.engine.published(), reverse, limit))?;
        assert_eq!(page.cells.len() as u64, PAGE_ROWS, "a page is full");
        Ok(page.cells.iter().map(|cell| cell.payload.len()).sum())
    }
}

fn add(counts: &mut Vec<u64>, reads: usize) {
    counts.resize(counts.len().max(reads + 1), 0);
    counts[reads] += 1;
}

fn usize_of(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small variant of the promise, with a cache of a tenth of the data: at most three disk reads
    /// if all is cold, one if the index is cached.
    #[test]
    fn gets_in_a_wide_partition_read_the_disk_seldom() {
        let dir = super::super::directory(None).unwrap();
        let wide = Wide::make(&dir.path().join("data"), 30_000).unwrap();
        let Counted { cold, hot } = wide.count(300).unwrap();
        assert!(cold.iter().sum::<u64>() > 50, "{cold:?}");
        assert!(cold.len() <= 4 && cold[2..].iter().sum::<u64>() > 0, "{cold:?}");
        assert!(hot.len() <= 2 && hot[1] > 100, "{hot:?}");
        for reverse in [false, true] {
            assert_eq!(wide.page(1_000, reverse).unwrap(), usize_of(PAGE_ROWS) * VALUE_BYTES);
        }
    }
}
