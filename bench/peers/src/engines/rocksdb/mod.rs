//! RocksDB, in four settings of one binary.
//!
//! | engine | opened as | a write is |
//! | --- | --- | --- |
//! | `rocksdb` | `DB` | a batch; groups wait for all their inserts |
//! | `rocksdb-unordered` | `DB`, `unordered_write` | a batch; snapshots may see it in part |
//! | `rocksdb-prepared-unordered` | `TransactionDB`, WritePrepared, two write queues, `unordered_write`, no concurrency control | a transaction without conflict check; snapshots hold |
//! | `rocksdb-committed` | `TransactionDB` as it comes | a transaction that locks its rows |
//!
//! The settings of the third are not in the safe Rust binding; they are in the C layer.

mod ffi;

use anyhow::Result;
pub(crate) use ffi::{Cache, Options, TableOptions, TransactionOptions, WriteOptions};
use ffi::{Database, View, WriteBatch};

use crate::data::{Key, Row, Seen};
use crate::engine::{Direction, Reads, Session, Setup, Snapshot, Store};
use crate::settings;

/// In which of its settings it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Vanilla,
    Unordered,
    PreparedUnordered,
    Committed,
}

struct Rocks {
    db: Database,
    write_options: WriteOptions,
}

/// Opens it.
pub(crate) fn open(setup: &Setup, mode: Mode) -> Result<Box<dyn Store>> {
    let settings = settings::rocksdb(setup, mode);
    let path = setup.dir.join("data");
    let db = match &settings.transactions {
        None => Database::open(&settings.options, &path)?,
        Some(transactions) => Database::open_transactional(&settings.options, transactions, &path)?,
    };
    Ok(Box::new(Rocks { db, write_options: settings.write_options }))
}

impl Store for Rocks {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(RocksSession {
            store: self,
            latest: self.db.latest(),
            batch: WriteBatch::new(),
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
}

impl Session for RocksSession<'_> {
    fn write(&mut self, rows: &[Row]) -> Result<()> {
        self.batch.clear();
        for row in rows {
            self.batch.put(&row.key, &row.value);
        }
        self.store.db.write(&self.store.write_options, &mut self.batch)
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
