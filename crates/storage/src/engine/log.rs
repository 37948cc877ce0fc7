//! Drives the log: who writes, who syncs, and what that settles.

use std::sync::Arc;

use bytes::Bytes;
use carnet_base::{Moment, Result, Signal, Step, Worker};

use super::Core;
use super::append::StopOnPanic;
use super::space::Work;
use crate::options::Durability;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use crate::sync::{Mutex, MutexGuard, TryLockError, lock};
use crate::wal::{Lsn, Rotation, Rotations, Segment, Spares, Writer};

/// A writer writes for others at most so many times before it leaves the rest to the flusher.
const ROUNDS_MAX: usize = 4;
/// One write takes about so many bytes.
const WRITE_BYTES: usize = 1 << 20;

/// The log of an open engine.
pub(super) struct Log {
    pump: Mutex<Pump>,
    /// Held from taking the unsynced segments until they are synced: otherwise a second one could
    /// find nothing to sync and call durable what the first is still syncing.
    syncing: Mutex<()>,
    durable: AtomicU64,
    /// The number of the first record that no write has taken.
    next: AtomicU64,
    /// Where the log goes on in new segments. Taken inside the order lock, so that nothing can be
    /// reserved behind a rotation that the writer does not see.
    rotations: Mutex<Rotations>,
    rotating: AtomicBool,
    /// The newest segment whose file is there, durably.
    segment: AtomicU64,
    spares: Mutex<Spares>,
    /// Wakes the flusher.
    pub(super) signal: Signal,
    /// Set while the flusher sleeps until there is something to sync.
    dozing: AtomicBool,
}

/// The writer, and what it is to write next.
struct Pump {
    writer: Writer,
    records: Vec<Bytes>,
}

impl Log {
    pub(super) fn new(writer: Writer, spares: Spares) -> Self {
        Self {
            syncing: Mutex::new(()),
            durable: AtomicU64::new(writer.written().0),
            segment: AtomicU64::new(writer.segment()),
            signal: Signal::new(),
            dozing: AtomicBool::new(false),
            next: AtomicU64::new(0),
            rotations: Mutex::default(),
            spares: Mutex::new(spares),
            rotating: AtomicBool::new(false),
            pump: Mutex::new(Pump { writer, records: Vec::new() }),
        }
    }

    /// Tells whether a segment's file is there, durably.
    pub(super) fn has_segment(&self, number: u64) -> bool {
        self.segment.load(Ordering::Acquire) >= number
    }

    /// Takes a segment that the durable manifest does not need; returns whether it is kept, to be
    /// written again.
    pub(super) fn keep_spare(&self, number: u64) -> bool {
        lock(&self.spares).keep(number)
    }

    /// Has the log go on in a new segment.
    pub(super) fn rotate(&self, rotation: Rotation) {
        let mut rotations = lock(&self.rotations);
        rotations.push_back(rotation);
        self.rotating.store(true, Ordering::SeqCst);
    }

    /// The number of the first record that no write has taken.
    pub(super) fn next(&self) -> u64 {
        self.next.load(Ordering::SeqCst)
    }

