//! The append path: prepare, decide and reserve, insert, wait.

use std::error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use carnet_base::{Error, ErrorKind, Result, Timestamp, block_on};

use super::publication::{Publication, RING};
use super::space::Work;
use super::watch::{Watch, Written};
use super::{Core, Engine, Order};
use crate::batch::{self, Change, Changes, Mutation};
use crate::memtable::{CellRef, Memtable};
use crate::metrics::add;
use crate::sync::atomic::Ordering;
use crate::sync::lock;
use crate::wal::{Header, RECORD_HEADER_BYTES, record};

/// A memtable may grow beyond its size by as much as it, or by this, while others wait for their
/// flush.
pub(super) const OVERSHOOT_BYTES: usize = 4 << 20;

/// When a writer that was held back should come again.
const RETRY_AFTER: Duration = Duration::from_millis(10);

/// A body of changes, encoded and checksummed, ready to be appended.
#[derive(Debug)]
pub struct Prepared {
    start: Timestamp,
    /// Room for the header, and the body.
    record: BytesMut,
    body_crc: u32,
    changes: Changes,
}

impl Prepared {
    /// The start timestamp that names the versions.
    #[must_use]
    pub const fn start(&self) -> Timestamp {
        self.start
    }

    /// How many bytes the record takes in the log.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.record.len()
    }
}

/// Why an append did nothing.
#[derive(Debug)]
pub enum AppendError<E> {
    /// The decision said no.
    Refused(E),
    /// The engine could not take the record.
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

/// A commit that is in force, on its way to being published.
///
/// The future completes once the commit, and so every earlier one, is published. Dropping it
/// changes nothing. Its error is `Unavailable`: the store stopped, and only the next opening will
/// tell whether the commit is there.
#[derive(Debug)]
#[must_use = "the commit is acknowledged once this future completes"]
pub struct Appended {
    commit: Timestamp,
    slot: u64,
    publication: Arc<Publication>,
    /// Given back by the thread that made it, not by whoever wrote it to the log: an allocator
    /// that keeps memory by threads would have one wait for the other.
    _record: Bytes,
}

impl Appended {
    pub(super) const fn new(
        commit: Timestamp,
        slot: u64,
        publication: Arc<Publication>,
        record: Bytes,
    ) -> Self {
        Self { commit, slot, publication, _record: record }
    }

    /// The commit timestamp.
    #[must_use]
    pub const fn commit(&self) -> Timestamp {
        self.commit
    }
}

impl Future for Appended {
    type Output = Result<Timestamp>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.publication.poll(self.slot, context).map_ok(|()| self.commit)
    }
}

impl fmt::Debug for Publication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publication").field("published", &self.published()).finish_non_exhaustive()
    }
}

/// A record that has its place in the log and is not in the memtable yet.
pub(super) struct Reserved<'e> {
    core: &'e Core,
    memtable: Arc<Memtable>,
    start: Timestamp,
    commit: Timestamp,
    slot: u64,
    record: Bytes,
    /// Taken by the insertion.
    changes: Option<Changes>,
}

impl Engine {
    /// Encodes the changes of one record, outside of every lock: at most one for a cell, in any
    /// order.
    ///
    /// # Errors
    ///
    /// `Invalid` where a key, a value or the whole is too long to be stored.
    pub fn prepare<'a, M>(&self, start: Timestamp, mutations: M) -> Result<Prepared>
    where
        M: IntoIterator<Item = Mutation<'a>>,
        M::IntoIter: Clone,
    {
        let mutations = mutations.into_iter();
        let (record, changes) =
            batch::encode(mutations, RECORD_HEADER_BYTES, record::BODY_BYTES_MAX)?;
        let body_crc = crc32c::crc32c(&record[RECORD_HEADER_BYTES..]);
        Ok(Prepared { start, record, body_crc, changes })
    }

