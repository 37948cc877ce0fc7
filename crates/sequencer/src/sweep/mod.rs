//! The sweep (garbage collection): deletes versions that no snapshot sees, then the commit entries
//! of stamped versions.
//!
//! # The problem
//!
//! On a cluster nothing is ever overwritten: each version has a row of its own, and its outcome is
//! in the commit table. The sweep copies the outcome to the version (a *stamp*) and deletes
//! versions and entries that are no longer needed. It runs beside transactions that are not aware
//! of it, on replicas that may be down meanwhile.
//!
//! # A round
//!
//! ```text
//!   1  mark      min(P when the retention began, the oldest snapshot of this term)
//!   2  persist   versions = mark                       before the first delete
//!   3  scan      every version of every table: settle, stamp, delete              (`plan`)
//!   4  persist   entries = mark                        after a whole scan
//!   5  entries   of commits ≤ mark are deleted, never a row: its epoch stays
//! ```
//!
//! # Invariants
//!
//! * A reader checks the mark after it has read, so a read that missed deleted data fails with
//!   `TooOld`. This protects snapshots of earlier terms, which this leader does not know.
//! * An entry is deleted only after a scan that began when P had passed the entry. By I2 that scan
//!   has seen every version that the entry decides, and a majority has the stamps.
//! * An absent entry does not mean that its transaction aborted. The abort marker is written first,
//!   and then the version is read again: a stamp wins. Two processes may therefore sweep at once,
//!   one of which leads no more.
//! * A tombstone is deleted once every replica has acknowledged the deletion of all older versions,
//!   visible or not. If a replica is away, the round ends there, and the next one tries again. Any
//!   other version that comes back with such a replica is hidden by the newer version that stays,
//!   or is aborted.
//! * While a backup holds the sweep no mark is raised. No round begins, none in flight deletes
//!   entries, and a round stamps only transactions that had committed when it began. So a copy made
//!   meanwhile lacks no entry that it needs, and has no stamp above the backup's timestamp
//!   ([`backup`](crate::backup)).
//!
//! # Deliberately absent
//!
//! Dropping the tables of cells themselves; deleting markers that were written below `entries_from`
//! later. All versions of one cell are held in memory together.

mod marks;
mod plan;
mod round;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use carnet_base::{Error, Moment, Result, Timer, Timestamp};
use carnet_store::cluster::Cluster;

use crate::leader::Leader;
use crate::message::ClientId;
use crate::oneshot::lock;

pub use marks::{Hold, Marks};
pub(crate) use plan::VersionOutcome;

/// Time without a renewal after which the hold of a backup may be taken away.
pub(crate) const HOLD_TIMEOUT: Duration = Duration::from_secs(60);

/// Pacing of the sweep.
#[derive(Clone, Copy, Debug)]
pub struct SweepOptions {
    /// Interval between rounds; zero disables automatic rounds.
    pub every: Duration,
    /// Time for which old versions stay readable.
    pub retention: Duration,
    /// Number of cells in a page.
    pub page_cells: usize,
    /// Maximum share of time spent sweeping, in percent from 1 to 100.
    pub duty_percent: u32,
}

impl Default for SweepOptions {
    fn default() -> Self {
        Self {
            every: Duration::from_secs(60),
            retention: Duration::from_secs(600),
            page_cells: 500,
            duty_percent: 20,
        }
    }
}

/// Result of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Timestamp up to which the round swept.
    pub mark: Timestamp,
    /// Cells that were scanned.
    pub cells: u64,
    /// Versions that were stamped.
    pub stamped: u64,
    /// Versions of aborted transactions that were deleted.
    pub aborted: u64,
    /// Cells whose versions older than the newest visible one were deleted.
    pub cleared: u64,
    /// Deleted cells that were removed entirely.
    pub tombstones: u64,
    /// Commit entries that were deleted.
    pub entries: u64,
}

/// A snapshot in use, which blocks the sweep beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The process that opened it.
    pub client: ClientId,
    /// The snapshot R.
    pub read: Timestamp,
    /// The start S, for a writer.
    pub start: Option<Timestamp>,
    /// Time for which it has been in use.
    pub since: Duration,
}

