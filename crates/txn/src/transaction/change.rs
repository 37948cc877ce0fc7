//! Changes of rows that are not read: deltas.
//!
//! A change becomes a delta in the write set, unless the transaction has written the row before.
//! A delta does not know how long the row becomes. So only short ones are written blindly; for longer
//! ones the caller reads the row, and the limit of rows applies to the image that it writes.
//!
//! Changing a row is not reading it: a transaction that only changes rows has an empty read set. If
//! the transaction reads the row later, the delta becomes an image, and the row is in its read set.

use carnet_base::{Bytes, CellKey, KeyRange, Result, Version};
use carnet_data::{RowDelta, RowImage};

use super::handle::Transaction;
use crate::entry::Entry;
use crate::limits::DELTA_BYTES_MAX;

impl Transaction {
    /// Changes a part of a row without reading it. Returns `false` without effect if the row has to
    /// be read and [written](Transaction::put): the [store](carnet_store::CommitLog::takes_delta) takes no delta of
    /// it, the delta would exceed 64 KiB, or the transaction has spilled writes or dropped a table.
    ///
    /// # Errors
    ///
    /// See [`Transaction::put`].
    pub fn change(&self, key: &CellKey, delta: &RowDelta) -> Result<bool> {
        if !self.inner.store.takes_delta(key) {
            return Ok(false);
        }
        loop {
            let (own, is_delta) = {
                let state = self.inner.open()?;
                if state.spilled.is_some() || !state.drops.is_empty() {
                    return Ok(false);
                }
                (state.writes.get(key), state.deltas.contains(key))
            };
            let payload = match &own {
                None => Some(delta.encode()),
                Some(Some(earlier)) if is_delta => {
                    let mut both = RowDelta::decode(earlier)?;
                    both.extend(delta.clone());
                    Some(both.encode())
                }
                Some(earlier) => changed(earlier.as_ref(), delta)?,
            };
            let stays_delta = own.is_none() || is_delta;
            if stays_delta && payload.as_ref().is_some_and(|it| it.len() > DELTA_BYTES_MAX) {
                return Ok(false);
            }
            let mut state = self.with_room_for(key.as_key_ref(), payload.as_deref())?;
            if state.spilled.is_none() && state.writes.get(key) != own {
                continue; // Another handle has written the cell meanwhile.
            }
            state.changes += 1;
            state.writes.put_owned(key.clone(), payload);
            if own.is_none() {
                state.deltas.insert(key.clone());
            }
            return Ok(true);
        }
    }

    /// Turns the transaction's deltas in a range into images, so that the range can be read.
    pub(super) async fn settle_range(&self, range: &KeyRange) -> Result<()> {
        let deltas: Vec<CellKey> = {
            let state = self.inner.open()?;
            state.deltas.iter().filter(|key| range.contains(key)).cloned().collect()
        };
        self.settle_deltas(deltas).await
    }

    async fn settle_deltas(&self, deltas: Vec<CellKey>) -> Result<()> {
        for key in deltas {
            // In memory of its own: few reads meet deltas of their own transaction.
            Box::pin(self.get(&key)).await?;
        }
        Ok(())
    }

    /// Turns the transaction's deltas of cells into images, so that the cells can be read.
    pub(super) async fn settle_cells(&self, keys: &[CellKey]) -> Result<()> {
        let deltas: Vec<CellKey> = {
            let state = self.inner.open()?;
            if state.deltas.is_empty() {
                return Ok(());
            }
            keys.iter().filter(|key| state.deltas.contains(*key)).cloned().collect()
        };
        self.settle_deltas(deltas).await
    }

    /// Writes the image that results from an own delta and the version below it.
    pub(super) fn settle(
        &self,
        key: &CellKey,
        delta: Bytes,
        below: Option<&Version>,
    ) -> Result<Option<Entry>> {
        let Some(start) = self.inner.begun.start else { return Ok(None) };
        let value = below.and_then(|version| Some((version.start, version.payload.as_ref()?)));
        let image = RowDelta::merge(value, &[(start, delta.clone())])?;
        let payload = image.is_live().then(|| image.encode());
        let mut state = self.with_room_for(key.as_key_ref(), payload.as_deref())?;
        // Another handle may have written the cell meanwhile.
        let own = state.writes.get(key);
        if state.deltas.contains(key) && own.is_none_or(|own| own == Some(delta)) {
            state.writes.put_owned(key.clone(), payload.clone());
            state.deltas.remove(key);
            self.inner.spill_without_memory(&mut state)?;
        }
        Ok(payload.map(|payload| Entry { start, payload }))
    }
}

/// Applies a change to an image that the same transaction wrote; `None` is a deleted row.
fn changed(earlier: Option<&Bytes>, delta: &RowDelta) -> Result<Option<Bytes>> {
    let mut image = earlier.map(RowImage::decode).transpose()?.unwrap_or_default();
    delta.apply(&mut image)?;
    Ok(image.is_live().then(|| image.encode()))
}
