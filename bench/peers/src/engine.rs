//! Interface of all engines: a trait object, with the same cost of one indirect call per operation
//! for each.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::data::{Key, Row, Seen, Value};

/// The engines, in the order of the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub(crate) enum Kind {
    /// Carnet through its public API: strictly serializable transactions on a typed table (hashed)
    /// or an ordered one (raw).
    Carnet,
    /// Like `carnet`, but with snapshot isolation.
    CarnetSnapshot,
    /// Carnet's storage engine without the transaction layer.
    CarnetEngine,
    /// RocksDB, batches, default settings.
    #[cfg(feature = "rocksdb")]
    Rocksdb,
    /// RocksDB with unordered writes: batches are atomic, snapshots are not.
    #[cfg(feature = "rocksdb")]
    RocksdbUnordered,
    /// RocksDB's fastest transactional setting: WritePrepared, two write queues, unordered
    /// writes, no concurrency control.
    #[cfg(feature = "rocksdb")]
    RocksdbPreparedUnordered,
    /// RocksDB's pessimistic transactions with row locks, default settings.
    #[cfg(feature = "rocksdb")]
    RocksdbCommitted,
    /// RocksDB's optimistic transactions.
    #[cfg(feature = "rocksdb")]
    RocksdbOptimistic,
    /// fjall, with batches.
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

    /// Returns `true` if the engine supports both key layouts of [`Shape`].
    pub(crate) const fn has_shapes(self) -> bool {
        matches!(self, Self::Carnet | Self::CarnetSnapshot | Self::CarnetEngine)
    }

    /// Lists the default engines of blind writes, reads and scans. Each omitted engine reads and
    /// writes like a listed one.
    pub(crate) fn all() -> Vec<Self> {
        let all = Self::value_variants().iter().copied();
        all.filter(|kind| !kind.is_like_another()).collect()
    }

    const fn is_like_another(self) -> bool {
        match self {
            Self::CarnetSnapshot => true,
            #[cfg(feature = "rocksdb")]
            Self::RocksdbOptimistic => true,
            _ => false,
        }
    }

    /// Lists the engines whose transactions detect conflicts with concurrent writes.
    pub(crate) fn transactional() -> Vec<Self> {
        [
            Self::Carnet,
            Self::CarnetSnapshot,
            #[cfg(feature = "rocksdb")]
            Self::RocksdbOptimistic,
            #[cfg(feature = "rocksdb")]
            Self::RocksdbCommitted,
            #[cfg(feature = "rocksdb")]
            Self::RocksdbPreparedUnordered,
            Self::FjallOptimistic,
            Self::Surrealkv,
            Self::Redb,
            Self::Lmdb,
        ]
        .to_vec()
    }
}

/// Durability of an acknowledged commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Durability {
    /// The log is written but not synced; an engine without a log keeps the commit in memory.
    None,
    /// The commit is synced before its acknowledgement.
    Always,
}

/// Layout of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Shape {
    /// Carnet: one partition per key.
    Hashed,
    /// Carnet: all keys in one ordered partition.
    Raw,
    /// The only layout of the peers.
    #[value(skip)]
    Ordered,
}

/// Compression of blocks in sorted files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Compression {
    /// Blocks are not compressed.
    None,
    /// LZ4, in engines that support it.
    Lz4,
}

/// Settings to open an engine with. `settings.rs` maps them to each engine's options.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) dir: PathBuf,
    pub(crate) durability: Durability,
    pub(crate) shape: Shape,
    pub(crate) compression: Compression,
    /// Size in bytes at which a memtable is flushed.
    pub(crate) memtable_bytes: usize,
    /// Size of the cache for blocks, index and filters, in engines with their own cache.
    pub(crate) cache_bytes: usize,
    /// Whether the cache is far smaller than the data; index and filters then count towards it too.
    pub(crate) cache_binds: bool,
    /// Whether transactions need conflict detection, because they read rows that they write.
    /// Otherwise engines for which it is optional run without it.
    pub(crate) checks_conflicts: bool,
}

/// Direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Direction {
    /// Ascending from a key.
    Forward,
    /// Descending from a key.
    Reversed,
}

/// An open database.
pub(crate) trait Store: Send + Sync {
    /// Creates the handle of one thread.
    fn session(&self) -> Result<Box<dyn Session + '_>>;

    /// Flushes all writes to sorted files and compacts them, if the engine has such files.
    fn settle(&self) -> Result<()>;
}

/// One thread's handle of a [`Store`].
pub(crate) trait Session {
    /// Writes rows in one transaction or batch. On return they are visible, and as durable as the
    /// setup requires.
    fn write(&mut self, rows: &[Row]) -> Result<()>;

    /// Runs one transaction: reads a row, computes a value from it, puts the value, commits. The
    /// transaction aborts if the row it read has changed before its commit.
    fn update(&mut self, _keys: ReadAndPut<'_>, _change: &mut Change<'_>) -> Result<Outcome> {
        bail!("opened like this it has no transactions that find conflicts")
    }

    /// Reads one row by the engine's API for single reads.
    fn get(&mut self, key: &Key, seen: &mut Seen) -> Result<()>;

    /// Calls `reads` with one snapshot of the database.
    fn snapshot(&mut self, reads: &mut Reads<'_>) -> Result<()>;
}

/// Keys of a transaction, possibly the same.
#[derive(Clone, Copy)]
pub(crate) struct ReadAndPut<'a> {
    pub(crate) read: &'a Key,
    pub(crate) put: &'a Key,
}

/// Computes the new value from the value that was read.
pub(crate) type Change<'a> = dyn FnMut(Option<&[u8]>) -> Value + 'a;

/// Outcome of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The transaction is visible.
    Committed,
    /// The transaction conflicted: nothing was written, and a retry may succeed.
    Aborted,
}

/// Reads within one snapshot.
pub(crate) type Reads<'a> = dyn FnMut(&mut dyn Snapshot) -> Result<()> + 'a;

/// A snapshot of a database.
pub(crate) trait Snapshot {
    /// Reads one row.
    fn get(&mut self, key: &Key, seen: &mut Seen) -> Result<()>;

    /// Reads up to `rows` rows: forward from the first key at or above `from`, or reversed from the
    /// last key at or below it.
    fn scan(
        &mut self,
        from: &Key,
        direction: Direction,
        rows: usize,
        seen: &mut Seen,
    ) -> Result<()>;
}
