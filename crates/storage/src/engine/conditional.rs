//! Put-unless-exists: writes a set of entries atomically, only if none of their cells exists.
//!
//! It is the primitive of a commit table: the first caller that writes the entry of a start decides
//! the outcome of that transaction. Callers use optimistic concurrency control. Each reads the
//! cells, and then writes if no other writer wrote them in between:
//! ```text
//!   watch the cells ─► order lock: which slots are open? ─► wait until those are inserted
//!          ▲                                                        │
//!          │ touched                                     read at the last of their commits
//!          │                                                        │
//!   order lock: touched? ─ no ─► decide, reserve, insert            ├─ none exists: prepare
//!                                like any other record              └─ some exist: return them
//! ```
//!
//! # Why it is linearizable
//!
//! Let N be the first slot that was not open when the caller held the order lock, and R the last
//! commit before it.
//!
//! 1. Every record in a slot below N is inserted when the cells are read at R, so the read returns
//!    the state at R.
//! 2. Every record in a slot from N on was reserved by a writer that took the order lock after the
//!    watch was registered. If the record contains one of the cells, its writer touched the watch
//!    before it released the lock.
//! 3. So if the watch is untouched when this record gets its commit C under the order lock, no
//!    commit between R and C wrote any of the cells: if none exists at R, none exists before C. The
//!    call takes effect at C.
//! 4. If some cells exist and the watch is untouched after the read, the call takes effect at R,
//!    which is between its begin and its end. (Compaction may drop a version at R only because of a
//!    later version, whose writer touched the watch.) The result is returned after the existing
//!    versions are published, because otherwise a crash could revoke them.
//!
//! A touched watch means that another writer's record has its position in the log, so each retry
//! implies progress of another writer. All entries are in one record, so a crash preserves all of
//! them or none. Concurrent calls share writes and syncs of the log like all records, and wait for
//! the syncs of earlier records only if they report these.
//!
//! The example `conditional` measures it.

#[cfg(all(test, not(shuttle)))]
mod tests;

use bytes::Bytes;
use carnet_base::{CellKey, Error, Result, Timestamp, Version};

use super::append::{AppendError, Appended};
use super::core::{Core, Engine};
use crate::batch::Mutation;
use crate::metrics::add;
use crate::sstable::ReadOptions;
use crate::sync::lock;

/// Result of [`Engine::put_unless_exists`].
#[derive(Debug)]
#[must_use = "what was put is acknowledged once its future completes"]
pub enum PutUnlessExists {
    /// No cell existed: all entries were put, in one record.
    Put(Appended),
    /// Some cells exist, and nothing was put. For each entry, in the order of the call, the
    /// existing version or `None`. Every version is published.
    Exists(Vec<Option<Version>>),
}

/// Position in the commit order at which the cells are read.
struct Look {
    /// All slots below must be inserted before the read.
    slots_below: u64,
    /// Last commit of these slots.
    read: Timestamp,
}

impl Engine {
    /// Puts all entries in one record if none of their cells exists; otherwise nothing.
    ///
    /// A cell exists if its newest version is not a tombstone; an expired version exists until it
    /// is deleted. `decide` runs at most once, under the same lock and rules as in
    /// [`Engine::append`], and only if no cell exists. Dropping the future before it completes puts
    /// nothing.
    ///
    /// # Errors
    ///
    /// Like [`Engine::append`] and [`Engine::get`]; `Invalid` if two entries have the same cell.
    pub async fn put_unless_exists<E>(
        &self,
        start: Timestamp,
        entries: &[(CellKey, Bytes)],
        decide: impl FnOnce() -> Result<Timestamp, E>,
    ) -> Result<PutUnlessExists, AppendError<E>> {
        let failed = AppendError::Engine;
        let keys: Vec<CellKey> = entries.iter().map(|(key, _)| key.clone()).collect();
        refuse_duplicates(&keys).map_err(failed)?;
        let puts = entries.iter().map(|(key, value)| Mutation::put_or_delete(key, Some(value)));
        let mut decide = Some(decide);
        loop {
            let watch = self.core.watches.begin(keys.iter().map(|key| &key.as_bytes()[..]));
            let standing = self.look(&keys).await.map_err(failed)?;
            if standing.iter().any(Option::is_some) {
                if watch.is_touched() {
                    continue;
                }
                return Ok(PutUnlessExists::Exists(standing));
            }
            let prepared = self.prepare(start, puts.clone()).map_err(failed)?;
            self.ready(prepared.bytes()).await.map_err(failed)?;
            let outcome = self.append_watched(prepared, Some(&watch), || {
                if watch.is_touched() {
                    return Err(None);
                }
                decide.take().map_or(Err(None), |decide| decide().map_err(Some))
            });
            return match outcome {
                Ok(appended) => Ok(PutUnlessExists::Put(appended)),
                Err(AppendError::Refused(None)) => {
                    add(&self.core.counters.puts_repeated, 1);
                    continue;
                }
                Err(AppendError::Refused(Some(refusal))) => Err(AppendError::Refused(refusal)),
                Err(AppendError::Engine(error)) => Err(AppendError::Engine(error)),
            };
        }
    }

    /// Returns the existing versions at some time during this call, after they are published.
    async fn look(&self, keys: &[CellKey]) -> Result<Vec<Option<Version>>> {
        let core = &self.core;
        let Look { slots_below, read } = core.look();
        std::future::poll_fn(|context| core.publication.poll_inserted(slots_below, context))
            .await?;
        let mut standing = self.multi_get(keys, read, ReadOptions::default()).await?;
        for version in &mut standing {
            *version = version.take().filter(|version| version.payload.is_some());
        }
        let newest = standing.iter().flatten().filter_map(|version| version.commit).max();
        if newest.is_some_and(|newest| newest > self.published()) {
            std::future::poll_fn(|context| core.publication.poll_published(slots_below, context))
                .await?;
        }
        Ok(standing)
    }
}

impl Core {
    fn look(&self) -> Look {
        let order = lock(&self.order);
        Look { slots_below: self.publication.opened(), read: order.last_commit }
    }
}

fn refuse_duplicates(keys: &[CellKey]) -> Result<()> {
    let mut sorted: Vec<&CellKey> = keys.iter().collect();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Error::invalid(format!("two entries are of one cell, {:?}", pair[0]))),
        None => Ok(()),
    }
}
