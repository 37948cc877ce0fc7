//! Counters of requests to a cluster.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use carnet_base::{Error, Moment, Result, lock};
use scylla::errors::ExecutionError;
use scylla::statement::Consistency;

use crate::fault::{Access, is_failure};
use crate::health::{Away, Health};
use crate::request_settings::RequestSettings;

/// Numbers of requests to a cluster, by their kind. Each page of a scan counts.
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

/// Nodes of a cluster, as the driver knows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nodes {
    /// Number of nodes.
    pub known: usize,
    /// Number of nodes to which the driver has a connection.
    pub connected: usize,
}

/// Function that counts the nodes.
struct CountNodes(Box<dyn Fn() -> Option<Nodes> + Send + Sync>);

impl fmt::Debug for CountNodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CountNodes")
    }
}

/// One counter for each kind of requests.
#[derive(Debug, Default)]
struct PerKind {
    reads: AtomicU64,
    serial_reads: AtomicU64,
    blind_writes: AtomicU64,
    conditional_writes: AtomicU64,
}

impl PerKind {
    fn add(&self, how: RequestSettings) {
        let counter = match (how.access, how.consistency) {
            (Access::Read, Consistency::Serial | Consistency::LocalSerial) => &self.serial_reads,
            (Access::Read, _) => &self.reads,
            (Access::Blind, _) => &self.blind_writes,
            (Access::Conditional, _) => &self.conditional_writes,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn read(&self) -> Requests {
        Requests {
            reads: self.reads.load(Ordering::Relaxed),
            serial_reads: self.serial_reads.load(Ordering::Relaxed),
            blind_writes: self.blind_writes.load(Ordering::Relaxed),
            conditional_writes: self.conditional_writes.load(Ordering::Relaxed),
        }
    }
}

/// Counters of requests, and whether the cluster answers them.
#[derive(Debug, Default)]
pub struct RequestCounters {
    sent: PerKind,
    failed: PerKind,
    nodes: OnceLock<CountNodes>,
    health: Mutex<Health>,
    /// Whether the last request failed; read without the lock after each success.
    is_failing: AtomicBool,
    /// Whether a node acknowledges writes before its commit log is synced.
    syncs_later: AtomicBool,
    /// Consistency of requests in the words of the URL, with its datacenter.
    consistency: String,
}

impl RequestCounters {
    /// Checks that the cluster answers requests, at the moment `now`.
    ///
    /// # Errors
    ///
    /// `Unavailable` with the last failure, if none has succeeded for 5 s although some were sent.
    pub fn check(&self, now: Moment) -> Result<()> {
        let Some(Away { time, failures, why }) = lock(&self.health).away(now) else {
            return Ok(());
        };
        Err(Error::unavailable(format!(
            "the cluster has answered none of {failures} requests for {} s: {why}",
            time.as_secs()
        )))
    }

    /// Returns `true` if the last request failed.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::Relaxed)
    }

    /// Returns `true` if a node acknowledges writes before they are on its disk (`commitlog_sync:
    /// periodic`), as it told at the start; `false` also if no node told.
    #[must_use]
    pub fn syncs_later(&self) -> bool {
        self.syncs_later.load(Ordering::Relaxed)
    }

    /// Records that a node acknowledges writes before they are on its disk.
    pub(crate) fn note_syncs_later(&self) {
        self.syncs_later.store(true, Ordering::Relaxed);
    }

    /// Makes the counters of requests of a consistency, in the words of the URL.
    pub(crate) fn of_consistency(consistency: String) -> Self {
        Self { consistency, ..Self::default() }
    }

    /// Returns the consistency of requests in the words of the URL, with its datacenter.
    #[must_use]
    pub fn consistency(&self) -> &str {
        &self.consistency
    }

    /// Records the end of a request.
    pub(crate) fn ended<T>(
        &self,
        how: RequestSettings,
        now: impl Fn() -> Moment,
        result: &Result<T, ExecutionError>,
    ) {
        match result {
            Err(error) if is_failure(error) => {
                self.failed.add(how);
                lock(&self.health).failed(now(), error);
                self.is_failing.store(true, Ordering::Relaxed);
            }
            _ if self.is_failing.load(Ordering::Relaxed) => {
                lock(&self.health).answered();
                self.is_failing.store(false, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    /// Returns the numbers of requests sent, whatever their results.
    #[must_use]
    pub fn read(&self) -> Requests {
        self.sent.read()
    }

    /// Returns the numbers of requests that no node answered.
    #[must_use]
    pub fn read_failed(&self) -> Requests {
        self.failed.read()
    }

    /// Returns the nodes of the cluster, if a driver knows them.
    #[must_use]
    pub fn nodes(&self) -> Option<Nodes> {
        (self.nodes.get()?.0)()
    }

    /// Sets the function that counts the nodes.
    pub(crate) fn count_nodes(&self, count: impl Fn() -> Option<Nodes> + Send + Sync + 'static) {
        self.nodes.get_or_init(|| CountNodes(Box::new(count)));
    }

    pub(crate) fn count(&self, how: RequestSettings) {
        self.sent.add(how);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn failed_requests_are_counted_by_kind() {
        let counters = RequestCounters::default();
        let how = |access, consistency| RequestSettings {
            access,
            consistency,
            timeout: Duration::from_secs(1),
        };
        let serial = how(Access::Read, Consistency::LocalSerial);
        let blind = how(Access::Blind, Consistency::Quorum);
        for how in [serial, blind, blind] {
            counters.count(how);
        }
        let now = || Moment(Duration::ZERO);
        counters.ended(serial, now, &Ok(()));
        counters.ended(blind, now, &Err::<(), _>(ExecutionError::EmptyPlan));
        assert_eq!((counters.read().serial_reads, counters.read().blind_writes), (1, 2));
        let failed = Requests { blind_writes: 1, ..Requests::default() };
        assert_eq!(counters.read_failed(), failed);
        assert!(counters.is_failing());
        assert_eq!(counters.nodes(), None);
        counters.count_nodes(|| Some(Nodes { known: 3, connected: 2 }));
        assert_eq!(counters.nodes().unwrap().connected, 2);
    }
}
