//! Settings of all engines, side by side, so that readers can judge whether the comparison is fair.
//! No other file but `settings/rocksdb.rs` contains settings.
//!
//! The rules:
//!
//! 1. **The same budgets** for memtables and caches, in engines that have them.
//! 2. **The same durability** of an acknowledged commit: `none` means that the log was written to
//!    the operating system, `always` that it was synced (`fdatasync` where the engine has the
//!    choice).
//! 3. **The same format options** if several engines have them: blocks of 4 KiB (16 if an engine is
//!    faster with them), Bloom filters of 10 bits per key, no compression (or LZ4 on request, in
//!    engines that support it).
//! 4. **Otherwise the engine's defaults**, except settings that its documentation recommends for
//!    such workloads. Each deviation states its reason.

#[cfg(feature = "rocksdb")]
mod rocksdb;

use std::path::Path;

#[cfg(feature = "rocksdb")]
pub(crate) use self::rocksdb::{rocksdb, rocksdb_locks};
use crate::engine::{Compression, Durability, Setup};

/// Size of a data block in bytes, before compression: RocksDB's and fjall's default.
const BLOCK_BYTES: usize = 4 << 10;

/// SurrealKV's default is 64 KiB. With 4 KiB its cached reads were a fifth slower than with 16 KiB
/// (333 and 413 thousand a second) and its scans a quarter; sizes above 16 KiB were no faster.
const SURREALKV_BLOCK_BYTES: usize = 16 << 10;

/// Maximum number of memtables, the active one included, before a write stall. fjall's is fixed at
/// four immutable ones and one active; the others are set to the same.
const MEMTABLES_MAX: usize = 5;

/// Number of flush and compaction threads, the same as in Carnet: one for flushes and three for
/// compactions. With two, which is RocksDB's default, and fjall's on two cores, both were slower
/// with memtables of 64 MiB: on one thread 349 and 379 thousand keys a second instead of 419 and
/// 398 (RocksDB), 369 and 365 instead of 449 and 436 (fjall). SurrealKV runs its tasks on a runtime
/// with the same number of threads.
const BACKGROUND_THREADS: usize = 4;

/// Settings of fjall.
pub(crate) struct Fjall {
    memtable_bytes: u64,
    cache_bytes: u64,
    compression: fjall::CompressionType,
    pub(crate) persist: fjall::PersistMode,
}

/// fjall 3 (its `DatabaseBuilder` and `KeyspaceCreateOptions`).
pub(crate) fn fjall(setup: &Setup) -> Fjall {
    Fjall {
        memtable_bytes: setup.memtable_bytes as u64,
        cache_bytes: setup.cache_bytes as u64,
        compression: match setup.compression {
            Compression::None => fjall::CompressionType::None,
            Compression::Lz4 => fjall::CompressionType::Lz4,
        },
        // Rule 2: `Buffer` flushes its buffer by a `write` call, `SyncData` is `fdatasync`.
        persist: match setup.durability {
            Durability::None => fjall::PersistMode::Buffer,
            Durability::Always => fjall::PersistMode::SyncData,
        },
    }
}

impl Fjall {
    /// Builds the database options. Batches use the plain database inside the optimistic one.
    pub(crate) fn database(
        &self,
        dir: &Path,
    ) -> fjall::DatabaseBuilder<fjall::OptimisticTxDatabase> {
        fjall::OptimisticTxDatabase::builder(dir)
            // Rule 1.
            .cache_size(self.cache_bytes)
            .worker_threads(BACKGROUND_THREADS)
            // The default of 512 MiB would flush a memtable of 1 GiB before it is full. RocksDB's
            // default is like this one: room for several full memtables.
            .max_journaling_size(self.memtable_bytes.max(64 << 20) * MEMTABLES_MAX as u64)
    }

    /// Builds the options of the only keyspace.
    pub(crate) fn keyspace(&self) -> fjall::KeyspaceCreateOptions {
        use fjall::config::{
            BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy,
            FilterPolicyEntry, HashRatioPolicy,
        };
        let bloom = BloomConstructionPolicy::BitsPerKey(10.0);
        fjall::KeyspaceCreateOptions::default()
            // Rule 1.
            .max_memtable_size(self.memtable_bytes)
            // Rule 3.
            .data_block_size_policy(BlockSizePolicy::all(4 << 10))
            .filter_policy(FilterPolicy::all(FilterPolicyEntry::Bloom(bloom)))
            .data_block_compression_policy(CompressionPolicy::all(self.compression))
            // As RocksDB's hash index in data blocks, at its default density of 0.75 keys a slot.
            .data_block_hash_ratio_policy(HashRatioPolicy::all(1.33))
    }
}

