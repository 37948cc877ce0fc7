//! Log of an open engine: the writer, pending rotations and spare segments.

use bytes::Bytes;
use carnet_base::{Durations, Signal};

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard, TryLockError, lock};
use crate::wal::{Lsn, Rotation, Rotations, Spares, Writer};

/// Log of an open engine.
pub(super) struct Log {
    /// `None` with [`Durability::Memory`](crate::Durability::Memory).
    writer: Option<Mutex<LogWriter>>,
    /// Without a writer, segments from this number on have no file: files below it are of an earlier
    /// process. With a writer, `u64::MAX`.
    pub(super) files_below: u64,
    /// Held while unsynced segments are taken and synced. Otherwise a second sync could find no
    /// segments, and report records as durable that the first one is still syncing.
    pub(super) syncing: Mutex<()>,
    /// Durations of the syncs that succeeded.
    pub(super) sync_durations: Durations,
    pub(super) durable: AtomicU64,
    /// Slot of the first record that has not been written.
    pub(super) next: AtomicU64,
    /// Pending switches to new segments. Pushed under the order lock, so that the writer sees a
    /// rotation before any record after it.
    pub(super) rotations: Mutex<Rotations>,
    pub(super) rotating: AtomicBool,
    /// Newest segment whose file exists durably.
    pub(super) segment: AtomicU64,
    pub(super) spares: Mutex<Spares>,
    /// Wakes the flusher.
    pub(super) signal: Signal,
    /// Set while the flusher sleeps until there is something to sync.
    pub(super) sleeping: AtomicBool,
}

/// Log writer, and the records of its next write.
pub(super) struct LogWriter {
    pub(super) writer: Writer,
    pub(super) records: Vec<Bytes>,
}

impl Log {
    /// Makes the state of a database without a log. Log files with lower numbers may exist.
    pub(super) fn absent(files_below: u64) -> Self {
        Self {
            writer: None,
            files_below,
            syncing: Mutex::new(()),
            sync_durations: Durations::default(),
            durable: AtomicU64::new(0),
            // No flush waits for a segment.
            segment: AtomicU64::new(u64::MAX),
            signal: Signal::new(),
            sleeping: AtomicBool::new(false),
            next: AtomicU64::new(0),
            rotations: Mutex::default(),
            spares: Mutex::new(Spares::new(0, 0)),
            rotating: AtomicBool::new(false),
        }
    }

    /// Returns `true` if commits are written to a log.
    pub(super) const fn exists(&self) -> bool {
        self.writer.is_some()
    }

    pub(super) fn new(writer: Writer, spares: Spares) -> Self {
        Self {
            syncing: Mutex::new(()),
            sync_durations: Durations::default(),
            durable: AtomicU64::new(writer.written().0),
            segment: AtomicU64::new(writer.segment()),
            signal: Signal::new(),
            sleeping: AtomicBool::new(false),
            next: AtomicU64::new(0),
            rotations: Mutex::default(),
            spares: Mutex::new(spares),
            rotating: AtomicBool::new(false),
            files_below: u64::MAX,
            writer: Some(Mutex::new(LogWriter { writer, records: Vec::new() })),
        }
    }

    /// Returns `true` if a segment's file exists durably.
    pub(super) fn has_segment(&self, number: u64) -> bool {
        self.segment.load(Ordering::Acquire) >= number
    }

    /// Keeps a segment that the durable manifest does not need, to be recycled. Returns `false` if
    /// there are enough.
    pub(super) fn keep_spare(&self, number: u64) -> bool {
        lock(&self.spares).keep(number)
    }

    /// Switches the log, if there is one, to a new segment.
    pub(super) fn rotate(&self, rotation: Rotation) {
        if !self.exists() {
            return;
        }
        let mut rotations = lock(&self.rotations);
        rotations.push_back(rotation);
        self.rotating.store(true, Ordering::SeqCst);
    }

    /// Returns the LSN up to which the log is synced.
    pub(super) fn durable(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    /// Returns the number of segments that are open to be synced.
    #[cfg(test)]
    pub(super) fn unsynced_segments(&self) -> usize {
        self.writer().map_or(0, |writer| writer.writer.unsynced_segments())
    }

    /// Locks the writer; `None` if there is no log.
    pub(super) fn writer(&self) -> Option<MutexGuard<'_, LogWriter>> {
        self.writer.as_ref().map(lock)
    }

    /// Like [`Log::writer`], but also `None` if the writer is locked.
    pub(super) fn try_writer(&self) -> Option<MutexGuard<'_, LogWriter>> {
        match self.writer.as_ref()?.try_lock() {
            Ok(writer) => Some(writer),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}
