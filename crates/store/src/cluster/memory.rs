//! A cluster in memory that never fails: linearizable, with one replica.

mod copy;
mod part;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use carnet_base::sync::lock;
use carnet_base::{Bytes, CellKey, Epoch, KeyRange, PageLimit, TableId, Timestamp, Version};

use super::cells::{
    Acknowledge, CellVersions, ClusterCells, Statement, VersionName, VersionPage, VersionWrite,
};
use super::commit_rows::{CommitRow, CommitRows, EntryPage, NewEntry, RowAnswer, StoredEntry};
use super::fault::Faulty;
use super::registers::{ReadMode, Register, Registers, SetAnswer};
use crate::cell_store::RangeRequest;
use crate::context::Context;

pub use part::Part;

/// A cluster in memory. Nothing survives it, and every call completes at once.
#[derive(Debug, Default)]
pub struct MemoryCluster {
    state: Mutex<ClusterState>,
    rounds: AtomicU64,
    cell_reads: AtomicU64,
}

#[derive(Debug, Default)]
struct ClusterState {
    cells: BTreeMap<CellKey, BTreeMap<Timestamp, Stored>>,
    /// Start of each cell below which all versions are deleted.
    floors: BTreeMap<CellKey, Timestamp>,
    rows: BTreeMap<CommitRow, Row>,
    registers: BTreeMap<Register, Bytes>,
}

#[derive(Debug, Default)]
struct Stored {
    write: Option<(Statement, Option<Bytes>)>,
    stamp: Option<Timestamp>,
    /// The entry stays, like a tombstone within its grace period.
    is_deleted: bool,
}

#[derive(Debug, Default)]
struct Row {
    epoch: Option<Epoch>,
    entries: BTreeMap<Bytes, (Option<Bytes>, Option<Bytes>)>,
}

impl MemoryCluster {
    /// Creates an empty cluster.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of Paxos rounds so far: conditional writes and SERIAL reads.
    #[must_use]
    pub fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Relaxed)
    }

    /// Returns the number of requests so far that read cells, without those of the sweep.
    #[must_use]
    pub fn cell_reads(&self) -> u64 {
        self.cell_reads.load(Ordering::Relaxed)
    }

    fn reads_cells(&self) -> MutexGuard<'_, ClusterState> {
        self.cell_reads.fetch_add(1, Ordering::Relaxed);
        self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, ClusterState> {
        lock(&self.state)
    }

    /// Runs a conditional write.
    fn round<T>(&self, write: impl FnOnce(&mut ClusterState) -> T) -> T {
        self.rounds.fetch_add(1, Ordering::Relaxed);
        write(&mut self.lock())
    }
}

impl Stored {
    fn version(&self, start: Timestamp) -> Option<Version> {
        let (_, payload) = self.write.as_ref().filter(|_| !self.is_deleted)?;
        Some(Version { start, commit: self.stamp, payload: payload.clone() })
    }
}

impl Row {
    fn stored(&self, column: &Bytes) -> Option<StoredEntry> {
        let (staged, confirmed) = self.entries.get(column)?.clone();
        Some(StoredEntry { column: column.clone(), staged, confirmed })
    }

    fn refusal(&self, entries: &[NewEntry]) -> RowAnswer {
        let existing = entries.iter().filter_map(|entry| self.stored(&entry.column)).collect();
        RowAnswer::Refused { epoch: self.epoch, existing }
    }
}

impl ClusterState {
    fn newest(versions: &BTreeMap<Timestamp, Stored>, through: Timestamp) -> Option<Version> {
        versions.range(..=through).rev().find_map(|(start, stored)| stored.version(*start))
    }

    fn stored(&mut self, name: &VersionName) -> &mut Stored {
        self.cells.entry(name.key.clone()).or_default().entry(name.start).or_default()
    }

