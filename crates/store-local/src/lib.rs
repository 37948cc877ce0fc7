//! Local store: implements the store's traits with the storage engine, for one process and one
//! directory.
//!
//! A commit is one log record, cells and commit entry together:
//!
//! ```text
//!   caller        prepare: encode the cells at S, CRC      (outside every lock)
//!   ── engine's critical section ─────────────────────────────────────────────
//!   rules         decide(claim) → C                        conflict, or the next timestamp
//!   engine        reserve the record's LSN                 LSN order = commit order
//!   ───────────────────────────────────────────────────────────────────────────
//!   caller        insert the cells with commit C into the memtable
//!   flusher       write, fsync, publish the contiguous prefix → P
//! ```
//!
//! So every version in the engine has its commit timestamp, and readers look up no entries. The
//! entry S → C stays in a list beside the memtable until the flush writes it as a cell of a commit
//! table, in the encoding of S (`encodings`). [`CommitLog::outcome`] finds it in either place.
//!
//! Timestamps are assigned below a *bound* that is on disk before they are used. A restart
//! continues at the bound, so no start is used twice. An unfinished transaction of an earlier run
//! has no entry, which means aborted.
//!
//! Wall times of commits are recorded about once per second (`wall_clock`), so that the retention
//! continues across restarts.

mod backup;
mod backup_counts;
mod bound;
mod commit_table;
mod commits;
mod encodings;
mod gc;
mod maintenance;
mod order;
mod row_merge;
mod spill;
mod wall_clock;

use std::sync::Arc;
use std::time::Duration;

use carnet_base::{
    Call, CellKey, CellKeyRef, Clock, DurationCounts, Encoding, Error, ErrorKind, KeyRange, Result,
    Signal, Spawn, TableId, Timestamp, Version, WallTime,
};
use carnet_storage::backup::Backup;
use carnet_storage::disk::Disk;
use carnet_storage::io::{Class, ClassTotals};
use carnet_storage::usage::TableUse;
use carnet_storage::{
    AppendError, Engine, LevelTotals, Metrics, Mutation, Options, Publish, ReadOptions,
    TableOptionsOf, TableSpace,
};
use carnet_store::{
    At, BeginKind, Begun, CandidatePage, CellStore, CommitLog, CommitOrder, CommitRequest, Context,
    LogStart, Outcome, RangeRequest, RowTables, Spill, check_handed_out,
};

use crate::backup_counts::BackupCounts;
pub use crate::backup_counts::{BackupFigures, LastBackup};
pub use crate::encodings::DEFAULT_ENCODING;
use crate::encodings::Encodings;
use crate::gc::Gc;
use crate::maintenance::MaintenanceHandle;
use crate::order::{SharedOrder, stopped};
use crate::row_merge::RowMerge;
use crate::spill::LocalSpill;
use crate::wall_clock::WallClockMap;

/// Number of consecutive deltas of a cell in memory after which the next version is an image. Writers
/// that run concurrently may exceed it.
const DELTAS_MAX: usize = 8;

/// Store on the local disk.
pub struct LocalStore {
    engine: Arc<Engine>,
    order: SharedOrder,
    clock: Arc<dyn Clock>,
    wall_clock: Arc<WallClockMap>,
    encodings: Arc<Encodings>,
    rows: Arc<RowMerge>,
    maintenance: MaintenanceHandle,
    backups: BackupCounts,
}

/// Notifies the commit order of each published commit.
struct Observer {
    order: SharedOrder,
    wall_clock: Arc<WallClockMap>,
}

impl Publish for Observer {
    fn publish(&self, commit: Timestamp) {
        self.order.publish(commit);
        self.wall_clock.published();
    }
}

