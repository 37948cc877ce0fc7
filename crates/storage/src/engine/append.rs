//! The append path: prepare, decide and reserve, insert, wait.

use std::error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use carnet_base::{Error, ErrorKind, Result, Timestamp, WaitNote, note_wait};

use super::close::closed;
use super::core::{Core, Engine, Order};
use super::publication::Publication;
use super::stop_on_panic::StopOnPanic;
use crate::batch::{self, Change, Changes, Mutation};
use crate::memtable::{CellRef, Memtable};
use crate::metrics::add;
use crate::sync::atomic::Ordering;
use crate::sync::lock;
use crate::usage::{SAMPLE, Waiting};
use crate::wal::{Header, Lsn, RECORD_HEADER_BYTES, record};

/// Number of bytes by which the active memtable may exceed its flush size while sealed ones wait
/// for their flush. A memtable with a larger flush size may double it.
pub(super) const OVERSHOOT_BYTES: usize = 4 << 20;

/// Suggested delay before a rejected writer retries.
const RETRY_AFTER: Duration = Duration::from_millis(10);

/// A body of changes, encoded and checksummed, ready to be appended.
#[derive(Debug)]
pub struct Prepared {
    start: Timestamp,
    /// Space for the header, then the body.
    record: BytesMut,
    body_crc: u32,
    changes: Changes,
}

impl Prepared {
    /// Returns the start timestamp that identifies the versions.
    #[must_use]
    pub const fn start(&self) -> Timestamp {
        self.start
    }

    /// Returns the size of the record in the log.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.record.len()
    }
}

/// Reason why an append had no effect.
#[derive(Debug)]
pub enum AppendError<E> {
    /// The decision refused the commit.
    Refused(E),
    /// The engine could not accept the record.
    Engine(Error),
}

impl<E: fmt::Display> fmt::Display for AppendError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Engine(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> error::Error for AppendError<E> {}

impl From<AppendError<Self>> for Error {
    fn from(error: AppendError<Self>) -> Self {
        match error {
            AppendError::Refused(error) | AppendError::Engine(error) => error,
        }
    }
}

/// A commit that has been decided and is not acknowledged yet.
///
/// The future completes when the commit, and so every earlier one, is published. Dropping it has no
/// effect on the commit. Its error is `Unavailable`: the store stopped, and only the next opening
/// shows whether the commit exists.
#[derive(Debug)]
#[must_use = "the commit is acknowledged once this future completes"]
pub struct Appended {
    commit: Timestamp,
    slot: u64,
    publication: Arc<Publication>,
    /// Clock of the commit's latency, if it is in the sample.
    timed: Option<Box<Waiting>>,
    /// Freed by the thread that allocated it and not by the log writer: with per-thread allocator
    /// caches one would wait for the other.
    _record: Bytes,
}

impl Appended {
    pub(super) const fn new(
        commit: Timestamp,
        slot: u64,
        publication: Arc<Publication>,
        record: Bytes,
    ) -> Self {
        Self { commit, slot, publication, timed: None, _record: record }
    }

    fn timed_by(mut self, timed: Option<Box<Waiting>>) -> Self {
        self.timed = timed;
        self
    }

    /// Returns the commit timestamp.
    #[must_use]
    pub const fn commit(&self) -> Timestamp {
        self.commit
    }
}

impl Future for Appended {
    type Output = Result<Timestamp>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = self.publication.poll(self.slot, context);
        if matches!(polled, Poll::Ready(Ok(())))
            && let Some(timed) = self.timed.take()
        {
            timed.end();
        }
        polled.map_ok(|()| self.commit)
    }
}

impl fmt::Debug for Publication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publication").field("published", &self.published()).finish_non_exhaustive()
    }
}

/// A record with a position in the log that is not in the memtable yet.
pub(super) struct Reserved<'e> {
    core: &'e Core,
    memtable: Arc<Memtable>,
    start: Timestamp,
    commit: Timestamp,
    slot: u64,
    record: Bytes,
    /// Taken by the insertion.
    changes: Option<Changes>,
    is_timed: bool,
}

