//! Carnet through its public API: `Db::transact`, with a schema read in each transaction, conflict
//! check, log and publication; strictly serializable or with snapshot isolation.

use std::ops::Bound;

use anyhow::Result;
use carnet::{Db, ErrorKind, Isolation, Key as RowKey, RawTable, SyncTx, Table};

use crate::data::{Key, Row, Seen};
use crate::engine::{
    Change, Direction, Outcome, ReadAndPut, Reads, Session, Setup, Shape, Snapshot, Store,
};
use crate::settings;

carnet::record! {
    /// The non-key columns of the hashed table.
    pub(crate) struct Blob {
        value: Vec<u8>,
    }
}

type Hashed = Table<RowKey<(Vec<u8>,)>, Blob>;

struct Carnet {
    db: Db,
    table: Layout,
}

enum Layout {
    Hashed(Hashed),
    Raw(RawTable),
}

/// Opens the database.
pub(crate) fn open(setup: &Setup, isolation: Isolation) -> Result<Box<dyn Store>> {
    let db = settings::carnet(setup, isolation).open(setup.dir.join("data"))?;
    let table = match setup.shape {
        Shape::Hashed => Layout::Hashed(db.table("peers.bench")?),
        Shape::Raw | Shape::Ordered => Layout::Raw(db.raw("peers.bench")?),
    };
    Ok(Box::new(Carnet { db, table }))
}

impl Store for Carnet {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(CarnetSession { store: self }))
    }

    fn settle(&self) -> Result<()> {
        self.db.flush()?;
        Ok(self.db.compact()?)
    }
}

/// Reads a row through a handle: the database, or a snapshot.
macro_rules! get {
    ($table:expr, $handle:expr, $key:expr, $seen:expr) => {
        match $table {
            Layout::Hashed(table) => {
                let row = table.get($handle, &RowKey(($key.to_vec(),), ()))?;
                $seen.found($key, row.as_ref().map(|row| &row.value[..]));
            }
            Layout::Raw(table) => $seen.found($key, table.get($handle, $key)?.as_deref()),
        }
    };
}

struct CarnetSession<'a> {
    store: &'a Carnet,
}

impl Session for CarnetSession<'_> {
    fn write(&mut self, rows: &[Row]) -> Result<()> {
        let put = |tx: &SyncTx| {
            for row in rows {
                match &self.store.table {
                    Layout::Hashed(table) => {
                        let value = Blob { value: row.value.to_vec() };
                        table.put(tx, &RowKey((row.key.to_vec(),), ()), &value)?;
                    }
                    Layout::Raw(table) => table.put(tx, row.key, row.value)?,
                }
            }
            Ok(())
        };
        Ok(self.store.db.transact(put)?)
    }

    fn update(&mut self, keys: ReadAndPut<'_>, change: &mut Change<'_>) -> Result<Outcome> {
        let tx = self.store.db.begin()?;
        match &self.store.table {
            Layout::Hashed(table) => {
                let row = table.get(&tx, &RowKey((keys.read.to_vec(),), ()))?;
                let value = change(row.as_ref().map(|row| &row.value[..])).to_vec();
                table.put(&tx, &RowKey((keys.put.to_vec(),), ()), &Blob { value })?;
            }
            Layout::Raw(table) => {
                let found = table.get(&tx, keys.read)?;
                table.put(&tx, keys.put, change(found.as_deref()))?;
            }
        }
        match tx.commit() {
            Ok(_) => Ok(Outcome::Committed),
            Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::TooOld) => {
                Ok(Outcome::Aborted)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn get(&mut self, key: &Key, seen: &mut Seen) -> Result<()> {
        get!(&self.store.table, &self.store.db, key, seen);
        Ok(())
    }

    fn snapshot(&mut self, reads: &mut Reads<'_>) -> Result<()> {
        let snapshot = self.store.db.snapshot()?;
        reads(&mut CarnetSnapshot { snapshot, table: &self.store.table })
    }
}

struct CarnetSnapshot<'a> {
    snapshot: carnet::Snapshot,
    table: &'a Layout,
}

impl Snapshot for CarnetSnapshot<'_> {
    fn get(&mut self, key: &Key, seen: &mut Seen) -> Result<()> {
        get!(self.table, &self.snapshot, key, seen);
        Ok(())
    }

    fn scan(
        &mut self,
        from: &Key,
        direction: Direction,
        rows: usize,
        seen: &mut Seen,
    ) -> Result<()> {
        match self.table {
            // A scan in token order, the only order of this layout.
            Layout::Hashed(table) => {
                let from = table.token(&(from.to_vec(),))?;
                let bounds = match direction {
                    Direction::Forward => (Bound::Included(from), Bound::Unbounded),
                    Direction::Reversed => (Bound::Unbounded, Bound::Included(from)),
                };
                let lent = table.scan_tokens(&self.snapshot, bounds).page(rows);
                let mut lent = if direction == Direction::Reversed { lent.rev() } else { lent };
                for _ in 0..rows {
                    let Some(row) = lent.next_lent() else { break };
                    let row = row?;
                    seen.row(row.partition_key(), row.column("value")?.unwrap_or_default());
                }
                Ok(())
            }
            Layout::Raw(table) => {
                let bounds = match direction {
                    Direction::Forward => (Bound::Included(from), Bound::Unbounded),
                    Direction::Reversed => (Bound::Unbounded, Bound::Included(from)),
                };
                let cells = table.range::<_, &Key>(&self.snapshot, bounds).page(rows);
                let mut cells = if direction == Direction::Reversed { cells.rev() } else { cells };
                for _ in 0..rows {
                    let Some(cell) = cells.next_lent() else { break };
                    let (key, value) = cell?;
                    seen.row(key, value);
                }
                Ok(())
            }
        }
    }
}
