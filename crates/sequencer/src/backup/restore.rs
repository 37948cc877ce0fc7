//! Restores a backup: turns a copy of the tables into the prefix of commits that its label names.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use carnet_base::concurrent::all;
use carnet_base::{
    Bytes, CommitEntry, Encoding, EncodingMap, Epoch, Error, KeyRange, Result, Rng, TableId, Timer,
    Timestamp,
};
use carnet_store::PageLimit;
use carnet_store::cluster::{
    Cluster, CommitRow, CommitTable as Table, EntryPage, Fault, Overwrite, Register, RestoredRows,
    RowAnswer, StoredEntry,
};

use super::admit::{admit, restored_map};
use super::label::Label;
use super::registers::{change, read, retry};
use crate::commit_table::{CommitTable, FenceError};
use crate::lease::Lease;
use crate::options::Options;
use crate::sweep::Marks;

/// Number of rows that are processed concurrently.
const ROWS_AT_ONCE: usize = 16;
/// Number of entries in a page of reads; batches of overwrites have `BATCH_ENTRIES`.
const PAGE_ENTRIES: usize = 1000;
const BATCH_ENTRIES: usize = 100;
const TRIES: u32 = 8;
const FIRST_WAIT: Duration = Duration::from_millis(20);
/// Minimum time without a renewal after which the lease counts as unused. The lease timeout of this
/// process's options is used if it is longer. A leader may have a longer timeout, but renews its
/// lease four times within it.
const QUIET_MIN: Duration = Duration::from_secs(10);
/// Changes of the lease to tolerate: replicas were copied one after the other, so the first reads
/// may reveal later values.
const CHANGES_MAX: u32 = 3;

/// Progress of a restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreProgress {
    /// Rows of the commit table that were processed.
    pub rows: u64,
    /// Rows of the commit table in all.
    pub rows_total: u64,
    /// Entries that were aborted.
    pub aborted: u64,
}

/// Result of a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// B: every commit up to it is there, and none after.
    pub commit: Timestamp,
    /// First timestamp of the restored database.
    pub first: Timestamp,
    /// Entries of the commit table that were read.
    pub entries: u64,
    /// Entries of commits after B, which are aborted now.
    pub aborted: u64,
}

/// A row being processed.
type Looking<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

struct Restore<'a, C> {
    cluster: &'a C,
    table: CommitTable<C>,
    timer: &'a Arc<dyn Timer>,
    label: &'a Label,
    entries: AtomicU64,
    aborted: AtomicU64,
}

/// Turns restored tables into a database, before any process is started on them. If the restore is
/// cut short it can be run again; no process leads before it has completed.
///
/// # Errors
///
/// `Invalid` if the tables are not the copy that the label describes, or were in use since; nothing
/// was changed then. `Unavailable` if a process leads, or a replica is away; `Corrupted`.
pub async fn restore<C: Cluster + RestoredRows>(
    cluster: &Arc<C>,
    timer: &Arc<dyn Timer>,
    options: &Options,
    label: &Label,
    rng: &mut dyn Rng,
    tell: impl Fn(RestoreProgress) + Send + Sync,
) -> Result<Restored> {
    let table = CommitTable::new(Arc::clone(cluster), Arc::clone(timer), options);
    let (entries, aborted) = (AtomicU64::new(0), AtomicU64::new(0));
    let this = Restore { cluster: &**cluster, table, timer, label, entries, aborted };
    let found = this.quiet_lease(options.lease.timeout).await?;
    let lease = admit(found.as_ref(), label, rng)?;
    let map = read(&**cluster, &**timer, Register::Coordination).await?;
    let map = map.as_deref().map(EncodingMap::decode).transpose()?;
    restored_map(map.as_ref(), label, lease.bound)?;
    this.check_tables().await?;

    this.set_lease(found.as_ref(), &lease).await?;
    this.restore_map(lease.bound).await?;
    this.restore_marks(lease.bound).await?;
    this.fence(lease.epoch, lease.fence_from).await?;
    this.abort_later(&tell).await?;
    let (fence_from, renewal) = (lease.bound, lease.renewal + 1);
    let released =
        Lease { released: true, is_restoring: false, fence_from, renewal, ..lease.clone() };
    this.set_lease(Some(&lease), &released).await?;
    Ok(Restored {
        commit: label.commit,
        first: lease.bound,
        entries: this.entries.into_inner(),
        aborted: this.aborted.into_inner(),
    })
}

