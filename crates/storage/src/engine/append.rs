//! The append path: prepare, decide and reserve, insert, wait.

use std::error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use carnet_base::{CellKey, Error, ErrorKind, Result, Timestamp};

use super::publication::Publication;
use super::{Core, Engine, Order};
use crate::codec::{self, Cell, Decoder, put_cell};
use crate::lock::lock;
use crate::memtable::{CELL_OVERHEAD_BYTES, Memtable};
use crate::metrics::add;
use crate::wal::record;

/// When a writer that was held back should come again.
const RETRY_AFTER: Duration = Duration::from_millis(10);

/// A body of cells, encoded and checksummed, ready to be appended.
#[derive(Debug)]
pub struct Prepared {
    start: Timestamp,
    body: Bytes,
    body_crc: u32,
    /// Slices of the body.
    cells: Vec<Cell>,
}

impl Prepared {
    /// The start timestamp that names the versions.
    #[must_use]
    pub const fn start(&self) -> Timestamp {
        self.start
    }

    fn memory_bytes(&self) -> usize {
        self.body.len() + self.cells.len() * CELL_OVERHEAD_BYTES
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
}

impl Appended {
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
pub(super) struct Reserved {
    core: Arc<Core>,
    memtable: Arc<Memtable>,
    start: Timestamp,
    commit: Timestamp,
    slot: u64,
    cells: Option<Vec<Cell>>,
}

impl Engine {
    /// Encodes a body of cells, outside of every lock: at most one write for a cell, `None`
    /// deletes it.
    ///
    /// # Errors
    ///
    /// `Invalid` where a key, a value or the whole is too long to be stored.
    pub fn prepare(
        &self,
        start: Timestamp,
        cells: Vec<(CellKey, Option<Bytes>)>,
    ) -> Result<Prepared> {
        let mut room = 0_usize;
        for (key, payload) in &cells {
            codec::check_sizes(key, payload.as_ref())?;
            room = room.saturating_add(codec::len_max(key, payload.as_ref()));
        }
        if room > record::BODY_BYTES_MAX {
            return Err(Error::invalid(format!(
                "a transaction that writes {room} bytes is too long: at most {} bytes are stored \
                 at once; write in several transactions",
                record::BODY_BYTES_MAX
            )));
        }
        let mut body = BytesMut::with_capacity(room);
        for (key, payload) in &cells {
            put_cell(&mut body, key, None, payload.as_deref());
        }
        drop(cells);
        let body = body.freeze();
        let body_crc = crc32c::crc32c(&body);
        // What is inserted is what recovery would read: slices of the body, by the same decoder.
        let cells = Decoder::new(body.clone()).run()?;
        Ok(Prepared { start, body, body_crc, cells })
    }

    /// Runs `decide` inside the critical section; where it returns a commit timestamp, larger
    /// than any before, the record is in the log at that place and its cells are in the memtable.
    /// Where it returns an error nothing has happened.
    ///
    /// # Errors
    ///
    /// [`AppendError::Refused`] with what `decide` returned. [`AppendError::Engine`] with
    /// `Overloaded` where too many memtables wait for their flush (await [`Engine::ready`]), with
    /// `Unavailable` where the store has stopped; `decide` has not run then. With `Invalid` where
    /// the timestamp is not larger than every one before it.
    pub fn append<E>(
        &self,
        prepared: Prepared,
        decide: impl FnOnce() -> Result<Timestamp, E>,
    ) -> Result<Appended, AppendError<E>> {
        Ok(self.reserve(prepared, decide)?.insert())
    }

    /// Decides and reserves, and leaves the insertion to its caller.
    pub(super) fn reserve<E>(
        &self,
        prepared: Prepared,
        decide: impl FnOnce() -> Result<Timestamp, E>,
    ) -> Result<Reserved, AppendError<E>> {
        let core = &self.core;
        let memory_bytes = prepared.memory_bytes();
        let Prepared { start, body, body_crc, cells } = prepared;
        let mut order = lock(&core.order);
        core.make_room(&mut order).map_err(AppendError::Engine)?;
        let commit = decide().map_err(AppendError::Refused)?;
        if commit <= order.last_commit {
            let last = order.last_commit;
            return Err(AppendError::Engine(Error::invalid(format!(
                "commit {commit} cannot follow commit {last}: commit timestamps must rise"
            ))));
        }
        order.last_commit = commit;
        order.active_bytes += memory_bytes;
        let end = order.tail.reserve(start, commit, body, body_crc);
        let slot = core.publication.open(start, commit, end);
        let memtable = Arc::clone(&order.active);
        drop(order);
        if core.settles_when_synced() {
            core.log.signal.ring();
        }
        core.counters.appends.fetch_add(1, Ordering::Relaxed);
        add(&core.counters.appended_cells, cells.len());
        Ok(Reserved { core: Arc::clone(core), memtable, start, commit, slot, cells: Some(cells) })
    }

    /// Waits until writers are not held back for want of room.
    ///
    /// # Errors
    ///
    /// `Unavailable` where the store has stopped.
    pub async fn ready(&self) -> Result<()> {
        std::future::poll_fn(|context| self.core.poll_room(context)).await
    }
}

impl Core {
    /// Makes sure that the active memtable can take a record.
    fn make_room(&self, order: &mut Order) -> Result<()> {
        if order.closed {
            return Err(Error::unavailable("the database was closed; open it again"));
        }
        self.publication.check()?;
        if order.active_bytes < self.options.flush_bytes {
            return Ok(());
        }
        if lock(&self.sealed).len() >= self.options.memtables_waiting_max.max(1) {
            self.counters.appends_overloaded.fetch_add(1, Ordering::Relaxed);
            let kind = ErrorKind::Overloaded { retry_after: RETRY_AFTER };
            return Err(Error::new(kind, "writes come faster than the disk takes them"));
        }
        self.seal(order);
        Ok(())
    }
}

impl Reserved {
    /// Inserts the cells on the caller's thread.
    pub(super) fn insert(mut self) -> Appended {
        if let Some(cells) = self.cells.take() {
            let stop = StopOnPanic(&self.core.publication, "a writer panicked while it inserted");
            self.memtable.insert(self.start, self.commit, cells);
            std::mem::forget(stop);
        }
        self.core.publication.inserted(self.slot);
        if !self.core.settles_when_synced() {
            self.core.write_unless_busy();
        }
        let publication = Arc::clone(&self.core.publication);
        Appended { commit: self.commit, slot: self.slot, publication }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if self.cells.is_some() {
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
