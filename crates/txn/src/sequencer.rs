//! The order of a database in one process: its clock, its active snapshots, and its decisions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use carnet_base::{Error, ErrorKind, Result, Timestamp};
use carnet_store::{BeginKind, Begun, CommitOrder, CommitRequest};

use crate::conflict::{ConflictState, DEFAULT_CELLS_MAX, Refusal};

/// When to come back if the clock has caught up with its bound. Raising it is one small write.
const BOUND_RETRY: Duration = Duration::from_millis(10);

/// Decides commits for the process that owns the log.
///
/// The first timestamp of its life is *consumed*: P and the conflict state's low watermark start
/// there, so that an idle database does not refuse its first transactions, and everything that
/// an earlier life committed lies below.
#[derive(Debug)]
pub struct Sequencer {
    clock: Timestamp,
    bound: Timestamp,
    published: Timestamp,
    conflicts: ConflictState,
    /// Active snapshots: how many transactions read at each.
    readers: BTreeMap<Timestamp, usize>,
    /// Snapshots of writers alone: what the conflict state must keep is above the oldest.
    writers: BTreeMap<Timestamp, usize>,
    /// Starts handed out and neither published nor ended.
    pending: BTreeSet<Timestamp>,
    /// Decided, not yet published.
    decided: BTreeSet<Timestamp>,
}

impl Sequencer {
    /// Starts a sequencer above every timestamp that an earlier life may have handed out.
    #[must_use]
    pub fn starting_at(first: Timestamp) -> Self {
        Self::with_conflict_cells(first, DEFAULT_CELLS_MAX)
    }

    /// As [`Sequencer::starting_at`], remembering at most that many written cells.
    #[must_use]
    pub fn with_conflict_cells(first: Timestamp, cells_max: usize) -> Self {
        Self {
            clock: first,
            bound: first,
            published: first,
            conflicts: ConflictState::new(first, cells_max),
            readers: BTreeMap::new(),
            writers: BTreeMap::new(),
            pending: BTreeSet::new(),
            decided: BTreeSet::new(),
        }
    }

    fn next(&mut self) -> Result<Timestamp> {
        match self.clock.checked_add(1) {
            Some(next) if next < self.bound => {
                self.clock = next;
                Ok(next)
            }
            _ => Err(Error::new(
                ErrorKind::Overloaded { retry_after: BOUND_RETRY },
                "timestamps are handed out faster than their bound is raised; try again",
            )),
        }
    }

    fn oldest_writer(&self) -> Timestamp {
        self.writers.keys().next().copied().unwrap_or(self.published).min(self.published)
    }
}

fn release(snapshots: &mut BTreeMap<Timestamp, usize>, read: Timestamp) {
    if let Some(count) = snapshots.get_mut(&read) {
        *count -= 1;
        if *count == 0 {
            snapshots.remove(&read);
        }
    }
}

fn refused(refusal: &Refusal, request: &CommitRequest) -> Error {
    match refusal {
        Refusal::Beaten { key, commit } => Error::conflict(format!(
            "another transaction wrote to table {} at {commit}, after this one's snapshot {}; \
             nothing was written, run the transaction again",
            key.table(),
            request.read
        )),
        Refusal::BelowWatermark(watermark) => Error::new(
            ErrorKind::TooOld,
            format!(
                "the snapshot {} is older than the conflict state reaches ({watermark}); \
                 nothing was written, begin a new transaction",
                request.read
            ),
        ),
    }
}

impl CommitOrder for Sequencer {
    fn begin(&mut self, kind: BeginKind) -> Result<Begun> {
        let mut read = self.published;
        let start = match kind {
            BeginKind::ReadOnly => None,
            BeginKind::ReadOnlyAt(earlier) if earlier <= self.published => {
                read = earlier;
                None
            }
            BeginKind::ReadOnlyAt(ahead) => {
                return Err(Error::invalid(format!(
                    "snapshot {ahead} lies ahead of the last commit, {}: it was never handed out",
                    self.published
                )));
            }
            BeginKind::ReadWrite => {
                let start = self.next()?;
                self.pending.insert(start);
                *self.writers.entry(read).or_default() += 1;
                Some(start)
            }
        };
        *self.readers.entry(read).or_default() += 1;
        Ok(Begun { read, start })
    }

    fn end(&mut self, begun: Begun) {
        release(&mut self.readers, begun.read);
        if let Some(start) = begun.start {
            release(&mut self.writers, begun.read);
            if !self.decided.contains(&start) {
                self.pending.remove(&start);
            }
        }
    }

    fn decide(&mut self, request: &CommitRequest) -> Result<Timestamp> {
        if !self.pending.contains(&request.start) || self.decided.contains(&request.start) {
            return Err(Error::invalid(format!(
                "start {} is not open: it was never handed out, or has been decided",
                request.start
            )));
        }
        self.conflicts.check(request).map_err(|refusal| refused(&refusal, request))?;
        let commit = self.next()?;
        self.conflicts.record(commit, request);
        self.conflicts.trim(self.oldest_writer());
        self.decided.insert(request.start);
        Ok(commit)
    }

