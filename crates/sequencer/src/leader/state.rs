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

pub(super) struct LeaderState {
    pub(super) clients: Clients,
    /// Decisions by start; waiters are answered in that order when the term ends.
    pub(super) decided: BTreeMap<Timestamp, Decided>,
    /// Starts whose decisions are remembered, oldest first.
    pub(super) remembered: VecDeque<Timestamp>,
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
