//! The storage engine behind the store's traits: one process, one directory.
//!
//! A commit is one log record, cells and commit entry together:
//!
//! ```text
//!   caller        prepare: encode the cells at S, CRC      (outside every lock)
//!   ── engine's critical section ─────────────────────────────────────────────
//!   rules         decide(claim) → C                        conflict, or the next timestamp
//!   engine        reserve the record's place in the log    place = order of commits
//!   ───────────────────────────────────────────────────────────────────────────
//!   caller        insert the cells, stamped C, into the memtable
//!   flusher       write, fsync, publish the contiguous prefix → P
//! ```
//!
//! So every version in the engine is stamped, and readers look nothing up. The entry S → C stays
//! in a map beside the memtable and becomes a row of a commit table, in the encoding of S,
//! when the memtable is flushed (`encodings`); [`CommitLog::outcome`] finds it in either.
//!
//! Timestamps are handed out below a *bound* that is on disk before it is used. A new life starts
//! at the bound, so that no start is ever used twice, and an unfinished transaction of an earlier
//! life can be told by its start: no entry means aborted.
//!
//! Beside the commits stand their wall times, a point about every second (`times`): by them the
//! retention goes on across restarts.

mod backup;
mod bound;
mod commit_table;
mod encodings;
mod gc;
mod keeper;
mod spill;
mod times;

use std::sync::Arc;
use std::time::Duration;

use carnet_base::{
    CellKey, CellKeyRef, CellPage, Clock, Encoding, Error, ErrorKind, KeyRange, Result, Signal,
    Spawn, Timestamp, Version, WallTime,
};
use carnet_storage::disk::Disk;
use carnet_storage::io::{Class, ClassTotals};
use carnet_storage::{
    AppendError, Engine, Metrics, Mutation, Options, Publish, ReadOptions, TableOptionsOf,
};
use carnet_store::{
    At, BeginKind, Begun, CellStore, CommitLog, CommitOrder, CommitRequest, Context, Life, Outcome,
    Page, RangeRequest, Spill, check_handed_out,
};

pub use crate::encodings::DEFAULT_ENCODING;
use crate::encodings::Encodings;
use crate::gc::Gc;
use crate::keeper::Keeping;
use crate::spill::LocalSpill;
use crate::times::Times;

/// The store on this machine's disk.
pub struct LocalStore {
    engine: Arc<Engine>,
    order: SharedOrder,
    clock: Arc<dyn Clock>,
    times: Arc<Times>,
    encodings: Arc<Encodings>,
    keeping: Keeping,
}

type SharedOrder = Arc<dyn CommitOrder>;

/// Tells the rules of each commit as the engine publishes it.
struct Observer {
    order: SharedOrder,
    times: Arc<Times>,
}

impl Publish for Observer {
    fn publish(&self, commit: Timestamp) {
        self.order.publish(commit);
        self.times.published();
    }
}

impl LocalStore {
    /// Opens the store on a disk, or makes one there.
    ///
    /// `order` makes the rules of order, given where this life begins. For so long as `retention`
    /// what was visible can be read again, by the next page of a read for instance. A new store
    /// writes its commit table in `encoding`; one that was there goes on as it did.
    ///
    /// # Errors
    ///
    /// `Unavailable` when another process holds the directory or it cannot be read or written;
    /// `Corrupted` when its files are not what was written.
    pub fn open(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        spawn: &dyn Spawn,
        options: Options,
        retention: Duration,
        encoding: Encoding,
        order: impl FnOnce(Life) -> Box<dyn CommitOrder>,
    ) -> Result<Self> {
        let table_options = laid_out(options.table_options);
        let options = Options { table_options, ..options };
        let encodings = Arc::new(Encodings::unread());
        let of_engine = Arc::clone(&encodings);
        let entry_cell =
            move |start, commit| commit_table::entry_cell(of_engine.of(start)?, start, commit);
        let engine = Engine::open(disk, Arc::clone(&clock), spawn, options, Arc::new(entry_cell))?;
        let engine = Arc::new(engine);
        encodings.read(&engine, encoding)?;
        // It makes entries of commits, and what follows may read what it completes.
        engine.adopt_recovered()?;
        let first = engine.timestamp_bound().max(bound::FIRST);
        let order: SharedOrder = Arc::from(order(Life { first, swept: engine.swept() }));
        order.extend(encodings.raise_bound(&engine, first)?);
        let signal = Signal::new();
        let times =
            Times::open(&engine, Arc::clone(&clock), retention, signal.clone(), order.published())?;
        let times = Arc::new(times);
        let observer = Observer { order: Arc::clone(&order), times: Arc::clone(&times) };
        engine.observe(Arc::new(observer));
        engine.set_gc(Arc::new(Gc::new(Arc::clone(&order), Arc::clone(&times), retention)));
        let keeping = Keeping::start(&engine, &order, &times, retention, &encodings, spawn, signal);
        Ok(Self { engine, order, clock, times, encodings, keeping })
    }

