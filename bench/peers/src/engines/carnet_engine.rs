//! Carnet's storage engine: log, memtables and files without the transaction layer.
//!
//! Timestamps come from a counter: there is no conflict check and no registered snapshot. Its
//! figures are the upper bound of the transactional path. All uses of the engine's types are in
//! this file. The caller of `engine.append` decides the order of commits, so that a comparison of
//! ordered with unordered writes belongs here.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use carnet_base::{Bytes, CellKey, CellKeyRef, ErrorKind, KeyRange, PartitionKey, SystemClock, TableId, ThreadSpawn, Timestamp, Token, block_on};
use carnet_storage::disk::RealDisk;
use carnet_storage::{AppendError, Engine, EntryCell, Mutation, PageLimit, ReadOptions};

use crate::data::{Key, Row, Seen};
use crate::engine::{Direction, Reads, Session, Setup, Shape, Snapshot, Store};
use crate::settings;

/// Table of the commit timestamps by start timestamp, like the commit table.
const COMMITS: TableId = TableId(0);
/// Table of the rows.
const TABLE: TableId = TableId(1);
/// Page size in bytes, large enough for all rows of a scan.
const PAGE_BYTES: usize = 1 << 20;

struct CarnetEngine {
    engine: Engine,
    /// Last issued timestamp.
    clock: AtomicU64,
    shape: Shape,
}

/// Opens the engine.
pub(crate) fn open(setup: &Setup) -> Result<Box<dyn Store>> {
    let disk = Arc::new(RealDisk::open(setup.dir.join("data"))?);
    let entry: EntryCell = Arc::new(|start, commit| {
        let partition = PartitionKey::new(start.get().to_be_bytes().to_vec());
        let value = Bytes::from(commit.get().to_be_bytes().to_vec());
        Ok((CellKey::new(COMMITS, &partition, ""), value))
    });
    let options = settings::carnet_engine(setup);
    let engine = Engine::open(disk, Arc::new(SystemClock), &ThreadSpawn, options, entry)?;
    Ok(Box::new(CarnetEngine { engine, clock: AtomicU64::new(1), shape: setup.shape }))
}

impl CarnetEngine {
    fn cell(&self, key: &Key) -> CellKey {
        match self.shape {
            Shape::Hashed => {
                CellKey::new(TABLE, &PartitionKey::new(Bytes::copy_from_slice(key)), "")
            }
            Shape::Raw | Shape::Ordered => CellKey::new(TABLE, &only_partition(), key),
        }
    }

    fn user_key<'a>(&self, cell: CellKeyRef<'a>) -> &'a [u8] {
        match self.shape {
            Shape::Hashed => cell.partition(),
            Shape::Raw | Shape::Ordered => cell.clustering(),
        }
    }

    fn range(&self, from: &Key, direction: Direction) -> KeyRange {
        let from = self.cell(from);
        match (self.shape, direction) {
            (Shape::Hashed, Direction::Forward) => {
                KeyRange { table: TABLE, lower: Bound::Included(from), upper: Bound::Unbounded }
            }
            (Shape::Hashed, Direction::Reversed) => {
                KeyRange { table: TABLE, lower: Bound::Unbounded, upper: Bound::Included(from) }
            }
            (Shape::Raw | Shape::Ordered, Direction::Forward) => {
                let lower = Bound::Included(from.clustering_bytes());
                KeyRange::clustering(TABLE, &only_partition(), lower, Bound::Unbounded)
            }
            (Shape::Raw | Shape::Ordered, Direction::Reversed) => {
                let upper = Bound::Included(from.clustering_bytes());
                KeyRange::clustering(TABLE, &only_partition(), Bound::Unbounded, upper)
            }
        }
    }

    fn append(&self, rows: &[Row]) -> Result<(), AppendError<carnet_base::Error>> {
        let keys: Vec<CellKey> = rows.iter().map(|row| self.cell(&row.key)).collect();
        let cells = keys.iter().zip(rows);
        let puts = cells.map(|(key, row)| Mutation::put_or_delete(key, Some(&row.value)));
        let start = timestamp(self.clock.load(Ordering::Relaxed));
        let prepared = self.engine.prepare(start, puts).map_err(AppendError::Engine)?;
        let decide = || Ok(timestamp(self.clock.fetch_add(1, Ordering::Relaxed) + 1));
        let appended = self.engine.append(prepared, decide)?;
        block_on(appended).map(drop).map_err(AppendError::Engine)
    }
}

fn only_partition() -> PartitionKey {
    PartitionKey::with_token(Token::MIN, Bytes::new())
}

fn timestamp(number: u64) -> Timestamp {
    Timestamp::new(number).expect("a benchmark does not count to 2^63")
}

impl Store for CarnetEngine {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(CarnetEngineSession { store: self }))
    }

    fn settle(&self) -> Result<()> {
        self.engine.flush()?;
        Ok(self.engine.compact()?)
    }
}

struct CarnetEngineSession<'a> {
    store: &'a CarnetEngine,
}

impl Session for CarnetEngineSession<'_> {
    fn write(&mut self, rows: &[Row]) -> Result<()> {
        loop {
            match self.store.append(rows) {
                Ok(()) => return Ok(()),
                Err(AppendError::Engine(error))
                    if matches!(error.kind(), ErrorKind::Overloaded { .. }) =>
                {
                    block_on(self.store.engine.ready(1000))?;
                }
                Err(error) => return Err(error).context("the engine refused an append"),
            }
        }
    }

    fn get(&mut self, key: &Key, seen: &mut Seen) -> Result<()> {
        self.snapshot(&mut |snapshot| snapshot.get(key, seen))
    }

    fn snapshot(&mut self, reads: &mut Reads<'_>) -> Result<()> {
        let read = self.store.engine.published();
        reads(&mut CarnetEngineSnapshot { store: self.store, read })
    }
}

struct CarnetEngineSnapshot<'a> {
    store: &'a CarnetEngine,
    read: Timestamp,
}

impl Snapshot for CarnetEngineSnapshot<'_> {
    fn get(&mut self, key: &Key, seen: &mut Seen) -> Result<()> {
        let version = block_on(self.store.engine.get(&self.store.cell(key), self.read))?;
        seen.found(key, version.and_then(|version| version.payload).as_deref());
        Ok(())
    }

    fn scan(
        &mut self,
        from: &Key,
        direction: Direction,
        rows: usize,
        seen: &mut Seen,
    ) -> Result<()> {
        let range = self.store.range(from, direction);
        let limit = PageLimit { cells: rows, bytes: PAGE_BYTES };
        let reverse = direction == Direction::Reversed;
        let reads = ReadOptions::default();
        let page =
            block_on(self.store.engine.range_with(&range, self.read, reverse, limit, reads))?;
        for cell in page.cells.iter() {
            seen.row(self.store.user_key(cell.key), cell.payload);
        }
        Ok(())
    }
}