impl LocalStore {
    /// Opens the store on a disk, or creates it.
    ///
    /// `order` makes the commit order, given the first timestamp and the GC watermark. Versions
    /// stay readable for the `retention`, for example for the next page of a read. A new store
    /// writes its commit table in `encoding`; an existing one keeps its own.
    ///
    /// # Errors
    ///
    /// `Unavailable` if another process uses the directory, or it cannot be read or written;
    /// `Corrupted` if its files are damaged.
    pub fn open(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        spawn: &dyn Spawn,
        options: Options,
        retention: Duration,
        encoding: Encoding,
        order: impl FnOnce(LogStart) -> Box<dyn CommitOrder>,
    ) -> Result<Self> {
        let table_options = laid_out(options.table_options);
        let options = Options { table_options, ..options };
        let encodings = Arc::new(Encodings::unread());
        let of_engine = Arc::clone(&encodings);
        let entry_cell =
            move |start, commit| commit_table::entry_cell(of_engine.get(start)?, start, commit);
        let (of_wall_clock, entry_cell) = (Arc::clone(&disk), Arc::new(entry_cell));
        let engine = Engine::open(disk, Arc::clone(&clock), spawn, options, entry_cell)?;
        let engine = Arc::new(engine);
        encodings.read(&engine, encoding)?;
        // Encodes commit-table entries, and completes commits that later steps may read.
        engine.adopt_recovered()?;
        let first = engine.timestamp_bound().max(bound::FIRST);
        let order: SharedOrder = Arc::from(order(LogStart { first, swept: engine.swept() }));
        order.extend(encodings.raise_bound(&engine, first)?);
        let signal = Signal::new();
        let wall_clock = WallClockMap::open(
            &engine,
            of_wall_clock,
            Arc::clone(&clock),
            retention,
            signal.clone(),
            order.published(),
        )?;
        let wall_clock = Arc::new(wall_clock);
        let observer = Observer { order: Arc::clone(&order), wall_clock: Arc::clone(&wall_clock) };
        engine.observe(Arc::new(observer));
        let row_tables = Arc::new(RowTables::default());
        let rows = Arc::new(RowMerge(Arc::clone(&row_tables)));
        engine.set_merge_operator(Arc::clone(&rows) as _);
        let (order_of_gc, wall_clock_of_gc) = (Arc::clone(&order), Arc::clone(&wall_clock));
        let gc = Gc::new(order_of_gc, wall_clock_of_gc, retention, row_tables);
        engine.set_gc(Arc::new(gc));
        let maintenance = MaintenanceHandle::start(
            &engine,
            &order,
            &wall_clock,
            retention,
            &encodings,
            spawn,
            signal,
        );
        let backups = BackupCounts::default();
        Ok(Self { engine, order, clock, wall_clock, encodings, rows, maintenance, backups })
    }

    /// Flushes the memtables to files.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the store has stopped.
    pub fn flush(&self) -> Result<()> {
        self.engine.flush()
    }

    /// Rewrites all tables into one level, and drops invisible versions.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the store has stopped, `Corrupted` if a table is damaged.
    pub fn compact(&self) -> Result<()> {
        self.engine.compact()
    }

    /// Like [`LocalStore::compact`]; reports the bytes that were read, and the bytes of all tables.
    ///
    /// # Errors
    ///
    /// Like [`LocalStore::compact`].
    pub fn compact_with(&self, tell: &mut dyn FnMut(u64, u64)) -> Result<()> {
        self.engine.compact_with(tell)
    }

    /// Reads a cell at a snapshot chosen during the call, without a transaction.
    ///
    /// # Errors
    ///
    /// Like [`CellStore::get`].
    pub async fn get_newest(&self, context: &Context, key: CellKeyRef<'_>) -> Result<Newest> {
        context.check(&*self.clock)?;
        let (reads, moment) = (read_options(context), || self.order.published());
        let (read, version) = self.engine.get_newest(key, reads, moment).await?;
        // Read after the snapshot was chosen: every commit up to the snapshot was decided before.
        Ok(Newest { read, schema: self.order.schema(), version })
    }

    /// Ends writing: all pending writes are synced, and later ones are refused. Reads continue
    /// until the store is dropped. Calls after the first have no effect.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the store had stopped or stops now.
    pub fn close(&self) -> Result<()> {
        self.maintenance.end();
        self.wall_clock.store_last();
        self.engine.shut_down()
    }

    /// Checks that the store accepts writes.
    ///
    /// # Errors
    ///
    /// `Unavailable` with the cause, if it does not.
    pub fn check_writable(&self) -> Result<()> {
        self.engine.check_writable()
    }

