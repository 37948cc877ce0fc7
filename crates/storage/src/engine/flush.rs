//! From a full memtable to a table.
//!
//! *Sealing* happens under the order lock, at one place of the log: the next record goes to a new
//! memtable and a new segment. *Flushing* happens later, on a worker, once every record of the
//! sealed memtable is published and the new segment's file is there.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::task::{Context, Poll, Waker};

use carnet_base::{CellKey, Result, Signal, Step, Timestamp, Version, Worker};

use super::append::StopOnPanic;
use super::{Core, Engine, Order};
use crate::disk::During;
use crate::lock::lock;
use crate::manifest::Manifest;
use crate::memtable::Memtable;
use crate::sstable::{Builder, Built, Table};
use crate::wal::{Lsn, segment};

/// A memtable that takes no new records.
#[derive(Clone)]
pub(super) struct Sealed {
    memtable: Arc<Memtable>,
    /// All its records have smaller slots.
    slots_below: u64,
    /// Where the log goes on behind its last record.
    next_segment: u64,
    next_base: Lsn,
}

/// Sealed memtables, oldest first, and who waits for there to be fewer.
#[derive(Default)]
pub(super) struct SealedQueue {
    queue: VecDeque<Sealed>,
    waiting: Vec<Waker>,
}

impl SealedQueue {
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }
}

impl Engine {
    /// Turns everything appended so far into tables. It works on the calling thread and blocks it.
    ///
    /// # Errors
    ///
    /// `Unavailable` where the disk fails; then the store has stopped writing.
    pub fn flush(&self) -> Result<()> {
        let core = &self.core;
        core.publication.check()?;
        {
            let mut order = lock(&core.order);
            if order.active_bytes > 0 {
                core.seal(&mut order);
            }
        }
        loop {
            let Some(oldest) = lock(&core.sealed).queue.front().cloned() else { return Ok(()) };
            core.settle()?;
            let published = Signal::new();
            core.publication.mark(oldest.slots_below, published.clone());
            published.wait(None);
            core.flush_oldest()?;
        }
    }
}

impl Core {
    /// Seals the active memtable; the next record goes to a new one and a new segment.
    pub(super) fn seal(&self, order: &mut Order) {
        let (next_segment, next_base) = order.tail.rotate();
        let active = Arc::new(Memtable::new(next_segment));
        let memtable = std::mem::replace(&mut order.active, Arc::clone(&active));
        order.active_bytes = 0;
        let slots_below = self.publication.opened();
        lock(&self.sealed).queue.push_back(Sealed {
            memtable,
            slots_below,
            next_segment,
            next_base,
        });
        self.change_view(|view| view.sealed(active));
        self.publication.mark(slots_below, self.flush_signal.clone());
        // Somebody has to make the new segment even if no record follows.
        self.log.signal.ring();
    }

