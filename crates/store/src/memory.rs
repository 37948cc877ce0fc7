//! A store in memory that behaves like the least convenient one.
//!
//! Cells are written at S without a stamp, and the commit entry S → C lies in a separate map, as on
//! a cluster, so every reader must look up outcomes. Thus every test with this store exercises the
//! rules of reading, although it is only a map behind a mutex.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};

use carnet_base::sync::lock;
use carnet_base::{
    Bytes, Call, CellKey, Clock, KeyRange, Result, SystemClock, TableId, Timestamp, Version,
    WallTime,
};

use crate::begun::{BeginKind, Begun};
use crate::candidates::{CandidatePage, CandidatesBuilder};
use crate::cell_store::{At, CellStore, RangeRequest};
use crate::commit_log::{CommitLog, CommitOrder, Outcome, check_handed_out};
use crate::commit_request::CommitRequest;
use crate::context::Context;
use crate::row_tables::RowTables;
use crate::steady_wall::SteadyWall;
use crate::wall_times::{WallPoint, WallTimes};

/// A store in memory. Nothing survives it.
pub struct MemoryStore {
    state: Mutex<MemoryState>,
    clock: Arc<dyn Clock>,
    row_tables: RowTables,
}

struct MemoryState {
    order: Box<dyn CommitOrder>,
    /// Versions by cell and start.
    cells: BTreeMap<CellKey, BTreeMap<Timestamp, Stored>>,
    /// The commit table: S → C.
    entries: BTreeMap<Timestamp, Timestamp>,
    steady: SteadyWall,
    /// One point for each commit, so that the wall time of each is known exactly.
    times: WallTimes,
}

struct Stored {
    commit: Option<Timestamp>,
    payload: Option<Bytes>,
}

impl MemoryStore {
    /// Creates an empty store whose commits the given rules decide.
    #[must_use]
    pub fn new(order: Box<dyn CommitOrder>) -> Self {
        Self::with_clock(order, Arc::new(SystemClock))
    }

    /// Like [`MemoryStore::new`], with a clock.
    #[must_use]
    pub fn with_clock(order: Box<dyn CommitOrder>, clock: Arc<dyn Clock>) -> Self {
        order.extend(Timestamp::MAX);
        let mut state = MemoryState {
            order,
            cells: BTreeMap::new(),
            entries: BTreeMap::new(),
            steady: SteadyWall::default(),
            times: WallTimes::default(),
        };
        state.note_time(&*clock);
        Self { state: Mutex::new(state), clock, row_tables: RowTables::default() }
    }

    /// Writes every known commit timestamp into its versions, like a sweep.
    pub fn stamp(&self) {
        let state = &mut *self.lock();
        for versions in state.cells.values_mut() {
            for (start, stored) in versions {
                stored.commit = stored.commit.or_else(|| state.entries.get(start).copied());
            }
        }
    }

    /// Leaves versions of a transaction that never commits, like a client that dies between its
    /// writes and its commit.
    pub fn leave_undecided(&self, start: Timestamp, key: CellKey, payload: Option<Bytes>) {
        let stored = Stored { commit: None, payload };
        self.lock().cells.entry(key).or_default().insert(start, stored);
    }

    /// Returns the set of the tables of rows. Until it is known, the store takes no deltas.
    #[must_use]
    pub const fn row_tables(&self) -> &RowTables {
        &self.row_tables
    }

    fn lock(&self) -> MutexGuard<'_, MemoryState> {
        lock(&self.state)
    }
}

impl MemoryState {
    /// Records the wall time of the current P.
    fn note_time(&mut self, clock: &dyn Clock) {
        let wall = self.steady.read(clock);
        self.times.note(WallPoint { timestamp: self.order.published(), wall });
    }

    fn candidate(versions: &BTreeMap<Timestamp, Stored>, at: At) -> Option<Version> {
        versions
            .range((Bound::Unbounded, Bound::Excluded(at.below)))
            .rev()
            .map(|(&start, stored)| Version {
                start,
                commit: stored.commit,
                payload: stored.payload.clone(),
            })
            .find(|version| at.admits(version))
    }

