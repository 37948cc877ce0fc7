//! The changing state of a leader's term.

use std::collections::{BTreeMap, VecDeque};

use carnet_base::{CellKey, CommitEntry, Moment, Timestamp};

use super::folds::Folds;
use crate::candidate::Term;
use crate::cells::ChangeLog;
use crate::clients::Clients;
use crate::commit_table::Place;
use crate::groups::Groups;
use crate::members::Announcements;
use crate::message::Response;
use crate::oneshot::Sender;
use crate::prefix::Prefix;
use crate::row_allocator::RowAllocator;
use crate::sweep::VersionOutcome;

/// Maximum number of remembered decisions; for older ones the leader reads the commit table.
const REMEMBERED_MAX: usize = 1 << 16;

pub(super) struct LeaderState {
    pub(super) clients: Clients,
    /// Decisions by start; waiters are answered in that order when the term ends.
    pub(super) decided: BTreeMap<Timestamp, Decided>,
    /// Starts whose decisions are remembered, oldest first.
    remembered: VecDeque<Timestamp>,
    pub(super) prefix: Prefix<Resolved>,
    /// The last commit that was decided; at first, the beginning of the term.
    pub(super) last_commit: Timestamp,
    pub(super) groups: Groups<Entry>,
    pub(super) row_allocator: RowAllocator,
    /// Cells that the commits of this term wrote, for processes with a cell cache.
    pub(super) changes: ChangeLog,
    pub(super) folds: Folds,
    /// Cells to fold once P has passed the commits.
    pub(super) due_folds: BTreeMap<Timestamp, Vec<CellKey>>,
    pub(super) announcements: Announcements,
    /// The reason why the term ended, if it has.
    pub(super) ended: Option<Ended>,
}

impl LeaderState {
    pub(super) fn new(term: &Term, now: Moment) -> Self {
        Self {
            clients: Clients::default(),
            decided: BTreeMap::new(),
            remembered: VecDeque::new(),
            prefix: Prefix::default(),
            last_commit: term.first,
            groups: Groups::default(),
            row_allocator: RowAllocator::default(),
            changes: ChangeLog::starting_at(term.first),
            folds: Folds::default(),
            due_folds: BTreeMap::new(),
            announcements: Announcements::new(now),
            ended: None,
        }
    }

    /// Returns a version's outcome as far as this term knows it, or `None` if the commit table has
    /// to be asked. Starts above `latest` belong to a later leader, who may still commit them:
    /// asking for them would abort them.
    pub(super) fn known_outcome(
        &self,
        start: Timestamp,
        latest: Timestamp,
    ) -> Option<VersionOutcome> {
        if start > latest || self.clients.is_open(start) {
            return Some(VersionOutcome::Open);
        }
        Some(match self.decided.get(&start)? {
            Decided::Pending(_) => VersionOutcome::Open,
            Decided::Known(entry) => (*entry).into(),
        })
    }

    /// Remembers a decision that is final, forgets the oldest ones above the maximum, and returns
    /// the waiters of its start.
    pub(super) fn remember(
        &mut self,
        start: Timestamp,
        entry: CommitEntry,
    ) -> Vec<Sender<Response>> {
        let before = self.decided.insert(start, Decided::Known(entry));
        self.remembered.push_back(start);
        if self.remembered.len() > REMEMBERED_MAX
            && let Some(oldest) = self.remembered.pop_front()
        {
            self.decided.remove(&oldest);
        }
        match before {
            Some(Decided::Pending(waiting)) => waiting,
            _ => Vec::new(),
        }
    }
}

/// The reason why a term ended.
#[derive(Clone, Debug)]
pub(super) enum Ended {
    Deposed,
    Broken(String),
}

/// The state of a decided start.
pub(super) enum Decided {
    Pending(Vec<Sender<Response>>),
    Known(CommitEntry),
}

/// An entry in flight.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) start: Timestamp,
    pub(super) commit: Timestamp,
    pub(super) place: Place,
}

pub(super) struct Resolved {
    pub(super) start: Timestamp,
    pub(super) entry: CommitEntry,
}

#[cfg(test)]
mod tests {
    use carnet_base::Epoch;

    use super::*;

    fn at(number: u64) -> Timestamp {
        Timestamp::new(number).unwrap()
    }

    fn state() -> LeaderState {
        let term = Term { epoch: Epoch(1), nonce: 1, first: at(2), bound: at(1 << 40) };
        LeaderState::new(&term, Moment::default())
    }

    #[test]
    fn outcomes_that_a_term_knows() {
        let mut state = state();
        state.remember(at(10), CommitEntry::Committed(at(12)));
        state.remember(at(20), CommitEntry::Aborted);
        state.decided.insert(at(30), Decided::Pending(Vec::new()));
        let known = |start, latest| state.known_outcome(at(start), at(latest));
        assert_eq!(known(10, 40), Some(VersionOutcome::Committed(at(12))));
        assert_eq!(known(20, 40), Some(VersionOutcome::Aborted));
        assert_eq!(known(30, 40), Some(VersionOutcome::Open));
        assert_eq!(known(8, 40), None, "decided before this term, or long ago");
        assert_eq!(known(40, 40), None, "handed out, and given up");
        assert_eq!(known(42, 40), Some(VersionOutcome::Open), "handed out by a later leader");
        assert_eq!(known(60, 40), Some(VersionOutcome::Open), "handed out by a later leader");
    }

    #[test]
    fn remembered_decisions_are_bounded() {
        let mut state = state();
        let starts = (1..=REMEMBERED_MAX as u64 + 3).map(|number| at(2 * number));
        for start in starts {
            state.remember(start, CommitEntry::Aborted);
        }
        assert_eq!(state.decided.len(), REMEMBERED_MAX);
        let oldest = state.decided.keys().next().copied();
        assert_eq!(oldest, Some(at(8)), "the three oldest were forgotten");
    }
}