impl Engine {
    /// Encodes the changes of one record, without locks. A cell has at most one change; their order
    /// does not matter.
    ///
    /// # Errors
    ///
    /// `Invalid` if a key, a value or the record is too large.
    pub fn prepare<'a, M>(&self, start: Timestamp, mutations: M) -> Result<Prepared>
    where
        M: IntoIterator<Item = Mutation<'a>>,
        M::IntoIter: Clone,
    {
        let mutations = mutations.into_iter();
        let (record, changes) =
            batch::encode(mutations, RECORD_HEADER_BYTES, record::BODY_BYTES_MAX)?;
        let body_crc =
            if self.core.log.exists() { crc32c::crc32c(&record[RECORD_HEADER_BYTES..]) } else { 0 };
        Ok(Prepared { start, record, body_crc, changes })
    }

    /// Runs `decide` in the critical section. If it returns a commit timestamp, which must be
    /// greater than all before, the record has its position in the log and its cells are in the
    /// memtable. If it returns an error, the append has no effect.
    ///
    /// # Errors
    ///
    /// [`AppendError::Refused`] with the error of `decide`. [`AppendError::Engine`] without running
    /// `decide`: `Overloaded` if too many memtables wait for their flush or too many commits are in
    /// flight (await [`Engine::ready`]); `Unavailable` if the store has stopped; `Invalid` if it
    /// was opened read-only. [`AppendError::Engine`] with `Invalid` if the timestamp is not greater
    /// than every one before it.
    pub fn append<E>(
        &self,
        prepared: Prepared,
        decide: impl FnOnce() -> Result<Timestamp, E>,
    ) -> Result<Appended, AppendError<E>> {
        Ok(self.reserve(prepared, decide)?.insert())
    }

    /// Decides, reserves, and passes the record to the log; the caller inserts it.
    pub(super) fn reserve<E>(
        &self,
        prepared: Prepared,
        decide: impl FnOnce() -> Result<Timestamp, E>,
    ) -> Result<Reserved<'_>, AppendError<E>> {
        let core = &*self.core;
        let Prepared { start, record, body_crc, changes } = prepared;
        let len = record.len();
        let mut order = lock(&core.order);
        core.make_room(&mut order, len).map_err(AppendError::Engine)?;
        let commit = decide().map_err(AppendError::Refused)?;
        Core::check_rises(&order, commit).map_err(AppendError::Engine)?;
        order.last_commit = commit;
        let lsn = order.tail.reserve(len as u64);
        let slot = core.publication.open(start, commit, lsn.after(len as u64));
        let memtable = Arc::clone(&order.active);
        drop(order);
        let record = core.pass_to_log(slot, (lsn, start, commit), record, body_crc);
        if core.settles_when_synced() {
            core.log.signal.ring();
        }
        let before = core.counters.appends.fetch_add(1, Ordering::Relaxed);
        let is_timed = before.is_multiple_of(SAMPLE);
        add(&core.counters.appended_cells, changes.len());
        let changes = Some(changes);
        Ok(Reserved { core, memtable, start, commit, slot, record, changes, is_timed })
    }

    /// Returns `true` if a start's commit is decided and not published yet.
    #[must_use]
    pub fn is_under_way(&self, start: Timestamp) -> bool {
        self.core.publication.is_under_way(start)
    }

    /// Waits while a write of `bytes` bytes is held back by full memtables, by too many commits in
    /// flight, or by a write throttle because flush or compaction is behind.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the store has stopped or lacks space, file descriptors or memory.
    pub async fn ready(&self, bytes: usize) -> Result<()> {
        let core = &*self.core;
        core.while_supplied(|context| noted(core.poll_room(context))).await??;
        core.while_supplied(|context| core.publication.poll_room(context)).await?;
        core.while_supplied(|context| noted(core.flushes.throttle.poll(bytes, context))).await?;
        core.while_supplied(|context| noted(core.compactions.throttle.poll(bytes, context)))
            .await?;
        core.publication.check()
    }
}

