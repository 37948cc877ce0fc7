//! Put-unless-exists: entries that are written all together, and only where none of them stands.
//!
//! It is what a commit table is made of: whoever puts the entry of a start first has decided what
//! became of it. Callers do not take turns. Each looks, and then writes if nobody wrote between:
//!
//! ```text
//!   watch the cells ─► order lock: which slots are open? ─► wait until those are inserted
//!          ▲                                                        │
//!          │ touched                                     read at the last of their commits
//!          │                                                        │
//!   order lock: touched? ─ no ─► decide, reserve, insert            ├─ none stands: prepare
//!                                like any other record              └─ some stand: say which
//! ```
//!
//! # Why it is linearizable
//!
//! Let N be the first slot that was not open when the watcher held the order lock, and R the last
//! commit before it.
//!
//! 1. Every record in a slot below N is inserted when the cells are read at R, so what is read is
//!    what stood at R.
//! 2. Every record in a slot from N on, appended plainly or by another such call, was reserved
//!    by somebody who took the order lock after the watch was there. He touched it before he left
//!    the lock, if he writes one of its cells.
//! 3. So if under the order lock, where this record gets its commit C, the watch is untouched, no
//!    commit between R and C wrote any of the cells: that none stands at R means that none stands
//!    before C. The call takes effect at C.
//! 4. Where some stand and the watch is untouched after the read, the call takes effect at R, which
//!    lies between its beginning and its end. (Compaction may forget what stood at R only for the
//!    sake of later versions, and those touch the watch.) The answer waits until what stands is
//!    published: otherwise a crash could take back what somebody was told.
//!
//! A touched watch means that somebody else's record has its place: who looks again has lost to a
//! writer that came forward. There is one record, so all entries are there after a crash or none.
//! Concurrent calls share writes and syncs of the log as all records do, and wait for the syncs
//! of records before them only where they report these.
//!
//! Entries a second, 100 in a call, on two virtual cores that other work shared: 212,000 with one
//! caller and a sync before each acknowledgement, 395,000 with 8, 592,000 with 32. A writer of plain
//! batches of 8 made 788,000 puts a second alone, and 674,000 beside a caller that put 272,000
//! entries a second on the other core (example `conditional`, medians of five).

#[cfg(all(test, not(shuttle)))]
mod tests;

use bytes::Bytes;
use carnet_base::{CellKey, Error, Result, Timestamp, Version};

use super::append::{AppendError, Appended};
use super::{Core, Engine};
use crate::batch::Mutation;
use crate::metrics::add;
use crate::sstable::ReadOptions;
use crate::sync::lock;

/// What became of entries that were to be put unless one of them exists.
#[derive(Debug)]
#[must_use = "what was put is acknowledged once its future completes"]
pub enum PutUnlessExists {
    /// None of them stood: all were put, by one record.
    Put(Appended),
    /// Some stand, and nothing was put: for each entry, in the order asked for, the version that
    /// stands, or `None` where there is none. Every version named is published.
    Exists(Vec<Option<Version>>),
}

/// What is to be known when the cells are read.
struct Look {
    /// All slots below had to be inserted first.
    slots_below: u64,
    /// The last of their commits.
    read: Timestamp,
}

impl Engine {
    /// Puts all entries by one record if none of their cells exists, and nothing otherwise.
    ///
    /// A cell exists unless its newest version is a tombstone or there is none; one that has
    /// expired exists until it is deleted. `decide` runs at most once, under the same lock and
    /// the same rules as that of [`Engine::append`], once nothing stands in the way. Dropping
    /// the future puts nothing, unless it has completed.
    ///
    /// # Errors
    ///
    /// As [`Engine::append`] and [`Engine::get`]; `Invalid` where two entries are of one cell.
    pub async fn put_unless_exists<E>(
        &self,
        start: Timestamp,
        entries: &[(CellKey, Bytes)],
        decide: impl FnOnce() -> Result<Timestamp, E>,
    ) -> Result<PutUnlessExists, AppendError<E>> {
        let failed = AppendError::Engine;
        let keys: Vec<CellKey> = entries.iter().map(|(key, _)| key.clone()).collect();
        refuse_twins(&keys).map_err(failed)?;
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

    /// Returns what stands, as of a moment of this call; published where anything does.
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

fn refuse_twins(keys: &[CellKey]) -> Result<()> {
    let mut sorted: Vec<&CellKey> = keys.iter().collect();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Error::invalid(format!("two entries are of one cell, {:?}", pair[0]))),
        None => Ok(()),
    }
}
