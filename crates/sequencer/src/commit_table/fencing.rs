//! Raises the epochs of rows.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;

use carnet_base::commit_encoding::v2::{PARTITIONING_QUANTUM, quantum_of, rows_of_quantum};
use carnet_base::concurrent::all;
use carnet_base::sync::lock;
use carnet_base::{Epoch, Error, Result, Timestamp};
use carnet_store::cluster::{Cluster, CommitRow, RowAnswer};

use super::place::table_of;
use super::table::CommitTable;
use super::tries::{FIRST_WAIT, LONGEST_WAIT, READER_TRIES};
use crate::fence::{self, Fence, Progress};

/// Number of rows that are fenced concurrently.
const FENCES_AT_ONCE: usize = 32;

/// Reason why rows could not be fenced.
#[derive(Debug)]
pub(crate) enum FenceError {
    /// A row is of a later epoch.
    Superseded,
    /// A row could not be reached; others may have been raised.
    Failed(Error),
}

/// A row being fenced.
type Fencing<'a> = Pin<Box<dyn Future<Output = Result<(), FenceError>> + Send + 'a>>;

impl<C: Cluster> CommitTable<C> {
    /// Raises the epoch of every row that starts in `from..to` may use.
    pub(crate) async fn fence(
        &self,
        epoch: Epoch,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<(), FenceError> {
        self.coordinate(to).await.map_err(FenceError::Failed)?;
        let rows = self.rows_between(from, to).map_err(FenceError::Failed)?;
        let mut fences: Vec<Fencing<'_>> = Vec::with_capacity(rows.len());
        for row in &rows {
            fences.push(Box::pin(self.fence_row(row, epoch)));
        }
        all(fences, FENCES_AT_ONCE).await
    }

    /// Returns the rows that starts in `from..to` may use according to the map that was read.
    pub(crate) fn rows_between(
        &self,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<BTreeSet<CommitRow>> {
        let map = lock(&self.known).map.clone();
        let mut rows = BTreeSet::new();
        let (Some(map), Some(last)) = (map, to.previous()) else { return Ok(rows) };
        for quantum in quantum_of(from)..=quantum_of(last) {
            let start = |number: u64| Timestamp::new(number).unwrap_or(Timestamp::MAX);
            let first = start(quantum.saturating_mul(PARTITIONING_QUANTUM));
            let next = start(first.get().saturating_add(PARTITIONING_QUANTUM));
            for encoding in map.encodings_between(first.max(from), next.min(to)) {
                let table = table_of(encoding)?;
                rows.extend(rows_of_quantum(quantum).map(|row| CommitRow { table, row }));
            }
        }
        Ok(rows)
    }

    async fn fence_row(&self, row: &CommitRow, epoch: Epoch) -> Result<(), FenceError> {
        let mut fence = Fence::raising_to(epoch);
        let mut wait = FIRST_WAIT;
        for _ in 0..READER_TRIES {
            let (answer, fault) = match self.cluster.move_epoch(row, fence.expected(), epoch).await
            {
                Ok(RowAnswer::Applied) => (fence::EpochWrite::Applied, None),
                Ok(RowAnswer::Refused { epoch, .. }) => (fence::EpochWrite::Found(epoch), None),
                Err(fault) => (fence::EpochWrite::Nothing, Some(fault)),
            };
            match fence.answer(answer) {
                Progress::Raised => return Ok(()),
                Progress::Superseded(_) => return Err(FenceError::Superseded),
                Progress::Again => {}
            }
            if let Some(fault) = fault {
                tracing::debug!(%fault, "a row of the commit table could not be fenced yet");
                self.timer.wait(wait).await;
                wait = (wait * 2).min(LONGEST_WAIT);
            }
        }
        Err(FenceError::Failed(Error::unavailable("a row of the commit table cannot be fenced")))
    }
}
