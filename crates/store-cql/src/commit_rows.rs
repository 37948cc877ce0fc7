//! Rows of the commit tables: conditional batches of one partition.

use std::collections::{BTreeMap, BTreeSet};

use carnet_base::{Bytes, Epoch};
use carnet_store::cluster::{
    CommitRow, CommitRows, EntryPage, Fault, Faulty, NewEntry, RowAnswer, StoredEntry,
};
use scylla::response::query_result::QueryRowsResult;

use crate::answer::epoch_of;
use crate::cluster::CqlCluster;
use crate::fault::{Access, misunderstood, unclear};
use crate::request_settings::RequestSettings;
use crate::session::Bind;
use crate::statement::{Commits, Statement};

/// Maximum number of columns in one read.
const COLUMNS_MAX: usize = 256;

/// Column of an entry, with the write times of its values.
type WrittenRow = (Vec<u8>, Option<i64>, Option<i64>);

/// Maximum number of entries in a blind batch.
const BATCH_MAX: usize = 256;

impl CommitRows for CqlCluster {
    async fn put_unless_exists(
        &self,
        row: &CommitRow,
        fence: Option<Epoch>,
        entries: &[NewEntry],
    ) -> Faulty<RowAnswer> {
        let mut batch = Vec::with_capacity(entries.len() + 1);
        if let Some(epoch) = fence {
            let epoch = bind_epoch(epoch)?;
            batch.push((statement(row, Commits::Fence), vec![epoch, Bind::Blob(&row.row), epoch]));
        }
        batch.extend(entries.iter().map(|NewEntry { column, value }| {
            let values = vec![Bind::Blob(&row.row), Bind::Blob(column), Bind::Blob(value)];
            (statement(row, Commits::Put), values)
        }));
        match self.decide_row(entries, &batch).await? {
            // Cassandra returns the epoch only if it is part of a condition.
            RowAnswer::Refused { existing, .. } if fence.is_none() => {
                let epoch = self.epoch(row).await.map_err(refused)?;
                Ok(RowAnswer::Refused { epoch, existing })
            }
            answer => Ok(answer),
        }
    }

    async fn touch(&self, row: &CommitRow, entries: &[NewEntry]) -> Faulty<RowAnswer> {
        let touch = entries.iter().map(|NewEntry { column, value }| {
            let value = Bind::Blob(value);
            (
                statement(row, Commits::Touch),
                vec![value, Bind::Blob(&row.row), Bind::Blob(column), value],
            )
        });
        let batch: Vec<_> = touch.collect();
        match self.decide_row(entries, &batch).await? {
            RowAnswer::Applied => Ok(RowAnswer::Applied),
            RowAnswer::Refused { existing, .. } => self.complete(row, entries, existing).await,
        }
    }

    async fn confirm(&self, row: &CommitRow, entries: &[NewEntry]) -> Faulty<()> {
        for entries in entries.chunks(BATCH_MAX) {
            let confirm = entries.iter().map(|NewEntry { column, value }| {
                let values = vec![Bind::Blob(value), Bind::Blob(&row.row), Bind::Blob(column)];
                (statement(row, Commits::Confirm), values)
            });
            let batch: Vec<_> = confirm.collect();
            self.session.batch(self.session.blind(), &batch).await?;
        }
        Ok(())
    }

    async fn read_entries(&self, row: &CommitRow, columns: &[Bytes]) -> Faulty<Vec<StoredEntry>> {
        let mut found = Vec::new();
        for columns in columns.chunks(COLUMNS_MAX) {
            let values = [Bind::Blob(&row.row), Bind::Blobs(columns)];
            let statement = statement(row, Commits::Named);
            let rows = self.session.rows(self.session.read(), statement, &values).await?;
            found.extend(entries_of(&rows)?);
        }
        found.retain(has_value);
        Ok(found)
    }

    async fn scan_entries(
        &self,
        row: &CommitRow,
        after: Option<&Bytes>,
        limit: usize,
    ) -> Faulty<EntryPage> {
        self.scan_row(self.session.read(), row, after, limit).await
    }

    /// A conditional write has the time of its Paxos ballot, which the clock of this process may not
    /// have reached. So an entry is deleted at the time of its own values.
    async fn delete_entries(&self, row: &CommitRow, columns: &[Bytes]) -> Faulty<()> {
        for columns in columns.chunks(BATCH_MAX) {
            let times = self.write_times(row, columns).await?;
            let delete = times.iter().map(|(column, written)| {
                let values = vec![Bind::Long(*written), Bind::Blob(&row.row), Bind::Blob(column)];
                (statement(row, Commits::Delete), values)
            });
            let batch: Vec<_> = delete.collect();
            self.session.batch(self.session.blind(), &batch).await?;
        }
        Ok(())
    }

    async fn move_epoch(
        &self,
        row: &CommitRow,
        from: Option<Epoch>,
        to: Epoch,
    ) -> Faulty<RowAnswer> {
        let from = from.map_or(Ok(Bind::Null), bind_epoch)?;
        let values = [bind_epoch(to)?, Bind::Blob(&row.row), from];
        let answer = self.session.decide(statement(row, Commits::MoveEpoch), &values).await?;
        answer.read(&BTreeSet::new()).map_err(unclear)
    }
}