    /// Maps the cells of a range with `take`, up to a limit; returns the rest of the range.
    fn take<T>(
        &self,
        (range, reverse, limit): (&KeyRange, bool, PageLimit),
        taken: &mut Vec<T>,
        mut take: impl FnMut(&CellKey, &BTreeMap<Timestamp, Stored>) -> Option<(T, usize)>,
    ) -> Option<KeyRange> {
        let mut bytes = 0;
        let mut add = |(key, versions): (&CellKey, _)| {
            if let Some((item, payload_bytes)) = take(key, versions) {
                bytes += key.as_bytes().len() + payload_bytes;
                taken.push(item);
            }
            let is_full = taken.len() >= limit.cells || bytes >= limit.bytes;
            is_full.then(|| range.after(key.clone(), reverse))
        };
        let cells = self.cells.range(range.map_bounds()?);
        if reverse { cells.rev().find_map(&mut add) } else { cells.into_iter().find_map(&mut add) }
    }
}

fn payload_bytes(version: &Version) -> usize {
    version.payload.as_ref().map_or(0, Bytes::len)
}

impl ClusterCells for MemoryCluster {
    async fn write_versions(&self, _: &Context, writes: &[VersionWrite]) -> Faulty<()> {
        let mut state = self.lock();
        for write in writes {
            if state.floors.get(&write.key).is_some_and(|floor| write.start < *floor) {
                continue;
            }
            let name = VersionName { key: write.key.clone(), start: write.start };
            let stored = state.stored(&name);
            if stored.write.as_ref().is_none_or(|(statement, _)| *statement <= write.statement) {
                stored.write = Some((write.statement, write.payload.clone()));
            }
        }
        Ok(())
    }

    async fn read_version(
        &self,
        _: &Context,
        key: &CellKey,
        through: Timestamp,
    ) -> Faulty<Option<Version>> {
        let state = self.reads_cells();
        Ok(state.cells.get(key).and_then(|versions| ClusterState::newest(versions, through)))
    }

    async fn read_chain(
        &self,
        _: &Context,
        key: &CellKey,
        through: Timestamp,
        max: usize,
    ) -> Faulty<Vec<Version>> {
        let state = self.reads_cells();
        let Some(versions) = state.cells.get(key) else { return Ok(Vec::new()) };
        let newest = versions.range(..=through).rev();
        Ok(newest.filter_map(|(start, stored)| stored.version(*start)).take(max).collect())
    }

    async fn read_range(&self, _: &Context, request: &RangeRequest) -> Faulty<VersionPage> {
        let mut cells = Vec::new();
        let asked = (&request.range, request.reverse, request.limit);
        let resume = self.reads_cells().take(asked, &mut cells, |key, versions| {
            let version = ClusterState::newest(versions, request.read)?;
            let bytes = payload_bytes(&version);
            Some((CellVersions { key: key.clone(), versions: vec![version] }, bytes))
        });
        Ok(VersionPage { cells, resume })
    }

    async fn scan_versions(&self, range: &KeyRange, limit: PageLimit) -> Faulty<VersionPage> {
        let mut cells = Vec::new();
        let resume = self.lock().take((range, false, limit), &mut cells, |key, versions| {
            let versions: Vec<Version> = versions
                .iter()
                .rev()
                .filter_map(|(start, stored)| stored.version(*start))
                .collect();
            let bytes = versions.iter().map(payload_bytes).sum();
            (!versions.is_empty()).then(|| (CellVersions { key: key.clone(), versions }, bytes))
        });
        Ok(VersionPage { cells, resume })
    }

    async fn tables(&self) -> Faulty<Vec<TableId>> {
        let mut tables: Vec<TableId> = self.lock().cells.keys().map(CellKey::table).collect();
        tables.sort_unstable();
        tables.dedup();
        Ok(tables)
    }

    async fn stamp_versions(&self, stamps: &[(VersionName, Timestamp)]) -> Faulty<()> {
        let mut state = self.lock();
        for (name, commit) in stamps {
            state.stored(name).stamp = Some(*commit);
        }
        Ok(())
    }

    async fn delete_versions(&self, versions: &[VersionName], _: Acknowledge) -> Faulty<()> {
        let mut state = self.lock();
        for name in versions {
            state.stored(name).is_deleted = true;
        }
        Ok(())
    }

    async fn delete_older(&self, than: &[VersionName], _: Acknowledge) -> Faulty<()> {
        let mut state = self.lock();
        for VersionName { key, start } in than {
            let floor = state.floors.entry(key.clone()).or_default();
            *floor = (*floor).max(*start);
            let floor = *floor;
            if let Some(versions) = state.cells.get_mut(key) {
                versions.retain(|version, _| *version >= floor);
            }
        }
        Ok(())
    }
}

