//! Point reads.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use carnet_base::{Call, CellKey, CellKeyRef, Result, Timestamp, Version, for_many};

use super::core::{Engine, READ_BYTES};
use super::view::View;
use crate::memtable;
use crate::sstable::{Found, Missing, ReadOptions, Table};
use crate::sync::atomic::Ordering;
use crate::usage::Reading;

impl Engine {
    /// Returns a cell's newest version that committed at or before `read`; a tombstone is a version
    /// without a payload.
    ///
    /// `read` must be at most [`Engine::published`], otherwise newer commits may be visible in
    /// part.
    ///
    /// # Errors
    ///
    /// `Corrupted`, naming the file and the offset; `Unavailable` if the disk fails.
    pub fn get<'a>(&'a self, key: &'a CellKey, read: Timestamp) -> Call<'a, Option<Version>> {
        self.get_with(key, read, ReadOptions::default())
    }

    /// Like [`Engine::get`], with options for the cache.
    ///
    /// # Errors
    ///
    /// Like [`Engine::get`].
    pub fn get_with<'a>(
        &'a self,
        key: &'a CellKey,
        read: Timestamp,
        reads: ReadOptions,
    ) -> Call<'a, Option<Version>> {
        let key = key.as_bytes();
        let reading = self.core.usage.get(key, &*self.core.clock);
        let (looked, kept) = {
            let view = self.core.view();
            let looked = self.look_in_memory(&view, key, read, reads);
            self.count_source(&looked);
            let kept = self.core.may_be_delta(key, &looked).then(|| Arc::clone(&view));
            (looked, kept)
        };
        match looked {
            Looked::Found(version, _) if kept.is_none() => {
                reading.got(version.as_ref(), &*self.core.clock);
                Call::ready(Ok(version))
            }
            looked => Call::boxed(self.go_on(looked, kept, key, (read, reads), reading)),
        }
    }

    /// Reads a cell at a snapshot that is chosen during the call: `moment` returns the newest
    /// commit that the reader may see. Returns this timestamp and the cell's newest version at it.
    ///
    /// `moment` must return at least every watermark that the hook of [`Engine::set_gc`] has
    /// returned, and at most [`Engine::published`]. The snapshot does not have to be registered
    /// with garbage collection. A view keeps its versions, and no version that is visible at
    /// `moment` has been dropped from it. The view is still current after `moment` was called, so
    /// no commit up to the snapshot is in a memtable outside the view.
    ///
    /// # Errors
    ///
    /// Like [`Engine::get`].
    pub async fn get_newest(
        &self,
        key: CellKeyRef<'_>,
        reads: ReadOptions,
        moment: impl Fn() -> Timestamp + Send,
    ) -> Result<(Timestamp, Option<Version>)> {
        let key = key.as_bytes();
        let reading = self.core.usage.get(key, &*self.core.clock);
        let (read, looked, kept) = {
            let mut view = self.core.view();
            let read = loop {
                let read = moment();
                if self.core.view_number.load(Ordering::Acquire) == view.number {
                    break read;
                }
                let now = self.core.view();
                if Arc::ptr_eq(&view, &now) {
                    break read;
                }
                view = now;
            };
            let looked = self.look_in_memory(&view, key, read, reads);
            self.count_source(&looked);
            let kept = self.core.may_be_delta(key, &looked).then(|| Arc::clone(&view));
            (read, looked, kept)
        };
        // Return directly: an extra future would copy the value.
        match looked {
            Looked::Found(version, _) if kept.is_none() => {
                reading.got(version.as_ref(), &*self.core.clock);
                Ok((read, version))
            }
            looked => Ok((read, self.go_on(looked, kept, key, (read, reads), reading).await?)),
        }
    }

    /// Continues where the search in memory ended: on disk, and below a delta in the view in which
    /// it was found.
    async fn go_on(
        &self,
        looked: Looked,
        kept: Option<Arc<View>>,
        key: &[u8],
        (read, reads): (Timestamp, ReadOptions),
        reading: Reading<'_>,
    ) -> Result<Option<Version>> {
        let found = match looked {
            Looked::Found(version, _) => version,
            Looked::Unread(missing, tables) => {
                reading.get_on_disk();
                self.read(missing, tables, key, read, reads).await?
            }
        };
        let found = match (found, kept) {
            (Some(newest), Some(view)) if self.core.is_of_delta(key, &newest) => {
                Some(self.merged(&view, key, newest, reads).await?)
            }
            (found, _) => found,
        };
        reading.got(found.as_ref(), &*self.core.clock);
        Ok(found)
    }

    /// Searches a cell in memory, without waiting. This usually suffices.
    pub(super) fn look_in_memory(
        &self,
        view: &View,
        key: &[u8],
        read: Timestamp,
        reads: ReadOptions,
    ) -> Looked {
        if let Some(found) = view.memtables().find_map(|memtable| memtable.get(key, read)) {
            let memtable::Found { start, commit, payload, .. } = found;
            let version = Version { start, commit: Some(commit), payload };
            return Looked::Found(Some(version), Source::Memtable);
        }
        let mut tables = view.tables_of(key);
        while let Some(table) = tables.next() {
            match table.get_cached(key, read, reads) {
                Ok(Some(found)) => return Looked::Found(Some(version(found)), Source::Files),
                Ok(None) => {}
                Err(missing) => {
                    let unread = std::iter::once(table).chain(tables);
                    return Looked::Unread(missing, unread.map(Arc::clone).collect());
                }
            }
        }
        Looked::Found(None, Source::Nowhere)
    }

    /// Counts where a search in memory ended. Most end in a memtable: what no counter has ended there.
    fn count_source(&self, looked: &Looked) {
        let counter = match looked {
            Looked::Found(_, Source::Memtable) => return,
            Looked::Found(_, Source::Files) => &self.core.counters.gets_cached,
            Looked::Found(_, Source::Nowhere) => &self.core.counters.gets_absent,
            Looked::Unread(..) => &self.core.counters.gets_on_disk,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Continues on disk where the search in memory ended.
    pub(super) async fn read(
        &self,
        missing: Missing,
        tables: Vec<Arc<Table>>,
        key: &[u8],
        read: Timestamp,
        reads: ReadOptions,
    ) -> Result<Option<Version>> {
        let _permit = self.core.permits.take(READ_BYTES).await;
        let mut missing = Some(missing);
        for table in tables {
            let found = match missing.take() {
                Some(missing) => table.get_from(missing, key, read, reads).await?,
                None => table.get(key, read, reads).await?,
            };
            if let Some(found) = found {
                return Ok(Some(version(found)));
            }
        }
        Ok(None)
    }

    /// Reads cells with concurrent disk reads, in the order of the keys. Reads at least one cell,
    /// and begins no further one once payloads of `bytes_max` bytes have been read: the results are
    /// those of the first keys.
    ///
    /// # Errors
    ///
    /// Like [`Engine::get`].
    pub async fn multi_get(
        &self,
        keys: &[CellKey],
        read: Timestamp,
        reads: ReadOptions,
        bytes_max: usize,
    ) -> Result<Vec<Option<Version>>> {
        if let [key] = keys {
            return Ok(vec![self.get_with(key, read, reads).await?]);
        }
        let begin = |place: usize| self.get_with(&keys[place], read, reads);
        let (mut found, mut bytes) = (Vec::with_capacity(keys.len()), 0);
        // Reads that have begun and not ended, by their place.
        let mut pending = Vec::new();
        std::future::poll_fn(|context| -> Poll<Result<()>> {
            let mut polled = 0;
            loop {
                if polled == pending.len() {
                    let is_full = polled == READS_MAX || (bytes >= bytes_max && !found.is_empty());
                    if is_full || found.len() == keys.len() {
                        break;
                    }
                    pending.push((found.len(), begin(found.len())));
                    found.push(None);
                }
                let (place, get) = &mut pending[polled];
                match for_many(|| Pin::new(&mut *get).poll(context)) {
                    Poll::Pending => polled += 1,
                    Poll::Ready(version) => {
                        let version: Option<Version> = version?;
                        bytes += version.as_ref().map_or(0, Version::payload_bytes);
                        found[*place] = version;
                        drop(pending.swap_remove(polled));
                    }
                }
            }
            if pending.is_empty() { Poll::Ready(Ok(())) } else { Poll::Pending }
        })
        .await?;
        Ok(found)
    }
}

/// Maximum number of concurrent disk reads of one call.
const READS_MAX: usize = 32;

/// Place in memory where a version was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Memtable,
    /// Cached blocks of files.
    Files,
    /// There is no version.
    Nowhere,
}

/// Result of a search in memory.
pub(super) enum Looked {
    Found(Option<Version>, Source),
    /// This section of the first table has to be read from disk, then the other tables are searched.
    Unread(Missing, Vec<Arc<Table>>),
}

fn version(found: Found) -> Version {
    Version { start: found.start, commit: Some(found.commit), payload: found.payload }
}
