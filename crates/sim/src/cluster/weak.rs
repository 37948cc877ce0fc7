//! A cluster as weak as its traits allow: three replicas, and every allowed fault.
//!
//! ```text
//!            blind write                          conditional write
//!   process ──┬─▶ A   now                process ──▶ one agreed state for each row and register
//!             ├─▶ B   later, after any       ╲▶ or: *in doubt*, on one replica
//!             └─▶ C   never   other call        seen by every second read, or by none,
//!   two of three: acknowledged                  until the next round completes or discards it
//! ```
//!
//! * A blind write arrives at each replica at a different time, or never. Two arrivals make an
//!   acknowledgement, fewer a timeout. Messages in flight still arrive, even after later calls.
//! * A read uses two replicas, drawn at random, and sees the data of either.
//! * A conditional write is agreed on or not. A timeout tells neither: it had no effect, or its
//!   full effect, or the proposal lives on one replica, where one plain read may see it and the
//!   next may not. The next round on the same row completes it or makes it impossible, or it
//!   completes later by itself.
//! * In some runs rounds *forget*: an entry that a round missed lives on, unless that round put
//!   another entry into its column, which a fence does not.
//! * A delete leaves a tombstone at each replica that it reaches. The tombstone is collected after
//!   a grace period; data that a replica missed the delete of may come back then.
//! * Processes can be cut off from replicas, and replicas can be down.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use carnet_base::{
    Bytes, CellKey, CommitEntry, Encoding, Epoch, KeyRange, TableId, Timer, Timestamp, Version,
};
use carnet_store::cluster::{
    Acknowledge, CellVersions, ClusterCells, CommitRow, CommitRows, CommitTable, EntryPage, Fault,
    Faulty, NewEntry, ReadMode, Register, Registers, RowAnswer, SetAnswer, Statement, StoredEntry,
    VersionName, VersionPage, VersionWrite,
};
use carnet_store::loader::{Grouping, Limits, Planner};
use carnet_store::{Context, Page, PageLimit, RangeRequest};

use super::agreed::{Agreed, Doubt, Partition, Row};
use crate::executor::{Process, SimTimer};
use crate::random::Random;

const REPLICAS: usize = 3;
const QUORUM: usize = 2;
/// Time after which a call without a majority has timed out.
const TIMEOUT: Duration = Duration::from_millis(4);
/// Time for which a replica keeps tombstones: longer than any message is in flight, or is resent by
/// a paused process.
const GRACE: Duration = Duration::from_millis(400);

/// Rates of faults, in thousandths.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FaultRates {
    /// Lost messages of blind writes.
    pub(super) lost: u64,
    /// Late messages of blind writes.
    pub(super) late: u64,
    /// Conditional writes that end without an answer.
    pub(super) unanswered: u64,
}

/// A cluster, as one process reaches it. Clones for other processes share it.
#[derive(Clone)]
pub(super) struct WeakCluster {
    shared: Arc<Mutex<State>>,
    timer: SimTimer,
    process: Process,
}

struct State {
    random: Random,
    fault_rates: FaultRates,
    replicas: [Replica; REPLICAS],
    agreed: Agreed,
    /// Messages in flight to replicas, by time of arrival.
    arrivals: BTreeMap<(Duration, u64), (usize, Blind)>,
    sent: u64,
    /// Tombstones, by time of collection.
    collected: BTreeMap<(Duration, u64), (usize, Blind)>,
    /// Values of swept entries.
    swept: BTreeMap<Timestamp, CommitEntry>,
    /// Whether an entry that a round missed outlives the round.
    forgets: bool,
    cut: BTreeSet<(Process, usize)>,
    down: BTreeSet<usize>,
}

#[derive(Default)]
struct Replica {
    cells: BTreeMap<CellKey, BTreeMap<Timestamp, Stored>>,
    /// Start of each cell below which all versions are deleted.
    floors: BTreeMap<CellKey, Timestamp>,
    confirmed: BTreeMap<CommitRow, BTreeMap<Bytes, Bytes>>,
}

