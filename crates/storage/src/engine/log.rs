//! Drives the log: writes and syncs it, and publishes the commits that this settles.

use std::sync::Arc;

use bytes::Bytes;
use carnet_base::{Error, Moment, Result, Step, Worker};

use super::core::Core;
use super::open_log::LogWriter;
use super::shortages::Work;
use super::stop_on_panic::StopOnPanic;
use crate::disk::shortage;
use crate::options::Durability;
use crate::sync::atomic::{Ordering, fence};
use crate::sync::{MutexGuard, lock};
use crate::wal::{Rotation, Unsynced};

/// Maximum number of writes for other writers before a writer leaves the rest to the flusher.
const ROUNDS_MAX: usize = 4;
/// Approximate size of a write.
const WRITE_BYTES: usize = 1 << 20;

impl Core {
    /// Returns `true` if the log writer has something to write.
    fn has_pending(&self) -> bool {
        // A thread that found the writer locked has filled its record before: it is visible now.
        fence(Ordering::SeqCst);
        // The flusher retries after the pause.
        if self.shortages.is_blocked(Work::Log) {
            return false;
        }
        self.log.rotating.load(Ordering::SeqCst)
            || self.publication.is_filled(self.log.next.load(Ordering::SeqCst))
    }

    /// Writes all pending records, unless another thread is writing. That thread checks for pending
    /// records again after it has unlocked the writer.
    pub(super) fn write_unless_busy(&self) {
        for _ in 0..ROUNDS_MAX {
            fence(Ordering::SeqCst);
            let Some(writer) = self.log.try_writer() else { return };
            if self.write(writer).is_err() || !self.has_pending() {
                return;
            }
        }
        self.log.signal.ring();
    }

    /// Writes all pending records; returns `true` if there were any.
    fn write(&self, mut writer: MutexGuard<'_, LogWriter>) -> Result<bool> {
        self.publication.check()?;
        if self.shortages.pause(Work::Log, self.clock.now()).is_some() {
            return Ok(false);
        }
        let before = writer.writer.written();
        let stop = StopOnPanic(&self.publication, "the log's writer panicked");
        let outcome = self.write_pending(&mut writer);
        let outcome = self.or_stop(self.unless_passing(Work::Log, outcome));
        std::mem::forget(stop);
        // An attempt may have written the records of an earlier one, or some before an error that
        // passes.
        let _passing = outcome?;
        let (written, segment) = (writer.writer.written(), writer.writer.segment());
        let busy = written != before;
        drop(writer);
        if self.log.segment.fetch_max(segment, Ordering::AcqRel) < segment {
            self.flushes.signal.ring();
        }
        if busy && !self.settles_when_synced() {
            self.publication.settled(written);
            if self.log.sleeping.swap(false, Ordering::AcqRel) {
                self.log.signal.ring();
            }
        }
        Ok(busy)
    }

    /// Writes filled records up to the first unfilled one, one part of a segment at a time.
    fn write_pending(&self, writer: &mut LogWriter) -> Result<()> {
        loop {
            let taken = self.take_filled(&mut writer.records);
            let bytes = writer.records.iter().map(Bytes::len).sum();
            let begun = if bytes > 0 { self.io.log_begins() } else { None };
            writer.writer.write(&mut writer.records)?;
            self.io.log_wrote(bytes, begun);
            let next = self.log.next.load(Ordering::SeqCst);
            match self.next_rotation() {
                Some(rotation) if rotation.before == next => {
                    let spare = lock(&self.log.spares).take();
                    writer.writer.rotate(rotation, self.log.durable(), spare).inspect_err(
                        |_| {
                            spare.map(|spare| self.log.keep_spare(spare.number));
                        },
                    )?;
                    self.finish_rotation();
                }
                _ if !taken => return Ok(()),
                _ => {}
            }
        }
    }

