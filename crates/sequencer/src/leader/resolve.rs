//! Moves P over final entries.

use std::sync::Arc;

use carnet_base::sync::lock;
use carnet_base::{CellKey, CommitEntry, Timestamp};
use carnet_store::cluster::Cluster;

use super::outcome::answer_of;
use super::state::{Ended, Entry, LeaderState, Resolved};
use super::term::Leader;
use crate::commit_table::unresolved::Settled;
use crate::message::Response;
use crate::oneshot::Sender;

impl<C: Cluster> Leader<C> {
    /// Moves P over the entries that are final now, and answers their waiters.
    pub(super) fn resolve(self: &Arc<Self>, group: &[Entry], settled: Vec<Settled>) {
        let mut resolved = Vec::with_capacity(settled.len());
        for Settled { column, value } in settled {
            let Some(entry) = group.iter().find(|entry| entry.place.column == column) else {
                continue;
            };
            let value = value.map(|value| entry.place.encoding.decode(entry.start, &value));
            match value {
                Some(Ok(CommitEntry::Committed(commit))) if commit == entry.commit => {
                    resolved.push((entry, CommitEntry::Committed(commit)));
                }
                Some(Ok(CommitEntry::Aborted)) => resolved.push((entry, CommitEntry::Aborted)),
                other => {
                    let what = format!(
                        "start {} was decided as {} and the commit table holds {other:?}",
                        entry.start, entry.commit
                    );
                    return self.end(Ended::Broken(what));
                }
            }
        }
        let mut state = lock(&self.state);
        if state.ended.is_some() {
            return;
        }
        for (Entry { start, commit, .. }, entry) in resolved {
            state.prefix.resolved(*commit, Resolved { start: *start, entry });
        }
        let answers = self.advance(&mut state);
        let folds = due_folds(&mut state, self.published());
        drop(state);
        self.fold_later(folds);
        for (waiter, response) in answers {
            waiter.send(response);
        }
    }

    fn advance(&self, state: &mut LeaderState) -> Vec<(Sender<Response>, Response)> {
        let mut answers = Vec::new();
        let mut reached = None;
        while let Some((commit, Resolved { start, entry })) = state.prefix.pop() {
            reached = Some(commit);
            self.table.remember(start, entry);
            for waiter in state.remember(start, entry) {
                let response = answer_of(start, entry).unwrap_or_else(Response::Refused);
                answers.push((waiter, response));
            }
        }
        if let Some(reached) = reached {
            self.order.publish(reached);
        }
        answers
    }
}

/// Takes the cells to fold whose commits P has passed.
fn due_folds(state: &mut LeaderState, published: Timestamp) -> Vec<CellKey> {
    let mut due = Vec::new();
    while let Some(first) = state.due_folds.first_entry()
        && *first.key() <= published
    {
        due.extend(first.remove());
    }
    due
}
