//! Reads entries, and decides the outcomes that readers see.

use std::collections::BTreeMap;

use super::unresolved::Unresolved;
use carnet_base::concurrent::all;
use carnet_base::{Bytes, CommitEntry, Result, Timestamp};
use carnet_store::Outcome;
use carnet_store::cluster::{Cluster, CommitRow, StoredEntry};

use super::place::{Place, confirms};
use super::table::{CommitTable, Outcomes};

/// Number of rows of the commit table that one look-up reads concurrently.
const ROWS_AT_ONCE: usize = 16;

impl<C: Cluster> CommitTable<C> {
    /// Returns the outcome of a transaction for a reader at `read`, a snapshot of the epoch that
    /// began at `epoch_first`.
    pub(crate) async fn outcome_for_reader(
        &self,
        start: Timestamp,
        read: Timestamp,
        epoch_first: Timestamp,
    ) -> Result<Outcome> {
        self.know_map_through(read).await?;
        let outcomes = self.outcomes();
        if let Some(entry) = outcomes.get(&start) {
            return Ok(outcome(entry));
        }
        Box::pin(self.look_up_for_reader(start, read, epoch_first, &outcomes)).await
    }

    async fn look_up_for_reader(
        &self,
        start: Timestamp,
        read: Timestamp,
        epoch_first: Timestamp,
        outcomes: &Outcomes,
    ) -> Result<Outcome> {
        let place = self.place(start).await?;
        let entry = match self.read_entry(&place).await? {
            Some(Found::Final(value)) => {
                let entry = place.encoding.decode(start, &value)?;
                outcomes.insert(start, entry);
                return Ok(outcome(entry));
            }
            Some(Found::Staged(value)) => match place.encoding.decode(start, &value)? {
                later @ CommitEntry::Committed(commit) if commit > read => {
                    return Ok(outcome(later));
                }
                // A start of this epoch may be running: settle only an entry that was found.
                _ if start >= epoch_first => {
                    let found = place.entry(value);
                    let found = Unresolved::found(confirms(place.encoding), found, None);
                    self.settle_in(start, &place, found, outcomes).await?
                }
                _ => Some(self.settle_for_reader(start).await?),
            },
            None if start >= epoch_first => None,
            None => Some(self.settle_for_reader(start).await?),
        };
        Ok(entry.map_or(Outcome::Pending, outcome))
    }

    /// Caches the final entries of transactions, with one request for each row of the commit table.
    /// Entries that are not final, or absent, are left to [`CommitTable::outcome_for_reader`].
    pub(crate) async fn look_up_many(&self, starts: &[Timestamp], read: Timestamp) -> Result<()> {
        self.know_map_through(read).await?;
        let outcomes = self.outcomes();
        let mut rows: BTreeMap<CommitRow, Vec<(Timestamp, Place)>> = BTreeMap::new();
        for start in starts {
            if outcomes.peek(start).is_none() {
                let place = self.place(*start).await?;
                rows.entry(place.row.clone()).or_default().push((*start, place));
            }
        }
        let mut lookups = Vec::with_capacity(rows.len());
        for (row, places) in &rows {
            lookups.push(self.look_up_row(row, places, &outcomes));
        }
        all(lookups, ROWS_AT_ONCE).await
    }

    async fn look_up_row(
        &self,
        row: &CommitRow,
        places: &[(Timestamp, Place)],
        outcomes: &Outcomes,
    ) -> Result<()> {
        let columns: Vec<Bytes> = places.iter().map(|(_, place)| place.column.clone()).collect();
        for StoredEntry { column, confirmed, .. } in
            self.cluster.read_entries(row, &columns).await?
        {
            let of_column = places.iter().find(|(_, place)| place.column == column);
            if let (Some((start, place)), Some(value)) = (of_column, confirmed) {
                outcomes.insert(*start, place.encoding.decode(*start, &value)?);
            }
        }
        Ok(())
    }

    pub(super) async fn read_entry(&self, place: &Place) -> Result<Option<Found>> {
        let columns = std::slice::from_ref(&place.column);
        let stored = self.cluster.read_entries(&place.row, columns).await?;
        let stored = stored.into_iter().find(|entry| entry.column == place.column);
        Ok(stored.and_then(|StoredEntry { staged, confirmed, .. }| {
            confirmed.map(Found::Final).or_else(|| staged.map(Found::Staged))
        }))
    }
}

/// The value that a QUORUM read found.
pub(super) enum Found {
    Final(Bytes),
    Staged(Bytes),
}

pub(super) const fn outcome(entry: CommitEntry) -> Outcome {
    match entry {
        CommitEntry::Committed(commit) => Outcome::Committed(commit),
        CommitEntry::Aborted => Outcome::Aborted,
    }
}
