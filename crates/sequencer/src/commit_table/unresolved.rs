//! The loop over unresolved entries of one row: writes them although any answer may be lost.
//!
//! A conditional batch writes all of its entries or none, and its answer may be a timeout, which
//! shows neither. Each entry therefore has a state of its own:
//!
//! ```text
//!              applied
//!   absent ───────────────────────────────────────────▶ settled as wanted
//!     │ ▲                                                    ▲
//!     │ └── touch says: it was never there ──┐               │ c is written (v3)
//!     │                                      │               │
//!     └── refused, a value is there ──▶ doubtful ── touch ──▶ sure
//!   timeout: the same pairs again, in any state
//! ```
//!
//! A value that was *found* proves nothing yet, even if it is the wanted one: a round that timed
//! out may live on one replica, and the next read may miss it. Touching the value completes the
//! round or shows that it never was. Only then is the entry final and may be reported.
//!
//! Another epoch in any answer ends the loop before entries are examined: the caller does not lead
//! any more.

use std::collections::BTreeMap;

use carnet_base::{Bytes, Epoch};
use carnet_store::cluster::{NewEntry, RowAnswer, StoredEntry};

/// The next action of the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Write these entries, behind the fence.
    Put(Vec<NewEntry>),
    /// Touch these entries.
    Touch(Vec<NewEntry>),
    /// Write these entries once more, as settled.
    Confirm(Vec<NewEntry>),
    /// Every entry is settled.
    Finished,
}

/// Result of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ActionResult {
    /// A conditional write was answered.
    Row(RowAnswer),
    /// A blind write was acknowledged.
    Confirmed,
    /// The write failed, or its outcome is unknown: it is sent again.
    Nothing,
}

/// Reason why the loop cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The row is of another epoch than the fence.
    Deposed(Option<Epoch>),
    /// An answer that the protocol does not allow.
    Broken(&'static str),
}

/// A final entry: its column, and its value if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    pub(crate) column: Bytes,
    pub(crate) value: Option<Bytes>,
}

#[derive(Clone, Debug)]
enum UnresolvedState {
    Absent,
    Doubtful(Bytes),
    Sure(Bytes),
}

/// The loop, for entries of one row.
#[derive(Clone, Debug)]
pub(crate) struct Unresolved {
    fence: Option<Epoch>,
    /// Whether the encoding has a `c` to be written.
    confirms: bool,
    /// Unsettled entries: the state of each, and the value to write if it is absent.
    open: BTreeMap<Bytes, (UnresolvedState, Option<Bytes>)>,
}

impl Unresolved {
    /// Creates the loop for new entries that no process has seen yet.
    pub(crate) fn put(
        fence: Option<Epoch>,
        confirms: bool,
        entries: impl IntoIterator<Item = NewEntry>,
    ) -> Self {
        let open = entries
            .into_iter()
            .map(|NewEntry { column, value }| (column, (UnresolvedState::Absent, Some(value))));
        Self { fence, confirms, open: open.collect() }
    }

    /// Creates the loop for an entry that was found; `otherwise` is written if it turns out never
    /// to have been there.
    pub(crate) fn found(confirms: bool, found: NewEntry, otherwise: Option<Bytes>) -> Self {
        let NewEntry { column, value } = found;
        let open = [(column, (UnresolvedState::Doubtful(value), otherwise))].into();
        Self { fence: None, confirms, open }
    }

    /// Returns the next action: entries that are nearly settled come first.
    pub(crate) fn next(&self) -> Action {
        let pick = |pick: fn(&UnresolvedState, Option<&Bytes>) -> Option<Bytes>| -> Vec<NewEntry> {
            let entry = |(column, (state, wanted)): (&Bytes, &(UnresolvedState, Option<Bytes>))| {
                let value = pick(state, wanted.as_ref())?;
                Some(NewEntry { column: column.clone(), value })
            };
            self.open.iter().filter_map(entry).collect()
        };
        let sure = pick(|state, _| match state {
            UnresolvedState::Sure(value) => Some(value.clone()),
            UnresolvedState::Absent | UnresolvedState::Doubtful(_) => None,
        });
        if !sure.is_empty() {
            return Action::Confirm(sure);
        }
        let doubtful = pick(|state, _| match state {
            UnresolvedState::Doubtful(value) => Some(value.clone()),
            UnresolvedState::Absent | UnresolvedState::Sure(_) => None,
        });
        if !doubtful.is_empty() {
            return Action::Touch(doubtful);
        }
        let absent = pick(|_, wanted| wanted.cloned());
        if absent.is_empty() { Action::Finished } else { Action::Put(absent) }
    }