    /// Everything below is synced.
    pub(super) fn durable(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    /// How many segments are kept open to be synced.
    #[cfg(test)]
    pub(super) fn unsynced_segments(&self) -> usize {
        lock(&self.pump).writer.unsynced_segments()
    }

    fn try_pump(&self) -> Option<MutexGuard<'_, Pump>> {
        match self.pump.try_lock() {
            Ok(pump) => Some(pump),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl Core {
    /// Tells whether the log's writer would find anything to do.
    fn has_pending(&self) -> bool {
        // Whoever found the writer busy had filled its record before: it is seen now.
        fence(Ordering::SeqCst);
        // The flusher tries again by itself once the pause is over.
        if self.space.is_blocked(Work::Log) {
            return false;
        }
        self.log.rotating.load(Ordering::SeqCst)
            || self.publication.is_filled(self.log.next.load(Ordering::SeqCst))
    }

    /// Writes everything pending if no other thread is writing. That one will see what is pending
    /// now: it looks again after it has let go of the writer.
    pub(super) fn write_unless_busy(&self) {
        for _ in 0..ROUNDS_MAX {
            fence(Ordering::SeqCst);
            let Some(pump) = self.log.try_pump() else { return };
            if self.write(pump).is_err() || !self.has_pending() {
                return;
            }
        }
        self.log.signal.ring();
    }

    /// Writes everything pending; returns whether that was anything.
    fn write(&self, mut pump: MutexGuard<'_, Pump>) -> Result<bool> {
        self.publication.check()?;
        if self.space.pause(Work::Log, self.clock.now()).is_some() {
            return Ok(false);
        }
        let stop = StopOnPanic(&self.publication, "the log's writer panicked");
        let written = self.write_pending(&mut pump);
        let outcome = self.spaced(Work::Log, written).map(|spaced| spaced.unwrap_or(false));
        std::mem::forget(stop);
        let busy = match outcome {
            Ok(busy) => busy,
            Err(error) => {
                self.publication.stop(&error.to_string());
                return Err(error);
            }
        };
        let (written, segment) = (pump.writer.written(), pump.writer.segment());
        drop(pump);
        if self.log.segment.fetch_max(segment, Ordering::AcqRel) < segment {
            self.flush_signal.ring();
        }
        if busy && !self.settles_when_synced() {
            self.publication.settled(written);
            if self.log.dozing.swap(false, Ordering::AcqRel) {
                self.log.signal.ring();
            }
        }
        Ok(busy)
    }

    /// Writes filled records up to the first that is not, a stretch of one segment at a time.
    fn write_pending(&self, pump: &mut Pump) -> Result<bool> {
        let mut busy = false;
        loop {
            let taken = self.take_filled(&mut pump.records);
            let bytes = pump.records.iter().map(Bytes::len).sum();
            let begun = if bytes > 0 { self.io.log_begins() } else { None };
            pump.writer.write(&mut pump.records)?;
            self.io.log_wrote(bytes, begun);
            let next = self.log.next.load(Ordering::SeqCst);
            match self.next_rotation() {
                Some(rotation) if rotation.before == next => {
                    let spare = lock(&self.log.spares).take();
                    pump.writer.rotate(rotation, self.log.durable(), spare).inspect_err(|_| {
                        spare.map(|spare| self.log.keep_spare(spare.number));
                    })?;
                    self.finish_rotation();
                }
                _ if !taken => return Ok(busy),
                _ => {}
            }
            busy = true;
        }
    }

    /// Takes filled records of one segment, about as many as one write is for; returns whether
    /// there were any.
    fn take_filled(&self, records: &mut Vec<Bytes>) -> bool {
        let (mut bytes, mut number) = (0, self.log.next.load(Ordering::SeqCst));
        while bytes < WRITE_BYTES && self.publication.is_filled(number) {
            // A rotation is noted before a record behind it gets its place: whoever sees that
            // record filled, and then looks, sees the rotation.
            if self.next_rotation().is_some_and(|rotation| rotation.before <= number) {
                break;
            }
            let Some(record) = self.publication.take_filled(number) else { break };
            bytes += record.len().max(1);
            records.push(record);
            number += 1;
            self.log.next.store(number, Ordering::SeqCst);
        }
        !records.is_empty()
    }

    fn next_rotation(&self) -> Option<Rotation> {
        let rotating = self.log.rotating.load(Ordering::SeqCst);
        if rotating { lock(&self.log.rotations).front().copied() } else { None }
    }

    fn finish_rotation(&self) {
        let mut rotations = lock(&self.log.rotations);
        rotations.pop_front();
        self.log.rotating.store(!rotations.is_empty(), Ordering::SeqCst);
    }

    /// Forgets segments of the log below a number, which the durable manifest does not need.
    pub(super) fn forget_segments(&self, number: u64) {
        let mut pump = lock(&self.log.pump);
        pump.writer.forget_below(number);
        self.release(pump);
    }

    /// Lets go of the log's writer. Whoever found it busy in the meantime went away and relies on
    /// somebody to look again: the flusher.
    fn release(&self, pump: MutexGuard<'_, Pump>) {
        drop(pump);
        self.look_again();
    }

    fn look_again(&self) {
        if self.has_pending() {
            self.log.signal.ring();
        }
    }

    /// Syncs everything written; returns whether that was anything.
    fn sync(&self) -> Result<bool> {
        let _one = lock(&self.log.syncing);
        self.publication.check()?;
        let mut pump = lock(&self.log.pump);
        let (segments, written) = (pump.writer.take_unsynced(), pump.writer.written());
        self.release(pump);
        if let Err(error) = self.sync_segments(&segments) {
            self.publication.stop(&error.to_string());
            return Err(error);
        }
        if !segments.is_empty() {
            self.log.durable.fetch_max(written.0, Ordering::AcqRel);
            self.publication.settled(written);
        }
        Ok(!segments.is_empty())
    }

    /// Syncs segments, and checks that the directory is still at its path: the next process finds
    /// what is acknowledged by that path.
    fn sync_segments(&self, segments: &[Segment]) -> Result<()> {
        for segment in segments {
            self.counters.log_syncs.fetch_add(1, Ordering::Relaxed);
            let begun = self.io.log_begins();
            segment.sync(&*self.disk)?;
            self.io.log_wrote(0, begun);
        }
        if segments.is_empty() { Ok(()) } else { self.disk.check_directory() }
    }

    /// Writes everything pending, and syncs it where that is what settles it.
    pub(super) fn settle(&self) -> Result<bool> {
        let wrote = self.write(lock(&self.log.pump))?;
        self.look_again();
        let synced = self.settles_when_synced() && self.sync()?;
        Ok(wrote || synced)
    }

    /// Writes and syncs everything, then begins a segment whose header vouches for all of it, so
    /// that whatever goes bad in a closed database is found.
    pub(super) fn settle_for_good(&self) -> Result<()> {
        self.write_or_stop()?;
        self.sync()?;
        let opened = self.publication.opened();
        if opened == 0 {
            // No record came since the segment was begun: its header vouches already.
            return Ok(());
        }
        let rotation = lock(&self.order).tail.rotate(opened);
        self.log.rotate(rotation);
        self.write_or_stop()?;
        self.sync()?;
        Ok(())
    }

    /// Writes everything pending; on a full disk it stops the store, since nothing tries again.
    fn write_or_stop(&self) -> Result<()> {
        self.space.retry_now(Work::Log);
        self.write(lock(&self.log.pump))?;
        if !self.space.is_blocked(Work::Log) {
            return Ok(());
        }
        let spaced = self.space.check();
        spaced.inspect_err(|error| self.publication.stop(&error.to_string()))
    }
}

/// The flusher: writes and syncs whatever is pending when the device becomes free.
pub(super) struct Flusher {
    core: Arc<Core>,
    synced: Moment,
}

impl Flusher {
    pub(super) fn new(core: Arc<Core>) -> Self {
        let synced = core.clock.now();
        Self { core, synced }
    }

    /// Syncs when the interval is over; returns whether it did.
    fn sync_when_due(&mut self) -> Result<bool> {
        let Durability::Interval(interval) = self.core.options.durability else {
            return Ok(false);
        };
        let now = self.core.clock.now();
        if now.since(self.synced) < interval {
            return Ok(false);
        }
        self.synced = now;
        self.core.sync()
    }

    fn idle(&self) -> Step {
        if let Some(pause) = self.core.space.pause(Work::Log, self.core.clock.now()) {
            return Step::Idle(Some(pause));
        }
        let Durability::Interval(interval) = self.core.options.durability else {
            return Step::Idle(None);
        };
        // Set before the look: a write after the look finds it set, and rings.
        self.core.log.dozing.store(true, Ordering::Release);
        let pump = lock(&self.core.log.pump);
        let unsynced = pump.writer.is_unsynced();
        self.core.release(pump);
        if !unsynced {
            return Step::Idle(None);
        }
        self.core.log.dozing.store(false, Ordering::Release);
        Step::Idle(Some(interval.saturating_sub(self.core.clock.now().since(self.synced))))
    }
}

impl Worker for Flusher {
    fn step(&mut self) -> Step {
        let worked = self.core.settle().and_then(|wrote| Ok(self.sync_when_due()? || wrote));
        match worked {
            // The store has stopped, and everybody who waits was told.
            Err(_) => Step::Done,
            Ok(true) => Step::Again,
            Ok(false) if self.core.closing.load(Ordering::Acquire) => Step::Done,
            Ok(false) => self.idle(),
        }
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        if !self.core.closing.load(Ordering::Acquire) {
            self.core.publication.stop("the log's flusher ended");
        }
    }
}