    /// Runs `decide` inside the critical section; where it returns a commit timestamp, larger
    /// than any before, the record is in the log at that place and its cells are in the memtable.
    /// Where it returns an error nothing has happened.
    ///
    /// # Errors
    ///
    /// [`AppendError::Refused`] with what `decide` returned. [`AppendError::Engine`] with
    /// `Overloaded` where too many memtables wait for their flush or too many commits are under
    /// way (await [`Engine::ready`]), with `Unavailable` where the store has stopped, with `Invalid`
    /// where it was opened for reading only; `decide` has not run then. With `Invalid` where the
    /// timestamp is not larger than every one before it.
    pub fn append<E>(
        &self,
        prepared: Prepared,
        decide: impl FnOnce() -> Result<Timestamp, E>,
    ) -> Result<Appended, AppendError<E>> {
        self.append_watched(prepared, None, decide)
    }

    /// As [`Engine::append`], for one who watches the cells himself.
    pub(super) fn append_watched<E>(
        &self,
        prepared: Prepared,
        watch: Option<&Watch<'_>>,
        decide: impl FnOnce() -> Result<Timestamp, E>,
    ) -> Result<Appended, AppendError<E>> {
        let Some(groups) = &self.core.groups else {
            return Ok(self.reserve(prepared, watch, decide)?.insert());
        };
        let turn = groups.enter();
        let mut appended = self.reserve(prepared, watch, decide)?.insert();
        // Whether it comes to an end, the caller learns by waiting itself: the record is in force.
        // On a full disk the next group is refused, so that none needs to wait for this one.
        let is_full = || self.core.space.is_blocked(Work::Log);
        block_on(std::future::poll_fn(|context| {
            let polled = Pin::new(&mut appended).poll(context).map(drop);
            if polled.is_pending() && is_full() { Poll::Ready(()) } else { polled }
        }));
        drop(turn);
        Ok(appended)
    }

    /// Decides and reserves, hands the record to the log, and leaves the insertion to its caller.
    pub(super) fn reserve<E>(
        &self,
        prepared: Prepared,
        watch: Option<&Watch<'_>>,
        decide: impl FnOnce() -> Result<Timestamp, E>,
    ) -> Result<Reserved<'_>, AppendError<E>> {
        let core = &*self.core;
        let Prepared { start, mut record, body_crc, changes } = prepared;
        let len = record.len();
        let written = || Written::of(changes.of(&record[RECORD_HEADER_BYTES..]));
        // Mostly known before the lock is taken, if it is needed under it.
        let early = core.watches.any().then(written);
        let mut order = lock(&core.order);
        core.make_room(&mut order, len).map_err(AppendError::Engine)?;
        let commit = decide().map_err(AppendError::Refused)?;
        Core::check_rises(&order, commit).map_err(AppendError::Engine)?;
        if core.watches.any() {
            core.watches.touch(&early.unwrap_or_else(written), watch);
        }
        order.last_commit = commit;
        let len = if core.options.log { len } else { 0 };
        let lsn = order.tail.reserve(len as u64);
        let slot = core.publication.open(start, commit, lsn.after(len as u64));
        let memtable = Arc::clone(&order.active);
        drop(order);
        let body_len = record.len() - RECORD_HEADER_BYTES;
        let durable = core.log.durable();
        Header { lsn, start, commit, durable, body_len, body_crc }.fill(&mut record);
        let record = record.freeze();
        let logged = if core.options.log { record.clone() } else { Bytes::new() };
        core.publication.filled(slot, logged);
        if core.settles_when_synced() {
            core.log.signal.ring();
        }
        core.counters.appends.fetch_add(1, Ordering::Relaxed);
        add(&core.counters.appended_cells, changes.len());
        let changes = Some(changes);
        Ok(Reserved { core, memtable, start, commit, slot, record, changes })
    }

    /// Tells whether a start's commit is decided and not published yet.
    #[must_use]
    pub fn is_under_way(&self, start: Timestamp) -> bool {
        self.core.publication.is_under_way(start)
    }

    /// Waits until a writer of so many bytes is not held back: for want of room, or because
    /// compaction has fallen behind and writers are slowed to its pace.
    ///
    /// # Errors
    ///
    /// `Unavailable` where the store has stopped or the disk is full.
    pub async fn ready(&self, bytes: usize) -> Result<()> {
        let core = &*self.core;
        core.while_space(|context| core.poll_room(context)).await??;
        core.while_space(|context| core.publication.poll_room(context)).await?;
        core.while_space(|context| core.flush_brake.poll(bytes, context)).await?;
        core.while_space(|context| core.brake.poll(bytes, context)).await?;
        core.publication.check()
    }
}

