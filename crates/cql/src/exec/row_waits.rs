//! Who waits for whom at a row, and which rows were lost lately.
//!
//! ```text
//!   queues of transactions (by their numbers) ─┐
//!                                              ├─▶ system_views.row_waits
//!   running statements (number, client, text) ─┘
//!   the last conflicts, summed up by their row ───▶ system_views.lost_rows
//! ```

use std::collections::HashMap;

use carnet::roles::Rights;

use super::executor::Executor;
use super::shown_row::shown_to;
use crate::cql_error::LostRow;
use crate::system::{HotRow, RowWait, RunningRow};

/// Maximum number of queues that are shown.
const QUEUES_MAX: usize = 100;
/// Maximum number of places that are shown of a queue.
const PLACES_MAX: usize = 100;

impl Executor {
    /// Lists the places in the longest queues of rows, the longest queue first.
    pub(super) fn row_waits(&self, rights: Option<&Rights>) -> Vec<RowWait> {
        let queues = self.shared.db.turn_queues(QUEUES_MAX);
        if queues.is_empty() {
            return Vec::new();
        }
        let running: HashMap<u64, RunningRow> = self
            .running_rows(rights)
            .into_iter()
            .filter_map(|running| Some((running.ticket?, running)))
            .collect();
        let mut waits = Vec::new();
        for (number, queue) in (1..).zip(queues) {
            let row = queue.key.as_deref().and_then(|key| self.lost_row(key));
            let row = row.map(|row| shown_to(rights, row));
            for (place, ticket) in (1..).zip(queue.tickets.iter().take(PLACES_MAX)) {
                let (row, running) = (row.clone(), running.get(ticket).cloned());
                waits.push(RowWait { queue: number, place, row, running });
            }
        }
        waits
    }

    /// Lists the rows of the last conflicts, the most often lost first.
    pub(super) fn hot_rows(&self, rights: Option<&Rights>) -> Vec<HotRow> {
        let mut rows: HashMap<(String, String), (LostRow, HotRow)> = HashMap::new();
        for conflict in self.shared.conflicts.list() {
            let Some(lost) = self.row_of(&conflict) else { continue };
            let key = (lost.table.clone(), lost.key.clone());
            let (_, hot) = rows.entry(key).or_insert_with(|| {
                let table = lost.table.clone();
                let hot =
                    HotRow { table, key: None, attempts: 0, statements: 0, last: conflict.at };
                (lost, hot)
            });
            hot.attempts += conflict.attempts;
            hot.statements += 1;
            hot.last = hot.last.max(conflict.at);
        }
        let mut rows: Vec<(LostRow, HotRow)> = rows.into_values().collect();
        rows.sort_by(|(a, one), (b, other)| {
            (other.attempts, &a.table, &a.key).cmp(&(one.attempts, &b.table, &b.key))
        });
        let shown = |(lost, hot)| {
            let (_, key) = shown_to(rights, lost);
            HotRow { key, ..hot }
        };
        rows.into_iter().map(shown).collect()
    }
}
