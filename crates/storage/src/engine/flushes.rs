//! State of an engine's flushes.

use carnet_base::Signal;

use super::sealed::SealedQueue;
use super::throttle::Throttle;
use crate::memtable::Chunks;
use crate::sync::Mutex;

/// State of an engine's flushes of memtables.
pub(super) struct Flushes {
    pub(super) signal: Signal,
    /// Held while a memtable is flushed.
    pub(super) flushing: Mutex<()>,
    pub(super) sealed: Mutex<SealedQueue>,
    /// Memory of flushed memtables, for reuse.
    pub(super) chunks: Chunks,
    /// Throttles writers while memtables wait for their flush.
    pub(super) throttle: Throttle,
}

impl Flushes {
    pub(super) fn new(chunks: Chunks) -> Self {
        Self {
            signal: Signal::new(),
            flushing: Mutex::new(()),
            sealed: Mutex::new(SealedQueue::default()),
            chunks,
            throttle: Throttle::new(),
        }
    }
}
