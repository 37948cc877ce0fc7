//! What a cluster was asked for.

use std::sync::atomic::{AtomicU64, Ordering};

use scylla::statement::Consistency;

use crate::fault::Access;
use crate::session::How;

/// Requests that were sent to a cluster, whatever became of them. Those that a page of a scan
/// takes count each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Requests {
    /// Reads at a quorum, or of what every node knows.
    pub reads: u64,
    /// Reads that take a round of Paxos.
    pub serial_reads: u64,
    /// Writes without a condition, batches as one.
    pub blind_writes: u64,
    /// Writes with a condition, batches as one: a round of Paxos each.
    pub conditional_writes: u64,
}

/// Counts requests.
#[derive(Debug, Default)]
pub struct RequestCounters {
    reads: AtomicU64,
    serial_reads: AtomicU64,
    blind_writes: AtomicU64,
    conditional_writes: AtomicU64,
}

impl RequestCounters {
    /// Reads the counters.
    #[must_use]
    pub fn read(&self) -> Requests {
        Requests {
            reads: self.reads.load(Ordering::Relaxed),
            serial_reads: self.serial_reads.load(Ordering::Relaxed),
            blind_writes: self.blind_writes.load(Ordering::Relaxed),
            conditional_writes: self.conditional_writes.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn count(&self, how: How) {
        let counter = match (how.access, how.consistency) {
            (Access::Read, Consistency::Serial | Consistency::LocalSerial) => &self.serial_reads,
            (Access::Read, _) => &self.reads,
            (Access::Blind, _) => &self.blind_writes,
            (Access::Conditional, _) => &self.conditional_writes,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
