//! Makes entries final: carries out the loop over the unresolved entries of a row.

use super::unresolved::{Action, ActionResult, Settled, Stop, Unresolved};
use carnet_base::{CommitEntry, Encoding, Epoch, Error, ErrorKind, Result, Timestamp};
use carnet_store::cluster::{Cluster, CommitRow, NewEntry};

use super::place::{Place, confirms};
use super::reading::Found;
use super::table::{CommitTable, Outcomes};
use super::tries::{FIRST_WAIT, LONGEST_WAIT, READER_TRIES};

impl<C: Cluster> CommitTable<C> {
    /// Carries out an action of the loop over a row's entries.
    pub(crate) async fn act(
        &self,
        row: &CommitRow,
        fence: Option<Epoch>,
        act: &Action,
    ) -> ActionResult {
        let answered = match act {
            Action::Put(entries) => {
                self.cluster.put_unless_exists(row, fence, entries).await.map(ActionResult::Row)
            }
            Action::Touch(entries) => self.cluster.touch(row, entries).await.map(ActionResult::Row),
            Action::Confirm(entries) => {
                self.cluster.confirm(row, entries).await.map(|()| ActionResult::Confirmed)
            }
            Action::Finished => return ActionResult::Nothing,
        };
        answered.unwrap_or_else(|fault| {
            tracing::debug!(%fault, "a write to the commit table was not answered");
            ActionResult::Nothing
        })
    }

    /// Runs the loop for one start, without a fence: for readers, and for settling.
    pub(super) async fn settle_in(
        &self,
        start: Timestamp,
        place: &Place,
        mut unresolved: Unresolved,
        outcomes: &Outcomes,
    ) -> Result<Option<CommitEntry>> {
        let mut wait = FIRST_WAIT;
        for _ in 0..READER_TRIES {
            let action = unresolved.next();
            let answer = self.act(&place.row, None, &action).await;
            let is_lost = answer == ActionResult::Nothing;
            let settled = unresolved.answer(answer).map_err(|stop| stopped(start, &stop))?;
            if let Some(Settled { value, .. }) = settled.into_iter().next() {
                let Some(value) = value else { return Ok(None) };
                let entry = place.encoding.decode(start, &value)?;
                outcomes.insert(start, entry);
                if action_leaves_unconfirmed(&action, place.encoding) {
                    self.confirm(&place.row, vec![place.entry(value)]).await;
                }
                return Ok(Some(entry));
            }
            if is_lost {
                self.timer.wait(wait).await;
                wait = (wait * 2).min(LONGEST_WAIT);
            }
        }
        Err(Error::unavailable(format!("the outcome of start {start} cannot be settled now")))
    }

    /// Writes `c` on a best-effort basis: it only saves readers work.
    pub(crate) async fn confirm(&self, row: &CommitRow, entries: Vec<NewEntry>) {
        if let Err(fault) = self.cluster.confirm(row, &entries).await {
            tracing::debug!(%fault, "entries could not be confirmed; readers will confirm them");
        }
    }

    /// Returns the outcome of a transaction, and writes the abort marker if it has no entry: the
    /// transaction must not be running.
    ///
    /// # Errors
    ///
    /// `Unknown` below the sweep mark, if the entry may have been swept.
    pub(crate) async fn settle(&self, start: Timestamp) -> Result<CommitEntry> {
        let entry = self.settle_for_reader(start).await?;
        // Read the mark after the marker is written: it covers an entry that was swept before.
        if entry == CommitEntry::Aborted && start <= self.sweep_marks().await?.entries {
            return Err(Error::new(
                ErrorKind::Unknown { start },
                format!(
                    "whether the transaction that started at {start} committed can no longer be \
                     known: its entry may have been swept"
                ),
            ));
        }
        Ok(entry)
    }

    /// Like [`CommitTable::settle`], but a swept entry counts as aborted. The reader then reads the
    /// version once more, and finds the stamp that the sweep left there.
    pub(crate) async fn settle_for_reader(&self, start: Timestamp) -> Result<CommitEntry> {
        let outcomes = self.outcomes();
        if let Some(entry) = outcomes.get(&start) {
            return Ok(entry);
        }
        let place = self.place(start).await?;
        let abort = place.encoding.encode(start, CommitEntry::Aborted)?;
        let unresolved = match self.read_entry(&place).await? {
            Some(Found::Final(value)) => {
                let entry = place.encoding.decode(start, &value)?;
                outcomes.insert(start, entry);
                return Ok(entry);
            }
            Some(Found::Staged(value)) => {
                Unresolved::found(confirms(place.encoding), place.entry(value), Some(abort))
            }
            None => Unresolved::put(None, confirms(place.encoding), [place.entry(abort)]),
        };
        let entry = self.settle_in(start, &place, unresolved, &outcomes).await?;
        Ok(entry.expect("an absent entry is replaced by the abort marker"))
    }
}

/// Returns `true` if an applied action leaves a final entry of which readers find only `s`.
pub(crate) const fn action_leaves_unconfirmed(action: &Action, encoding: Encoding) -> bool {
    matches!(action, Action::Put(_)) && confirms(encoding)
}

fn stopped(start: Timestamp, stop: &Stop) -> Error {
    Error::corrupted(format!("the commit entry of start {start} cannot be settled: {stop:?}"))
}
