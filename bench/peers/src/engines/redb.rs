//! redb: a copy-on-write B-tree with one writer, and no log.

use anyhow::Result;
use redb::{Database, ReadOnlyTable, ReadableDatabase, ReadableTable, TableDefinition};

use crate::data::{Key, Row, Seen};
use crate::engine::{
    Change, Direction, Outcome, ReadAndPut, Reads, Session, Setup, Snapshot, Store,
};
use crate::settings;

const TABLE: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("bench");

struct Redb {
    db: Database,
    durability: redb::Durability,
}

/// Opens the database.
pub(crate) fn open(setup: &Setup) -> Result<Box<dyn Store>> {
    let (builder, durability) = settings::redb(setup);
    let db = builder.create(setup.dir.join("data.redb"))?;
    let store = Redb { db, durability };
    store.commit(redb::Durability::Immediate, &[])?; // makes the table
    Ok(Box::new(store))
}

impl Redb {
    fn commit(&self, durability: redb::Durability, rows: &[Row]) -> Result<()> {
        let mut tx = self.db.begin_write()?;
        tx.set_durability(durability)?;
        {
            let mut table = tx.open_table(TABLE)?;
            for row in rows {
                table.insert(&row.key[..], &row.value[..])?;
            }
        }
        tx.commit()?;
        Ok(())
    }
}

impl Store for Redb {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(RedbSession { store: self }))
    }

    fn settle(&self) -> Result<()> {
        self.commit(redb::Durability::Immediate, &[])
    }
}

struct RedbSession<'a> {
    store: &'a Redb,
}

impl Session for RedbSession<'_> {
    fn write(&mut self, rows: &[Row]) -> Result<()> {
        self.store.commit(self.store.durability, rows)
    }

    fn update(&mut self, keys: ReadAndPut<'_>, change: &mut Change<'_>) -> Result<Outcome> {
        let mut tx = self.store.db.begin_write()?;
        tx.set_durability(self.store.durability)?;
        {
            let mut table = tx.open_table(TABLE)?;
            let value = change(table.get(&keys.read[..])?.as_ref().map(redb::AccessGuard::value));
            table.insert(&keys.put[..], &value[..])?;
        }
        tx.commit()?;
        Ok(Outcome::Committed)
    }

    fn get(&mut self, key: &Key, seen: &mut Seen) -> Result<()> {
        self.snapshot(&mut |snapshot| snapshot.get(key, seen))
    }

    fn snapshot(&mut self, reads: &mut Reads<'_>) -> Result<()> {
        let table = self.store.db.begin_read()?.open_table(TABLE)?;
        reads(&mut RedbSnapshot { table })
    }
}

struct RedbSnapshot {
    table: ReadOnlyTable<&'static [u8], &'static [u8]>,
}

impl Snapshot for RedbSnapshot {
    fn get(&mut self, key: &Key, seen: &mut Seen) -> Result<()> {
        let value = self.table.get(&key[..])?;
        seen.found(key, value.as_ref().map(redb::AccessGuard::value));
        Ok(())
    }

    fn scan(
        &mut self,
        from: &Key,
        direction: Direction,
        rows: usize,
        seen: &mut Seen,
    ) -> Result<()> {
        match direction {
            Direction::Forward => take(self.table.range(&from[..]..)?, rows, seen),
            Direction::Reversed => take(self.table.range(..=&from[..])?.rev(), rows, seen),
        }
    }
}

type Entry<'a> = (redb::AccessGuard<'a, &'static [u8]>, redb::AccessGuard<'a, &'static [u8]>);

fn take<'a>(
    entries: impl Iterator<Item = Result<Entry<'a>, redb::StorageError>>,
    rows: usize,
    seen: &mut Seen,
) -> Result<()> {
    for entry in entries.take(rows) {
        let (key, value) = entry?;
        seen.row(key.value(), value.value());
    }
    Ok(())
}