impl CqlCluster {
    /// Reads the latest write times of the entries that exist.
    async fn write_times(&self, row: &CommitRow, columns: &[Bytes]) -> Faulty<Vec<(Bytes, i64)>> {
        let values = [Bind::Blob(&row.row), Bind::Blobs(columns)];
        let statement = statement(row, Commits::WriteTimes);
        let rows = self.session.rows(self.session.read(), statement, &values).await?;
        let unclear = |error: &dyn std::fmt::Display| misunderstood(Access::Read, error);
        let mut times = Vec::with_capacity(rows.rows_num());
        for row in rows.rows::<WrittenRow>().map_err(|error| unclear(&error))? {
            let (column, staged, confirmed) = row.map_err(|error| unclear(&error))?;
            // An entry without values is not visible, and has no row to delete.
            times.extend(staged.max(confirmed).map(|written| (column.into(), written)));
        }
        Ok(times)
    }

    /// Reads a page of a row's entries.
    pub(crate) async fn scan_row(
        &self,
        how: RequestSettings,
        row: &CommitRow,
        after: Option<&Bytes>,
        limit: usize,
    ) -> Faulty<EntryPage> {
        let from = after.map_or_else(Vec::new, |after| [&after[..], &[0]].concat());
        let limit = limit.clamp(1, i32::MAX as usize - 1);
        // Read one more row to find out whether there are more.
        let rows_max = i32::try_from(limit + 1).unwrap_or(i32::MAX);
        let values = [Bind::Blob(&row.row), Bind::Blob(&from), Bind::Int(rows_max)];
        let statement = statement(row, Commits::From);
        let rows = self.session.rows(how, statement, &values).await?;
        let mut entries = entries_of(&rows)?;
        let has_more = entries.len() > limit;
        entries.truncate(limit);
        let last = entries.last().map(|entry| entry.column.clone());
        entries.retain(has_value);
        Ok(EntryPage { resume_after: last.filter(|_| has_more), entries })
    }

    async fn decide_row(
        &self,
        entries: &[NewEntry],
        batch: &[(Statement, Vec<Bind<'_>>)],
    ) -> Faulty<RowAnswer> {
        if batch.is_empty() {
            return Ok(RowAnswer::Applied);
        }
        let answer = self.session.decide_batch(batch).await?;
        let asked = entries.iter().map(|entry| &entry.column).collect();
        answer.read(&asked).map_err(unclear)
    }

    /// Adds the values that the answer to a refused touch lacks: the epoch, and `c`.
    ///
    /// An answer has only the columns of its conditions. Reading the others later is as good: an
    /// epoch only grows, and `c` is final once it exists.
    async fn complete(
        &self,
        row: &CommitRow,
        asked: &[NewEntry],
        existing: Vec<StoredEntry>,
    ) -> Faulty<RowAnswer> {
        let epoch = self.epoch(row).await.map_err(refused)?;
        let columns: Vec<Bytes> = asked.iter().map(|entry| entry.column.clone()).collect();
        let later = self.read_entries(row, &columns).await.map_err(refused)?;
        let mut entries: BTreeMap<Bytes, StoredEntry> =
            existing.into_iter().map(|entry| (entry.column.clone(), entry)).collect();
        for StoredEntry { column, confirmed, .. } in later {
            if confirmed.is_some() {
                let entry = StoredEntry { column: column.clone(), staged: None, confirmed: None };
                entries.entry(column).or_insert(entry).confirmed = confirmed;
            }
        }
        Ok(RowAnswer::Refused { epoch, existing: entries.into_values().collect() })
    }

    async fn epoch(&self, row: &CommitRow) -> Faulty<Option<Epoch>> {
        let values = [Bind::Blob(&row.row)];
        let statement = statement(row, Commits::Epoch);
        let rows = self.session.rows(self.session.read(), statement, &values).await?;
        let first = rows.maybe_first_row::<(Vec<u8>, Option<i64>)>();
        let first = first.map_err(|error| misunderstood(Access::Read, error))?;
        let epoch = first.and_then(|(_, epoch)| epoch).map(epoch_of).transpose();
        epoch.map_err(|what| misunderstood(Access::Read, what))
    }
}

/// Returns the fault of a read after a refusal: the conditional write certainly was not applied.
fn refused(fault: Fault) -> Fault {
    Fault::Failed(fault.into_error())
}

const fn statement(row: &CommitRow, commits: Commits) -> Statement {
    Statement::Commits(row.table, commits)
}

fn bind_epoch(Epoch(epoch): Epoch) -> Faulty<Bind<'static>> {
    let too_large = |_| Fault::failed(format!("epoch {epoch} does not fit a column"));
    i64::try_from(epoch).map(Bind::Long).map_err(too_large)
}

/// Returns `true` if a row has a value; otherwise it is not an entry.
const fn has_value(entry: &StoredEntry) -> bool {
    entry.staged.is_some() || entry.confirmed.is_some()
}

fn entries_of(rows: &QueryRowsResult) -> Faulty<Vec<StoredEntry>> {
    type Row = (Vec<u8>, Option<Vec<u8>>, Option<Vec<u8>>);
    let unclear = |error: &dyn std::fmt::Display| misunderstood(Access::Read, error);
    let mut entries = Vec::with_capacity(rows.rows_num());
    for row in rows.rows::<Row>().map_err(|error| unclear(&error))? {
        let (column, staged, confirmed) = row.map_err(|error| unclear(&error))?;
        let (staged, confirmed) = (staged.map(Bytes::from), confirmed.map(Bytes::from));
        entries.push(StoredEntry { column: column.into(), staged, confirmed });
    }
    Ok(entries)
}