#[derive(Clone, Default)]
struct Stored {
    write: Option<(Statement, Option<Bytes>)>,
    stamp: Option<Timestamp>,
    is_deleted: bool,
}

/// A message of a blind write.
#[derive(Clone)]
enum Blind {
    Versions(Arc<[VersionWrite]>),
    Stamps(Arc<[(VersionName, Timestamp)]>),
    Deletes(Arc<[VersionName]>),
    DeletesOlder(Arc<[VersionName]>),
    Forgets(CommitRow, Arc<[Bytes]>),
    Confirms(CommitRow, Arc<[NewEntry]>),
}

/// Outcome of a round.
enum Round {
    /// It was not started.
    Failed,
    /// It had no effect, and the caller cannot tell.
    Nothing,
    /// It is in doubt.
    Doubt,
    /// It took effect; the answer may or may not arrive.
    Agreed { is_answered: bool },
}

impl Stored {
    fn version(&self, start: Timestamp) -> Option<Version> {
        let (_, payload) = self.write.as_ref().filter(|_| !self.is_deleted)?;
        Some(Version { start, commit: self.stamp, payload: payload.clone() })
    }

    fn merge(&mut self, other: &Self) {
        let statement = |stored: &Self| stored.write.as_ref().map(|(statement, _)| *statement);
        if statement(other) > statement(self) {
            self.write.clone_from(&other.write);
        }
        self.stamp = self.stamp.or(other.stamp);
        self.is_deleted |= other.is_deleted;
    }
}

impl Replica {
    fn stored(&mut self, key: &CellKey, start: Timestamp) -> &mut Stored {
        self.cells.entry(key.clone()).or_default().entry(start).or_default()
    }

    fn take(&mut self, message: &Blind) {
        match message {
            Blind::Versions(writes) => {
                for VersionWrite { key, start, statement, payload } in writes.iter() {
                    let write = Some((*statement, payload.clone()));
                    self.stored(key, *start).merge(&Stored { write, ..Stored::default() });
                }
            }
            Blind::Stamps(stamps) => {
                for (VersionName { key, start }, commit) in stamps.iter() {
                    self.stored(key, *start).stamp = Some(*commit);
                }
            }
            Blind::Deletes(names) => {
                for VersionName { key, start } in names.iter() {
                    self.stored(key, *start).is_deleted = true;
                }
            }
            Blind::DeletesOlder(names) => {
                for VersionName { key, start } in names.iter() {
                    let floor = self.floors.entry(key.clone()).or_default();
                    *floor = (*floor).max(*start);
                }
            }
            Blind::Forgets(row, columns) => {
                if let Some(row) = self.confirmed.get_mut(row) {
                    row.retain(|column, _| !columns.contains(column));
                }
            }
            Blind::Confirms(row, entries) => {
                let row = self.confirmed.entry(row.clone()).or_default();
                for NewEntry { column, value } in entries.iter() {
                    row.insert(column.clone(), value.clone());
                }
            }
        }
    }

    /// Collects the tombstones of a delete with the versions that they hide.
    fn collect(&mut self, delete: &Blind) {
        let (Blind::Deletes(names) | Blind::DeletesOlder(names)) = delete else { return };
        for VersionName { key, start } in names.iter() {
            let Some(versions) = self.cells.get_mut(key) else { continue };
            if matches!(delete, Blind::Deletes(_)) {
                versions.remove(start);
                continue;
            }
            versions.retain(|version, _| version >= start);
            if self.floors.get(key) == Some(start) {
                self.floors.remove(key);
            }
        }
    }
}

impl State {
    /// Delivers all due messages, and collects all due tombstones.
    fn advance(&mut self, now: Duration) {
        while let Some(first) = self.arrivals.first_entry() {
            let (at, number) = *first.key();
            if at > now {
                break;
            }
            let (replica, message) = first.remove();
            self.replicas[replica].take(&message);
            if matches!(message, Blind::Deletes(_) | Blind::DeletesOlder(_)) {
                self.collected.insert((at + GRACE, number), (replica, message));
            }
        }
        while let Some(first) = self.collected.first_entry() {
            if first.key().0 > now {
                break;
            }
            let (replica, message) = first.remove();
            self.replicas[replica].collect(&message);
        }
        self.agreed.advance(now);
    }

