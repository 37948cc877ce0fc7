//! Large transactions: implements the store's trait with private files of the engine.

use std::sync::Arc;

use carnet_base::{Bytes, CellHash, CellKey, CellKeyRef, Clock, KeyRange, Result, Timestamp};
use carnet_storage::{AppendError, Engine, Merged};
use carnet_store::{Cells, Claim, CommitRequest, Context, Spill, SpilledPage, Spilling};

use crate::order::{SharedOrder, stopped};
use crate::wall_clock::WallClockMap;

/// Maximum size of the keys of one commit that are kept for conflict checks. Larger commits keep
/// none, and transactions that began before them are refused.
const LISTED_BYTES_MAX: usize = 16 << 20;
/// Memory of a recorded cell besides its key.
const CELL_BYTES: usize = 120;

/// Writes of one transaction that exceed memory.
pub(crate) struct LocalSpill {
    /// Dropped before the engine, whose last reference may unlock the directory.
    pub(crate) files: carnet_storage::Spill,
    pub(crate) engine: Arc<Engine>,
    pub(crate) order: SharedOrder,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) wall_clock: Arc<WallClockMap>,
}

impl LocalSpill {
    /// Merges all writes into one table, and makes a claim of its cells.
    fn merge(&self, request: CommitRequest) -> Result<(Merged, Claim)> {
        let CommitRequest { read, start, slot, reads, writes, checks_writes: _, drops } = request;
        if !writes.is_empty() {
            self.files.add(writes.iter())?;
        }
        drop(writes);
        let (mut cells, mut beyond) = (Cells::default(), Vec::<CellHash>::new());
        let merged = self.files.merge(|key| {
            if cells.key_bytes() + cells.len() * CELL_BYTES < LISTED_BYTES_MAX {
                cells.push(key);
            } else {
                beyond.push(key.hash());
            }
        })?;
        beyond.sort_unstable();
        // Only a log over a cluster asks for deltas.
        let (checks_writes, has_deltas) = (true, false);
        let claim =
            Claim { read, start, slot, reads, cells, checks_writes, drops, beyond, has_deltas };
        Ok((merged, claim))
    }

    async fn commit(&self, context: &Context, request: CommitRequest) -> Result<Timestamp> {
        context.check(&*self.clock)?;
        let start = request.start;
        let asked = self.wall_clock.asked(|| self.order.published());
        if let Some(asked) = &asked {
            let mut points: Vec<_> = asked.mutations().filter_map(|point| point.cell()).collect();
            points.sort();
            self.files.add(points.into_iter())?;
        }
        let (merged, mut claim) = self.merge(request)?;
        self.engine.ready(0).await?;
        self.engine.drained().await?;
        let appended = match self.engine.adopt(&merged, || self.order.decide(&mut claim)) {
            Ok(appended) => appended,
            Err(AppendError::Refused(error) | AppendError::Engine(error)) => return Err(error),
        };
        if let Some(asked) = asked {
            asked.written();
        }
        appended.await.map_err(|error| stopped(start, error))
    }
}

impl Spill for LocalSpill {
    fn add<'a>(
        &self,
        writes: &mut dyn Iterator<Item = (CellKeyRef<'a>, Option<&'a [u8]>)>,
    ) -> Result<()> {
        self.files.add(writes)
    }

    fn runs(&self) -> usize {
        self.files.runs()
    }

    fn get<'a>(&'a self, key: &'a CellKey) -> Spilling<'a, Option<Option<Bytes>>> {
        Box::pin(self.files.get(key))
    }

    fn range<'a>(
        &'a self,
        range: &'a KeyRange,
        reverse: bool,
        cells_max: usize,
    ) -> Spilling<'a, SpilledPage> {
        Box::pin(async move {
            let (cells, more) = self.files.range(range, reverse, cells_max).await?;
            Ok(SpilledPage { cells, more })
        })
    }

    fn commit<'a>(
        &'a self,
        context: &'a Context,
        request: CommitRequest,
    ) -> Spilling<'a, Timestamp> {
        Box::pin(self.commit(context, request))
    }
}
