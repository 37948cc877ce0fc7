//! RocksDB, in five settings of one binary.
//!
//! | engine | opened as | a write is |
//! | --- | --- | --- |
//! | `rocksdb` | `DB` | a batch; groups wait for all their inserts |
//! | `rocksdb-unordered` | `DB`, `unordered_write` | a batch; snapshots may see it in part |
//! | `rocksdb-prepared-unordered` | `TransactionDB`, WritePrepared, two write queues, `unordered_write`, no concurrency control | a transaction without conflict check; snapshots are consistent |
//! | `rocksdb-committed` | `TransactionDB`, default settings | a transaction that locks its rows |
//! | `rocksdb-optimistic` | `OptimisticTransactionDB`, default settings | a batch |
//!
//! The safe Rust binding lacks the settings of the third engine; the C API has them. A transaction
//! that reads a row and puts it (`update`) always runs with concurrency control: the last three
//! engines support it, by locks at the read or by a check at the commit.

mod ffi;

use anyhow::Result;
pub(crate) use ffi::{Cache, LockOptions, Options, TableOptions, TransactionOptions, WriteOptions};
use ffi::{Database, Transaction, View, WriteBatch};

use crate::data::{Key, Row, Seen};
use crate::engine::{
    Change, Direction, Outcome, ReadAndPut, Reads, Session, Setup, Snapshot, Store,
};
use crate::settings;

/// Setting of RocksDB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Vanilla,
    Unordered,
    PreparedUnordered,
    Committed,
    Optimistic,
}

struct Rocks {
    db: Database,
    write_options: WriteOptions,
}

/// Opens the database.
pub(crate) fn open(setup: &Setup, mode: Mode) -> Result<Box<dyn Store>> {
    let settings = settings::rocksdb(setup, mode);
    let path = setup.dir.join("data");
    let db = match &settings.transactions {
        None if mode == Mode::Optimistic => Database::open_optimistic(&settings.options, &path)?,
        None => Database::open(&settings.options, &path)?,
        Some(transactions) => Database::open_locking(&settings.options, transactions, &path)?,
    };
    Ok(Box::new(Rocks { db, write_options: settings.write_options }))
}

impl Store for Rocks {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(RocksSession {
            store: self,
            latest: self.db.latest(),
            batch: WriteBatch::new(),
            transaction: Transaction::new(&self.db, &self.write_options, settings::rocksdb_locks()),
        }))
    }

    fn settle(&self) -> Result<()> {
        self.db.flush()?;
        self.db.compact();
        Ok(())
    }
}

struct RocksSession<'a> {
    store: &'a Rocks,
    latest: View<'a>,
    batch: WriteBatch,
    transaction: Transaction<'a>,
}

impl Session for RocksSession<'_> {
    fn write(&mut self, rows: &[Row]) -> Result<()> {
        self.batch.clear();
        for row in rows {
            self.batch.put(&row.key, &row.value);
        }
        self.store.db.write(&self.store.write_options, &mut self.batch)
    }

    fn update(&mut self, keys: ReadAndPut<'_>, change: &mut Change<'_>) -> Result<Outcome> {
        self.transaction.begin()?;
        let Some(value) = self.transaction.get_for_update(keys.read, change)? else {
            self.transaction.roll_back()?;
            return Ok(Outcome::Aborted);
        };
        let put = self.transaction.put(keys.put, &value)?;
        if put.is_some() && self.transaction.commit()?.is_some() {
            return Ok(Outcome::Committed);
        }
        self.transaction.roll_back()?;
        Ok(Outcome::Aborted)
    }

    fn get(&mut self, key: &Key, seen: &mut Seen) -> Result<()> {
        self.latest.get(key, |value| seen.found(key, value))
    }

    fn snapshot(&mut self, reads: &mut Reads<'_>) -> Result<()> {
        reads(&mut self.store.db.snapshot())
    }
}

impl Snapshot for View<'_> {
    fn get(&mut self, key: &Key, seen: &mut Seen) -> Result<()> {
        View::get(self, key, |value| seen.found(key, value))
    }

    fn scan(
        &mut self,
        from: &Key,
        direction: Direction,
        rows: usize,
        seen: &mut Seen,
    ) -> Result<()> {
        let iterator = self.iterator();
        match direction {
            Direction::Forward => iterator.seek(from),
            Direction::Reversed => iterator.seek_for_prev(from),
        }
        for row in 0..rows {
            if row > 0 {
                match direction {
                    Direction::Forward => iterator.next(),
                    Direction::Reversed => iterator.prev(),
                }
            }
            let Some((key, value)) = iterator.item() else { break };
            seen.row(key, value);
        }
        iterator.status()
    }
}