    fn reaches(&self, process: Process, replica: usize) -> bool {
        !self.down.contains(&replica) && !self.cut.contains(&(process, replica))
    }

    fn reachable(&self, process: Process) -> Vec<usize> {
        (0..REPLICAS).filter(|replica| self.reaches(process, *replica)).collect()
    }

    /// Draws a majority of the replicas that a process reaches.
    fn quorum(&mut self, process: Process) -> Option<[usize; QUORUM]> {
        let reachable = self.reachable(process);
        let first = self.random.below(reachable.len() as u64);
        let first = usize::try_from(first).unwrap_or_default();
        let step = self.random.count(1, reachable.len().saturating_sub(1).max(1));
        (reachable.len() >= QUORUM)
            .then(|| [reachable[first], reachable[(first + step) % reachable.len()]])
    }

    fn delay(&mut self) -> Duration {
        self.random.micros(20, 400)
    }

    /// Sends a blind write; returns when `awaited` replicas will have it, if they will.
    fn send(
        &mut self,
        process: Process,
        now: Duration,
        message: &Blind,
        awaited: usize,
    ) -> Option<Duration> {
        let mut arrivals = Vec::new();
        for replica in 0..REPLICAS {
            let is_lost = self.random.below(1000) < self.fault_rates.lost;
            if is_lost || !self.reaches(process, replica) {
                continue;
            }
            let is_late = self.random.below(1000) < self.fault_rates.late;
            let late = if is_late { self.random.micros(1_000, 60_000) } else { Duration::ZERO };
            let at = now + self.delay() + late;
            self.sent += 1;
            self.arrivals.insert((at, self.sent), (replica, message.clone()));
            arrivals.push(at);
        }
        arrivals.sort_unstable();
        arrivals.get(awaited - 1).copied().filter(|at| *at < now + TIMEOUT)
    }

    /// Draws a grouping of a read of many cells into requests.
    fn draw_planner(&mut self) -> Planner {
        let (cells, names_max) = (self.random.count(1, 6), self.random.count(1, 4));
        let grouping = self.random.pick(&[Grouping::Rows, Grouping::Columns]);
        Planner { grouping, limits: Limits::both(cells), names_max, requests_max: 4 }
    }

    fn draw_round(&mut self, process: Process) -> Round {
        if self.reachable(process).len() < QUORUM {
            return if self.random.percent(50) { Round::Nothing } else { Round::Doubt };
        }
        if self.random.below(1000) >= self.fault_rates.unanswered {
            return Round::Agreed { is_answered: true };
        }
        match self.random.below(8) {
            0 => Round::Failed,
            1 | 2 => Round::Nothing,
            3 | 4 => Round::Agreed { is_answered: false },
            _ => Round::Doubt,
        }
    }

    fn merged(
        &self,
        quorum: [usize; QUORUM],
        range: &KeyRange,
    ) -> BTreeMap<CellKey, BTreeMap<Timestamp, Stored>> {
        let mut merged: BTreeMap<CellKey, BTreeMap<Timestamp, Stored>> = BTreeMap::new();
        let Some(bounds) = range.map_bounds() else { return merged };
        for replica in quorum {
            for (key, _) in self.replicas[replica].cells.range(bounds.clone()) {
                if !merged.contains_key(key) {
                    merged.insert(key.clone(), self.cell(quorum, key));
                }
            }
        }
        merged
    }

    /// Returns the versions of a cell as a majority sees them.
    fn cell(&self, quorum: [usize; QUORUM], key: &CellKey) -> BTreeMap<Timestamp, Stored> {
        let mut merged: BTreeMap<Timestamp, Stored> = BTreeMap::new();
        let replicas = quorum.map(|replica| &self.replicas[replica]);
        let floors = replicas.map(|replica| replica.floors.get(key).copied().unwrap_or_default());
        let floor = floors.into_iter().max().unwrap_or_default();
        for (start, stored) in replicas.iter().filter_map(|it| it.cells.get(key)).flatten() {
            merged.entry(*start).or_default().merge(stored);
        }
        merged.retain(|start, _| *start >= floor);
        merged
    }

