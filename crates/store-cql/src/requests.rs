//! Counters of requests to a cluster.

use std::sync::atomic::{AtomicU64, Ordering};

use scylla::statement::Consistency;

use crate::fault::Access;
use crate::request_settings::RequestSettings;

/// Numbers of requests sent to a cluster, whatever their results. Each page of a scan counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Requests {
    /// Reads at a quorum, or of data that every node has.
    pub reads: u64,
    /// Reads that need a round of Paxos.
    pub serial_reads: u64,
    /// Unconditional writes; a batch counts once.
    pub blind_writes: u64,
    /// Conditional writes, each a round of Paxos; a batch counts once.
    pub conditional_writes: u64,
}

/// Counters of requests.
#[derive(Debug, Default)]
pub struct RequestCounters {
    reads: AtomicU64,
    serial_reads: AtomicU64,
    blind_writes: AtomicU64,
    conditional_writes: AtomicU64,
}

impl RequestCounters {
    /// Returns the current counts.
    #[must_use]
    pub fn read(&self) -> Requests {
        Requests {
            reads: self.reads.load(Ordering::Relaxed),
            serial_reads: self.serial_reads.load(Ordering::Relaxed),
            blind_writes: self.blind_writes.load(Ordering::Relaxed),
            conditional_writes: self.conditional_writes.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn count(&self, how: RequestSettings) {
        let counter = match (how.access, how.consistency) {
            (Access::Read, Consistency::Serial | Consistency::LocalSerial) => &self.serial_reads,
            (Access::Read, _) => &self.reads,
            (Access::Blind, _) => &self.blind_writes,
            (Access::Conditional, _) => &self.conditional_writes,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
