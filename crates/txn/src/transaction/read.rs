//! Reads of cells and ranges, overlaid with the transaction's own writes.

use carnet_base::{Bytes, CellKey, KeyRange, Result, Version};
use carnet_store::{CellStore, CommitLog, PageLimit, RangeRequest, SpilledPage};

use super::handle::{Inner, Transaction};
use super::merge::{covered, cut, merge, own_page};
use crate::entry::{Entry, TransactionPage};
use crate::reader;

impl<S: CellStore + CommitLog> Transaction<S> {
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
        self.settle_cells(keys).await?;
        let inner = &*self.inner;
        let mut entries = vec![None; keys.len()];
        // Indices of the cells that must be read from the store.
        let mut missing = Vec::new();
        let (call, spilled) = {
            let mut state = inner.open()?;
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

    /// Reads a page of a range, overlaid with this transaction's own writes.
    ///
    /// # Errors
    ///
    /// See [`Transaction::get`].
    pub async fn range(
        &self,
        range: &KeyRange,
        reverse: bool,
        limit: PageLimit,
    ) -> Result<TransactionPage> {
        self.settle_range(range).await?;
        let inner = &*self.inner;
        let awaited = {
            let mut state = inner.open()?;
            state.has_read = true;
            inner.call(&mut state)
        };
        let read = inner.begun.read;
        let request = RangeRequest { range: range.clone(), read, reverse, limit };
        let page = inner.store.range(&self.context, &request).await?;
        let (keys, found): (Vec<CellKey>, Vec<_>) =
            page.cells.into_iter().map(|(key, version)| (key, Some(version))).unzip();
        let visible = reader::resolve_all(&*inner.store, &self.context, &keys, found, read).await?;
        let mut stored = Vec::with_capacity(keys.len());
        for (key, version) in keys.into_iter().zip(visible) {
            let Some(Version { start, payload: Some(payload), .. }) = version else { continue };
            stored.push((key, Entry { start, payload }));
        }
        let mut rest = page.resume;
        let looked_at = covered(range, rest.as_ref(), reverse);
        let own_max = limit.cells.max(1).saturating_mul(2);
        let (spilled, mut state) = loop {
            let runs = inner.open()?.runs();
            let spilled = inner.spilled_writes(&looked_at, reverse, own_max).await?;
            let state = inner.open()?;
            // If the number of runs has changed, a write of another handle has spilled: read again.
            if state.runs() == runs {
                break (spilled, state);
            }
        };
        awaited.finish(&mut state);
        let own = state.writes.range(&looked_at, reverse);
        let before = |a: &CellKey, b: &CellKey| if reverse { a > b } else { a < b };
        // Later own writes are overlaid on later pages: scanning all of them for each page would
        // take quadratic time.
        let (page_of_own, more) = own_page(own, spilled, own_max, before);
        if more && let Some((last, _)) = page_of_own.last() {
            let behind = range.after(last.clone(), reverse);
            stored.retain(|(key, _)| !behind.contains(key));
            rest = Some(behind);
        }
        let page_of_own = page_of_own
            .into_iter()
            .map(|(key, payload)| (key, inner.own(payload)))
            .collect::<Vec<_>>();
        let merged = if page_of_own.is_empty() {
            stored
        } else {
            merge(stored.into_iter().peekable(), page_of_own.into_iter(), before)
        };
        let page = cut(merged, rest, range, reverse, limit);
        if inner.remembers_reads() {
            let covered = covered(range, page.resume.as_ref(), reverse);
            state.reads.range(covered, &inner.bounds)?;
        }
        Ok(page)
    }
}

impl<S: CellStore + CommitLog> Inner<S> {
    fn own(&self, payload: Option<Bytes>) -> Option<Entry> {
        let start = self.begun.start?;
        payload.map(|payload| Entry { start, payload })
    }

    /// Returns the first spilled writes in a range.
    async fn spilled_writes(
        &self,
        range: &KeyRange,
        reverse: bool,
        cells_max: usize,
    ) -> Result<SpilledPage> {
        let Some(spill) = self.open()?.spill() else { return Ok(SpilledPage::default()) };
        spill.range(range, reverse, cells_max).await
    }
}