impl Core {
    /// Waits for `poll`, or until writes are refused or the engine is closed.
    pub(super) async fn while_supplied<T>(
        &self,
        mut poll: impl FnMut(&Context<'_>) -> Poll<T>,
    ) -> Result<T> {
        std::future::poll_fn(|context| {
            let check = || self.shortages.check().and_then(|()| self.check_open());
            check()?;
            let polled = poll(context).map(Ok);
            // Checked again after the waker is registered: a shortage that begins now wakes it.
            if polled.is_pending() {
                check()?;
            }
            polled
        })
        .await
    }

    /// Returns an error if a commit is not greater than all before it.
    pub(super) fn check_rises(order: &Order, commit: Timestamp) -> Result<()> {
        let last = order.last_commit;
        if commit > last {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "commit {commit} cannot follow commit {last}: commit timestamps must rise"
        )))
    }

    /// Returns an error if the database was opened read-only.
    ///
    /// # Errors
    ///
    /// `Invalid`.
    pub(super) fn check_takes_writes(&self) -> Result<()> {
        if self.options.read_only {
            return Err(Error::invalid("the database was opened for reading only"));
        }
        Ok(())
    }

    /// Ensures that the active memtable can accept a record.
    pub(super) fn make_room(&self, order: &mut Order, len: usize) -> Result<()> {
        if order.closed {
            return Err(closed());
        }
        self.check_takes_writes()?;
        self.publication.check()?;
        self.shortages.check()?;
        if !self.publication.has_room() {
            return Err(self.overloaded("too many commits are under way"));
        }
        if order.active.memory_bytes() < self.budget.flush {
            if self.log.exists() && order.tail.is_full(len as u64) {
                self.log.rotate(order.tail.rotate(self.publication.opened()));
            }
            return Ok(());
        }
        if lock(&self.flushes.sealed).len() < self.options.memtables_waiting_max.max(1) {
            self.seal(order);
            return Ok(());
        }
        // Writers wait in `ready`; writers that found room at the same time are still accepted.
        let flush_bytes = self.budget.flush;
        if order.active.memory_bytes()
            < flush_bytes.saturating_add(flush_bytes.max(OVERSHOOT_BYTES))
        {
            return Ok(());
        }
        Err(self.overloaded("memtables fill faster than the disk can flush them"))
    }
}

impl Core {
    /// Completes a record's header and passes the record to the log, if there is one. Returns the
    /// record.
    pub(super) fn pass_to_log(
        &self,
        slot: u64,
        (lsn, start, commit): (Lsn, Timestamp, Timestamp),
        mut record: BytesMut,
        body_crc: u32,
    ) -> Bytes {
        if !self.log.exists() {
            return record.freeze();
        }
        let body_len = record.len() - RECORD_HEADER_BYTES;
        let durable = self.log.durable();
        Header { lsn, start, commit, durable, body_len, body_crc }.fill(&mut record);
        let record = record.freeze();
        self.publication.filled(slot, record.clone());
        record
    }

    fn overloaded(&self, why: &'static str) -> Error {
        self.counters.appends_overloaded.fetch_add(1, Ordering::Relaxed);
        Error::new(ErrorKind::Overloaded { retry_after: RETRY_AFTER }, why)
    }
}

impl Reserved<'_> {
    /// Inserts the cells on the caller's thread.
    pub(super) fn insert(mut self) -> Appended {
        let mut timed = None;
        if let Some(changes) = self.changes.take() {
            let stop = StopOnPanic(&self.core.publication, "a writer panicked while it inserted");
            let body = &self.record[RECORD_HEADER_BYTES..];
            let Core { usage, clock, .. } = self.core;
            timed = self.is_timed.then(|| Waiting::begin(usage, clock, changes.of(body)));
            insert(&self.memtable, self.start, self.commit, changes.of(body));
            usage.commit(changes.of(body));
            std::mem::forget(stop);
        }
        self.core.publication.inserted(self.slot);
        if !self.core.settles_when_synced() {
            self.core.write_unless_busy();
            self.core.publication.wait_briefly(self.slot);
        }
        let publication = Arc::clone(&self.core.publication);
        let record = std::mem::take(&mut self.record);
        Appended::new(self.commit, self.slot, publication, record).timed_by(timed)
    }
}

/// Inserts a record's changes into a memtable.
pub(super) fn insert<'a>(
    memtable: &Memtable,
    start: Timestamp,
    commit: Timestamp,
    changes: impl Iterator<Item = Change<'a>> + Clone,
) {
    for change in changes.clone() {
        if let Change::Range { lower, upper } = change {
            memtable.delete_range(start, commit, lower, upper);
        }
    }
    let cells = changes.filter_map(|change| match change {
        Change::Cell { key, payload, expiry } => Some(CellRef { key, payload, expiry }),
        Change::Range { .. } => None,
    });
    memtable.insert(start, commit, cells);
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if self.changes.is_some() {
            self.core.publication.stop("a writer gave up between its reservation and insertion");
        }
    }
}

/// Notes that a writer waits because flush or compaction is behind.
fn noted<T>(polled: Poll<T>) -> Poll<T> {
    if polled.is_pending() {
        note_wait(WaitNote::Throttle);
    }
    polled
}