    fn page(&self, request: &RangeRequest, is_delta: impl Fn(&Version) -> bool) -> CandidatePage {
        let mut page = CandidatesBuilder::default();
        let Some(bounds) = request.range.map_bounds() else { return page.finish(None) };
        let at = At::snapshot(request.read);
        let (mut count, mut bytes) = (0, 0);
        let mut add = |key: &CellKey, versions| -> Option<KeyRange> {
            if let Some(version) = Self::candidate(versions, at) {
                count += 1;
                bytes += key.as_bytes().len() + version.payload_bytes();
                let is_delta = is_delta(&version);
                page.push(key.clone(), version, is_delta);
            }
            let full = count >= request.limit.cells || bytes >= request.limit.bytes;
            full.then(|| request.range.after(key.clone(), request.reverse))
        };
        let cells = self.cells.range(bounds);
        let resume = if request.reverse {
            cells.rev().find_map(|(key, versions)| add(key, versions))
        } else {
            cells.into_iter().find_map(|(key, versions)| add(key, versions))
        };
        page.finish(resume)
    }

    fn commit(&mut self, request: CommitRequest) -> Result<Timestamp> {
        let (mut claim, writes) = request.into_parts();
        let start = claim.start;
        let commit = self.order.decide(&mut claim)?;
        for table in &claim.drops {
            let Some(bounds) = KeyRange::table(*table).map_bounds() else { continue };
            for (_, versions) in self.cells.range_mut(bounds) {
                versions.insert(start, Stored { commit: None, payload: None });
            }
        }
        for write in writes.into_vec() {
            let stored = Stored { commit: None, payload: write.payload };
            self.cells.entry(write.key).or_default().insert(start, stored);
        }
        self.entries.insert(start, commit);
        self.order.publish(commit);
        Ok(commit)
    }
}

impl MemoryStore {
    /// Runs a call, which completes at once, unless its deadline has passed.
    fn call<'a, T>(
        &'a self,
        context: &Context,
        run: impl FnOnce(&mut MemoryState) -> Result<T>,
    ) -> Call<'a, T> {
        let checked = context.check(&*self.clock);
        Call::ready(checked.and_then(|()| run(&mut self.lock())))
    }
}

impl CellStore for MemoryStore {
    fn get<'a>(
        &'a self,
        context: &'a Context,
        key: &'a CellKey,
        at: At,
    ) -> Call<'a, Option<Version>> {
        self.call(context, |state| {
            Ok(state.cells.get(key).and_then(|versions| MemoryState::candidate(versions, at)))
        })
    }

    fn range<'a>(
        &'a self,
        context: &'a Context,
        request: &'a RangeRequest,
    ) -> Call<'a, CandidatePage> {
        let is_delta = |version: &Version| self.is_delta(request.range.table, version);
        self.call(context, |state| Ok(state.page(request, is_delta)))
    }

    fn is_delta(&self, table: TableId, version: &Version) -> bool {
        self.row_tables.is_delta(table, version)
    }
}

impl CommitLog for MemoryStore {
    fn begin<'a>(&'a self, context: &'a Context, kind: BeginKind) -> Call<'a, Begun> {
        self.call(context, |state| state.order.begin(kind))
    }

    fn takes_delta(&self, key: &CellKey) -> bool {
        self.row_tables.has_deltas(key.table())
    }

    fn end(&self, begun: Begun) {
        self.lock().order.end(begun);
    }

    fn commit<'a>(&'a self, context: &'a Context, request: CommitRequest) -> Call<'a, Timestamp> {
        self.call(context, |state| {
            state.note_time(&*self.clock);
            let committed = state.commit(request);
            state.note_time(&*self.clock);
            committed
        })
    }

    fn outcome<'a>(&'a self, context: &'a Context, start: Timestamp) -> Call<'a, Outcome> {
        self.call(context, |state| {
            check_handed_out(&*state.order, start)?;
            Ok(match state.entries.get(&start) {
                Some(&commit) => Outcome::Committed(commit),
                None if state.order.is_running(start) => Outcome::Pending,
                None => Outcome::Aborted,
            })
        })
    }

    fn published(&self) -> Timestamp {
        self.lock().order.published()
    }

    fn timestamp_at<'a>(&'a self, context: &'a Context, wall: WallTime) -> Call<'a, Timestamp> {
        self.call(context, |state| {
            let now = state.steady.read(&*self.clock);
            state.times.find(wall, now, state.order.published())
        })
    }

    fn wall_time(&self) -> Option<WallTime> {
        let state = &mut *self.lock();
        Some(state.steady.read(&*self.clock))
    }

    fn wall_time_of<'a>(&'a self, context: &'a Context, commit: Timestamp) -> Call<'a, WallTime> {
        self.call(context, |state| state.times.find_wall(commit, state.order.published()))
    }

    fn swept<'a>(&'a self, _: &'a Context) -> Call<'a, Timestamp> {
        Call::ready(Ok(Timestamp::ZERO))
    }
}