    /// Records the values of entries about to be swept: their clients may still ask about them.
    fn remember(&mut self, name: &CommitRow, columns: &[Bytes]) {
        let row = self.agreed.seen_row(name, |_| false);
        let encoding = match name.table {
            CommitTable::V2 => Encoding::V2,
            CommitTable::V3 => Encoding::V3,
        };
        for column in columns {
            let start = encoding.start_of(&name.row, column).ok();
            let said = start.zip(row.and_then(|row| row.entries.get(column)));
            let entry = said.and_then(|(start, value)| encoding.decode(start, value).ok());
            if let Some((start, entry)) = start.zip(entry) {
                self.swept.entry(start).or_insert(entry);
            }
        }
    }

    fn seen(&self, quorum: [usize; QUORUM], row: &CommitRow) -> Option<&Row> {
        self.agreed.seen_row(row, |replica| quorum.contains(&replica))
    }

    fn entry(
        &self,
        quorum: [usize; QUORUM],
        row: &CommitRow,
        column: &Bytes,
    ) -> Option<StoredEntry> {
        let staged = self.seen(quorum, row).and_then(|row| row.entries.get(column));
        let confirmed = quorum.iter().rev().find_map(|replica| {
            self.replicas[*replica].confirmed.get(row).and_then(|row| row.get(column))
        });
        let is_there = staged.is_some() || confirmed.is_some();
        is_there.then(|| StoredEntry {
            column: column.clone(),
            staged: staged.cloned(),
            confirmed: confirmed.cloned(),
        })
    }

    fn entries(&self, quorum: [usize; QUORUM], row: &CommitRow) -> BTreeMap<Bytes, StoredEntry> {
        let staged = self.seen(quorum, row);
        let mut entries: BTreeMap<Bytes, StoredEntry> = BTreeMap::new();
        let entry =
            |column: &Bytes| StoredEntry { column: column.clone(), staged: None, confirmed: None };
        for (column, value) in staged.into_iter().flat_map(|row| &row.entries) {
            entries.entry(column.clone()).or_insert_with(|| entry(column)).staged =
                Some(value.clone());
        }
        for replica in quorum {
            for (column, value) in self.replicas[replica].confirmed.get(row).into_iter().flatten() {
                let entry = entries.entry(column.clone()).or_insert_with(|| entry(column));
                entry.confirmed = Some(value.clone());
            }
        }
        entries
    }
}

impl WeakCluster {
    pub(super) fn new(mut random: Random, timer: SimTimer, forgets: bool) -> Self {
        let state = State {
            agreed: Agreed::default(),
            fault_rates: FaultRates::default(),
            replicas: std::array::from_fn(|_| Replica::default()),
            arrivals: BTreeMap::new(),
            sent: random.below(2),
            collected: BTreeMap::new(),
            swept: BTreeMap::new(),
            forgets,
            cut: BTreeSet::new(),
            down: BTreeSet::new(),
            random,
        };
        Self { shared: Arc::new(Mutex::new(state)), timer, process: Process(0) }
    }

    /// Returns the cluster as another process reaches it.
    pub(super) fn seen_by(&self, process: Process) -> Self {
        Self { process, ..self.clone() }
    }

    pub(super) fn set_fault_rates(&self, fault_rates: FaultRates) {
        self.lock().fault_rates = fault_rates;
    }

    /// Cuts a process off from a replica.
    pub(super) fn cut(&self, process: Process, replica: usize) {
        self.lock().cut.insert((process, replica % REPLICAS));
    }

    /// Takes a replica down: messages to it are lost.
    pub(super) fn take_down(&self, replica: usize) {
        self.lock().down.insert(replica % REPLICAS);
    }

    /// Ends all cuts and outages.
    pub(super) fn heal(&self) {
        let mut state = self.lock();
        state.cut.clear();
        state.down.clear();
    }

    fn now(&self) -> Duration {
        self.timer.now().0
    }

