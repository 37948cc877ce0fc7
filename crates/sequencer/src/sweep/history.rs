//! The history of P with the wall times of the leader: which commits lie before the retention, and
//! which second has passed for every reader. Pure.
//!
//! A reader judges expiries by the wall time of its first read, and a page of a result by that of the
//! first page. So a version that some reader may need is not expired by the present time, but by the
//! time at which the first snapshot that sees it could be released:
//!
//! ```text
//!   samples      10:00 P=40     10:01 P=40     10:02 P=55
//!   snapshots    at 40: released at any time from before 10:00 on
//!                from 41 on: released after 10:01, the last sample with P < 41
//!   mark 55      readers from the mark on have moments after 10:01, or after 10:00 by another
//!                server's clock: an expiry before then has passed for all of them
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use carnet_base::{Moment, Timestamp, WallTime};

/// Maximum difference between the clocks of two servers.
const CLOCK_ERROR_MICROS: i64 = 60_000_000;
/// Number of samples that are kept before the retention.
const SAMPLES_BEFORE: usize = 2;

/// P at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) at: Moment,
    pub(crate) wall: WallTime,
    pub(crate) published: Timestamp,
    /// The last commit that was decided.
    pub(crate) last_commit: Timestamp,
}

/// Samples of a term, oldest first.
#[derive(Debug)]
pub(crate) struct History(VecDeque<Sample>);

impl History {
    /// Begins the history of a term. The sample's P is below all snapshots of the term.
    pub(super) fn beginning_at(sample: Sample) -> Self {
        Self(VecDeque::from([sample]))
    }

    /// Adds a sample; returns `true` if nothing has been committed since the one before.
    pub(super) fn note(&mut self, sample: Sample) -> bool {
        let before = self.0.back();
        let is_idle = before.is_some_and(|before| sample.last_commit <= before.published);
        self.0.push_back(sample);
        is_idle
    }

    /// Returns P at the last sample that is as old as the retention, and forgets older ones.
    pub(super) fn retained(&mut self, now: Moment, retention: Duration) -> Timestamp {
        let old = self.0.partition_point(|sample| now.since(sample.at) >= retention);
        let retained = old.checked_sub(1).map(|at| self.0[at].published);
        self.0.drain(..old.saturating_sub(SAMPLES_BEFORE));
        retained.unwrap_or(Timestamp::ZERO)
    }

    /// Returns a commit that is not older than the last one up to `mark`, and the last of all if no
    /// sample tells.
    pub(super) fn last_commit(&self, mark: Timestamp, now: Sample) -> Timestamp {
        let after = self.0.iter().find(|sample| sample.published >= mark);
        after.unwrap_or(&now).last_commit
    }

    /// Returns the last second that has passed for every reader with a snapshot from `mark` on.
    ///
    /// The sample's wall time counts only as far as the clock agrees with it now: a clock that was
    /// wrong for a while, then or now, removes nothing.
    pub(super) fn passed(&self, mark: Timestamp, now: Sample) -> Option<i64> {
        let before = self.0.iter().rev().find(|sample| sample.published < mark)?;
        let since = i64::try_from(now.at.since(before.at).as_micros()).unwrap_or(i64::MAX);
        let wall = before.wall.0.min(now.wall.0.saturating_sub(since));
        Some(wall.saturating_sub(CLOCK_ERROR_MICROS).div_euclid(1_000_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    fn at(number: u64) -> Timestamp {
        Timestamp::new(number).unwrap()
    }

    /// Takes a sample at a second, by a clock that shows a thousand more.
    fn sample(second: u32, published: u64) -> Sample {
        let wall = WallTime((i64::from(second) + 1000) * SECOND);
        let (moment, published) = (Moment(Duration::from_secs(second.into())), at(published));
        Sample { at: moment, wall, published, last_commit: published }
    }

    fn history(samples: &[(u32, u64)]) -> History {
        History(samples.iter().map(|(second, published)| sample(*second, *published)).collect())
    }

    #[test]
    fn readers_of_a_mark_began_after_the_sample_below_it() {
        let history = history(&[(100, 40), (160, 40), (220, 55)]);
        let passed = |mark| history.passed(at(mark), sample(300, 60));
        assert_eq!(passed(40), None, "snapshots at 40 may be older than all samples");
        assert_eq!(passed(41), Some(1160 - 60));
        assert_eq!(passed(55), Some(1160 - 60));
        assert_eq!(passed(56), Some(1220 - 60));
    }

    #[test]
    fn wrong_clock_expires_nothing() {
        let history = history(&[(100, 40), (160, 55)]);
        let slow = Sample { wall: WallTime(1100 * SECOND), ..sample(200, 60) };
        assert_eq!(history.passed(at(55), slow), Some(1000 - 60), "it was ahead at the sample");
        let fast = Sample { wall: WallTime(9000 * SECOND), ..sample(200, 60) };
        assert_eq!(history.passed(at(55), fast), Some(1100 - 60), "it is ahead now");
    }

    #[test]
    fn retained_is_as_old_as_the_retention() {
        let mut history = history(&[(0, 9), (60, 20), (120, 30), (180, 40)]);
        let retention = Duration::from_secs(100);
        let now = |second| Moment(Duration::from_secs(second));
        assert_eq!(history.retained(now(90), retention), Timestamp::ZERO);
        assert_eq!(history.retained(now(170), retention), at(20));
        assert_eq!(history.passed(at(20), sample(170, 40)), Some(1000 - 60));
        assert_eq!(history.retained(now(290), retention), at(40));
        assert_eq!(history.0.len(), SAMPLES_BEFORE, "one before the retained sample is kept");
        assert_eq!(history.passed(at(40), sample(290, 40)), Some(1120 - 60));
    }

    #[test]
    fn idle_since_the_last_sample() {
        let mut history = history(&[(0, 9)]);
        let committed =
            |second, published, last| Sample { last_commit: at(last), ..sample(second, published) };
        assert!(!history.note(committed(60, 20, 15)));
        assert!(history.note(committed(120, 20, 15)), "P may move without a commit");
        assert!(!history.note(committed(180, 22, 21)));
        assert!(!history.note(committed(240, 22, 30)), "a commit in flight");
    }

    #[test]
    fn commits_up_to_a_mark_are_known_by_the_samples() {
        let mut history = history(&[(0, 9), (60, 20)]);
        history.note(Sample { last_commit: at(20), ..sample(120, 23) });
        let now = Sample { last_commit: at(40), ..sample(180, 50) };
        assert_eq!(
            [9, 15, 22, 24].map(|mark| history.last_commit(at(mark), now).get()),
            [9, 20, 20, 40]
        );
    }
}