impl CommitRows for MemoryCluster {
    async fn put_unless_exists(
        &self,
        row: &CommitRow,
        fence: Option<Epoch>,
        entries: &[NewEntry],
    ) -> Faulty<RowAnswer> {
        self.round(|state| {
            let row = state.rows.entry(row.clone()).or_default();
            let is_fenced_out = fence.is_some() && fence != row.epoch;
            if is_fenced_out || entries.iter().any(|entry| row.stored(&entry.column).is_some()) {
                return Ok(row.refusal(entries));
            }
            for NewEntry { column, value } in entries {
                row.entries.insert(column.clone(), (Some(value.clone()), None));
            }
            Ok(RowAnswer::Applied)
        })
    }

    async fn touch(&self, row: &CommitRow, entries: &[NewEntry]) -> Faulty<RowAnswer> {
        self.round(|state| {
            let row = state.rows.entry(row.clone()).or_default();
            let holds = |entry: &NewEntry| {
                let staged = row.entries.get(&entry.column).and_then(|(staged, _)| staged.as_ref());
                staged == Some(&entry.value)
            };
            Ok(if entries.iter().all(holds) { RowAnswer::Applied } else { row.refusal(entries) })
        })
    }

    async fn confirm(&self, row: &CommitRow, entries: &[NewEntry]) -> Faulty<()> {
        let mut state = self.lock();
        let row = state.rows.entry(row.clone()).or_default();
        for NewEntry { column, value } in entries {
            row.entries.entry(column.clone()).or_default().1 = Some(value.clone());
        }
        Ok(())
    }

    async fn read_entries(&self, row: &CommitRow, columns: &[Bytes]) -> Faulty<Vec<StoredEntry>> {
        let state = self.lock();
        let Some(row) = state.rows.get(row) else { return Ok(Vec::new()) };
        Ok(columns.iter().filter_map(|column| row.stored(column)).collect())
    }

    async fn scan_entries(
        &self,
        row: &CommitRow,
        after: Option<&Bytes>,
        limit: usize,
    ) -> Faulty<EntryPage> {
        let state = self.lock();
        let Some(row) = state.rows.get(row) else { return Ok(EntryPage::default()) };
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut columns = row.entries.range::<Bytes, _>((from, Bound::Unbounded));
        let entries: Vec<StoredEntry> = columns
            .by_ref()
            .take(limit.max(1))
            .filter_map(|(column, _)| row.stored(column))
            .collect();
        let last = entries.last().map(|entry| entry.column.clone());
        Ok(EntryPage { resume_after: last.filter(|_| columns.next().is_some()), entries })
    }

    async fn delete_entries(&self, row: &CommitRow, columns: &[Bytes]) -> Faulty<()> {
        if let Some(row) = self.lock().rows.get_mut(row) {
            row.entries.retain(|column, _| !columns.contains(column));
        }
        Ok(())
    }

    async fn move_epoch(
        &self,
        row: &CommitRow,
        from: Option<Epoch>,
        to: Epoch,
    ) -> Faulty<RowAnswer> {
        self.round(|state| {
            let row = state.rows.entry(row.clone()).or_default();
            if row.epoch != from {
                return Ok(row.refusal(&[]));
            }
            row.epoch = Some(to);
            Ok(RowAnswer::Applied)
        })
    }
}

impl Registers for MemoryCluster {
    async fn read_register(&self, register: Register, mode: ReadMode) -> Faulty<Option<Bytes>> {
        if mode == ReadMode::Serial {
            self.rounds.fetch_add(1, Ordering::Relaxed);
        }
        Ok(self.lock().registers.get(&register).cloned())
    }