/// The sweep of a term.
pub(crate) struct Sweep {
    options: SweepOptions,
    is_busy: AtomicBool,
    samples: Mutex<VecDeque<(Moment, Timestamp)>>,
    /// The last hold that was seen, and when this value of it was seen first.
    hold: Mutex<Option<(Hold, Moment)>>,
}

/// Runs a round at each interval, as long as the term lasts.
pub(crate) async fn drive<C: Cluster>(
    leader: Weak<Leader<C>>,
    timer: Arc<dyn Timer>,
    every: Duration,
) {
    while !every.is_zero() {
        timer.wait(every).await;
        let Some(leader) = leader.upgrade() else { return };
        if leader.is_over() {
            return;
        }
        leader.sweep().step(&leader).await;
    }
}

impl Sweep {
    pub(crate) fn paced_by(options: SweepOptions) -> Self {
        let (samples, hold) = (Mutex::default(), Mutex::default());
        Self { options, is_busy: AtomicBool::new(false), samples, hold }
    }

    /// Runs a round up to the retention, and logs the result.
    async fn step<C: Cluster>(&self, leader: &Arc<Leader<C>>) {
        match self.past_retention(leader).await {
            Ok(report) if report.cells > 0 => {
                tracing::info!(?report, "swept invisible versions");
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "the sweep goes on in its next round"),
        }
    }

    /// Runs a round now, up to the retention.
    pub(crate) async fn past_retention<C: Cluster>(
        &self,
        leader: &Arc<Leader<C>>,
    ) -> Result<SweepReport> {
        let wanted = self.retained(leader.timer().now(), leader.published());
        self.round(leader, wanted).await
    }

    /// Runs a round now, of all versions that no snapshot of this term sees, without regard to the
    /// retention.
    pub(crate) async fn now<C: Cluster>(&self, leader: &Arc<Leader<C>>) -> Result<SweepReport> {
        self.round(leader, leader.published()).await
    }

    async fn round<C: Cluster>(
        &self,
        leader: &Arc<Leader<C>>,
        wanted: Timestamp,
    ) -> Result<SweepReport> {
        if self.is_busy.swap(true, Ordering::AcqRel) {
            return Err(Error::unavailable("the sweep is under way already; wait for its end"));
        }
        let _busy = Busy(&self.is_busy);
        self.tell_who_holds(leader, wanted);
        round::run(leader, self.options, wanted).await
    }

    /// Logs the process that has blocked the sweep for longer than the retention.
    fn tell_who_holds<C: Cluster>(&self, leader: &Leader<C>, wanted: Timestamp) {
        let Some(holder) = leader.oldest_snapshot() else { return };
        if holder.read < wanted && holder.since > self.options.retention {
            tracing::warn!(
                client = holder.client.0,
                snapshot = %holder.read,
                since = ?holder.since,
                "a snapshot in use holds the sweep back"
            );
        }
    }

    /// Returns `true` if a hold has not been renewed for `HOLD_TIMEOUT`, as far as this term has
    /// seen.
    fn is_silent(&self, hold: Hold, now: Moment) -> bool {
        let mut seen = lock(&self.hold);
        let since = match *seen {
            Some((before, since)) if before == hold => since,
            _ => now,
        };
        *seen = Some((hold, since));
        now.since(since) >= HOLD_TIMEOUT
    }

    /// Returns the newest commit at the time when the retention began.
    fn retained(&self, now: Moment, published: Timestamp) -> Timestamp {
        let mut samples = lock(&self.samples);
        samples.push_back((now, published));
        let is_over = |sample: &(Moment, Timestamp)| now.since(sample.0) >= self.options.retention;
        while samples.get(1).is_some_and(is_over) {
            samples.pop_front();
        }
        samples.front().filter(|sample| is_over(sample)).map_or(Timestamp::ZERO, |sample| sample.1)
    }
}

/// Clears the busy flag at the end of the round.
struct Busy<'a>(&'a AtomicBool);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

fn over() -> Error {
    Error::unavailable("this process no longer leads, and only the leader can sweep")
}