impl<C: Cluster + RestoredRows> Restore<'_, C> {
    /// Returns the lease, once it has not changed for the timeout.
    async fn quiet_lease(&self, timeout: Duration) -> Result<Option<Lease>> {
        let quiet = timeout.max(QUIET_MIN);
        let (mut before, mut changes) = (self.lease().await?, 0);
        let mut since = self.timer.now();
        while changes <= CHANGES_MAX {
            if self.timer.now().since(since) >= quiet {
                return Ok(before);
            }
            self.timer.wait(quiet / 8).await;
            let now = self.lease().await?;
            if now != before {
                (before, changes, since) = (now, changes + 1, self.timer.now());
            }
        }
        let address = before.map_or_else(String::new, |lease| lease.owner.address.to_string());
        Err(Error::unavailable(format!(
            "{address} leads the database: end every process of it, put the copy back, and restore \
             it before any is started"
        )))
    }

    async fn lease(&self) -> Result<Option<Lease>> {
        let lease = read(self.cluster, &**self.timer, Register::Lease).await?;
        lease.as_deref().map(Lease::decode).transpose()
    }

    /// Checks that every table of the copy is there, and that tables created later are empty: their
    /// ids will be given to others.
    async fn check_tables(&self) -> Result<()> {
        let Label { tables, new_tables, .. } = self.label;
        let there = retry(&**self.timer, || self.cluster.tables()).await?;
        if let Some(missing) = tables.iter().find(|table| !there.contains(table)) {
            return Err(Error::invalid(format!(
                "the cells of table {missing} were not put back: all tables of the copy are needed"
            )));
        }
        for table in there {
            let is_known = tables.contains(&table) || new_tables.contains(&table);
            if !is_known && !self.is_empty(table).await? {
                return Err(Error::invalid(format!(
                    "there are cells of table {table}, which is not in the backup: empty it, \
                     because its number will be given to another table"
                )));
            }
        }
        Ok(())
    }

    async fn is_empty(&self, table: TableId) -> Result<bool> {
        let mut rest = Some(KeyRange::table(table));
        while let Some(range) = rest {
            let scan = || self.cluster.scan_versions(&range, PageLimit::cells(1));
            let page = retry(&**self.timer, scan).await?;
            if !page.cells.is_empty() {
                return Ok(false);
            }
            rest = page.resume;
        }
        Ok(true)
    }

    async fn set_lease(&self, expected: Option<&Lease>, to: &Lease) -> Result<()> {
        let (expected, to) = (expected.map(Lease::encode), to.encode());
        change(self.cluster, &**self.timer, Register::Lease, |stored| match stored {
            Some(stored) if *stored == to => Ok(None),
            stored if stored == expected.as_ref() => Ok(Some(to.clone())),
            stored => Err(self.superseded(stored)),
        })
        .await
    }

    /// Returns the error that names the process that took the lease instead.
    fn superseded(&self, stored: Option<&Bytes>) -> Error {
        let lease = stored.and_then(|bytes| Lease::decode(bytes).ok());
        let is_anothers = |lease: Lease| lease.is_restoring || lease.owner.nonce == self.label.id;
        if lease.is_some_and(is_anothers) {
            return Error::unavailable(
                "another restore began after this one and replaced it: this restore ends, and the \
                 result of the other one counts",
            );
        }
        Error::unavailable(
            "the lease was taken by a process of the database, or removed: if another restore has \
             ended meanwhile, the database is restored; otherwise the process was started too \
             early: put the copy back and restore it again",
        )
    }

    async fn restore_map(&self, first: Timestamp) -> Result<()> {
        change(self.cluster, &**self.timer, Register::Coordination, |stored| {
            let map = stored.map(|bytes| EncodingMap::decode(bytes)).transpose()?;
            let restored = restored_map(map.as_ref(), self.label, first)?;
            Ok((map.as_ref() != Some(&restored)).then(|| restored.encode()))
        })
        .await
    }

    /// Raises the sweep's mark, so that no snapshot below the new bound is served: its commits may
    /// be aborted now.
    async fn restore_marks(&self, first: Timestamp) -> Result<()> {
        let to = Marks { versions: first, ..self.label.marks };
        change(self.cluster, &**self.timer, Register::SweepMark, |stored| {
            let marks = stored.map_or(Ok(Marks::default()), |bytes| Marks::decode(bytes))?;
            let restored = Marks { hold: None, ..marks.raised(to) };
            Ok((restored != marks || stored.is_none()).then(|| restored.encode()))
        })
        .await
    }

    /// Raises the epoch of every row that a start of the original database may use. This also ends
    /// conditional writes that were in flight there.
    async fn fence(&self, epoch: Epoch, from: Timestamp) -> Result<()> {
        self.table.fence(epoch, from, self.label.bound).await.map_err(|error| match error {
            FenceError::Superseded => Error::unavailable(
                "a row of the commit table is of a later epoch: another restore began after this \
                 one, and its result counts, or a process of the database is running",
            ),
            FenceError::Failed(error) => error,
        })
    }

    /// Aborts every entry of a commit above B.
    async fn abort_later(&self, tell: &(impl Fn(RestoreProgress) + Send + Sync)) -> Result<()> {
        let from = self.label.marks.entries_from;
        let rows = self.table.rows_between(from, self.label.bound)?;
        let (done, rows_total) = (AtomicU64::new(0), rows.len() as u64);
        let mut looks: Vec<Looking<'_>> = Vec::with_capacity(rows.len());
        for row in &rows {
            let done = &done;
            looks.push(Box::pin(async move {
                self.abort_later_of(row).await?;
                let rows = done.fetch_add(1, Ordering::Relaxed) + 1;
                let aborted = self.aborted.load(Ordering::Relaxed);
                tell(RestoreProgress { rows, rows_total, aborted });
                Ok(())
            }));
        }
        all(looks, ROWS_AT_ONCE).await
    }

    /// Processes one row. A page with entries to abort is read again until it has none.
    async fn abort_later_of(&self, row: &CommitRow) -> Result<()> {
        let (mut after, mut tries, mut wait) = (None, 0, FIRST_WAIT);
        let mut why = Error::unavailable(
            "overwrites have no effect: the clocks of this cluster's nodes are behind the clocks \
             that wrote the copy",
        );
        loop {
            if tries == TRIES {
                let message = "an entry of the commit table cannot be aborted; run it again";
                return Err(Error::unavailable(message).with_source(why));
            }
            let page = match self.cluster.scan_replicas(row, after.as_ref(), PAGE_ENTRIES).await {
                Ok(page) => page,
                Err(fault) => {
                    (tries, why) = (tries + 1, fault.into());
                    self.timer.wait(wait).await;
                    wait *= 2;
                    continue;
                }
            };
            let EntryPage { entries, resume_after } = page;
            let later = self.later(row, &entries)?;
            if later.is_empty() {
                self.entries.fetch_add(entries.len() as u64, Ordering::Relaxed);
                if resume_after.is_none() {
                    return Ok(());
                }
                (after, tries, wait) = (resume_after, 0, FIRST_WAIT);
                continue;
            }
            tries += 1;
            for batch in later.chunks(BATCH_ENTRIES) {
                match self.cluster.overwrite(row, batch).await {
                    Ok(RowAnswer::Applied) => {
                        self.aborted.fetch_add(batch.len() as u64, Ordering::Relaxed);
                    }
                    Ok(RowAnswer::Refused { .. }) => {}
                    Err(Fault::Unknown(error) | Fault::Failed(error)) => {
                        why = error;
                        self.timer.wait(wait).await;
                        wait *= 2;
                    }
                }
            }
        }
    }

    /// Returns the overwrites that abort a row's entries with commits above B.
    fn later(&self, row: &CommitRow, entries: &[StoredEntry]) -> Result<Vec<Overwrite>> {
        let encoding = match row.table {
            Table::V2 => Encoding::V2,
            Table::V3 => Encoding::V3,
        };
        let mut later = Vec::new();
        for StoredEntry { column, staged, confirmed } in entries {
            let start = encoding.start_of(&row.row, column)?;
            let is_later = |value: &Option<Bytes>| {
                let Some(value) = value else { return Ok(false) };
                Ok::<_, Error>(match encoding.decode(start, value)? {
                    CommitEntry::Committed(commit) => commit > self.label.commit,
                    CommitEntry::Aborted => false,
                })
            };
            if is_later(staged)? || is_later(confirmed)? {
                let abort = encoding.encode(start, CommitEntry::Aborted)?;
                let confirmed = CommitTable::<C>::confirms(encoding).then(|| abort.clone());
                let (column, expected) = (column.clone(), staged.clone());
                later.push(Overwrite { column, expected, staged: abort, confirmed });
            }
        }
        Ok(later)
    }
}
