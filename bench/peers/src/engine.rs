//! What every engine is driven through: one trait object, at the cost of one indirect call an
//! operation, for all alike.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::data::{Key, Row, Seen, Value};

/// The engines, in the order in which they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub(crate) enum Kind {
    /// Carnet through its façade: strictly serializable transactions on a typed table (hashed) or
    /// an ordered one (raw).
    Carnet,
    /// As `carnet`, at snapshot isolation.
    CarnetSnapshot,
    /// Carnet's storage engine without transactions above it.
    CarnetEngine,
    /// RocksDB, batches, as it comes.
    Rocksdb,
    /// RocksDB with unordered writes: batches are atomic, snapshots are not.
    RocksdbUnordered,
    /// RocksDB's fastest transactional setting: WritePrepared, two write queues, unordered
    /// writes, no concurrency control.
    RocksdbPreparedUnordered,
    /// RocksDB's pessimistic transactions with row locks, as they come.
    RocksdbCommitted,
    /// RocksDB's optimistic transactions.
    RocksdbOptimistic,
    /// fjall, batches.
    Fjall,
    /// fjall, optimistic transactions.
    FjallOptimistic,
    /// SurrealKV, optimistic transactions.
    Surrealkv,
    /// redb, one writer.
    Redb,
    /// LMDB, one writer.
    Lmdb,
}

impl Kind {
    /// Returns the name used on the command line and in results.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Tells whether the engine lays keys out in the two ways that [`Shape`] names.
    pub(crate) const fn has_shapes(self) -> bool {
        matches!(self, Self::Carnet | Self::CarnetSnapshot | Self::CarnetEngine)
    }

    /// Lists those that blind writes, reads and scans are measured of unless others are asked for:
    /// what there is beside them reads and writes as one of them does.
    pub(crate) fn all() -> Vec<Self> {
        let all = Self::value_variants().iter().copied();
        all.filter(|kind| !matches!(kind, Self::CarnetSnapshot | Self::RocksdbOptimistic)).collect()
    }

    /// Lists those whose transactions find out what others wrote that they read.
    pub(crate) fn transactional() -> Vec<Self> {
        vec![
            Self::Carnet,
            Self::CarnetSnapshot,
            Self::RocksdbOptimistic,
            Self::RocksdbCommitted,
            Self::RocksdbPreparedUnordered,
            Self::FjallOptimistic,
            Self::Surrealkv,
            Self::Redb,
            Self::Lmdb,
        ]
    }
}

/// What an acknowledgement promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Durability {
    /// The log is written, not synced; an engine without a log keeps the commit in memory.
    None,
    /// The commit is synced before its acknowledgement.
    Always,
}

/// How keys are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Shape {
    /// Carnet: a partition for each key.
    Hashed,
    /// Carnet: all keys in one ordered partition.
    Raw,
    /// The peers' only one.
    #[value(skip)]
    Ordered,
}

/// Whether blocks of sorted files are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Compression {
    /// They are not.
    None,
    /// By LZ4, in the engines that have it.
    Lz4,
}

/// Everything that an engine is opened with. `settings.rs` turns it into each engine's options.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) dir: PathBuf,
    pub(crate) durability: Durability,
    pub(crate) shape: Shape,
    pub(crate) compression: Compression,
    /// A memtable of about this many bytes is flushed.
    pub(crate) memtable_bytes: usize,
    /// For blocks, index and filters, in engines with a cache of their own.
    pub(crate) cache_bytes: usize,
    /// The cache is far smaller than the data: index and filters count towards it, too.
    pub(crate) cache_binds: bool,
    /// Transactions read what they write, so conflicts have to be found: an engine that can do
    /// without finding them does not.
    pub(crate) checks_conflicts: bool,
}

/// Which way a scan goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Direction {
    /// From a key up.
    Forward,
    /// From a key down.
    Reversed,
}

/// An open database.
pub(crate) trait Store: Send + Sync {
    /// Makes what one thread works with.
    fn session(&self) -> Result<Box<dyn Session + '_>>;

    /// Brings everything written so far to sorted files and compacts these, where the engine has
    /// such things.
    fn settle(&self) -> Result<()>;
}

/// One thread's handle of a [`Store`].
pub(crate) trait Session {
    /// Writes rows in one transaction or batch; they are visible, and as durable as the setup
    /// asks, when it returns.
    fn write(&mut self, rows: &[Row]) -> Result<()>;

    /// Runs one transaction: reads a row, makes a value of what it found, puts it, commits. What it
    /// read holds until its commit, or it is aborted.
    fn update(&mut self, _keys: ReadAndPut<'_>, _change: &mut Change<'_>) -> Result<Outcome> {
        bail!("opened like this it has no transactions that find conflicts")
    }

    /// Reads one row in the way that the engine has for a single read.
    fn get(&mut self, key: &Key, seen: &mut Seen) -> Result<()>;

    /// Calls `reads` with one view of the database.
    fn snapshot(&mut self, reads: &mut Reads<'_>) -> Result<()>;
}

/// The keys of a transaction: maybe the same.
#[derive(Clone, Copy)]
pub(crate) struct ReadAndPut<'a> {
    pub(crate) read: &'a Key,
    pub(crate) put: &'a Key,
}

/// Makes the value that is put of the one that was read.
pub(crate) type Change<'a> = dyn FnMut(Option<&[u8]>) -> Value + 'a;

/// What became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is visible.
    Committed,
    /// Another one was in its way: nothing was written, and running it again may help.
    Aborted,
}

/// Reads within one snapshot.
pub(crate) type Reads<'a> = dyn FnMut(&mut dyn Snapshot) -> Result<()> + 'a;

/// One view of a database.
pub(crate) trait Snapshot {
    /// Reads one row.
    fn get(&mut self, key: &Key, seen: &mut Seen) -> Result<()>;

    /// Reads up to `rows` rows: going forward from the first key at or above `from`, or reversed
    /// from the last one below it or at it.
    fn scan(
        &mut self,
        from: &Key,
        direction: Direction,
        rows: usize,
        seen: &mut Seen,
    ) -> Result<()>;
}