    /// Locks the cluster, and advances it to the current time.
    fn lock(&self) -> MutexGuard<'_, State> {
        let now = self.now();
        let mut state = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        state.advance(now);
        state
    }

    async fn wait(&self) {
        let delay = self.lock().delay();
        self.timer.wait(delay).await;
    }

    /// Returns the value of a swept entry.
    pub(super) fn swept(&self, start: Timestamp) -> Option<CommitEntry> {
        self.lock().swept.get(&start).copied()
    }

    async fn blind(&self, what: &str, message: Blind) -> Faulty<()> {
        self.blind_at(what, message, QUORUM).await
    }

    async fn blind_at(&self, what: &str, message: Blind, awaited: usize) -> Faulty<()> {
        let now = self.now();
        let sent = self.lock().send(self.process, now, &message, awaited);
        if let Some(at) = sent {
            self.timer.wait(at.saturating_sub(now)).await;
            return Ok(());
        }
        self.timer.wait(TIMEOUT).await;
        Err(Fault::timed_out(what))
    }

    async fn read<T>(&self, read: impl FnOnce(&mut State, [usize; QUORUM]) -> T) -> Faulty<T> {
        self.wait().await;
        let result = {
            let mut state = self.lock();
            let quorum = state.quorum(self.process);
            quorum.map(|quorum| read(&mut state, quorum))
        };
        if result.is_some() {
            self.wait().await;
        } else {
            self.timer.wait(TIMEOUT).await;
        }
        result.ok_or_else(|| Fault::timed_out("a read"))
    }

    /// Runs a round on a partition. From the agreed value, `decide` computes the next value, if
    /// any, and the answer.
    async fn round<P: Partition, T>(
        &self,
        name: &P::Name,
        decide: impl FnOnce(&P) -> (Option<P>, T),
    ) -> Faulty<T> {
        self.wait().await;
        let now = self.now();
        let answer = {
            let state = &mut *self.lock();
            let round = state.draw_round(self.process);
            let ends = state.random.micros(500, 50_000);
            let replica = state.random.count(0, REPLICAS - 1);
            match round {
                Round::Failed => Some(Err(Fault::failed("the round was not begun"))),
                Round::Nothing => None,
                Round::Agreed { is_answered } => {
                    let agreed = P::all_mut(&mut state.agreed).entry(name.clone()).or_default();
                    let passed = agreed.settle(&mut state.random).filter(|_| state.forgets);
                    let (next, answer) = decide(&agreed.value);
                    agreed.agree(next, passed);
                    is_answered.then_some(Ok(answer))
                }
                Round::Doubt => {
                    let agreed = P::all_mut(&mut state.agreed).entry(name.clone()).or_default();
                    // Its first half is a round like any other.
                    let passed = agreed.settle(&mut state.random).filter(|_| state.forgets);
                    agreed.agree(None, passed);
                    if let (Some(value), _) = decide(&agreed.value) {
                        let ends = state.random.percent(30).then_some(now + ends);
                        agreed.doubt = Some(Doubt { value, replica, ends });
                    }
                    None
                }
            }
        };
        match answer {
            Some(answer) => {
                self.wait().await;
                answer
            }
            None => {
                self.timer.wait(TIMEOUT).await;
                Err(Fault::timed_out("a conditional write"))
            }
        }
    }
}

/// Returns a page of the results of `take` on cells.
fn page_of<T>(
    cells: BTreeMap<CellKey, BTreeMap<Timestamp, Stored>>,
    (range, reverse, limit): (&KeyRange, bool, PageLimit),
    take: impl Fn(&CellKey, &BTreeMap<Timestamp, Stored>) -> Option<T>,
) -> (Vec<T>, Option<KeyRange>) {
    let mut taken = Vec::new();
    let cells: Box<dyn Iterator<Item = _>> =
        if reverse { Box::new(cells.into_iter().rev()) } else { Box::new(cells.into_iter()) };
    for (key, versions) in cells {
        taken.extend(take(&key, &versions));
        if taken.len() >= limit.cells {
            return (taken, Some(range.after(key, reverse)));
        }
    }
    (taken, None)
}

