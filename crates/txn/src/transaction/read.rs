//! Reads of cells, overlaid with the transaction's own writes.

use carnet_base::{Bytes, CellKey, Result};

use super::handle::{Inner, Transaction};
use crate::entry::Entry;
use crate::reader;

impl Transaction {
    /// Reads a cell.
    ///
    /// # Errors
    ///
    /// `Invalid` if the transaction has ended, or its read set would exceed its limit; `Timeout` if
    /// it has been idle for too long; otherwise the store's errors.
    pub async fn get(&self, key: &CellKey) -> Result<Option<Entry>> {
        let inner = &*self.inner;
        let (call, spilled, is_delta, mut own) = {
            let mut state = inner.open()?;
            let own = state.writes.get(key);
            let is_delta = state.deltas.contains(key);
            if let Some(payload) = &own
                && !is_delta
            {
                return Ok(inner.own(payload.clone()));
            }
            state.has_read = true;
            if inner.remembers_reads() {
                state.reads.point(key.hash(), &inner.bounds)?;
            }
            (inner.call(&mut state), state.spill(), is_delta, own)
        };
        if let Some(spill) = spilled
            && own.is_none()
            && let Some(payload) = spill.get(key).await?
        {
            if !is_delta {
                drop(call.end()?);
                return Ok(inner.own(payload));
            }
            own = Some(payload);
        }
        let version = reader::read(&*inner.store, &self.context, key, inner.begun.read).await?;
        // If another handle has ended the transaction meanwhile, the snapshot was not held during
        // the read.
        drop(call.end()?);
        match own.flatten() {
            Some(delta) => self.settle(key, delta, version.as_ref()),
            None => Ok(version.and_then(Entry::from_version)),
        }
    }

    /// Reads cells in the order of the keys. Reads at least one cell, and no further one once
    /// payloads of `bytes_max` bytes have been read from the store: the results are those of the
    /// first keys. A store may combine them into few requests.
    ///
    /// # Errors
    ///
    /// See [`Transaction::get`].
    pub async fn get_many(&self, keys: &[CellKey], bytes_max: usize) -> Result<Vec<Option<Entry>>> {
        if let [key] = keys {
            return Ok(vec![self.get(key).await?]);
        }
        let inner = &*self.inner;
        let mut entries = vec![None; keys.len()];
        // Indices of the cells that must be read from the store.
        let mut missing = Vec::new();
        let (call, spilled) = {
            let mut state = loop {
                self.settle_cells(keys).await?;
                let state = inner.open()?;
                // Another handle may have changed a cell meanwhile.
                if state.deltas.is_empty() || !keys.iter().any(|key| state.deltas.contains(key)) {
                    break state;
                }
            };
            state.has_read = true;
            for (place, key) in keys.iter().enumerate() {
                if let Some(payload) = state.writes.get(key) {
                    entries[place] = inner.own(payload);
                    continue;
                }
                if inner.remembers_reads() {
                    state.reads.point(key.hash(), &inner.bounds)?;
                }
                missing.push(place);
            }
            (inner.call(&mut state), state.spill())
        };
        if let Some(spill) = spilled {
            let mut left = Vec::with_capacity(missing.len());
            for place in missing {
                match spill.get(&keys[place]).await? {
                    Some(payload) => entries[place] = inner.own(payload),
                    None => left.push(place),
                }
            }
            missing = left;
        }
        let sought: Vec<CellKey> = missing.iter().map(|place| keys[*place].clone()).collect();
        let read = inner.begun.read;
        let found =
            reader::read_many(&*inner.store, &self.context, &sought, read, bytes_max).await?;
        drop(call.end()?);
        let unread = missing.get(found.len()).copied();
        for (place, version) in missing.into_iter().zip(found) {
            entries[place] = version.and_then(Entry::from_version);
        }
        if let Some(unread) = unread {
            entries.truncate(unread);
            self.forget_cells(&keys[unread..])?;
        }
        Ok(entries)
    }
}

impl Inner {
    pub(super) fn own(&self, payload: Option<Bytes>) -> Option<Entry> {
        let start = self.begun.start?;
        payload.map(|payload| Entry { start, payload })
    }
}
