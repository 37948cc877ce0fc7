//! SurrealKV: a log-structured engine with optimistic transactions and an asynchronous commit.

use anyhow::Result;
use surrealkv::{CompactRangeOptions, Error, LSMIterator, Mode, Transaction, Tree};
use tokio::runtime::{Builder, Runtime};

use crate::data::{Key, Row, Seen};
use crate::engine::{
    Change, Direction, Outcome, ReadAndPut, Reads, Session, Setup, Snapshot, Store,
};
use crate::settings;

/// Number of threads of the engine's task runtime: the number of cores of the benchmark machine.
const RUNTIME_THREADS: usize = 2;

/// Upper bound of all keys, which have 16 bytes.
const END: [u8; 17] = [0xff; 17];

struct SurrealKv {
    tree: Tree,
    durability: surrealkv::Durability,
    runtime: Runtime,
}

/// Opens the database.
pub(crate) fn open(setup: &Setup) -> Result<Box<dyn Store>> {
    let (builder, durability) = settings::surrealkv(setup);
    let runtime =
        Builder::new_multi_thread().worker_threads(RUNTIME_THREADS).enable_all().build()?;
    let tree = {
        let _entered = runtime.enter();
        builder.build()?
    };
    Ok(Box::new(SurrealKv { tree, durability, runtime }))
}

impl Store for SurrealKv {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(SurrealKvSession { store: self }))
    }

    fn settle(&self) -> Result<()> {
        let _entered = self.runtime.enter();
        Ok(self.tree.compact_range(None, None, &CompactRangeOptions::default())?)
    }
}

impl Drop for SurrealKv {
    fn drop(&mut self) {
        if let Err(error) = self.runtime.block_on(self.tree.close()) {
            eprintln!("surrealkv could not be closed: {error}");
        }
    }
}

struct SurrealKvSession<'a> {
    store: &'a SurrealKv,
}

impl Session for SurrealKvSession<'_> {
    fn write(&mut self, rows: &[Row]) -> Result<()> {
        let mut tx = self.store.tree.begin_with_mode(Mode::WriteOnly)?;
        tx.set_durability(self.store.durability);
        for row in rows {
            tx.set(&row.key, &row.value)?;
        }
        Ok(self.store.runtime.block_on(tx.commit())?)
    }

    fn update(&mut self, keys: ReadAndPut<'_>, change: &mut Change<'_>) -> Result<Outcome> {
        let mut tx = self.store.tree.begin()?;
        tx.set_durability(self.store.durability);
        let found = tx.get(keys.read)?;
        tx.set(keys.put, &change(found.as_deref()))?;
        match self.store.runtime.block_on(tx.commit()) {
            Ok(()) => Ok(Outcome::Committed),
            Err(Error::TransactionWriteConflict | Error::TransactionRetry) => Ok(Outcome::Aborted),
            Err(error) => Err(error.into()),
        }
    }

    fn get(&mut self, key: &Key, seen: &mut Seen) -> Result<()> {
        self.snapshot(&mut |snapshot| snapshot.get(key, seen))
    }

    fn snapshot(&mut self, reads: &mut Reads<'_>) -> Result<()> {
        let tx = self.store.tree.begin_with_mode(Mode::ReadOnly)?;
        reads(&mut SurrealKvSnapshot { tx })
    }
}

struct SurrealKvSnapshot {
    tx: Transaction,
}

impl Snapshot for SurrealKvSnapshot {
    fn get(&mut self, key: &Key, seen: &mut Seen) -> Result<()> {
        let value = self.tx.get(key)?;
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
                let mut iterator = self.tx.range(&from[..], &END[..])?;
                iterator.seek_first()?;
                take(&mut iterator, direction, rows, seen)
            }
            Direction::Reversed => {
                // The end of a range is exclusive: a trailing byte includes the key itself.
                let mut end = [0; 17];
                end[..16].copy_from_slice(from);
                let mut iterator = self.tx.range(&[][..], &end[..])?;
                iterator.seek_last()?;
                take(&mut iterator, direction, rows, seen)
            }
        }
    }
}

fn take(
    iterator: &mut impl LSMIterator,
    direction: Direction,
    rows: usize,
    seen: &mut Seen,
) -> Result<()> {
    for row in 0..rows {
        if row > 0 {
            match direction {
                Direction::Forward => iterator.next()?,
                Direction::Reversed => iterator.prev()?,
            };
        }
        if !iterator.valid() {
            break;
        }
        seen.row(iterator.key().user_key(), &iterator.value_ref()?);
    }
    Ok(())
}
