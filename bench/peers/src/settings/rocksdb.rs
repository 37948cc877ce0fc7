//! Settings of RocksDB, by the rules of [`super`].

use super::{BACKGROUND_THREADS, BLOCK_BYTES, MEMTABLES_MAX, int};
use crate::engine::{Compression, Durability, Setup};
use crate::engines::rocksdb::{
    Cache, LockOptions, Mode, Options, TableOptions, TransactionOptions, WriteOptions,
};

/// Bits of Bloom filter per key: fjall's and SurrealKV's default; RocksDB's default is no filter.
/// Carnet's default, a false-positive chance of 0.01, comes to 9.6.
const BLOOM_BITS_PER_KEY: f64 = 10.0;

/// Settings of RocksDB.
pub(crate) struct RocksDb {
    pub(crate) options: Options,
    pub(crate) transactions: Option<TransactionOptions>,
    pub(crate) write_options: WriteOptions,
}

/// RocksDB 11.8 (`include/rocksdb/{options,table}.h`, `utilities/transaction_db.h`).
pub(crate) fn rocksdb(setup: &Setup, mode: Mode) -> RocksDb {
    let mut tables = TableOptions::new();
    // Rule 3.
    tables.block_size(BLOCK_BYTES);
    tables.bloom_filter(BLOOM_BITS_PER_KEY);
    // Rule 1. RocksDB's documentation recommends the clock cache for reads by many threads.
    tables.block_cache(&Cache::hyper_clock(setup.cache_bytes));
    // By default index and filters are not counted towards the cache, which is faster. This is kept
    // unless the cache is to bind; then they count as in the other engines.
    tables.cache_index_and_filter_blocks(setup.cache_binds);
    // 1 is `kDataBlockBinaryAndHash`, recommended for point lookups; it costs about a byte per key.
    tables.data_block_index_type(1);

    let mut options = Options::new();
    options.create_if_missing(true);
    options.tables(&tables);
    // Rule 1. With the default of 2 memtables RocksDB would stall before the others.
    options.write_buffer_size(setup.memtable_bytes);
    options.max_write_buffer_number(int(MEMTABLES_MAX));
    options.max_background_jobs(int(BACKGROUND_THREADS));
    // Rule 3: 0 is none, 4 is LZ4 (`enum CompressionType`).
    options.compression(if setup.compression == Compression::Lz4 { 4 } else { 0 });
    // Closing is not measured, and the directory is removed afterwards.
    options.avoid_flush_during_shutdown(true);
    // The experiment: whether a write group waits for its inserts.
    options.unordered_write(matches!(mode, Mode::Unordered | Mode::PreparedUnordered));
    options.two_write_queues(mode == Mode::PreparedUnordered);

    let transactions = match mode {
        Mode::Vanilla | Mode::Unordered | Mode::Optimistic => None,
        // Its defaults: WriteCommitted, row locks.
        Mode::Committed => Some(TransactionOptions::new()),
        Mode::PreparedUnordered => {
            let mut transactions = TransactionOptions::new();
            // 1 is WRITE_PREPARED, the policy under which snapshots are consistent with unordered
            // writes.
            transactions.write_policy(1);
            // No row locks, as in MySQL-style replication and in RocksDB's own benchmark of this
            // mode, and its best figure. It detects no conflicts, which Carnet does; if
            // transactions read the rows that they write, it locks as WriteCommitted does.
            transactions.skip_concurrency_control(!setup.checks_conflicts);
            Some(transactions)
        }
    };

    let mut write_options = WriteOptions::new();
    // Rule 2: without it one `write` call per group; with it an `fdatasync` per group in addition.
    write_options.sync(setup.durability == Durability::Always);
    RocksDb { options, transactions, write_options }
}

/// Options of RocksDB's transactions with locks.
pub(crate) fn rocksdb_locks() -> LockOptions {
    let mut locks = LockOptions::new();
    // Otherwise two deadlocked transactions would wait for a second. Detection has a cost only when
    // a transaction waits.
    locks.deadlock_detect(true);
    locks
}
