//! The sweep's part of a term: its options, the history of P, and the hold that was seen last.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use carnet_base::sync::lock;
use carnet_base::{Error, Moment, Result, Timestamp};

use super::marks::Hold;
use super::options::SweepOptions;

/// Time without a renewal after which the hold of a backup may be taken away.
pub(crate) const HOLD_TIMEOUT: Duration = Duration::from_secs(60);

/// The sweep of a term.
pub(crate) struct Sweep {
    options: SweepOptions,
    is_busy: AtomicBool,
    samples: Mutex<VecDeque<(Moment, Timestamp)>>,
    /// The last hold that was seen, and when this value of it was seen first.
    hold: Mutex<Option<(Hold, Moment)>>,
}

impl Sweep {
    pub(crate) fn paced_by(options: SweepOptions) -> Self {
        let (samples, hold) = (Mutex::default(), Mutex::default());
        Self { options, is_busy: AtomicBool::new(false), samples, hold }
    }

    pub(super) const fn options(&self) -> SweepOptions {
        self.options
    }

    /// Begins a round, which ends when the guard is dropped.
    pub(super) fn begin_round(&self) -> Result<Busy<'_>> {
        if self.is_busy.swap(true, Ordering::AcqRel) {
            return Err(Error::unavailable("the sweep is under way already; wait for its end"));
        }
        Ok(Busy(&self.is_busy))
    }

    /// Returns `true` if a hold has not been renewed for `HOLD_TIMEOUT`, as far as this term has
    /// seen.
    pub(super) fn is_silent(&self, hold: Hold, now: Moment) -> bool {
        let mut seen = lock(&self.hold);
        let since = match *seen {
            Some((before, since)) if before == hold => since,
            _ => now,
        };
        *seen = Some((hold, since));
        now.since(since) >= HOLD_TIMEOUT
    }

    /// Returns the newest commit at the time when the retention began.
    pub(super) fn retained(&self, now: Moment, published: Timestamp) -> Timestamp {
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
pub(super) struct Busy<'a>(&'a AtomicBool);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