fn newest(versions: &BTreeMap<Timestamp, Stored>, through: Timestamp) -> Option<Version> {
    versions.range(..=through).rev().find_map(|(start, stored)| stored.version(*start))
}

impl ClusterCells for WeakCluster {
    async fn write_versions(&self, _: &Context, writes: &[VersionWrite]) -> Faulty<()> {
        self.blind("a write of cells", Blind::Versions(writes.into())).await
    }

    async fn read_version(
        &self,
        _: &Context,
        key: &CellKey,
        through: Timestamp,
    ) -> Faulty<Option<Version>> {
        self.read(|state, quorum| newest(&state.cell(quorum, key), through)).await
    }

    /// Uses the loader's plan: each request reads a majority of its own, at its own time.
    async fn read_versions(
        &self,
        _: &Context,
        keys: &[CellKey],
        through: Timestamp,
    ) -> Faulty<Vec<Option<Version>>> {
        let mut found = BTreeMap::new();
        let tables: BTreeSet<TableId> = keys.iter().map(CellKey::table).collect();
        for table in tables {
            let asked: BTreeSet<&CellKey> =
                keys.iter().filter(|key| key.table() == table).collect();
            let asked: Vec<CellKey> = asked.into_iter().cloned().collect();
            let batches = self.lock().draw_planner().plan(&asked);
            for request in batches.into_iter().flat_map(|batch| batch.requests) {
                let pairs = request.rows.iter().flat_map(|row| {
                    request.columns.iter().map(move |column| CellKey::new(table, row, column))
                });
                let cells: Vec<CellKey> = pairs.collect();
                let read = self.read(|state, quorum| {
                    cells.iter().map(|key| newest(&state.cell(quorum, key), through)).collect()
                });
                let versions: Vec<Option<Version>> = read.await?;
                found.extend(cells.into_iter().zip(versions));
            }
        }
        Ok(keys.iter().map(|key| found.get(key).cloned().flatten()).collect())
    }

    async fn read_range(&self, _: &Context, request: &RangeRequest) -> Faulty<Page> {
        let asked = (&request.range, request.reverse, request.limit);
        let merged = self.read(|state, quorum| state.merged(quorum, &request.range)).await?;
        let (cells, resume) = page_of(merged, asked, |key, versions| {
            Some((key.clone(), newest(versions, request.read)?))
        });
        Ok(Page { cells, resume })
    }

    async fn scan_versions(&self, range: &KeyRange, limit: PageLimit) -> Faulty<VersionPage> {
        let merged = self.read(|state, quorum| state.merged(quorum, range)).await?;
        let (cells, resume) = page_of(merged, (range, false, limit), |key, versions| {
            let versions: Vec<Version> =
                versions.iter().rev().filter_map(|(start, it)| it.version(*start)).collect();
            (!versions.is_empty()).then(|| CellVersions { key: key.clone(), versions })
        });
        Ok(VersionPage { cells, resume })
    }

    async fn stamp_versions(&self, stamps: &[(VersionName, Timestamp)]) -> Faulty<()> {
        self.blind("a write of stamps", Blind::Stamps(stamps.into())).await
    }

    async fn delete_versions(&self, names: &[VersionName], all: Acknowledge) -> Faulty<()> {
        self.blind_at("a delete", Blind::Deletes(names.into()), awaited(all)).await
    }

    async fn delete_older(&self, than: &[VersionName], all: Acknowledge) -> Faulty<()> {
        self.blind_at("a delete", Blind::DeletesOlder(than.into()), awaited(all)).await
    }

    async fn tables(&self) -> Faulty<Vec<TableId>> {
        self.wait().await;
        let state = self.lock();
        let cells = state.replicas.iter().flat_map(|replica| replica.cells.keys());
        let mut tables: Vec<TableId> = cells.map(CellKey::table).collect();
        tables.sort_unstable();
        tables.dedup();
        Ok(tables)
    }
}

const fn awaited(acknowledge: Acknowledge) -> usize {
    match acknowledge {
        Acknowledge::Quorum => QUORUM,
        Acknowledge::All => REPLICAS,
    }
}

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
        let read = |state: &mut State, quorum| {
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