    /// Takes filled records of one segment, about as many as one write takes; returns `true` if
    /// there are any.
    fn take_filled(&self, records: &mut Vec<Bytes>) -> bool {
        let (mut bytes, mut number) = (0, self.log.next.load(Ordering::SeqCst));
        while bytes < WRITE_BYTES && self.publication.is_filled(number) {
            // A rotation is pushed before any record behind it is reserved. So a thread that sees a
            // filled record behind a rotation sees the rotation too.
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

    /// Drops segments below a number, which the durable manifest does not need.
    pub(super) fn forget_segments(&self, number: u64) {
        let Some(mut writer) = self.log.writer() else { return };
        writer.writer.forget_below(number);
        self.release(writer);
    }

    /// Unlocks the log writer, and wakes the flusher if records are pending: a thread that found
    /// the log writer locked relies on this.
    fn release(&self, writer: MutexGuard<'_, LogWriter>) {
        drop(writer);
        self.look_again();
    }

    fn look_again(&self) {
        if self.has_pending() {
            self.log.signal.ring();
        }
    }

    /// Syncs everything written; returns `true` if there was anything.
    fn sync(&self) -> Result<bool> {
        let _one = lock(&self.log.syncing);
        self.publication.check()?;
        if self.shortages.pause(Work::Sync, self.clock.now()).is_some() {
            return Ok(false);
        }
        let outcome = self.sync_unsynced();
        let synced = self.unless_passing(Work::Sync, outcome);
        let synced = synced.inspect_err(|error| self.publication.stop(&error.to_string()))?;
        Ok(synced.unwrap_or(false))
    }

    /// Syncs everything written. The caller holds `syncing`. After an error that passes, everything
    /// is still unsynced.
    fn sync_unsynced(&self) -> Result<bool> {
        let Some(mut writer) = self.log.writer() else { return Ok(false) };
        let rewritten = writer.writer.rewrite_lost();
        if rewritten.is_err() {
            self.release(writer);
            return rewritten.map(|()| false);
        }
        let (unsynced, written) = (writer.writer.take_unsynced(), writer.writer.written());
        self.release(writer);
        if unsynced.is_empty() {
            return Ok(false);
        }
        if let Err(error) = self.sync_segments(&unsynced) {
            return Err(self.keep_unsynced(unsynced, error));
        }
        self.reuse(unsynced);
        self.log.durable.fetch_max(written.0, Ordering::AcqRel);
        self.publication.settled(written);
        Ok(true)
    }

    /// Returns segments to the writer after a failed sync, if it can be repeated. Returns the error,
    /// as one that does not pass if writes may be lost for good.
    fn keep_unsynced(&self, unsynced: Unsynced, error: Error) -> Error {
        let Some(shortage) = shortage(&error) else { return error };
        let kept = self.log.writer().is_some_and(|mut writer| {
            let kept = writer.writer.put_back(unsynced, shortage.loses_writes());
            self.release(writer);
            kept
        });
        if kept {
            return error;
        }
        Error::unavailable(format!(
            "{error}; the sync may have lost writes of this file, and they are kept in memory only \
             with the durability `always`"
        ))
    }

    /// Gives the memory of synced writes back to the writer, unless it is busy.
    fn reuse(&self, unsynced: Unsynced) {
        if let Some(mut writer) = self.log.try_writer() {
            writer.writer.reuse(unsynced);
            self.release(writer);
        }
    }

    /// Syncs segments, and checks that the directory still exists at its path, because the next
    /// process finds acknowledged records by that path.
    fn sync_segments(&self, unsynced: &Unsynced) -> Result<()> {
        for segment in unsynced.segments() {
            self.counters.log_syncs.fetch_add(1, Ordering::Relaxed);
            let (begun, started) = (self.io.log_begins(), self.clock.now());
            segment.sync(&*self.disk)?;
            self.log.sync_durations.record(self.clock.now().since(started));
            self.io.log_wrote(0, begun);
        }
        self.disk.check_directory()
    }

    /// Writes all pending records, and syncs them if the durability setting requires it for
    /// acknowledgement.
    pub(super) fn settle(&self) -> Result<bool> {
        let Some(writer) = self.log.writer() else { return Ok(false) };
        let wrote = self.write(writer)?;
        self.look_again();
        let synced = self.settles_when_synced() && self.sync()?;
        Ok(wrote || synced)
    }

    /// Writes and syncs all records, then starts a segment whose header states that all of them are
    /// durable, so that any later damage of the closed database is detected. Without a log, flushes
    /// all commits.
    pub(super) fn settle_for_good(&self) -> Result<()> {
        if !self.log.exists() {
            return self.flush_for_good();
        }
        self.write_or_stop()?;
        self.sync_or_stop()?;
        let opened = self.publication.opened();
        if opened == 0 {
            // No record was written since the segment was started: its header states it already.
            return Ok(());
        }
        let rotation = lock(&self.order).tail.rotate(opened);
        self.log.rotate(rotation);
        self.write_or_stop()?;
        self.sync_or_stop()
    }

    /// Writes all pending records, and syncs them if the durability setting requires it. Repeats it
    /// as long as a shortage does not refuse writes.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the store has stopped, or for the shortage.
    pub(super) fn write_log(&self) -> Result<()> {
        if !self.log.exists() {
            return self.publication.check();
        }
        self.with_grace(Work::Log, || {
            if let Some(writer) = self.log.writer() {
                self.write(writer)?;
            }
            self.look_again();
            self.shortages.check_work(Work::Log)
        })?;
        if self.settles_when_synced() { self.sync_log() } else { Ok(()) }
    }

    fn sync_log(&self) -> Result<()> {
        self.with_grace(Work::Sync, || {
            self.sync()?;
            self.shortages.check_work(Work::Sync)
        })
    }

    /// Like [`Core::write_log`], but stops the store at a shortage, because there is no later retry.
    pub(super) fn write_or_stop(&self) -> Result<()> {
        self.or_stop(self.write_log())
    }

    fn sync_or_stop(&self) -> Result<()> {
        self.or_stop(self.sync_log())
    }

    /// Stops the store after an error.
    pub(super) fn or_stop<T>(&self, outcome: Result<T>) -> Result<T> {
        outcome.inspect_err(|error| self.publication.stop(&error.to_string()))
    }
}

/// The log flusher: writes and syncs pending records whenever the device is free.
pub(super) struct Flusher {
    core: Arc<Core>,
    synced: Moment,
}

impl Flusher {
    pub(super) fn new(core: Arc<Core>) -> Self {
        let synced = core.clock.now();
        Self { core, synced }
    }

    /// Syncs if the interval has elapsed; returns whether it did.
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
        let pause = |work| self.core.shortages.pause(work, self.core.clock.now());
        if let Some(pause) = [Work::Log, Work::Sync].into_iter().filter_map(pause).min() {
            return Step::Idle(Some(pause));
        }
        let Durability::Interval(interval) = self.core.options.durability else {
            return Step::Idle(None);
        };
        // Set before the check: a write after the check sees it and wakes the flusher.
        self.core.log.sleeping.store(true, Ordering::Release);
        let unsynced = self.core.log.writer().is_some_and(|writer| {
            let unsynced = writer.writer.is_unsynced();
            self.core.release(writer);
            unsynced
        });
        if !unsynced {
            return Step::Idle(None);
        }
        self.core.log.sleeping.store(false, Ordering::Release);
        Step::Idle(Some(interval.saturating_sub(self.core.clock.now().since(self.synced))))
    }
}

impl Worker for Flusher {
    fn stops_store_on_panic(&self) -> bool {
        true
    }

    fn step(&mut self) -> Step {
        let worked = self.core.settle().and_then(|wrote| Ok(self.sync_when_due()? || wrote));
        match worked {
            // The store has stopped, and all waiters were notified.
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