    /// Writes what is gathered in memory to files.
    ///
    /// # Errors
    ///
    /// `Unavailable` when the store has stopped.
    pub fn flush(&self) -> Result<()> {
        self.engine.flush()
    }

    /// Rewrites all tables into one level, and drops what nobody can see.
    ///
    /// # Errors
    ///
    /// `Unavailable` when the store has stopped, `Corrupted` where a table is damaged.
    pub fn compact(&self) -> Result<()> {
        self.engine.compact()
    }

    /// Reads a cell at a moment of the call's own, for which no snapshot is begun.
    ///
    /// # Errors
    ///
    /// As [`CellStore::get`].
    pub async fn get_newest(&self, context: &Context, key: CellKeyRef<'_>) -> Result<Newest> {
        context.check(&*self.clock)?;
        let (reads, moment) = (read_options(context), || self.order.published());
        let (read, version) = self.engine.get_newest(key, reads, moment).await?;
        // After the moment: a commit that it includes was decided before it was published.
        Ok(Newest { read, schema: self.order.schema(), version })
    }

    async fn read_page(&self, context: &Context, request: &RangeRequest) -> Result<CellPage> {
        context.check(&*self.clock)?;
        let RangeRequest { range, read, reverse, limit } = request;
        let limit = carnet_storage::PageLimit { cells: limit.cells.max(1), bytes: limit.bytes };
        self.engine.page(range, *read, *reverse, limit, read_options(context)).await
    }

    /// Ends writing: everything pending is written and synced, and later writes are refused. Reads go
    /// on until the store is dropped. Only the first call does anything.
    ///
    /// # Errors
    ///
    /// `Unavailable` where the store had stopped or stops now.
    pub fn close(&self) -> Result<()> {
        self.keeping.end();
        self.engine.shut_down()
    }

    /// Checks that the store takes writes.
    ///
    /// # Errors
    ///
    /// `Unavailable` where it does not, with the cause.
    pub fn check_writable(&self) -> Result<()> {
        self.engine.check_writable()
    }

    /// Returns what is wrong with the database although it takes reads and writes, a sentence each.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.engine.warnings()
    }

    /// Returns the engine's counters.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.engine.metrics()
    }

    /// Returns what each class did at the disk, see [`Engine::io_totals`].
    #[must_use]
    pub fn io_totals(&self) -> Option<[ClassTotals; Class::KINDS]> {
        self.engine.io_totals()
    }
}

/// What was read at a moment of the read's own: at some time during the call it was the newest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Newest {
    /// The moment: every commit up to here is visible, and none after.
    pub read: Timestamp,
    /// As [`Begun::schema`].
    pub schema: Timestamp,
    /// The cell's newest version; a tombstone is one without a payload.
    pub version: Option<Version>,
}

impl Drop for LocalStore {
    fn drop(&mut self) {
        self.keeping.end();
    }
}

fn stopped(start: Timestamp, error: Error) -> Error {
    Error::new(
        ErrorKind::Unknown { start },
        format!("the store stopped before the commit of start {start} was acknowledged"),
    )
    .with_source(error)
}

fn unknown(start: Timestamp, forgotten: Timestamp) -> Error {
    Error::new(
        ErrorKind::Unknown { start },
        format!(
            "start {start} lies below the sweep mark, {forgotten}: whether it aborted, or its entry \
             was swept, is not known any more"
        ),
    )
}

/// The layouts of all tables, those of the commit table among them.
fn laid_out(TableOptionsOf(of): TableOptionsOf) -> TableOptionsOf {
    TableOptionsOf(Arc::new(move |table| commit_table::layout(table).unwrap_or_else(|| of(table))))
}

