//! The sweep: versions that nobody sees go, and then the entries that say who committed them.
//!
//! # The problem
//!
//! On a cluster nothing is ever written over: each version has a row of its own, and what it means
//! stands in the commit table. Somebody has to carry the meaning over to the version (a *stamp*)
//! and take away what is not needed, beside transactions that know nothing of it, on replicas that
//! may sleep through it.
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
//! * A reader looks at the mark after its data, so what it missed by a delete it learns by
//!   `TooOld`: snapshots of earlier terms, which this leader does not know, are safe by that.
//! * An entry goes only after a scan that began when P had passed it: by I2 that scan has seen
//!   every version that it decides, and a majority has the stamps.
//! * That an entry is absent does not mean that its transaction aborted. The abort marker is put
//!   first, and then the version is read again: a stamp wins. So two processes may sweep at once,
//!   one of which leads no more.
//! * A tombstone goes when every replica has deleted all that is older, seen or not, and has said
//!   so. With a replica that is away the round ends there, and the next one tries again. All else
//!   that comes back with such a replica is hidden: by the newer version that stays, or by having
//!   been aborted.
//! * While a backup holds the sweep no mark is raised, so no round begins and none that is under way
//!   deletes entries; and a round stamps only what had been committed when it began. So what is
//!   copied meanwhile lacks no entry that it needs, and has no stamp above the backup's timestamp
//!   ([`backup`](crate::backup)).
//!
//! # Deliberately absent
//!
//! Dropping the tables of cells themselves; deleting markers that were put below `entries_from`
//! later. One cell's versions are held in memory together.

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
pub(crate) use plan::Fate;

/// A hold that its backup has not renewed for so long may be taken away.
pub(crate) const HOLD_TIMEOUT: Duration = Duration::from_secs(60);

/// How the sweep is paced.
#[derive(Clone, Copy, Debug)]
pub struct SweepOptions {
    /// A round begins so long after the last one. Zero: never by itself.
    pub every: Duration,
    /// What was visible can be read again for so long.
    pub retention: Duration,
    /// So many cells are looked at together.
    pub page_cells: usize,
    /// It works for at most so much of the time, in percent from 1 to 100.
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

/// What a round did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// How far it went.
    pub mark: Timestamp,
    /// Cells that it looked at.
    pub cells: u64,
    /// Versions that it stamped.
    pub stamped: u64,
    /// Versions of aborted transactions that it deleted.
    pub aborted: u64,
    /// Cells of which it deleted what was older than the newest version that is seen.
    pub cleared: u64,
    /// Cells that were deleted, of which nothing is left.
    pub tombstones: u64,
    /// Commit entries that it deleted.
    pub entries: u64,
}

/// A snapshot in use, below which nothing is swept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The process that has it.
    pub client: ClientId,
    /// The snapshot R.
    pub read: Timestamp,
    /// The start S of a writer.
    pub start: Option<Timestamp>,
    /// For how long it has been in use.
    pub since: Duration,
}

/// The sweep of a term.
pub(crate) struct Sweep {
    options: SweepOptions,
    is_busy: AtomicBool,
    samples: Mutex<VecDeque<(Moment, Timestamp)>>,
    /// A hold that was seen, and when it was seen like that first.
    hold: Mutex<Option<(Hold, Moment)>>,
}

/// Runs a round now and then, for as long as the term lasts.
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

    /// Runs a round of what the retention has left behind.
    async fn step<C: Cluster>(&self, leader: &Arc<Leader<C>>) {
        match self.past_retention(leader).await {
            Ok(report) if report.cells > 0 => {
                tracing::info!(?report, "what nobody sees was swept");
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "the sweep goes on in its next round"),
        }
    }

    /// Runs a round now, of what the retention has left behind.
    pub(crate) async fn past_retention<C: Cluster>(
        &self,
        leader: &Arc<Leader<C>>,
    ) -> Result<SweepReport> {
        let wanted = self.retained(leader.timer().now(), leader.published());
        self.round(leader, wanted).await
    }

    /// Runs a round now: of all that no snapshot of this term sees, whatever the retention.
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

    /// Says who has held the sweep back for longer than the retention.
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

    /// Tells whether a hold has not been renewed for long, as far as this term has seen.
    fn is_silent(&self, hold: Hold, now: Moment) -> bool {
        let mut seen = lock(&self.hold);
        let since = match *seen {
            Some((before, since)) if before == hold => since,
            _ => now,
        };
        *seen = Some((hold, since));
        now.since(since) >= HOLD_TIMEOUT
    }

    /// Returns what was the newest commit when the retention began.
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

/// Ends with the round, however that ends.
struct Busy<'a>(&'a AtomicBool);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

fn over() -> Error {
    Error::unavailable("this process does not lead any more: the sweep is the leader's")
}
