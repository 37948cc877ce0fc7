//! Flush: turns a full memtable into a table.
//!
//! *Sealing* happens under the order lock, at one position of the log: the next record goes to a
//! new memtable and a new segment. *Flushing* happens later on a worker, when every record of the
//! sealed memtable is published and the new segment's file exists.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use carnet_base::{CellKey, Error, Result, Signal, Step, Timestamp, Worker};

use super::compact::{Installs, LOOK_AGAIN};
use super::core::{Core, Engine, Order};
use super::sealed::{Adopted, Sealed, SealedQueue};
use super::shortages::Work;
use crate::disk::{During, shortage};
use crate::io::Class;
use crate::manifest::{Edit, TableMeta, Tally};
use crate::memtable::{Fragment, Memtable, VersionRef};
use crate::sstable::{Built, EntryRef, RangeTombstone};
use crate::sync::atomic::Ordering;
use crate::sync::{MutexGuard, lock};
use crate::wal::{Rotation, segment};

/// Number of flushed bytes between refills of the write throttle.
const PIECE_BYTES: u64 = 256 << 10;

impl Engine {
    /// Seals the active memtable; it is flushed when its records are published. Returns the last
    /// commit so far, which [`Engine::flushed`] will reach.
    pub fn seal(&self) -> Timestamp {
        let mut order = lock(&self.core.order);
        if !order.active.is_empty() {
            self.core.seal(&mut order);
        }
        order.last_commit
    }

    /// Returns the last flushed commit: the tables hold all commits up to it and none after it.
    #[must_use]
    pub fn flushed(&self) -> Timestamp {
        lock(&self.core.manifest).flushed
    }

    /// Flushes all commits so far into tables. Blocks the calling thread.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the disk is full, or there are no file descriptors or memory for longer; if
    /// the disk fails otherwise, the store has stopped writing.
    /// `Invalid` if the database was opened read-only.
    pub fn flush(&self) -> Result<()> {
        let core = &self.core;
        core.check_takes_writes()?;
        core.publication.check()?;
        self.adopt_recovered()?;
        self.seal();
        let last = lock(&core.flushes.sealed).last_segment();
        loop {
            // Memtables that are sealed meanwhile are not waited for, because that might never end.
            let oldest = lock(&core.flushes.sealed).queue.front().cloned();
            let Some(oldest) = oldest.filter(|oldest| Some(oldest.next_segment) <= last) else {
                return Ok(());
            };
            core.write_log()?;
            let published = Signal::new();
            core.publication.mark(oldest.slots_below, published.clone());
            while core.publication.resolved() < oldest.slots_below {
                core.publication.check()?;
                published.wait(Some(LOOK_AGAIN));
                core.write_log()?;
            }
            core.with_grace(Work::Flush, || core.flush_oldest())?;
        }
    }
}

impl Core {
    /// Seals the active memtable; the next record goes to a new one and a new segment.
    pub(super) fn seal(&self, order: &mut Order) {
        let rotation = self.rotate(order);
        let active = Memtable::new(rotation.segment, self.flushes.chunks.clone());
        self.seal_behind(order, rotation, active, None);
    }

    /// Makes the next record begin a new segment.
    pub(super) fn rotate(&self, order: &mut Order) -> Rotation {
        let rotation = order.tail.rotate(self.publication.opened());
        self.log.rotate(rotation);
        rotation
    }

    /// Seals the active memtable, whose records precede a rotation. It may be flushed, and the
    /// adopted table's commit published, before this returns.
    pub(super) fn seal_behind(
        &self,
        order: &mut Order,
        rotation: Rotation,
        active: Memtable,
        adopted: Option<Adopted>,
    ) {
        let active = Arc::new(active);
        let memtable = std::mem::replace(&mut order.active, Arc::clone(&active));
        // Before the memtable can be flushed, because then the view removes the oldest one.
        self.change_view(|view| view.sealed(active));
        let Rotation { before: slots_below, segment: next_segment, base: next_base } = rotation;
        let last_commit = order.last_commit;
        let sealed =
            Sealed { memtable, slots_below, last_commit, next_segment, next_base, adopted };
        let mut queue = lock(&self.flushes.sealed);
        queue.queue.push_back(sealed);
        self.set_flush_throttle(queue.len());
        drop(queue);
        self.publication.mark(slots_below, self.flushes.signal.clone());
        // The log writer must create the new segment even if no record follows.
        self.log.signal.ring();
    }

    /// Throttles writers before they have to stop. With room for one more sealed memtable, writers
    /// get the pace of the flush; with no room, half of it, so that the flush ends before the
    /// active memtable is full.
    fn set_flush_throttle(&self, sealed: usize) {
        self.io.flush_is_behind(self.waiting_max().saturating_sub(sealed), sealed);
        match self.waiting_max().saturating_sub(sealed) {
            0 => self.flushes.throttle.activate(500),
            1 if sealed > 0 => self.flushes.throttle.activate(1000),
            _ => self.flushes.throttle.deactivate(),
        }
    }