    /// Waits until there is room for another sealed memtable.
    pub(super) fn poll_room(&self, context: &Context<'_>) -> Poll<Result<()>> {
        let mut sealed = lock(&self.sealed);
        self.publication.check()?;
        if sealed.len() < self.options.memtables_waiting_max.max(1) {
            return Poll::Ready(Ok(()));
        }
        if !sealed.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            sealed.waiting.push(context.waker().clone());
        }
        Poll::Pending
    }

    /// Wakes everybody who waits for room, also to learn that the store has stopped.
    fn wake_waiting(mut sealed: MutexGuard<'_, SealedQueue>) {
        let waiting = std::mem::take(&mut sealed.waiting);
        drop(sealed);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Flushes the oldest sealed memtable if it is ready; returns whether it did.
    fn flush_oldest(&self) -> Result<bool> {
        let _one = lock(&self.flushing);
        self.publication.check()?;
        let oldest = lock(&self.sealed).queue.front().cloned();
        let Some(oldest) = oldest.filter(|oldest| self.is_ready(oldest)) else {
            return Ok(false);
        };
        let stop = StopOnPanic(&self.publication, "the memtable's flush panicked");
        let outcome = self.flush_sealed(&oldest);
        std::mem::forget(stop);
        if let Err(error) = &outcome {
            self.publication.stop(&error.to_string());
            Self::wake_waiting(lock(&self.sealed));
        }
        outcome.map(|()| true)
    }

    fn is_ready(&self, sealed: &Sealed) -> bool {
        self.publication.resolved() >= sealed.slots_below
            && self.log.has_segment(sealed.next_segment)
    }

    fn flush_sealed(&self, sealed: &Sealed) -> Result<()> {
        let built = self.build(&sealed.memtable)?;
        let table = match built {
            None => None,
            Some(built) => {
                let (cache, counters) = (Arc::clone(&self.cache), Arc::clone(&self.counters));
                Some(Arc::new(Table::open(Arc::clone(&self.disk), built, cache, counters)?))
            }
        };
        self.install(sealed, built)?;
        self.change_view(|view| view.flushed(table));
        let mut queue = lock(&self.sealed);
        queue.queue.pop_front();
        Self::wake_waiting(queue);
        self.counters.flushes.fetch_add(1, Ordering::Relaxed);
        let bytes = built.map_or(0, |built| built.bytes);
        self.counters.flush_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.remove_segments(sealed);
        Ok(())
    }

    /// Makes the edit by which the table replaces the memtable's part of the log.
    fn install(&self, sealed: &Sealed, built: Option<Built>) -> Result<()> {
        let mut manifest = lock(&self.manifest);
        let mut edited = Manifest {
            first_segment: sealed.next_segment,
            first_lsn: sealed.next_base.0,
            ..manifest.clone()
        };
        if let Some(built) = built {
            edited.next_file = built.number + 1;
            edited.tables.push(built);
        }
        edited.store(&*self.disk)?;
        *manifest = edited;
        Ok(())
    }

    fn remove_segments(&self, sealed: &Sealed) {
        for number in sealed.memtable.first_segment()..sealed.next_segment {
            let name = segment::file_name(number);
            // What is left over is removed at the next opening.
            if let Err(error) = self.disk.remove(&name).during("remove", &*self.disk, &name) {
                tracing::warn!(%error, "a part of the log that is not needed is left behind");
            }
        }
    }

    /// Writes a memtable's versions, and the entries of its commits among them, as a table.
    fn build(&self, memtable: &Memtable) -> Result<Option<Built>> {
        let number = lock(&self.manifest).next_file;
        let Self { disk, options, .. } = self;
        let disk = Arc::clone(disk);
        let mut builder =
            Builder::begin(disk, number, options.block_bytes, options.bloom_fp_chance)?;
        let mut entries = self.entries_of(memtable).into_iter().peekable();
        let mut push = |key: &CellKey, version: &Version| {
            let Version { start, commit, payload } = version;
            builder.push(key, (*start, commit.unwrap_or(*start)), payload.as_deref())
        };
        memtable.try_for_each(|key, version| {
            while let Some((entry, recorded)) = entries.next_if(|(entry, _)| entry < key) {
                push(&entry, &recorded)?;
            }
            push(key, version)
        })?;
        for (entry, recorded) in entries {
            push(&entry, &recorded)?;
        }
        builder.finish()
    }

    /// The cells that record which start committed when, in order.
    fn entries_of(&self, memtable: &Memtable) -> Vec<(CellKey, Version)> {
        let cell = |(start, commit): (Timestamp, Timestamp)| {
            let (key, payload) = (self.entry_cell)(start, commit);
            (key, Version { start, commit: Some(commit), payload: Some(payload) })
        };
        let mut entries: Vec<_> = memtable.entries().into_iter().map(cell).collect();
        entries.sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
        entries
    }
}

/// Flushes sealed memtables as they become ready.
pub(super) struct MemtableFlusher(pub(super) Arc<Core>);

impl Worker for MemtableFlusher {
    fn step(&mut self) -> Step {
        if self.0.closing.load(Ordering::Acquire) {
            return Step::Done;
        }
        match self.0.flush_oldest() {
            Ok(true) => Step::Again,
            Ok(false) => Step::Idle(None),
            Err(_) => Step::Done,
        }
    }
}

impl Drop for MemtableFlusher {
    fn drop(&mut self) {
        if !self.0.closing.load(Ordering::Acquire) {
            self.0.publication.stop("the memtable flusher ended");
        }
        Core::wake_waiting(lock(&self.0.sealed));
    }
}