fn read_options(context: &Context) -> ReadOptions {
    ReadOptions { bypass_cache: context.bypasses_cache() }
}

impl CellStore for LocalStore {
    async fn get(&self, context: &Context, key: &CellKey, at: At) -> Result<Option<Version>> {
        context.check(&*self.clock)?;
        // Every version is stamped: what is asked for below a start is asked for below its commit.
        self.engine.get_with(key, at.read, read_options(context)).await
    }

    async fn get_many(
        &self,
        context: &Context,
        keys: &[CellKey],
        at: At,
    ) -> Result<Vec<Option<Version>>> {
        context.check(&*self.clock)?;
        self.engine.multi_get(keys, at.read, read_options(context)).await
    }

    async fn range(&self, context: &Context, request: &RangeRequest) -> Result<Page> {
        let CellPage { cells, resume } = self.read_page(context, request).await?;
        Ok(Page { cells: cells.share_all(), resume })
    }

    async fn page(&self, context: &Context, request: &RangeRequest) -> Result<Option<CellPage>> {
        // Every version is stamped.
        self.read_page(context, request).await.map(Some)
    }
}

impl CommitLog for LocalStore {
    async fn begin(&self, context: &Context, kind: BeginKind) -> Result<Begun> {
        context.check(&*self.clock)?;
        let begun = self.order.begin(kind);
        if kind == BeginKind::ReadWrite {
            self.keeping.watch_bound(self.order.headroom());
        }
        begun
    }

    fn end(&self, begun: Begun) {
        self.order.end(begun);
    }

    async fn commit(&self, context: &Context, request: CommitRequest) -> Result<Timestamp> {
        context.check(&*self.clock)?;
        let start = request.start;
        let dropped: Vec<KeyRange> = request.drops.iter().copied().map(KeyRange::table).collect();
        let drops = dropped.iter().map(|range| Mutation::DeleteRange { range });
        let writes = request.writes.iter();
        let writes = writes.map(|(key, payload)| Mutation::put_or_delete(key, payload));
        let asked = self.times.asked(|| self.order.published());
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
    }

    fn spill(&self, start: Timestamp) -> Option<Arc<dyn Spill>> {
        let (engine, order) = (Arc::clone(&self.engine), Arc::clone(&self.order));
        let (clock, files) = (Arc::clone(&self.clock), engine.spill(start));
        let times = Arc::clone(&self.times);
        Some(Arc::new(LocalSpill { engine, order, clock, times, files }))
    }

    async fn outcome(&self, context: &Context, start: Timestamp) -> Result<Outcome> {
        context.check(&*self.clock)?;
        check_handed_out(&*self.order, start)?;
        // A start runs, then its commit is under way, then it is published: looked for in this
        // order, none slips through between two looks.
        if self.order.is_running(start) || self.engine.is_under_way(start) {
            return Ok(Outcome::Pending);
        }
        if let Some(commit) = self.engine.commit_of(start) {
            return Ok(Outcome::Committed(commit));
        }
        let encoding = self.encodings.of(start)?;
        let cell = commit_table::entry_key(encoding, start);
        match self.engine.get(&cell, Timestamp::MAX).await? {
            Some(Version { payload: Some(value), .. }) => {
                Ok(Outcome::Committed(commit_table::decode(encoding, start, &value)?))
            }
            _ => {
                // Asked after the entry was looked for: one that is forgotten meanwhile was there.
                let forgotten = self.engine.forgotten();
                if start < forgotten {
                    Err(unknown(start, forgotten))
                } else {
                    Ok(Outcome::Aborted)
                }
            }
        }
    }

    fn published(&self) -> Timestamp {
        self.order.published()
    }

    async fn timestamp_at(&self, context: &Context, wall: WallTime) -> Result<Timestamp> {
        context.check(&*self.clock)?;
        self.times.timestamp_at(wall, self.order.published())
    }

    async fn wall_time_of(&self, context: &Context, commit: Timestamp) -> Result<WallTime> {
        context.check(&*self.clock)?;
        self.times.wall_time_of(commit, self.order.published())
    }

    async fn swept(&self, context: &Context) -> Result<Timestamp> {
        context.check(&*self.clock)?;
        // Snapshots are refused below the one before anything is swept up to it, and the other is
        // what an earlier life has left.
        Ok(self.order.mark().max(self.engine.swept()))
    }
}
