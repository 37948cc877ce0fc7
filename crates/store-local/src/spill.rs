//! Large transactions: the engine's private files behind the store's trait.

use std::sync::Arc;

use carnet_base::{Bytes, CellHash, CellKey, CellKeyRef, Clock, KeyRange, Result, Timestamp};
use carnet_storage::{AppendError, Engine, Merged};
use carnet_store::{Cells, Claim, CommitRequest, Context, Spill, SpilledPage, Spilling};

use crate::times::Times;
use crate::{SharedOrder, stopped};

/// So many bytes of keys are remembered of one commit, to check others against it; of a larger
/// one nothing is, and whoever began before it is refused.
const LISTED_BYTES_MAX: usize = 16 << 20;
/// What remembering a cell costs beside its key.
const CELL_BYTES: usize = 120;

/// The writes of one transaction that are too many to be kept in memory.
pub(crate) struct LocalSpill {
    /// Removed before the engine, which may go with it, gives the directory back.
    pub(crate) files: carnet_storage::Spill,
    pub(crate) engine: Arc<Engine>,
    pub(crate) order: SharedOrder,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) times: Arc<Times>,
}

impl LocalSpill {
    /// Makes one table of everything, and a claim of its cells.
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
        let checks_writes = true;
        Ok((merged, Claim { read, start, slot, reads, cells, checks_writes, drops, beyond }))
    }

    async fn commit(&self, context: &Context, request: CommitRequest) -> Result<Timestamp> {
        context.check(&*self.clock)?;
        let start = request.start;
        let asked = self.times.asked(|| self.order.published());
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
