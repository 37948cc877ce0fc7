//! The sweep's part of a term: its options, the history of P, the next expiry, and the hold that was
//! seen last.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use carnet_base::sync::lock;
use carnet_base::{Error, Moment, Result, Timestamp};

use super::history::{History, Sample};
use super::marks::Hold;
use super::options::SweepOptions;
use super::report::{SweepReport, SweepStatus};

/// Time without a renewal after which the hold of a backup may be taken away.
pub(crate) const HOLD_TIMEOUT: Duration = Duration::from_secs(60);

/// The sweep of a term.
pub(crate) struct Sweep {
    options: SweepOptions,
    is_busy: AtomicBool,
    history: Mutex<History>,
    /// The first expiry of a part of a row that the last whole round has left, in seconds; `None` if
    /// none expires, and in the past before the first round.
    next_expiry: Mutex<Option<i64>>,
    /// The last hold that was seen, and when this value of it was seen first.
    hold: Mutex<Option<(Hold, Moment)>>,
    /// Progress of the rounds that have ended.
    ended: Mutex<SweepStatus>,
}

impl Sweep {
    pub(crate) fn new(options: SweepOptions, began: Sample) -> Self {
        Self {
            options,
            is_busy: AtomicBool::new(false),
            history: Mutex::new(History::beginning_at(began)),
            next_expiry: Mutex::new(Some(i64::MIN)),
            hold: Mutex::default(),
            ended: Mutex::default(),
        }
    }

    pub(crate) const fn options(&self) -> SweepOptions {
        self.options
    }

    /// Begins a round, which ends when the guard is dropped.
    pub(crate) fn begin_round(&self) -> Result<Busy<'_>> {
        if self.is_busy.swap(true, Ordering::AcqRel) {
            return Err(Error::unavailable("the sweep is under way already; wait for its end"));
        }
        Ok(Busy(&self.is_busy))
    }

    /// Records the end of a round.
    pub(crate) fn end_round(&self, round: &Result<SweepReport>) {
        let mut ended = lock(&self.ended);
        match round {
            Ok(report) => {
                ended.mark = ended.mark.max(report.mark);
                ended.cells += report.cells;
            }
            Err(_) => ended.failed += 1,
        }
    }

    /// Returns the progress of the sweep.
    pub(crate) fn status(&self) -> SweepStatus {
        let is_running = self.is_busy.load(Ordering::Acquire);
        SweepStatus { is_running, ..*lock(&self.ended) }
    }

    /// Returns `true` if a hold has not been renewed for `HOLD_TIMEOUT`, as far as this term has
    /// seen.
    pub(crate) fn is_silent(&self, hold: Hold, now: Moment) -> bool {
        let mut seen = lock(&self.hold);
        let since = match *seen {
            Some((before, since)) if before == hold => since,
            _ => now,
        };
        *seen = Some((hold, since));
        now.since(since) >= HOLD_TIMEOUT
    }

    /// Adds a sample; returns `true` if nothing has been committed since the one before.
    pub(crate) fn note(&self, sample: Sample) -> bool {
        lock(&self.history).note(sample)
    }

    /// Returns the newest commit at the time when the retention began.
    pub(crate) fn retained(&self, now: Moment) -> Timestamp {
        lock(&self.history).retained(now, self.options.retention)
    }

    /// Returns the last second that has passed for every reader from a mark on; `i64::MIN` if that is
    /// not known.
    pub(crate) fn passed(&self, mark: Timestamp, now: Sample) -> i64 {
        lock(&self.history).passed(mark, now).unwrap_or(i64::MIN)
    }

    /// Returns `true` if a round up to `mark` may find something that the rounds up to `swept` have
    /// left: a commit, or a part of a row that has expired since.
    pub(crate) fn is_due(&self, swept: Timestamp, mark: Timestamp, now: Sample) -> bool {
        let expired = |expiry| expiry <= self.passed(mark, now);
        lock(&self.history).last_commit(mark, now) > swept
            || lock(&self.next_expiry).is_some_and(expired)
    }

    pub(crate) fn set_next_expiry(&self, expiry: Option<i64>) {
        *lock(&self.next_expiry) = expiry;
    }
}

/// Clears the busy flag at the end of the round.
pub(crate) struct Busy<'a>(&'a AtomicBool);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
