//! The last statements that lost a row to another transaction.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use carnet::WallTime;
use carnet_admission::diagnosis::Named;
use carnet_base::lock;

use crate::cql_error::LostRow;

/// Maximum number of kept conflicts.
pub(in crate::exec) const CONFLICTS_MAX: usize = 500;

/// A statement that lost a row at least once.
#[derive(Clone, Debug)]
pub(in crate::exec) struct Conflict {
    /// Time of the statement's end.
    pub(in crate::exec) at: WallTime,
    pub(in crate::exec) client: Arc<str>,
    pub(in crate::exec) user: Option<Arc<str>>,
    pub(in crate::exec) named: Arc<Named>,
    /// Number of attempts that were lost.
    pub(in crate::exec) attempts: u64,
    /// Row that was lost last, if the error of the statement names it.
    pub(in crate::exec) row: Option<LostRow>,
    /// Bytes of the key of its cell otherwise, if they are known.
    pub(in crate::exec) key: Option<Box<[u8]>>,
    /// Whether the statement succeeded in a later attempt.
    pub(in crate::exec) has_succeeded: bool,
}

/// Kept conflicts, the oldest first.
#[derive(Debug, Default)]
pub(in crate::exec) struct Conflicts(Mutex<VecDeque<Arc<Conflict>>>);

impl Conflicts {
    /// Keeps a conflict, and forgets the oldest if there are too many.
    pub(in crate::exec) fn push(&self, conflict: Conflict) {
        let mut kept = lock(&self.0);
        if kept.len() >= CONFLICTS_MAX {
            kept.pop_front();
        }
        kept.push_back(Arc::new(conflict));
    }

    /// Returns the conflicts, the newest first.
    pub(in crate::exec) fn list(&self) -> Vec<Arc<Conflict>> {
        lock(&self.0).iter().rev().cloned().collect()
    }
}