    /// Returns a sentence for each problem that does not prevent reads and writes.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.engine.warnings()
    }

    /// Returns the reads and writes of each table since the store was opened.
    #[must_use]
    pub fn table_use(&self) -> Vec<TableUse> {
        self.engine.table_use()
    }

    /// Returns the time since the store was opened.
    #[must_use]
    pub fn counted_for(&self) -> Duration {
        self.engine.counted_for()
    }

    /// Returns the space that a table takes in files.
    ///
    /// # Errors
    ///
    /// `Corrupted`, naming the file and the offset; `Unavailable` if the disk fails.
    pub async fn space_of(&self, table: TableId) -> Result<TableSpace> {
        self.engine.space_of(table).await
    }

    /// Returns the engine's metrics.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.engine.metrics()
    }

    /// Returns the durations of the log's syncs.
    #[must_use]
    pub fn log_sync_durations(&self) -> DurationCounts {
        self.engine.log_sync_durations()
    }

    /// Returns the totals of each I/O class, see [`Engine::io_totals`].
    #[must_use]
    pub fn io_totals(&self) -> Option<[ClassTotals; Class::KINDS]> {
        self.engine.io_totals()
    }

    /// Returns the tables of each level, see [`Engine::level_totals`].
    #[must_use]
    pub fn level_totals(&self) -> Vec<LevelTotals> {
        self.engine.level_totals()
    }

    /// Returns the figures of the backups that this process has taken.
    #[must_use]
    pub fn backup_figures(&self) -> BackupFigures {
        self.backups.figures()
    }

    /// Takes a backup by a function, and counts it.
    ///
    /// # Errors
    ///
    /// Those of the function.
    pub fn count_backup(&self, take: impl FnOnce() -> Result<Backup>) -> Result<Backup> {
        self.backups.count(take)
    }
}

/// Result of a read at a snapshot chosen during the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Newest {
    /// Snapshot: every commit up to it is visible, and none after.
    pub read: Timestamp,
    /// Schema version, like [`Begun::schema`].
    pub schema: Timestamp,
    /// Newest version of the cell; a tombstone has no payload.
    pub version: Option<Version>,
}

impl Drop for LocalStore {
    fn drop(&mut self) {
        self.maintenance.end();
    }
}

fn unknown(start: Timestamp, forgotten: Timestamp) -> Error {
    Error::new(
        ErrorKind::Unknown { start },
        format!(
            "start {start} is below the GC watermark {forgotten}: it aborted, or its commit entry \
             was dropped; the outcome is unknown"
        ),
    )
}

/// Returns the layout of all tables, including commit tables.
fn laid_out(TableOptionsOf(of): TableOptionsOf) -> TableOptionsOf {
    TableOptionsOf(Arc::new(move |table| commit_table::layout(table).unwrap_or_else(|| of(table))))
}

fn read_options(context: &Context) -> ReadOptions {
    ReadOptions { bypass_cache: context.bypasses_cache() }
}

impl LocalStore {
    /// Runs a call that completes at once, unless its deadline has passed.
    fn call<'a, T>(&self, context: &Context, run: impl FnOnce() -> Result<T>) -> Call<'a, T> {
        Call::ready(context.check(&*self.clock).and_then(|()| run()))
    }
}

impl CellStore for LocalStore {
    fn get<'a>(
        &'a self,
        context: &'a Context,
        key: &'a CellKey,
        at: At,
    ) -> Call<'a, Option<Version>> {
        match context.check(&*self.clock) {
            // Every version has its commit timestamp, so `at.read` suffices.
            Ok(()) => self.engine.get_with(key, at.read, read_options(context)),
            Err(error) => Call::ready(Err(error)),
        }
    }

    fn get_many<'a>(
        &'a self,
        context: &'a Context,
        keys: &'a [CellKey],
        at: At,
        bytes_max: usize,
    ) -> Call<'a, Vec<Option<Version>>> {
        Call::boxed(async move {
            context.check(&*self.clock)?;
            self.engine.multi_get(keys, at.read, read_options(context), bytes_max).await
        })
    }

    fn range<'a>(
        &'a self,
        context: &'a Context,
        request: &'a RangeRequest,
    ) -> Call<'a, CandidatePage> {
        Call::boxed(async move {
            context.check(&*self.clock)?;
            let RangeRequest { range, read, reverse, limit } = request;
            let reads = read_options(context);
            let page = self.engine.range_with(range, *read, *reverse, *limit, reads).await?;
            // Every version has its commit timestamp.
            Ok(page.into())
        })
    }
}

impl LocalStore {
    /// Returns the set of the tables of rows. Garbage collection waits until it is known.
    #[must_use]
    pub fn row_tables(&self) -> &RowTables {
        &self.rows.0
    }
}

