//! A running statement.

use std::sync::{Arc, Mutex, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

use carnet_admission::diagnosis::{Named, Waits, Why};
use carnet_admission::{Class, LevelId, Permit, Progress};
use carnet_base::{Moment, lock};

use super::source::StatementSource;
use crate::system::RunningRow;

/// A statement that runs or waits for its admission.
pub(in crate::exec) struct Entry {
    pub(in crate::exec) id: u64,
    /// Name of the client.
    pub(in crate::exec) client: Arc<str>,
    pub(in crate::exec) user: Option<Arc<str>>,
    pub(in crate::exec) began: Moment,
    /// Class and level, if the server admits statements.
    pub(in crate::exec) admission: Option<(Class, LevelId)>,
    pub(in crate::exec) source: StatementSource,
    pub(in crate::exec) keyspace: Option<String>,
    pub(in crate::exec) state: Mutex<EntryState>,
}

#[derive(Default)]
pub(in crate::exec) struct EntryState {
    has_begun: bool,
    /// Permit of a statement that has begun. It is released with the statement, not with the entry.
    permit: Weak<Permit>,
    is_killed: bool,
    /// Waker of the task that watches the statement.
    waker: Option<Waker>,
}

impl EntryState {
    pub(in crate::exec) fn of(permit: Option<&Arc<Permit>>) -> Self {
        let weak = permit.map_or_else(Weak::new, Arc::downgrade);
        Self { has_begun: permit.is_some(), permit: weak, ..Self::default() }
    }
}

impl Entry {
    /// Records that the statement begins, with its permit.
    pub(in crate::exec) fn begin(&self, permit: Option<&Arc<Permit>>) {
        let mut state = lock(&self.state);
        *state = EntryState {
            has_begun: true,
            permit: permit.map_or_else(Weak::new, Arc::downgrade),
            ..std::mem::take(&mut *state)
        };
        let is_killed = state.is_killed;
        drop(state);
        if let Some(permit) = permit.filter(|_| is_killed) {
            permit.progress().kill();
        }
    }

    /// Returns `true` if the statement has begun.
    pub(in crate::exec) fn has_begun(&self) -> bool {
        lock(&self.state).has_begun
    }

    /// Returns `true` if the statement runs within an open transaction of this server.
    pub(in crate::exec) fn is_part(&self) -> bool {
        let permit = lock(&self.state).permit.upgrade();
        permit.is_some_and(|permit| permit.progress().is_part())
    }

    /// Completes when the statement is killed; wakes the waker then.
    pub(in crate::exec) fn poll_killed(&self, waker: &Waker) -> Poll<()> {
        let mut state = lock(&self.state);
        if state.is_killed {
            return Poll::Ready(());
        }
        let before = state.waker.replace(waker.clone());
        drop(state);
        drop(before);
        Poll::Pending
    }

    /// Requests the end of the statement.
    pub(in crate::exec) fn kill(&self) {
        let mut state = lock(&self.state);
        state.is_killed = true;
        let (permit, waker) = (state.permit.upgrade(), state.waker.take());
        drop(state);
        if let Some(permit) = permit {
            permit.progress().kill();
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Describes the statement at a moment; `level` returns the name of a level, `lost` the name of a row
    /// by its key.
    pub(in crate::exec) fn row(
        &self,
        now: Moment,
        level: impl FnOnce(LevelId) -> Option<Arc<str>>,
        lost: impl FnOnce(&[u8]) -> Option<String>,
    ) -> RunningRow {
        let state = lock(&self.state);
        let (has_begun, is_killed, permit) =
            (state.has_begun, state.is_killed, state.permit.upgrade());
        drop(state);
        let age = now.since(self.began);
        let admitted = permit.as_ref().map(|permit| permit.admitted().since(self.began));
        let queued = match (has_begun, admitted) {
            (false, _) => age,
            (true, admitted) => admitted.unwrap_or_default(),
        };
        let progress = permit.as_ref().map(|permit| permit.progress());
        let waits = permit.as_ref().map(|permit| permit.waits());
        let waited: Vec<(Why, Duration)> =
            waits.map_or_else(Vec::new, |waits| waits.list().collect());
        let mut most = waited.iter().max_by_key(|(_, waited)| *waited).map(|(why, _)| why.name());
        if !has_begun {
            most = Some(Why::Gate.name());
        }
        RunningRow {
            id: self.id,
            client: Arc::clone(&self.client),
            user: self.user.clone(),
            named: waits.and_then(Waits::named).or_else(|| self.named()),
            class: self.admission.map(|(class, _)| class.name()),
            level: self.admission.and_then(|(_, id)| level(id)),
            state: match (is_killed, has_begun) {
                (true, _) => "killed",
                (false, true) => "running",
                (false, false) => "queued",
            },
            age,
            queued,
            waited: waited.iter().map(|(_, waited)| *waited).sum(),
            waits_for: most,
            rows_read: progress.map_or(0, Progress::rows_read),
            bytes_read: progress.map_or(0, Progress::bytes_read),
            conflicts: progress.map_or(0, Progress::conflicts),
            lost_row: progress.and_then(|progress| lost(&progress.lost_key()?)),
            ticket: progress.and_then(Progress::ticket),
        }
    }

    fn named(&self) -> Option<Arc<Named>> {
        self.source.named(self.keyspace.as_deref())
    }
}
