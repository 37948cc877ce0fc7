//! Writes, and cells that the commit depends on.

use std::sync::MutexGuard;

use carnet_base::{Bytes, CellHash, CellKey, CellKeyRef, Error, KeyRange, Result, TableId};
use carnet_store::Writes;

use super::handle::{Inner, Transaction};
use super::state::{Spilled, TransactionState};
use crate::memory::SetMemory;

impl Transaction {
    /// Writes a cell. Other transactions do not see it before the commit.
    ///
    /// # Errors
    ///
    /// `Invalid` if the transaction has ended, is read-only, or would exceed its limits, or if the
    /// key or the payload is too long; `Timeout` if it has been idle for too long.
    pub fn put(&self, key: CellKey, payload: Bytes) -> Result<()> {
        self.write(key, Some(payload))
    }

    /// Like [`Transaction::guard_hash`] followed by [`Transaction::put`], but copies the key and
    /// the payload.
    ///
    /// # Errors
    ///
    /// See [`Transaction::put`].
    pub fn put_guarded(
        &self,
        guarded: CellHash,
        key: CellKeyRef<'_>,
        payload: &[u8],
    ) -> Result<()> {
        let mut state = self.with_room_for(key, Some(payload))?;
        state.reads.guard(guarded, &self.inner.bounds)?;
        state.changes += 1;
        state.writes.put(key, Some(payload));
        if !state.deltas.is_empty() {
            state.deltas.remove(&key.to_key());
        }
        self.inner.spill_without_memory(&mut state)
    }

    /// Deletes a cell, whether it exists or not.
    ///
    /// # Errors
    ///
    /// See [`Transaction::put`].
    pub fn delete(&self, key: CellKey) -> Result<()> {
        self.write(key, None)
    }

    fn write(&self, key: CellKey, payload: Option<Bytes>) -> Result<()> {
        let mut state = self.with_room_for(key.as_key_ref(), payload.as_deref())?;
        state.deltas.remove(&key);
        state.changes += 1;
        state.writes.put_owned(key, payload);
        self.inner.spill_without_memory(&mut state)
    }

    /// Locks the state with room for a write, spilling earlier writes if necessary.
    pub(super) fn with_room_for(
        &self,
        key: CellKeyRef<'_>,
        payload: Option<&[u8]>,
    ) -> Result<MutexGuard<'_, TransactionState>> {
        let inner = &*self.inner;
        if inner.begun.start.is_none() {
            return Err(only_reads());
        }
        key.check_size(payload)?;
        let mut state = inner.open()?;
        let bytes = Writes::weight(key, payload);
        // Count exactly only near a limit.
        let bounds = &inner.bounds;
        let limits = &bounds.limits;
        let most = state.grown(bytes);
        if limits.hold(&most) && state.write_memory.holds(most.memory_len(), bounds) {
            return Ok(state);
        }
        let mut grown = state.grown_by(key, bytes);
        limits.check_writes(&grown)?;
        if grown.memory_bytes() > limits.spill_bytes && inner.spill(&mut state)? {
            grown = state.grown_by(key, bytes);
        }
        limits.check_memory(&grown)?;
        let len = grown.memory_len();
        let charged = if inner.can_spill(&state) {
            state.write_memory.grow_fairly_to(len, bounds)
        } else {
            state.write_memory.grow_to(len, bounds)
        };
        if let Err(refused) = charged {
            if inner.spill(&mut state)? {
                grown = state.grown_by(key, bytes);
            }
            // A single cell always fits, whatever the settings are.
            if grown.cells > 1 {
                return Err(refused);
            }
            state.write_memory.force(grown.memory_len(), bounds);
            // A transaction that is about to commit needs the memory for a short time only.
            state.spills_next = bounds.counts_small_sets;
        }
        Ok(state)
    }

    /// Drops a table: deletes all its cells, without reading any.
    ///
    /// The caller must ensure that the commit writes a cell that every user of the table reads or
    /// guards, and that the table's id is not used again: see
    /// [`CommitRequest::drops`](carnet_store::CommitRequest::drops).
    ///
    /// # Errors
    ///
    /// `Invalid` if the transaction has ended or is read-only.
    pub fn drop_table(&self, table: TableId) -> Result<()> {
        if self.inner.begun.start.is_none() {
            return Err(only_reads());
        }
        let state = &mut *self.inner.open()?;
        if state.spilled.is_some() {
            return Err(Error::unsupported(
                "dropping a table in a transaction that has written more than fits into memory",
            ));
        }
        // A commit does not hide the writes of its own transaction, so remove them here.
        state.writes.forget_table(table);
        state.deltas.retain(|key| key.table() != table);
        state.changes += 1;
        state.drops.push(table);
        Ok(())
    }

    /// Makes the commit depend on a cell, such as a schema, at every isolation level.
    ///
    /// # Errors
    ///
    /// `Invalid` if the transaction has ended.
    pub fn guard_cell(&self, key: &CellKey) -> Result<()> {
        self.guard_hash(key.hash())
    }

    /// Like [`Transaction::guard_cell`], for a cell whose hash is known.
    ///
    /// # Errors
    ///
    /// See [`Transaction::guard_cell`].
    pub fn guard_hash(&self, cell: CellHash) -> Result<()> {
        self.inner.open()?.reads.guard(cell, &self.inner.bounds)
    }

    /// Makes the commit depend on a range, such as a deleted range, at every isolation level.
    ///
    /// # Errors
    ///
    /// `Invalid` if the transaction has ended.
    pub fn guard_range(&self, range: KeyRange) -> Result<()> {
        self.inner.open()?.reads.range(range, &self.inner.bounds)
    }
}

impl Inner {
    /// Returns `true` if writes in memory can be spilled.
    fn can_spill(&self, state: &TransactionState) -> bool {
        let makes_one = || self.begun.start.is_some_and(|start| self.store.spill(start).is_some());
        state.drops.is_empty() && (state.spilled.is_some() || makes_one())
    }

    /// Spills a write for which there was no memory, once it is made.
    pub(super) fn spill_without_memory(&self, state: &mut TransactionState) -> Result<()> {
        if std::mem::take(&mut state.spills_next) {
            self.spill(state)?;
        }
        Ok(())
    }

    /// Spills the writes in memory to a file, if the store supports it; returns whether it did.
    fn spill(&self, state: &mut TransactionState) -> Result<bool> {
        let Some(start) = self.begun.start.filter(|_| state.drops.is_empty()) else {
            return Ok(false);
        };
        if state.writes.is_empty() {
            return Ok(false);
        }
        let spilled = match state.spilled.take() {
            Some(spilled) => spilled,
            None => match self.store.spill(start) {
                Some(spill) => Spilled { spill, bytes: 0, cells: 0 },
                None => return Ok(false),
            },
        };
        let spilled = state.spilled.insert(spilled);
        spilled.spill.add(&mut state.writes.iter())?;
        spilled.bytes += state.writes.bytes();
        spilled.cells += state.writes.len() as u64;
        state.writes.clear();
        state.write_memory = SetMemory::default();
        Ok(true)
    }
}

fn only_reads() -> Error {
    Error::invalid("this transaction is read-only; begin one that may write")
}