    /// Applies the answer to the last [`Unresolved::next`], and returns the entries that it settles.
    pub(crate) fn answer(&mut self, answer: ActionResult) -> Result<Vec<Settled>, Stop> {
        match (self.next(), answer) {
            (Action::Finished, _) | (_, ActionResult::Nothing) => Ok(Vec::new()),
            (Action::Confirm(entries), ActionResult::Confirmed) => Ok(self.settle(entries)),
            (Action::Put(entries), ActionResult::Row(RowAnswer::Applied)) => {
                Ok(self.settle(entries))
            }
            (Action::Touch(entries), ActionResult::Row(RowAnswer::Applied)) => {
                Ok(self.touched(entries))
            }
            (
                Action::Put(entries) | Action::Touch(entries),
                ActionResult::Row(RowAnswer::Refused { epoch, existing }),
            ) => {
                if self.fence.is_some() && epoch != self.fence {
                    return Err(Stop::Deposed(epoch));
                }
                self.refused(&entries, &existing)
            }
            (Action::Confirm(_), ActionResult::Row(_)) | (_, ActionResult::Confirmed) => {
                Err(Stop::Broken("an answer to another question"))
            }
        }
    }

    fn settle(&mut self, entries: Vec<NewEntry>) -> Vec<Settled> {
        let settle = |NewEntry { column, value }| {
            self.open.remove(&column);
            Settled { column, value: Some(value) }
        };
        entries.into_iter().map(settle).collect()
    }

    fn touched(&mut self, entries: Vec<NewEntry>) -> Vec<Settled> {
        if !self.confirms {
            return self.settle(entries);
        }
        for NewEntry { column, value } in entries {
            if let Some((state, _)) = self.open.get_mut(&column) {
                *state = UnresolvedState::Sure(value);
            }
        }
        Vec::new()
    }

