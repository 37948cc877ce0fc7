//! Commit and rollback.

use carnet_base::{CellHash, Result, Timestamp};
use carnet_store::CommitRequest;

use super::handle::{Inner, Transaction};
use super::state::{Ended, Spilled, TransactionState};

impl Transaction {
    /// Commits, and returns the timestamp at which the writes are visible; a transaction without
    /// writes returns its snapshot.
    ///
    /// Dropping the future does not undo a commit that was decided; it ends the transaction in any
    /// case.
    ///
    /// # Errors
    ///
    /// `Conflict` and `TooOld`: nothing was written, run the transaction again. `Unknown`: query
    /// the outcome by the start timestamp. `Invalid`: the transaction has ended already.
    pub async fn commit(&self) -> Result<Timestamp> {
        let inner = &*self.inner;
        // The memory of both sets is charged until the commit has ended.
        let TransactionState {
            has_read,
            reads,
            writes,
            drops,
            spilled,
            write_memory: _written,
            ..
        } = { inner.open()?.end(Ended::ByCall) };
        let (reads, _read) = reads.into_set();
        let _release = Release(inner);
        match inner.begun.start {
            Some(start) if !writes.is_empty() || !drops.is_empty() || spilled.is_some() => {
                let mut request = CommitRequest::new(inner.begun, start, reads, writes);
                request.drops = drops;
                request.checks_writes = has_read && !inner.isolation.checks_reads();
                match spilled {
                    Some(Spilled { spill, .. }) => spill.commit(&self.context, request).await,
                    None => inner.store.commit(&self.context, request).await,
                }
            }
            _ => Ok(inner.begun.read),
        }
    }

    /// Returns the result of `choose` for the cells that the transaction wrote or read one by one,
    /// if it has writes in memory.
    pub fn with_cells<T>(
        &self,
        choose: impl FnOnce(&mut dyn Iterator<Item = CellHash>) -> Option<T>,
    ) -> Option<T> {
        let state = self.inner.lock();
        if state.writes.is_empty() {
            return None;
        }
        let written = state.writes.iter().map(|(key, _)| key.hash());
        choose(&mut written.chain(state.reads.points().iter().copied()))
    }

    /// Rolls the transaction back, and discards its writes.
    pub fn rollback(&self) {
        let mut state = self.inner.lock();
        // A commit by another handle keeps the snapshot until it is complete.
        if state.ended.is_some() {
            return;
        }
        let given_up = state.end(Ended::ByCall);
        drop(state);
        drop(given_up);
        self.inner.release();
    }
}

/// Releases the snapshot when a commit is complete or cancelled.
struct Release<'a>(&'a Inner);

impl Drop for Release<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}
