//! The commit table, and the part of it that this process has read.

use std::sync::{Arc, Mutex};

use carnet_base::sync::lock;
use carnet_base::{CommitEntry, Encoding, Error, Result, Timer, Timestamp};
use carnet_store::cluster::{Cluster, ReadMode, Register};
use quick_cache::sync::Cache;

use super::place::{Place, confirms, place_in};
use crate::coordination::EncodingMap;
use crate::options::Options;
use crate::sweep::Marks;

/// Maximum number of cached outcomes, of 32 bytes each.
const CACHED_MAX: usize = 1 << 20;

/// The commit table.
pub struct CommitTable<C> {
    pub(super) cluster: Arc<C>,
    pub(super) timer: Arc<dyn Timer>,
    pub(super) known: Mutex<Known>,
    /// Encoding for a database that has no coordination map yet.
    pub(super) first_encoding: Encoding,
    pub(super) coordination_step: u64,
}

/// Final entries, since the last restore of the database.
pub(super) type Outcomes = Cache<Timestamp, CommitEntry>;

/// State that was read from the database.
pub(super) struct Known {
    pub(super) map: Option<Arc<EncodingMap>>,
    /// A lookup takes this cache before it reads, and stores its result there. A result from before
    /// a restore thus goes to a cache that is no longer used.
    pub(super) outcomes: Arc<Outcomes>,
}

fn no_outcomes() -> Arc<Outcomes> {
    Arc::new(Cache::new(CACHED_MAX))
}

impl<C: Cluster> CommitTable<C> {
    /// Opens the commit table of a database.
    #[must_use]
    pub fn new(cluster: Arc<C>, timer: Arc<dyn Timer>, options: &Options) -> Self {
        Self {
            cluster,
            timer,
            known: Mutex::new(Known { map: None, outcomes: no_outcomes() }),
            first_encoding: options.encoding,
            coordination_step: options.coordination_step,
        }
    }

    /// Returns `true` if an encoding has a column for settled values.
    pub(crate) const fn confirms(encoding: Encoding) -> bool {
        confirms(encoding)
    }

    pub(crate) fn cluster(&self) -> &Arc<C> {
        &self.cluster
    }

    /// Returns the place of a start's entry.
    pub(crate) async fn place(&self, start: Timestamp) -> Result<Place> {
        let encoding = match self.known_encoding(start) {
            Some(encoding) => encoding,
            None => self.read_map(ReadMode::Quorum).await?.encoding_of(start).ok_or_else(|| {
                Error::invalid(format!(
                    "start {start} lies beyond every timestamp that may be \
                                        handed out"
                ))
            })?,
        };
        place_in(encoding, start)
    }

    /// Returns the place of the entry of a start that a leader may hand out: the map that was read
    /// covers it.
    pub(crate) fn known_place(&self, start: Timestamp) -> Result<Place> {
        let encoding = self.known_encoding(start).ok_or_else(|| {
            Error::corrupted(format!("start {start} was handed out beyond the coordination map"))
        })?;
        place_in(encoding, start)
    }

    fn known_encoding(&self, start: Timestamp) -> Option<Encoding> {
        lock(&self.known).map.as_ref()?.encoding_of(start)
    }

    /// Reads the map if the known one does not cover `start`.
    pub(super) async fn know_map_through(&self, start: Timestamp) -> Result<()> {
        if self.known_encoding(start).is_none() {
            Box::pin(self.read_map(ReadMode::Quorum)).await?;
        }
        Ok(())
    }

    pub(super) async fn read_map(&self, mode: ReadMode) -> Result<Arc<EncodingMap>> {
        let bytes = self.cluster.read_register(Register::Coordination, mode).await?;
        let bytes = bytes.ok_or_else(|| {
            Error::unavailable("the database has no coordination map: no leader has started it yet")
        })?;
        Ok(self.keep_map(EncodingMap::decode(&bytes)?))
    }

    /// Keeps a map that was read or written, and returns the latest one. Answers may come late: an
    /// earlier map must not replace a later one, by which timestamps have been handed out.
    pub(super) fn keep_map(&self, map: EncodingMap) -> Arc<EncodingMap> {
        let map = Arc::new(map);
        let mut known = lock(&self.known);
        if let Some(later) = known.map.as_ref().filter(|kept| map.precedes(kept)) {
            return Arc::clone(later);
        }
        let before = known.map.replace(Arc::clone(&map));
        if before.is_some_and(|before| before.last_gap() != map.last_gap()) {
            tracing::warn!("the database was restored: cached outcomes of its commits are dropped");
            known.outcomes = no_outcomes();
        }
        map
    }

    /// Caches a decision of a leader's term, unless it was made before a restore of the database.
    pub(crate) fn remember(&self, start: Timestamp, entry: CommitEntry) {
        let known = lock(&self.known);
        let last_gap = known.map.as_ref().and_then(|map| map.last_gap());
        if last_gap.is_none_or(|gap| start >= gap.1) {
            known.outcomes.insert(start, entry);
        }
    }

    /// Returns the commit of a transaction that is known to be final.
    pub(crate) fn known_commit(&self, start: Timestamp) -> Option<Timestamp> {
        match self.outcomes().get(&start)? {
            CommitEntry::Committed(commit) => Some(commit),
            CommitEntry::Aborted => None,
        }
    }

    pub(super) fn outcomes(&self) -> Arc<Outcomes> {
        Arc::clone(&lock(&self.known).outcomes)
    }

    /// Returns the marks of the sweep.
    pub(crate) async fn sweep_marks(&self) -> Result<Marks> {
        let bytes = self.cluster.read_register(Register::SweepMark, ReadMode::Quorum).await?;
        bytes.as_deref().map_or(Ok(Marks::default()), Marks::decode)
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::{ErrorKind, SystemClock, ThreadSpawn, ThreadTimer};
    use carnet_store::cluster::MemoryCluster;

    use super::*;

    #[test]
    fn late_map_replaces_no_later_one() {
        let at = |number| Timestamp::new(number).unwrap();
        let timer = ThreadTimer::lazy(Arc::new(SystemClock), Arc::new(ThreadSpawn));
        let table =
            CommitTable::new(Arc::new(MemoryCluster::new()), Arc::new(timer), &Options::default());
        let first = EncodingMap::starting_with(Encoding::V3, at(100));
        table.keep_map(first.extended(at(200)));
        assert_eq!(table.keep_map(first.clone()).valid_through(), at(200));
        table.known_place(at(150)).unwrap();
        // A restored database begins anew.
        table.keep_map(first.with_gap(at(150), at(1_000)).unwrap());
        assert_eq!(table.known_place(at(150)).unwrap_err().kind(), ErrorKind::Corrupted);
    }
}
