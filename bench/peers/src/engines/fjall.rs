//! fjall: a log-structured engine, through its batches and through its optimistic transactions.

use anyhow::{Result, anyhow};
use fjall::{Keyspace, OptimisticTxDatabase, PersistMode, Readable};

use crate::data::{Key, Row, Seen};
use crate::engine::{
    Change, Direction, Outcome, ReadAndPut, Reads, Session, Setup, Snapshot, Store,
};
use crate::settings;

const KEYSPACE: &str = "bench";

struct Fjall {
    writer: Writer,
    optimistic: OptimisticTxDatabase,
    keyspace: Keyspace,
    persist: PersistMode,
}

/// Write API in use.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Writer {
    /// Batches: atomic, no conflict check.
    Batches,
    /// Optimistic transactions of fjall.
    Optimistic,
}

/// Opens the database.
pub(crate) fn open(setup: &Setup, writer: Writer) -> Result<Box<dyn Store>> {
    let settings = settings::fjall(setup);
    let optimistic = settings.database(&setup.dir).open()?;
    let keyspace = optimistic.keyspace(KEYSPACE, || settings.keyspace())?.inner().clone();
    Ok(Box::new(Fjall { writer, optimistic, keyspace, persist: settings.persist }))
}

impl Store for Fjall {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(FjallSession { store: self }))
    }

    fn settle(&self) -> Result<()> {
        self.keyspace.rotate_memtable_and_wait()?;
        self.keyspace.major_compact()?;
        Ok(())
    }
}

struct FjallSession<'a> {
    store: &'a Fjall,
}

impl Session for FjallSession<'_> {
    fn write(&mut self, rows: &[Row]) -> Result<()> {
        let Fjall { writer, optimistic, keyspace, persist } = self.store;
        match writer {
            Writer::Batches => {
                let mut batch = optimistic.inner().batch().durability(Some(*persist));
                for row in rows {
                    batch.insert(keyspace, row.key, row.value);
                }
                Ok(batch.commit()?)
            }
            Writer::Optimistic => {
                let mut tx = optimistic.write_tx()?.durability(Some(*persist));
                for row in rows {
                    tx.insert(keyspace, row.key, row.value);
                }
                tx.commit()?.map_err(|conflict| anyhow!("blind puts conflicted: {conflict}"))
            }
        }
    }

    fn update(&mut self, keys: ReadAndPut<'_>, change: &mut Change<'_>) -> Result<Outcome> {
        let Fjall { optimistic, keyspace, persist, .. } = self.store;
        let mut tx = optimistic.write_tx()?.durability(Some(*persist));
        let found = tx.get(keyspace, keys.read)?;
        tx.insert(keyspace, *keys.put, change(found.as_deref()));
        Ok(if tx.commit()?.is_ok() { Outcome::Committed } else { Outcome::Aborted })
    }

    fn get(&mut self, key: &Key, seen: &mut Seen) -> Result<()> {
        let value = self.store.keyspace.get(key)?;
        seen.found(key, value.as_deref());
        Ok(())
    }

    fn snapshot(&mut self, reads: &mut Reads<'_>) -> Result<()> {
        let snapshot = self.store.optimistic.read_tx();
        reads(&mut FjallSnapshot { snapshot, keyspace: &self.store.keyspace })
    }
}

struct FjallSnapshot<'a> {
    snapshot: fjall::Snapshot,
    keyspace: &'a Keyspace,
}

impl Snapshot for FjallSnapshot<'_> {
    fn get(&mut self, key: &Key, seen: &mut Seen) -> Result<()> {
        let value = self.snapshot.get(self.keyspace, key)?;
        seen.found(key, value.as_deref());
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
            Direction::Forward => {
                take(self.snapshot.range::<&Key, _>(self.keyspace, from..), rows, seen)
            }
            Direction::Reversed => {
                take(self.snapshot.range::<&Key, _>(self.keyspace, ..=from).rev(), rows, seen)
            }
        }
    }
}

fn take(entries: impl Iterator<Item = fjall::Guard>, rows: usize, seen: &mut Seen) -> Result<()> {
    for entry in entries.take(rows) {
        let (key, value) = entry.into_inner()?;
        seen.row(&key, &value);
    }
    Ok(())
}