/// SurrealKV 1.2 (`TreeBuilder`, `Options`).
pub(crate) fn surrealkv(setup: &Setup) -> (surrealkv::TreeBuilder, surrealkv::Durability) {
    let options = surrealkv::Options::new()
        .with_path(setup.dir.join("data"))
        // Rule 1. It counts values as well as keys and index.
        .with_max_memtable_size(setup.memtable_bytes)
        .with_memtable_stall_threshold(MEMTABLES_MAX - 1)
        .with_block_cache_capacity(setup.cache_bytes as u64)
        // Rule 4, and 3: its filter is Bloom's with 10 bits a key by default. It has no LZ4.
        .with_block_size(SURREALKV_BLOCK_BYTES)
        .without_compression()
        // Its documentation recommends a preallocated log for synced commits.
        .with_wal_preallocation(setup.durability == Durability::Always)
        // Closing is not measured.
        .with_flush_on_close(false);
    // Rule 2.
    let durability = match setup.durability {
        Durability::None => surrealkv::Durability::Eventual,
        Durability::Always => surrealkv::Durability::Immediate,
    };
    (surrealkv::TreeBuilder::with_options(options), durability)
}

/// redb 4 (`Builder`, `Durability`). It has neither memtable nor log: with `none` a commit is in
/// its page cache only, a weaker guarantee than the others give.
pub(crate) fn redb(setup: &Setup) -> (redb::Builder, redb::Durability) {
    let mut builder = redb::Builder::new();
    // Rule 1: its cache also holds pages that are not yet written, so that it gets both budgets,
    // unless the cache is to bind.
    let memtable_bytes = if setup.cache_binds { 0 } else { setup.memtable_bytes };
    builder.set_cache_size(setup.cache_bytes + memtable_bytes);
    let durability = match setup.durability {
        Durability::None => redb::Durability::None,
        Durability::Always => redb::Durability::Immediate,
    };
    (builder, durability)
}

/// Size of LMDB's map, the upper bound of the database. The file is sparse.
const LMDB_MAP_BYTES: usize = 32 << 30;

/// LMDB 0.9 through heed 0.22 (`lmdb.h`, "Environment Flags"). Its cache is the page cache, so no
/// budget binds it; it has no log: with `none` a commit is in the page cache of its file.
#[expect(unsafe_code, reason = "heed makes flags that weaken durability unsafe to set")]
pub(crate) fn lmdb(setup: &Setup) -> heed::EnvOpenOptions<heed::WithoutTls> {
    use heed::EnvFlags;
    let mut options = heed::EnvOpenOptions::new().read_txn_without_tls();
    options.map_size(LMDB_MAP_BYTES);
    // Pages are written before they are read, so that clearing them has no benefit.
    let mut flags = EnvFlags::NO_MEM_INIT;
    if setup.durability == Durability::None {
        // Rule 2. Writing to the map itself is its fastest mode, and `none` permits it.
        flags |= EnvFlags::NO_SYNC | EnvFlags::WRITE_MAP;
    }
    if setup.cache_binds {
        // Recommended for random reads of data that does not fit into memory.
        flags |= EnvFlags::NO_READ_AHEAD;
    }
    // SAFETY: NO_SYNC gives up durability of a database that is removed after the measurement, and
    // WRITE_MAP lets a stray write damage it; neither violates Rust's rules.
    unsafe { options.flags(flags) };
    options
}

/// Settings of Carnet's public API (`carnet::Builder`).
pub(crate) fn carnet(setup: &Setup, isolation: carnet::Isolation) -> carnet::Builder {
    carnet::Db::builder()
        // Rule 2: both have the same two levels under the same names.
        .durability(carnet_durability(setup))
        // The default is strict serializability.
        .isolation(isolation)
        // Rule 1.
        .flush_bytes(setup.memtable_bytes)
        .cache_bytes(setup.cache_bytes)
        // Rule 3.
        .table_options(carnet_tables(setup))
}

/// Table options of Carnet. Filters cover cells, as the other engines' filters cover keys.
fn carnet_tables(setup: &Setup) -> carnet_storage::TableOptions {
    carnet_storage::TableOptions {
        block_bytes: BLOCK_BYTES,
        compression: match setup.compression {
            Compression::None => carnet_storage::Compression::None,
            Compression::Lz4 => carnet_storage::Compression::Lz4,
        },
        filter: carnet_storage::FilterKind::Cells,
        ..carnet_storage::TableOptions::default()
    }
}

/// Settings of Carnet's engine (`carnet_storage::Options`).
pub(crate) fn carnet_engine(setup: &Setup) -> carnet_storage::Options {
    carnet_storage::Options {
        durability: carnet_durability(setup),
        // Rule 1.
        flush_bytes: setup.memtable_bytes,
        memtables_waiting_max: MEMTABLES_MAX - 1,
        cache_bytes: setup.cache_bytes,
        // Rule 3.
        table_options: carnet_storage::TableOptionsOf::all(carnet_tables(setup)),
        ..carnet_storage::Options::default()
    }
}

const fn carnet_durability(setup: &Setup) -> carnet_storage::Durability {
    match setup.durability {
        Durability::None => carnet_storage::Durability::None,
        Durability::Always => carnet_storage::Durability::Always,
    }
}

#[cfg(feature = "rocksdb")]
fn int(number: usize) -> i32 {
    i32::try_from(number).expect("a small number")
}