    fn publish(&mut self, commit: Timestamp, start: Timestamp) {
        assert!(commit > self.published, "commits are published in the order they were decided");
        self.published = commit;
        self.pending.remove(&start);
        self.decided.remove(&start);
    }

    fn published(&self) -> Timestamp {
        self.published
    }

    fn latest(&self) -> Timestamp {
        self.clock
    }

    fn is_pending(&self, start: Timestamp) -> bool {
        self.pending.contains(&start)
    }

    fn oldest_read(&self) -> Timestamp {
        self.readers.keys().next().copied().unwrap_or(self.published)
    }

    fn headroom(&self) -> u64 {
        self.bound.get() - self.clock.get()
    }

    fn extend(&mut self, bound: Timestamp) {
        self.bound = self.bound.max(bound);
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::{CellKey, PartitionKey, TableId, Token};
    use carnet_store::{ReadSet, Write};

    use super::*;

    fn at(number: u64) -> Timestamp {
        Timestamp::new(number).unwrap()
    }

    fn sequencer() -> Sequencer {
        let mut sequencer = Sequencer::starting_at(at(100));
        sequencer.extend(at(1000));
        sequencer
    }

    fn write(begun: Begun, name: &'static str) -> CommitRequest {
        let partition = PartitionKey::first_at(Token(0));
        let key = CellKey::new(TableId(1), &partition, name);
        CommitRequest {
            read: begun.read,
            start: begun.start.unwrap(),
            reads: ReadSet::default(),
            writes: vec![Write { key, payload: None }],
        }
    }

    #[test]
    fn a_new_life_starts_above_the_old_one_and_serves_an_idle_database() {
        let mut sequencer = sequencer();
        let begun = sequencer.begin(BeginKind::ReadWrite).unwrap();
        assert_eq!(begun, Begun { read: at(100), start: Some(at(101)) });
        assert_eq!(sequencer.decide(&write(begun, "a")).unwrap(), at(102));
    }

    #[test]
    fn a_snapshot_never_includes_an_unpublished_commit() {
        let mut sequencer = sequencer();
        let writer = sequencer.begin(BeginKind::ReadWrite).unwrap();
        let commit = sequencer.decide(&write(writer, "a")).unwrap();
        assert_eq!(sequencer.begin(BeginKind::ReadOnly).unwrap().read, at(100));
        sequencer.publish(commit, writer.start.unwrap());
        assert_eq!(sequencer.begin(BeginKind::ReadOnly).unwrap().read, commit);
    }

    #[test]
    fn a_commit_under_way_is_pending_even_when_its_caller_has_gone() {
        let mut sequencer = sequencer();
        let begun = sequencer.begin(BeginKind::ReadWrite).unwrap();
        let start = begun.start.unwrap();
        let commit = sequencer.decide(&write(begun, "a")).unwrap();
        sequencer.end(begun);
        assert!(sequencer.is_pending(start));
        sequencer.publish(commit, start);
        assert!(!sequencer.is_pending(start));
    }

    #[test]
    fn a_start_is_decided_once() {
        let mut sequencer = sequencer();
        let begun = sequencer.begin(BeginKind::ReadWrite).unwrap();
        sequencer.decide(&write(begun, "a")).unwrap();
        assert_eq!(sequencer.decide(&write(begun, "a")).unwrap_err().kind(), ErrorKind::Invalid);
        let ended = sequencer.begin(BeginKind::ReadWrite).unwrap();
        sequencer.end(ended);
        assert_eq!(sequencer.decide(&write(ended, "b")).unwrap_err().kind(), ErrorKind::Invalid);
    }

    #[test]
    fn the_conflict_state_is_kept_for_the_oldest_active_writer() {
        let mut sequencer = sequencer();
        let old = sequencer.begin(BeginKind::ReadWrite).unwrap();
        for name in ["a", "b", "c"] {
            let begun = sequencer.begin(BeginKind::ReadWrite).unwrap();
            let commit = sequencer.decide(&write(begun, name)).unwrap();
            sequencer.publish(commit, begun.start.unwrap());
            sequencer.end(begun);
        }
        assert_eq!(sequencer.oldest_read(), at(100));
        let beaten = sequencer.decide(&write(old, "a")).unwrap_err();
        assert_eq!(beaten.kind(), ErrorKind::Conflict);
        sequencer.end(old);
        let begun = sequencer.begin(BeginKind::ReadWrite).unwrap();
        sequencer.decide(&write(begun, "a")).unwrap();
        assert_eq!(sequencer.conflicts.cells(), 1, "the others were forgotten");
    }

    #[test]
    fn timestamps_stay_below_the_bound() {
        let mut sequencer = Sequencer::starting_at(at(5));
        sequencer.extend(at(7));
        assert_eq!(sequencer.begin(BeginKind::ReadWrite).unwrap().start, Some(at(6)));
        let refused = sequencer.begin(BeginKind::ReadWrite).unwrap_err();
        assert!(matches!(refused.kind(), ErrorKind::Overloaded { .. }));
        assert!(sequencer.begin(BeginKind::ReadOnly).is_ok());
        sequencer.extend(at(6));
        assert_eq!(sequencer.headroom(), 1, "a bound is never lowered");
    }
}
