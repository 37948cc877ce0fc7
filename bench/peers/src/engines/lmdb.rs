//! LMDB through heed: a memory-mapped copy-on-write B-tree with one writer, and no log.

use std::ops::Bound;

use anyhow::Result;
use heed::types::Bytes;
use heed::{Database, Env, RoTxn, WithoutTls};

use crate::data::{Key, Row, Seen};
use crate::engine::{
    Change, Direction, Outcome, ReadAndPut, Reads, Session, Setup, Snapshot, Store,
};
use crate::settings;

type Table = Database<Bytes, Bytes>;

struct Lmdb {
    env: Env<WithoutTls>,
    table: Table,
}

/// Opens the database.
#[expect(unsafe_code, reason = "LMDB maps its file into memory")]
pub(crate) fn open(setup: &Setup) -> Result<Box<dyn Store>> {
    let options = settings::lmdb(setup);
    // SAFETY: the directory was created for this database alone, no other process knows it, and
    // this process opens it once, so that the file does not change beneath the map. The flags give
    // up durability only, and the directory is removed after the measurement.
    let env = unsafe { options.open(&setup.dir) }?;
    let mut tx = env.write_txn()?;
    let table = env.create_database(&mut tx, None)?;
    tx.commit()?;
    Ok(Box::new(Lmdb { env, table }))
}

impl Store for Lmdb {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(LmdbSession { store: self }))
    }

    fn settle(&self) -> Result<()> {
        Ok(self.env.force_sync()?)
    }
}

struct LmdbSession<'a> {
    store: &'a Lmdb,
}

impl Session for LmdbSession<'_> {
    fn write(&mut self, rows: &[Row]) -> Result<()> {
        let mut tx = self.store.env.write_txn()?;
        for row in rows {
            self.store.table.put(&mut tx, &row.key, &row.value)?;
        }
        tx.commit()?;
        Ok(())
    }

    fn update(&mut self, keys: ReadAndPut<'_>, change: &mut Change<'_>) -> Result<Outcome> {
        let mut tx = self.store.env.write_txn()?;
        let value = change(self.store.table.get(&tx, keys.read)?);
        self.store.table.put(&mut tx, keys.put, &value)?;
        tx.commit()?;
        Ok(Outcome::Committed)
    }

    fn get(&mut self, key: &Key, seen: &mut Seen) -> Result<()> {
        self.snapshot(&mut |snapshot| snapshot.get(key, seen))
    }

    fn snapshot(&mut self, reads: &mut Reads<'_>) -> Result<()> {
        let tx = self.store.env.read_txn()?;
        reads(&mut LmdbSnapshot { table: self.store.table, tx })
    }
}

struct LmdbSnapshot<'a> {
    table: Table,
    tx: RoTxn<'a, WithoutTls>,
}

impl Snapshot for LmdbSnapshot<'_> {
    fn get(&mut self, key: &Key, seen: &mut Seen) -> Result<()> {
        let value = self.table.get(&self.tx, key)?;
        seen.found(key, value);
        Ok(())
    }

    fn scan(
        &mut self,
        from: &Key,
        direction: Direction,
        rows: usize,
        seen: &mut Seen,
    ) -> Result<()> {
        let table = self.table;
        match direction {
            Direction::Forward => {
                let bounds = (Bound::Included(&from[..]), Bound::Unbounded);
                take(table.range(&self.tx, &bounds)?, rows, seen)
            }
            Direction::Reversed => {
                let bounds = (Bound::Unbounded, Bound::Included(&from[..]));
                take(table.rev_range(&self.tx, &bounds)?, rows, seen)
            }
        }
    }
}

fn take<'a>(
    entries: impl Iterator<Item = heed::Result<(&'a [u8], &'a [u8])>>,
    rows: usize,
    seen: &mut Seen,
) -> Result<()> {
    for entry in entries.take(rows) {
        let (key, value) = entry?;
        seen.row(key, value);
    }
    Ok(())
}
