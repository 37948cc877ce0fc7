//! Rows of the commit table, and registers.

use carnet_base::{Bytes, Epoch};
use carnet_store::cluster::{
    CommitRow, CommitRows, EntryPage, Faulty, NewEntry, ReadMode, Register, Registers, RowAnswer,
    SetAnswer, StoredEntry,
};

use super::handle::WeakCluster;
use super::replica::Blind;
use super::state::WeakState;
use crate::cluster::agreed::Row;

impl CommitRows for WeakCluster {
    async fn put_unless_exists(
        &self,
        name: &CommitRow,
        fence: Option<Epoch>,
        entries: &[NewEntry],
    ) -> Faulty<RowAnswer> {
        self.round(name, |row: &Row| row.put(fence, entries)).await
    }

    async fn touch(&self, name: &CommitRow, entries: &[NewEntry]) -> Faulty<RowAnswer> {
        self.round(name, |row: &Row| row.touch(entries)).await
    }

    async fn confirm(&self, row: &CommitRow, entries: &[NewEntry]) -> Faulty<()> {
        self.blind("a confirmation", Blind::Confirms(row.clone(), entries.into())).await
    }

    async fn read_entries(&self, row: &CommitRow, columns: &[Bytes]) -> Faulty<Vec<StoredEntry>> {
        let read = |state: &mut WeakState, quorum| {
            columns.iter().filter_map(|column| state.entry(quorum, row, column)).collect()
        };
        self.read(read).await
    }

    async fn scan_entries(
        &self,
        row: &CommitRow,
        after: Option<&Bytes>,
        limit: usize,
    ) -> Faulty<EntryPage> {
        let entries = self.read(|state, quorum| state.entries(quorum, row)).await?;
        let behind = entries.into_values().filter(|entry| after < Some(&entry.column));
        let mut entries: Vec<StoredEntry> = behind.collect();
        let has_more = entries.len() > limit.max(1);
        entries.truncate(limit.max(1));
        let last = entries.last().map(|entry| entry.column.clone());
        Ok(EntryPage { entries, resume_after: last.filter(|_| has_more) })
    }

    async fn delete_entries(&self, name: &CommitRow, columns: &[Bytes]) -> Faulty<()> {
        self.lock().remember(name, columns);
        self.round(name, |row: &Row| (Some(row.without(columns)), ())).await?;
        self.blind("a delete of entries", Blind::Forgets(name.clone(), columns.into())).await
    }

    async fn move_epoch(
        &self,
        name: &CommitRow,
        from: Option<Epoch>,
        to: Epoch,
    ) -> Faulty<RowAnswer> {
        self.round(name, |row: &Row| row.raise(from, to)).await
    }
}

impl Registers for WeakCluster {
    async fn read_register(&self, register: Register, mode: ReadMode) -> Faulty<Option<Bytes>> {
        if mode == ReadMode::Serial {
            return self.round(&register, |value: &Option<Bytes>| (None, value.clone())).await;
        }
        self.read(|state, quorum| {
            state.agreed.seen_register(register, |replica| quorum.contains(&replica))
        })
        .await
    }

    async fn compare_and_set(
        &self,
        register: Register,
        expected: Option<&Bytes>,
        new: &Bytes,
    ) -> Faulty<SetAnswer> {
        self.round(&register, |value: &Option<Bytes>| {
            if value.as_ref() == expected {
                (Some(Some(new.clone())), SetAnswer::Applied)
            } else {
                (None, SetAnswer::Refused(value.clone()))
            }
        })
        .await
    }
}
