//! Size of a commit table written in order through the engine: bytes per entry on disk, and memory
//! of filters and indexes, under the two encodings of AtlasDB's decision record.
//!
//! Each transaction is a separate append, and its entry becomes a row when the memtable is flushed,
//! as in a database. Starts and commits come from one clock. The rows of the transactions
//! themselves are deletions of a single cell in another table, so that almost only entries are
//! counted.

use std::path::Path;
use std::sync::Arc;

use carnet_base::commit_encoding::{CommitEntry, v1, v2};
use carnet_base::{CellKey, PartitionKey, Result, Rng, SeededRng, TableId};
use carnet_storage::disk::{Disk, RealDisk};
use carnet_storage::sstable::cache::Cache;
use carnet_storage::sstable::{Table, describe, number_in};
use carnet_storage::{
    Compression, Durability, EntryCell, Mutation, Options, TableOptions, TableOptionsOf,
};
use clap::Args;

use super::{COMMITS, TABLE, append, open, time};

/// Number of concurrent transactions; the next one to commit is random.
const UNDER_WAY: u64 = 64;

/// Settings of the program.
#[derive(Args)]
pub(crate) struct CommitTable {
    /// Number of transactions.
    #[arg(long, default_value_t = 10_000_000)]
    entries: u64,
}

#[derive(Clone, Copy, Debug)]
enum Layout {
    V1,
    V2,
}

impl CommitTable {
    pub(crate) fn run(&self, dir: &Path) -> Result<()> {
        println!(
            "{:<8} {:>16} {:>14} {:>14} {:>14}",
            "encoding", "bytes an entry", "filters", "index pages", "kept in memory"
        );
        for layout in [Layout::V1, Layout::V2] {
            let dir = dir.join(format!("{layout:?}"));
            self.write(&dir, layout)?;
            let sizes = Sizes::read(&dir)?;
            println!(
                "{:<8} {:>16.2} {:>14} {:>14} {:>14}",
                format!("{layout:?}"),
                sizes.bytes as f64 / self.entries as f64,
                sizes.filters,
                sizes.index_pages,
                sizes.memory,
            );
        }
        Ok(())
    }

    fn write(&self, dir: &Path, layout: Layout) -> Result<()> {
        let options = Options {
            durability: Durability::None,
            table_options: TableOptionsOf(Arc::new(move |table| layout.options(table))),
            ..Options::default()
        };
        let engine = open(dir.to_owned(), options, layout.entries())?;
        let only = CellKey::new(TABLE, &PartitionKey::new(&b"any"[..]), "");
        let mut rng = SeededRng::new(1);
        let mut under_way: Vec<u64> = (1..=UNDER_WAY).collect();
        for n in 0..self.entries {
            // One open transaction commits, and another begins.
            let (commit, next) = (time(UNDER_WAY + 2 * n + 1), UNDER_WAY + 2 * n + 2);
            let any = usize::try_from(rng.below(UNDER_WAY)).unwrap_or(0);
            let start = time(std::mem::replace(&mut under_way[any], next));
            let delete = std::iter::once(Mutation::put_or_delete(&only, None));
            append(&engine, start, &delete, || commit)?;
        }
        engine.flush()?;
        engine.compact()?;
        engine.close()
    }
}

impl Layout {
    fn entries(self) -> EntryCell {
        Arc::new(move |start, commit| {
            let entry = CommitEntry::Committed(commit);
            let (cell, value) = match self {
                Self::V1 => (v1::cell(start), v1::encode(start, entry)),
                Self::V2 => (v2::cell(start), v2::encode(start, entry)),
            };
            let partition = PartitionKey::new(cell.row);
            Ok((CellKey::new(COMMITS, &partition, cell.column), value?))
        })
    }

    /// Options of the decision record: chunks of 64 KiB; for the second encoding few false
    /// positives, because there are almost no partitions. The options of the first encoding gave
    /// its 580 MB for 10⁹ entries: a false-positive chance of a tenth, 4.8 bits per entry.
    fn options(self, table: TableId) -> TableOptions {
        if table != COMMITS {
            return TableOptions::default();
        }
        TableOptions {
            block_bytes: 64 << 10,
            compression: Compression::Zstd(1),
            bloom_fp_chance: match self {
                Self::V1 => 0.1,
                Self::V2 => 0.0001,
            },
            ..TableOptions::default()
        }
    }
}

#[derive(Default)]
struct Sizes {
    bytes: u64,
    filters: u64,
    index_pages: u64,
    memory: u64,
}

impl Sizes {
    /// Sums up the tables in a directory.
    fn read(dir: &Path) -> Result<Self> {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(dir)?);
        let cache = Cache::new(0);
        let names = disk.list().map_err(|error| {
            carnet_base::Error::unavailable("cannot list the directory").with_source(error)
        })?;
        let mut sizes = Self::default();
        for name in names {
            let Some(number) = number_in(&name) else { continue };
            let len = std::fs::metadata(dir.join(&name)).map_err(|error| {
                carnet_base::Error::unavailable("cannot tell a file's length").with_source(error)
            })?;
            let table = Table::open(Arc::clone(&disk), number, len.len(), Arc::clone(&cache))?;
            let description = describe(&table)?;
            sizes.bytes += description.bytes;
            sizes.filters += description.filter_bytes;
            sizes.index_pages += description.index_bytes - description.filter_bytes;
            sizes.memory += description.memory_bytes as u64;
        }
        Ok(sizes)
    }
}