    /// Returns the number of memtables that may wait for their flush.
    pub(super) fn waiting_max(&self) -> usize {
        self.options.memtables_waiting_max.max(1)
    }

    /// Waits until the memtables before a segment are flushed.
    pub(super) fn poll_flushed(&self, segment: u64, context: &Context<'_>) -> Poll<Result<()>> {
        let mut sealed = lock(&self.flushes.sealed);
        self.publication.check()?;
        if sealed.queue.front().is_none_or(|oldest| oldest.next_segment > segment) {
            return Poll::Ready(Ok(()));
        }
        sealed.wait(context);
        Poll::Pending
    }

    /// Waits until another memtable can be sealed, or the active one has room.
    pub(super) fn poll_room(&self, context: &Context<'_>) -> Poll<Result<()>> {
        self.publication.check()?;
        // Fast path without a lock, because every commit calls this. Writers that find room at the
        // same time exceed the limit slightly, with the lock as well.
        if self.view().sealed.len() < self.waiting_max() {
            return Poll::Ready(Ok(()));
        }
        let mut sealed = lock(&self.flushes.sealed);
        self.publication.check()?;
        let room = sealed.len() < self.waiting_max();
        if room || self.view().active.memory_bytes() < self.budget.flush {
            return Poll::Ready(Ok(()));
        }
        sealed.wait(context);
        Poll::Pending
    }

    /// Wakes all waiting writers, also to report that the store has stopped.
    pub(super) fn wake_waiting(mut sealed: MutexGuard<'_, SealedQueue>) {
        let waiting = std::mem::take(&mut sealed.waiting);
        drop(sealed);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Flushes the oldest sealed memtable if it is ready; returns whether it did.
    pub(super) fn flush_oldest(&self) -> Result<bool> {
        let _one = lock(&self.flushes.flushing);
        self.publication.check()?;
        let oldest = lock(&self.flushes.sealed).queue.front().cloned();
        let Some(oldest) = oldest.filter(|oldest| self.is_ready(oldest)) else {
            return Ok(false);
        };
        self.divide_memory();
        let outcome = self.guarded(|| self.unless_passing(Work::Flush, self.flush_sealed(&oldest)));
        self.divide_memory();
        if outcome.is_err() {
            Self::wake_waiting(lock(&self.flushes.sealed));
        }
        outcome?.map(|()| true)
    }

    /// Gives the cache the memory that the memtables do not need now.
    fn divide_memory(&self) {
        self.cache.resize(self.budget.cache_beside(self.view().sealed.len()));
    }

    /// Flushes every published commit. The order is closed, so no other one follows.
    ///
    /// # Errors
    ///
    /// `Unavailable`; then the store has stopped, and commits that are not flushed are lost.
    pub(super) fn flush_for_good(&self) -> Result<()> {
        if self.options.read_only {
            return Ok(());
        }
        {
            let mut order = lock(&self.order);
            if !order.active.is_empty() {
                self.seal(&mut order);
            }
        }
        while self.or_stop(self.with_grace(Work::Flush, || self.flush_oldest()))? {}
        let left = lock(&self.flushes.sealed).len();
        // Nothing was appended before recovered commits were adopted, and the log still has those.
        if left == 0 || !self.adopts_recovered.load(Ordering::Acquire) {
            return Ok(());
        }
        self.or_stop(Err(Error::unavailable(format!(
            "{left} memtables could not be flushed when the database was closed: their commits are \
             lost"
        ))))
    }

    fn is_ready(&self, sealed: &Sealed) -> bool {
        let is_recovered = sealed.adopted.as_ref().is_some_and(|adopted| !adopted.is_unpublished());
        (!is_recovered || self.adopts_recovered.load(Ordering::Acquire))
            && self.publication.resolved() >= sealed.slots_below
            && self.log.has_segment(sealed.next_segment)
    }

    fn flush_sealed(&self, sealed: &Sealed) -> Result<()> {
        let table = self.build(&sealed.memtable)?;
        let bytes = table.as_ref().map_or(0, |table| table.bytes);
        let number = table.as_ref().map(|table| table.number);
        let adopted = sealed.adopted.as_ref();
        let edit = Edit {
            add: table.into_iter().chain(adopted.map(|adopted| adopted.meta.clone())).collect(),
            log: Some((sealed.next_segment, sealed.next_base.0)),
            flushed: Some(sealed.last_commit),
            unlogged: (sealed.next_segment >= self.log.files_below).then_some(true),
            ..Edit::default()
        };
        if let Err(error) = self.install(&edit, Installs::Flush) {
            if shortage(&error).is_some() {
                self.discard(number);
            }
            return Err(error);
        }
        if let Some(adopted) = adopted.filter(|adopted| adopted.is_unpublished()) {
            self.publication.inserted(adopted.slot);
        }
        let mut queue = lock(&self.flushes.sealed);
        queue.queue.pop_front();
        self.set_flush_throttle(queue.len());
        Self::wake_waiting(queue);
        // At least one refill per flush, so that a waiting writer progresses.
        self.flushes.throttle.refill(PIECE_BYTES);
        self.counters.flushes.fetch_add(1, Ordering::Relaxed);
        self.counters.flush_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.retire_segments(sealed);
        Ok(())
    }

    fn retire_segments(&self, sealed: &Sealed) {
        self.forget_segments(sealed.next_segment);
        let end = sealed.next_segment.min(self.log.files_below);
        for number in sealed.memtable.first_segment()..end {
            if self.log.keep_spare(number) {
                continue;
            }
            let name = segment::file_name(number);
            // A segment that cannot be removed now is removed by the next opening.
            if let Err(error) = self.disk.remove(&name).during("remove", &*self.disk, &name) {
                tracing::warn!(%error, "a part of the log that is not needed is left behind");
            }
        }
    }

    /// Writes a memtable's versions and its commit-table entries as a table.
    fn build(&self, memtable: &Memtable) -> Result<Option<TableMeta>> {
        let mut builder = self.new_table(Class::Flush)?;
        let mut tally = Tally::default();
        let mut moved = 0;
        let mut push = |entry: &EntryRef<'_>, passes: bool| {
            moved += (entry.key.len() + entry.payload.map_or(0, <[u8]>::len)) as u64;
            if moved >= PIECE_BYTES {
                self.flushes.throttle.refill(std::mem::take(&mut moved));
                self.divide_memory();
            }
            tally.cell(
                entry.key,
                entry.commit,
                entry.expiry,
                self.kind_of(entry.key, entry.payload),
            );
            if passes {
                tally.will_pass(false);
            }
            builder.push(entry)
        };
        let mut entries = self.entries_of(memtable)?.into_iter().peekable();
        memtable.try_for_each(|key, version| {
            // `next_if` would remove and reinsert the entry for each key.
            while entries.peek().is_some_and(|entry| *entry.key.as_bytes() < *key)
                && let Some(entry) = entries.next()
            {
                push(&entry.lend(), true)?;
            }
            let VersionRef { start, commit, expiry, payload } = version;
            push(&EntryRef { key, commit, start, expiry, payload }, false)
        })?;
        for entry in entries {
            push(&entry.lend(), true)?;
        }
        for Fragment { lower, upper, versions } in memtable.range_tombstones() {
            for (commit, start) in versions {
                tally.range_tombstone(&lower, &upper, commit);
                let (lower, upper) = (lower.clone(), upper.clone());
                builder.push_range_tombstone(&RangeTombstone { lower, upper, commit, start })?;
            }
        }
        let Some(Built { number, bytes, .. }) = builder.finish()? else { return Ok(None) };
        Ok(tally.finish(number, 0, bytes))
    }