impl CommitLog for LocalStore {
    fn wall_time(&self) -> Option<WallTime> {
        Some(self.wall_clock.wall_time())
    }

    fn takes_delta(&self, key: &CellKey) -> bool {
        self.rows.0.has_deltas(key.table())
            && self.engine.deltas_in_memory(key, DELTAS_MAX) < DELTAS_MAX
    }

    fn begin<'a>(&'a self, context: &'a Context, kind: BeginKind) -> Call<'a, Begun> {
        self.call(context, || {
            let begun = self.order.begin(kind);
            if kind == BeginKind::ReadWrite {
                self.maintenance.watch_bound(self.order.headroom());
            }
            begun
        })
    }

    fn end(&self, begun: Begun) {
        self.order.end(begun);
    }

    fn commit<'a>(&'a self, context: &'a Context, request: CommitRequest) -> Call<'a, Timestamp> {
        Call::boxed(async move {
            context.check(&*self.clock)?;
            let start = request.start;
            let dropped: Vec<KeyRange> =
                request.drops.iter().copied().map(KeyRange::table).collect();
            let drops = dropped.iter().map(|range| Mutation::DeleteRange { range });
            let writes = request.writes.iter();
            let writes = writes.map(|(key, payload)| self.rows.mutation(key, payload));
            let asked = self.wall_clock.asked(|| self.order.published());
            let points = asked.iter().flat_map(|asked| asked.mutations());
            let prepared = self.engine.prepare(start, drops.chain(writes).chain(points))?;
            let mut claim = request.into_claim();
            self.engine.ready(prepared.bytes()).await?;
            let decide = || self.order.decide(&mut claim);
            let appended = match self.engine.append(prepared, decide) {
                Ok(appended) => appended,
                Err(AppendError::Refused(error) | AppendError::Engine(error)) => return Err(error),
            };
            if let Some(asked) = asked {
                asked.written();
            }
            appended.await.map_err(|error| stopped(start, error))
        })
    }

    fn spill(&self, start: Timestamp) -> Option<Arc<dyn Spill>> {
        let (engine, order) = (Arc::clone(&self.engine), Arc::clone(&self.order));
        let (clock, files) = (Arc::clone(&self.clock), engine.spill(start));
        let wall_clock = Arc::clone(&self.wall_clock);
        Some(Arc::new(LocalSpill { engine, order, clock, wall_clock, files }))
    }

    fn outcome<'a>(&'a self, context: &'a Context, start: Timestamp) -> Call<'a, Outcome> {
        Call::boxed(async move {
            context.check(&*self.clock)?;
            check_handed_out(&*self.order, start)?;
            // A start is running, then its commit is in flight, then it is published. Checked in this
            // order, no state is missed.
            if self.order.is_running(start) || self.engine.is_under_way(start) {
                return Ok(Outcome::Pending);
            }
            if let Some(commit) = self.engine.commit_of(start) {
                return Ok(Outcome::Committed(commit));
            }
            let encoding = self.encodings.get(start)?;
            let cell = commit_table::entry_key(encoding, start);
            match self.engine.get(&cell, Timestamp::MAX).await? {
                Some(Version { payload: Some(value), .. }) => {
                    Ok(Outcome::Committed(commit_table::decode(encoding, start, &value)?))
                }
                _ => {
                    // Read after the entry: an entry dropped in between is below this watermark.
                    let forgotten = self.engine.forgotten();
                    if start < forgotten {
                        Err(unknown(start, forgotten))
                    } else {
                        Ok(Outcome::Aborted)
                    }
                }
            }
        })
    }

    fn published(&self) -> Timestamp {
        self.order.published()
    }

    fn timestamp_at<'a>(&'a self, context: &'a Context, wall: WallTime) -> Call<'a, Timestamp> {
        self.call(context, || self.wall_clock.timestamp_at(wall, self.order.published()))
    }

    fn wall_time_of<'a>(&'a self, context: &'a Context, commit: Timestamp) -> Call<'a, WallTime> {
        self.call(context, || self.wall_clock.wall_time_of(commit, self.order.published()))
    }

    fn swept<'a>(&'a self, context: &'a Context) -> Call<'a, Timestamp> {
        // Snapshots are refused below the first watermark before compaction uses it; the second one
        // remains from earlier runs.
        self.call(context, || Ok(self.order.mark().max(self.engine.swept())))
    }
}