    fn refused(
        &mut self,
        asked: &[NewEntry],
        existing: &[StoredEntry],
    ) -> Result<Vec<Settled>, Stop> {
        let mut settled = Vec::new();
        let mut has_moved = false;
        for NewEntry { column, value } in asked {
            let stored = existing.iter().find(|stored| stored.column == *column);
            let is_confirmed = stored.is_some_and(|stored| stored.confirmed.is_some());
            // `c` is written only after `s` was settled, so a stored `c` is final.
            let found = stored
                .and_then(|stored| stored.confirmed.as_ref().or(stored.staged.as_ref()).cloned());
            let Some((state, wanted)) = self.open.get_mut(column) else { continue };
            match (found, &*state) {
                (Some(found), _) if is_confirmed => {
                    has_moved = true;
                    self.open.remove(column);
                    settled.push(Settled { column: column.clone(), value: Some(found) });
                }
                (Some(found), UnresolvedState::Absent) => {
                    has_moved = true;
                    *state = UnresolvedState::Doubtful(found);
                }
                (Some(found), _) => {
                    has_moved |= found != *value;
                    *state = UnresolvedState::Doubtful(found);
                }
                (None, UnresolvedState::Absent) => {}
                (None, _) => {
                    has_moved = true;
                    if wanted.is_some() {
                        *state = UnresolvedState::Absent;
                    } else {
                        self.open.remove(column);
                        settled.push(Settled { column: column.clone(), value: None });
                    }
                }
            }
        }
        if has_moved { Ok(settled) } else { Err(Stop::Broken("a refusal without a reason")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FENCE: Option<Epoch> = Some(Epoch(7));

    fn entry(column: &'static str, value: &'static str) -> NewEntry {
        NewEntry { column: column.into(), value: value.into() }
    }

    fn staged(column: &'static str, value: &'static str) -> StoredEntry {
        let column = column.into();
        StoredEntry { column, staged: Some(value.into()), confirmed: None }
    }

    fn refused(epoch: Option<Epoch>, existing: &[StoredEntry]) -> ActionResult {
        ActionResult::Row(RowAnswer::Refused { epoch, existing: existing.to_vec() })
    }

    fn applied() -> ActionResult {
        ActionResult::Row(RowAnswer::Applied)
    }

    fn settled(column: &'static str, value: &'static str) -> Settled {
        Settled { column: column.into(), value: Some(value.into()) }
    }

    fn two() -> Unresolved {
        Unresolved::put(FENCE, true, [entry("a", "1"), entry("b", "2")])
    }

    #[test]
    fn applied_entries_are_settled_at_once() {
        let mut two = two();
        assert_eq!(two.next(), Action::Put(vec![entry("a", "1"), entry("b", "2")]));
        assert_eq!(two.answer(applied()).unwrap(), [settled("a", "1"), settled("b", "2")]);
        assert_eq!(two.next(), Action::Finished);
    }

    #[test]
    fn timeout_resends_the_same_entries() {
        let mut two = two();
        let first = two.next();
        assert_eq!(two.answer(ActionResult::Nothing).unwrap(), []);
        assert_eq!(two.next(), first);
    }

    #[test]
    fn own_entry_found_is_touched_and_confirmed_first() {
        let mut two = two();
        two.answer(ActionResult::Nothing).unwrap();
        let both = [staged("b", "2"), staged("a", "1")];
        assert_eq!(two.answer(refused(FENCE, &both)).unwrap(), []);
        let entries = vec![entry("a", "1"), entry("b", "2")];
        assert_eq!(two.next(), Action::Touch(entries.clone()));
        assert_eq!(two.answer(ActionResult::Nothing).unwrap(), []);
        assert_eq!(two.answer(applied()).unwrap(), []);
        assert_eq!(two.next(), Action::Confirm(entries));
        assert_eq!(two.answer(ActionResult::Nothing).unwrap(), []);
        assert_eq!(
            two.answer(ActionResult::Confirmed).unwrap(),
            [settled("a", "1"), settled("b", "2")]
        );
    }

    #[test]
    fn entry_absent_after_a_touch_is_put_again() {
        let mut two = two();
        two.answer(refused(FENCE, &[staged("a", "1")])).unwrap();
        assert_eq!(two.next(), Action::Touch(vec![entry("a", "1")]));
        two.answer(refused(FENCE, &[])).unwrap();
        assert_eq!(two.next(), Action::Put(vec![entry("a", "1"), entry("b", "2")]));
    }

    #[test]
    fn abort_marker_settles_and_other_entries_go_on() {
        let mut two = two();
        two.answer(refused(FENCE, &[staged("a", "abort")])).unwrap();
        assert_eq!(two.next(), Action::Touch(vec![entry("a", "abort")]));
        two.answer(applied()).unwrap();
        assert_eq!(two.answer(ActionResult::Confirmed).unwrap(), [settled("a", "abort")]);
        assert_eq!(two.next(), Action::Put(vec![entry("b", "2")]));
        assert_eq!(two.answer(applied()).unwrap(), [settled("b", "2")]);
    }

    #[test]
    fn confirmed_value_settles_the_entry() {
        let mut two = two();
        let stored = StoredEntry { confirmed: Some("abort".into()), ..staged("a", "abort") };
        assert_eq!(two.answer(refused(FENCE, &[stored])).unwrap(), [settled("a", "abort")]);
        assert_eq!(two.next(), Action::Put(vec![entry("b", "2")]));
    }

    #[test]
    fn another_epoch_stops_the_loop_before_entries() {
        for epoch in [Some(Epoch(8)), Some(Epoch(6)), None] {
            let answer = refused(epoch, &[staged("a", "another's")]);
            assert_eq!(two().answer(answer), Err(Stop::Deposed(epoch)));
        }
    }

    #[test]
    fn rows_without_values_are_absent_entries() {
        // ScyllaDB answers with a row for each statement.
        let nulls = StoredEntry { column: "b".into(), staged: None, confirmed: None };
        let mut two = two();
        two.answer(refused(FENCE, &[staged("a", "1"), nulls])).unwrap();
        two.answer(applied()).unwrap();
        two.answer(ActionResult::Confirmed).unwrap();
        assert_eq!(two.next(), Action::Put(vec![entry("b", "2")]));
    }

    #[test]
    fn a_refusal_without_a_reason_does_not_loop() {
        assert!(matches!(two().answer(refused(FENCE, &[])), Err(Stop::Broken(_))));
        let mut found = Unresolved::found(true, entry("a", "1"), None);
        let same = refused(None, &[staged("a", "1")]);
        assert!(matches!(found.answer(same), Err(Stop::Broken(_))));
    }

    #[test]
    fn unwanted_ghost_is_settled_as_absent() {
        let mut found = Unresolved::found(true, entry("a", "1"), None);
        let gone = found.answer(refused(None, &[])).unwrap();
        assert_eq!(gone, [Settled { column: "a".into(), value: None }]);
        assert_eq!(found.next(), Action::Finished);
    }

    #[test]
    fn without_a_second_column_a_touch_settles() {
        let mut found = Unresolved::found(false, entry("a", "1"), Some("abort".into()));
        assert_eq!(found.answer(applied()).unwrap(), [settled("a", "1")]);
    }
}
