//! Writes groups of entries to the commit table.

use std::sync::Arc;
use std::time::Duration;

use carnet_base::CommitEntry;
use carnet_base::sync::lock;
use carnet_store::cluster::{Cluster, CommitRow, NewEntry, RowAnswer};

use super::state::{Ended, Entry};
use super::term::Leader;
use crate::commit_table::unresolved::{Action, ActionResult, Settled, Stop, Unresolved};
use crate::commit_table::{CommitTable, action_leaves_unconfirmed};
use crate::proof::Proof;

const FIRST_WAIT: Duration = Duration::from_millis(2);
const LONGEST_WAIT: Duration = Duration::from_millis(250);

impl<C: Cluster> Leader<C> {
    pub(super) fn send(self: &Arc<Self>, row: CommitRow, group: Vec<Entry>) {
        let this = Arc::clone(self);
        self.environment.tasks.spawn(Box::pin(async move {
            let mut group = Some(group);
            while let Some(entries) = group {
                if !this.put(&row, &entries).await {
                    return;
                }
                group = lock(&this.state).groups.done(&row);
            }
        }));
    }

    /// Writes a group's entries, however long it takes. Returns `false` if the term is over.
    async fn put(self: &Arc<Self>, row: &CommitRow, group: &[Entry]) -> bool {
        let encoding = group[0].place.encoding;
        let mut entries = Vec::with_capacity(group.len());
        for entry in group {
            match encoding.encode(entry.start, CommitEntry::Committed(entry.commit)) {
                Ok(value) => entries.push(NewEntry { column: entry.place.column.clone(), value }),
                Err(error) => {
                    self.end(Ended::Broken(error.to_string()));
                    return false;
                }
            }
        }
        let fence = Some(self.term.epoch);
        let mut unresolved = Unresolved::put(fence, CommitTable::<C>::confirms(encoding), entries);
        let mut wait = FIRST_WAIT;
        loop {
            let action = unresolved.next();
            if action == Action::Finished {
                return true;
            }
            if self.is_over() {
                return false;
            }
            let number = self.proof.begins_elsewhere();
            let answer = self.table.act(row, fence, &action).await;
            if matches!((&action, &answer), (Action::Put(_), ActionResult::Row(RowAnswer::Applied)))
            {
                self.proof.found_elsewhere(number, Proof::Leads);
            }
            let is_lost = answer == ActionResult::Nothing;
            match unresolved.answer(answer) {
                Ok(settled) => {
                    if action_leaves_unconfirmed(&action, encoding) {
                        self.confirm_later(row, &settled);
                    }
                    self.resolve(group, settled);
                }
                Err(Stop::Deposed(_)) => {
                    self.depose();
                    return false;
                }
                Err(Stop::Broken(what)) => {
                    self.end(Ended::Broken(what.to_owned()));
                    return false;
                }
            }
            if is_lost {
                self.environment.timer.wait(wait).await;
                wait = (wait * 2).min(LONGEST_WAIT);
            }
        }
    }

    /// Confirms entries in the background: an entry whose write was applied is final, so `c` need
    /// not be waited for.
    fn confirm_later(&self, row: &CommitRow, settled: &[Settled]) {
        let entry = |settled: &Settled| {
            let value = settled.value.clone()?;
            Some(NewEntry { column: settled.column.clone(), value })
        };
        let entries: Vec<NewEntry> = settled.iter().filter_map(entry).collect();
        if entries.is_empty() {
            return;
        }
        let (table, row) = (Arc::clone(&self.table), row.clone());
        self.environment.tasks.spawn(Box::pin(async move { table.confirm(&row, entries).await }));
    }
}