    async fn compare_and_set(
        &self,
        register: Register,
        expected: Option<&Bytes>,
        new: &Bytes,
    ) -> Faulty<SetAnswer> {
        self.round(|state| {
            let stored = state.registers.get(&register);
            if stored != expected {
                return Ok(SetAnswer::Refused(stored.cloned()));
            }
            state.registers.insert(register, new.clone());
            Ok(SetAnswer::Applied)
        })
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::{PartitionKey, block_on};

    use super::super::CommitTable;
    use super::*;

    fn at(number: u64) -> Timestamp {
        Timestamp::new(number).unwrap()
    }

    fn row() -> CommitRow {
        CommitRow { table: CommitTable::V3, row: Bytes::from_static(b"r") }
    }

    fn entry(column: &'static str, value: &'static str) -> NewEntry {
        NewEntry { column: column.into(), value: value.into() }
    }

    fn put(cluster: &MemoryCluster, epoch: u64, entries: &[NewEntry]) -> RowAnswer {
        block_on(cluster.put_unless_exists(&row(), Some(Epoch(epoch)), entries)).unwrap()
    }

    #[test]
    fn batch_is_put_atomically() {
        let cluster = MemoryCluster::new();
        assert!(matches!(
            put(&cluster, 1, &[entry("a", "1")]),
            RowAnswer::Refused { epoch: None, .. }
        ));
        let raised = block_on(cluster.move_epoch(&row(), None, Epoch(1))).unwrap();
        assert_eq!(raised, RowAnswer::Applied);
        assert_eq!(put(&cluster, 1, &[entry("a", "1"), entry("b", "2")]), RowAnswer::Applied);
        let RowAnswer::Refused { epoch, existing } =
            put(&cluster, 1, &[entry("c", "3"), entry("b", "9")])
        else {
            panic!("b exists")
        };
        assert_eq!(epoch, Some(Epoch(1)));
        let [stored] = &existing[..] else { panic!("only b was named: {existing:?}") };
        assert_eq!((&stored.column[..], stored.staged.as_deref()), (&b"b"[..], Some(&b"2"[..])));
        assert!(block_on(cluster.read_entries(&row(), &["c".into()])).unwrap().is_empty());
        let old = put(&cluster, 2, &[entry("c", "3")]);
        assert!(matches!(old, RowAnswer::Refused { epoch: Some(Epoch(1)), .. }));
    }

    #[test]
    fn later_statement_wins_and_deletes_last() {
        let cluster = MemoryCluster::new();
        let key = CellKey::new(TableId(1), &PartitionKey::new("p"), "c");
        let context = Context::unbounded();
        let write = |statement, payload: &'static str| VersionWrite {
            key: key.clone(),
            start: at(5),
            statement: Statement(statement),
            payload: Some(payload.into()),
        };
        let read = |through| block_on(cluster.read_version(&context, &key, at(through))).unwrap();
        block_on(cluster.write_versions(&context, &[write(2, "second")])).unwrap();
        block_on(cluster.write_versions(&context, &[write(1, "first")])).unwrap();
        assert_eq!(read(5).unwrap().payload.as_deref(), Some(&b"second"[..]));
        assert_eq!(read(4), None);
        let name = VersionName { key: key.clone(), start: at(5) };
        block_on(cluster.delete_versions(&[name], Acknowledge::All)).unwrap();
        block_on(cluster.write_versions(&context, &[write(2, "second")])).unwrap();
        assert_eq!(read(5), None);
        let name = VersionName { key: key.clone(), start: at(7) };
        block_on(cluster.delete_older(&[name], Acknowledge::All)).unwrap();
        let late = [6, 7].map(|start| VersionWrite { start: at(start), ..write(1, "late") });
        block_on(cluster.write_versions(&context, &late)).unwrap();
        assert_eq!((read(6), read(7).map(|version| version.start)), (None, Some(at(7))));
    }

    #[test]
    fn a_row_is_scanned_in_pages() {
        let cluster = MemoryCluster::new();
        block_on(cluster.move_epoch(&row(), None, Epoch(1))).unwrap();
        put(&cluster, 1, &[entry("a", "1"), entry("b", "2"), entry("c", "3")]);
        let page = block_on(cluster.scan_entries(&row(), None, 2)).unwrap();
        assert_eq!((page.entries.len(), page.resume_after.as_deref()), (2, Some(&b"b"[..])));
        let page = block_on(cluster.scan_entries(&row(), page.resume_after.as_ref(), 2)).unwrap();
        assert_eq!((page.entries.len(), page.resume_after), (1, None));
    }
}