impl Core {
    /// Waits for something until it is there or the disk is full.
    pub(super) async fn while_space<T>(
        &self,
        mut poll: impl FnMut(&Context<'_>) -> Poll<T>,
    ) -> Result<T> {
        std::future::poll_fn(|context| {
            // Asked again after the waker is there: a disk that becomes full now wakes it.
            self.space.check()?;
            let polled = poll(context).map(Ok);
            if polled.is_pending() {
                self.space.check()?;
            }
            polled
        })
        .await
    }

    /// Refuses a commit that does not come after all before it.
    pub(super) fn check_rises(order: &Order, commit: Timestamp) -> Result<()> {
        let last = order.last_commit;
        if commit > last {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "commit {commit} cannot follow commit {last}: commit timestamps must rise"
        )))
    }

    /// Refuses what writes to a database that was opened for reading only.
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

    /// Makes sure that the active memtable can take a record.
    pub(super) fn make_room(&self, order: &mut Order, len: usize) -> Result<()> {
        if order.closed {
            return Err(Error::unavailable("the database was closed; open it again"));
        }
        self.check_takes_writes()?;
        self.publication.check()?;
        self.space.check()?;
        // Without a log slots are published before its writer has passed them: it may not be
        // overtaken.
        let passed = self.options.log || self.publication.opened() - self.log.next() < RING / 2;
        if !self.publication.has_room() || !passed {
            return Err(self.overloaded("too many commits are under way"));
        }
        if order.active.memory_bytes() < self.budget.flush {
            if order.tail.is_full(len as u64) {
                self.log.rotate(order.tail.rotate(self.publication.opened()));
            }
            return Ok(());
        }
        if lock(&self.sealed).len() < self.options.memtables_waiting_max.max(1) {
            self.seal(order);
            return Ok(());
        }
        // Writers wait before they come here; those that found room together with others still
        // get in.
        let flush_bytes = self.budget.flush;
        if order.active.memory_bytes()
            < flush_bytes.saturating_add(flush_bytes.max(OVERSHOOT_BYTES))
        {
            return Ok(());
        }
        Err(self.overloaded("writes come faster than the disk takes them"))
    }
}

impl Core {
    fn overloaded(&self, why: &'static str) -> Error {
        self.counters.appends_overloaded.fetch_add(1, Ordering::Relaxed);
        Error::new(ErrorKind::Overloaded { retry_after: RETRY_AFTER }, why)
    }
}

impl Reserved<'_> {
    /// Inserts the cells on the caller's thread.
    pub(super) fn insert(mut self) -> Appended {
        if let Some(changes) = self.changes.take() {
            let stop = StopOnPanic(&self.core.publication, "a writer panicked while it inserted");
            let body = &self.record[RECORD_HEADER_BYTES..];
            insert(&self.memtable, self.start, self.commit, changes.of(body));
            std::mem::forget(stop);
        }
        self.core.publication.inserted(self.slot);
        if !self.core.settles_when_synced() {
            self.core.write_unless_busy();
        }
        let publication = Arc::clone(&self.core.publication);
        let record = std::mem::take(&mut self.record);
        Appended::new(self.commit, self.slot, publication, record)
    }
}

/// Puts a record's changes into a memtable.
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

/// Stops the store when it is dropped, which a panic does; otherwise it is forgotten.
pub(super) struct StopOnPanic<'a>(pub(super) &'a Publication, pub(super) &'static str);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        self.0.stop(self.1);
    }
}