    /// Returns the commit-table entries of a memtable's records, in order.
    fn entries_of(&self, memtable: &Memtable) -> Result<Vec<Recorded>> {
        let recorded = |(start, commit): (Timestamp, Timestamp)| {
            let (key, payload) = (self.entry_cell)(start, commit)?;
            Ok(Recorded { key, start, commit, payload })
        };
        let mut entries: Vec<_> =
            memtable.entries().into_iter().map(recorded).collect::<Result<_>>()?;
        entries.sort_unstable_by(|left, right| left.key.cmp(&right.key));
        // A record may have been inserted twice.
        entries.dedup_by(|left, right| left.key == right.key);
        Ok(entries)
    }
}

/// A commit-table entry.
struct Recorded {
    key: CellKey,
    start: Timestamp,
    commit: Timestamp,
    payload: Bytes,
}

impl Recorded {
    fn lend(&self) -> EntryRef<'_> {
        let Self { key, start, commit, payload } = self;
        let (key, payload) = (&key.as_bytes()[..], Some(&payload[..]));
        EntryRef { key, commit: *commit, start: *start, expiry: None, payload }
    }
}

/// Worker that flushes sealed memtables when they are ready.
pub(super) struct MemtableFlusher(pub(super) Arc<Core>);

impl Worker for MemtableFlusher {
    fn stops_store_on_panic(&self) -> bool {
        true
    }

    fn step(&mut self) -> Step {
        if self.0.closing.load(Ordering::Acquire) {
            return Step::Done;
        }
        let pause = |core: &Core| {
            core.shortages.pause(Work::Flush, core.clock.now()).or_else(|| core.io.pause())
        };
        if let Some(pause) = pause(&self.0) {
            return Step::Idle(Some(pause));
        }
        match self.0.flush_oldest() {
            Ok(true) => Step::Again,
            Ok(false) => Step::Idle(None),
            Err(_) if self.0.publication.has_stopped() => Step::Done,
            Err(_) => Step::Idle(pause(&self.0)),
        }
    }
}

impl Drop for MemtableFlusher {
    fn drop(&mut self) {
        if !self.0.closing.load(Ordering::Acquire) {
            self.0.publication.stop("the memtable flusher ended");
        }
        self.0.flushes.throttle.release();
        Core::wake_waiting(lock(&self.0.flushes.sealed));
    }
}
