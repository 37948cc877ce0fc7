//! Map between commits and wall times.
//!
//! The order of commits has no wall clock. It is accompanied by *points* (T, w): commits up to T
//! were published by the wall time w, and all later ones after it.
//!
//! ```text
//!  commits       1 2 3       4   5 6                              7 8
//!  ──────────────┬─────┬─────────┬────┬───────────────────────────┬─────▶ wall time
//!  points     (0, 10) (3, 11)     (6, 12)                      (6, 90)
//!
//!  timestamp_at(11.5) = 3    timestamp_at(50) = 6    wall_of(5) = 11    wall_of(7) = 90
//! ```
//!
//! While there are commits, a point is added about once a second, and another when commits resume
//! after a pause. So the wall time returned for a commit is never late, and at most about a second
//! early.
//!
//! # Invariants
//!
//! 1. Neither timestamps nor wall times decrease from one point to the next.
//! 2. Each point stays true if others are removed. Old times are known less exactly, to a
//!    [fraction](FINENESS) of their age, so that memory stays bounded. A year of commits takes some
//!    30,000 points.

use std::collections::VecDeque;
use std::fmt;

use carnet_base::{Error, ErrorKind, Result, Timestamp, WallTime};

/// Old points are removed as long as their neighbours are no further apart than their age divided
/// by this: times an hour ago are known to two seconds, yesterday's to a minute.
const FINENESS: i64 = 2048;

/// Number of points below which none is removed.
const POINTS_MIN: usize = 1024;

/// Commits up to the timestamp were published by the wall time, all later ones after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WallPoint {
    /// Wall time of the point.
    pub wall: WallTime,
    /// Newest commit at that time.
    pub timestamp: Timestamp,
}

/// Points that map commits to wall times and back. See the module documentation.
#[derive(Clone, Debug, Default)]
pub struct WallTimes {
    points: VecDeque<WallPoint>,
    /// Number of points after the last thinning.
    thinned: usize,
}

impl WallTimes {
    /// Adds a point, unless it goes back or adds no information; returns whether it was added.
    pub fn note(&mut self, point: WallPoint) -> bool {
        if let Some(last) = self.points.back() {
            let goes_back = point.timestamp < last.timestamp || point.wall < last.wall;
            if goes_back || point == *last {
                return false;
            }
        }
        // Among points without a commit between them, the first and the last suffice.
        if let Some(before) = self.points.len().checked_sub(2)
            && self.points[before].timestamp == point.timestamp
        {
            self.points.pop_back();
        }
        self.points.push_back(point);
        if self.points.len() >= (self.thinned * 2).max(POINTS_MIN) {
            self.thin();
        }
        true
    }

    /// Returns the newest commit known to have been published by a wall time; `None` if no point is
    /// that old.
    #[must_use]
    pub fn timestamp_at(&self, wall: WallTime) -> Option<Timestamp> {
        let after = self.points.partition_point(|point| point.wall <= wall);
        after.checked_sub(1).map(|at| self.points[at].timestamp)
    }

    /// Returns the last wall time after which a commit is known to have been published; `None` if
    /// no point is that old.
    #[must_use]
    pub fn wall_of(&self, commit: Timestamp) -> Option<WallTime> {
        let after = self.points.partition_point(|point| point.timestamp < commit);
        after.checked_sub(1).map(|at| self.points[at].wall)
    }

    /// Like [`WallTimes::timestamp_at`] at the wall time `now`, but returns an error for an unknown time.
    ///
    /// # Errors
    ///
    /// `Invalid` for a time ahead of `now`, `TooOld` for a time before the first point.
    pub fn find(&self, wall: WallTime, now: WallTime, published: Timestamp) -> Result<Timestamp> {
        if wall > now {
            return Err(Error::invalid(format!(
                "{wall} lies ahead of the database's clock, {now}: later commits may still come \
                 before it"
            )));
        }
        if wall == now {
            return Ok(published);
        }
        self.timestamp_at(wall)
            .ok_or_else(|| self.too_old(format_args!("the last commit at {wall}")))
    }

    /// Like [`WallTimes::wall_of`], but returns an error for an unknown wall time.
    ///
    /// # Errors
    ///
    /// `Invalid` for a commit ahead of P, `TooOld` for a commit before the first point.
    pub fn find_wall(&self, commit: Timestamp, published: Timestamp) -> Result<WallTime> {
        if commit > published {
            return Err(Error::invalid(format!(
                "timestamp {commit} lies ahead of the last commit, {published}: it has no wall time"
            )));
        }
        self.wall_of(commit)
            .ok_or_else(|| self.too_old(format_args!("the wall time of commit {commit}")))
    }

    #[cold]
    fn too_old(&self, what: fmt::Arguments<'_>) -> Error {
        let since = match self.first() {
            Some(WallPoint { wall, timestamp }) => {
                format!("wall times are known from timestamp {timestamp} on, at {wall}")
            }
            None => "no commit has a wall time yet".to_owned(),
        };
        Error::new(ErrorKind::TooOld, format!("{what} is not known: {since}"))
    }

    /// Returns the first point.
    #[must_use]
    pub fn first(&self) -> Option<WallPoint> {
        self.points.front().copied()
    }

    /// Returns the last point.
    #[must_use]
    pub fn last(&self) -> Option<WallPoint> {
        self.points.back().copied()
    }

    /// Returns `true` if a point exists, that is, has not been removed.
    #[must_use]
    pub fn contains(&self, point: WallPoint) -> bool {
        self.points.binary_search(&point).is_ok()
    }

    /// Removes the points that are not needed for timestamps from `mark` on.
    pub fn forget_below(&mut self, mark: Timestamp) {
        let below = self.points.partition_point(|point| point.timestamp < mark);
        self.points.drain(..below.saturating_sub(1));
    }

    /// Removes points that are more exact than their age requires.
    fn thin(&mut self) {
        let Some(newest) = self.last() else { return };
        let points = std::mem::take(&mut self.points);
        let mut rest = points.into_iter().peekable();
        while let Some(point) = rest.next() {
            let needed = match (self.points.back(), rest.peek()) {
                (Some(before), Some(after)) => {
                    after.wall.0.saturating_sub(before.wall.0)
                        > newest.wall.0.saturating_sub(point.wall.0) / FINENESS
                }
                _ => true,
            };
            if needed {
                self.points.push_back(point);
            }
        }
        self.thinned = self.points.len();
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::{Rng, SeededRng};

    use super::*;

    fn at(number: u64) -> Timestamp {
        Timestamp::new(number).unwrap()
    }

    fn point(timestamp: u64, wall: i64) -> WallPoint {
        WallPoint { timestamp: at(timestamp), wall: WallTime(wall) }
    }

    #[test]
    fn documented_example_holds() {
        let mut times = WallTimes::default();
        for (timestamp, wall) in [(0, 100), (3, 110), (6, 120), (6, 900)] {
            assert!(times.note(point(timestamp, wall)));
        }
        let newest = |wall| times.timestamp_at(WallTime(wall)).map(Timestamp::get);
        assert_eq!(
            [99, 100, 115, 500, 901].map(newest),
            [None, Some(0), Some(3), Some(6), Some(6)]
        );
        let wall = |commit| times.wall_of(at(commit)).map(|wall| wall.0);
        assert_eq!([0, 1, 5, 6, 7].map(wall), [None, Some(100), Some(110), Some(110), Some(900)]);
    }

    #[test]
    fn no_point_goes_back() {
        let mut times = WallTimes::default();
        assert!(times.note(point(5, 100)));
        assert!(!times.note(point(4, 200)) && !times.note(point(6, 99)));
        assert!(!times.note(point(5, 100)), "it says nothing new");
        assert!(times.note(point(5, 200)) && times.note(point(5, 300)));
        assert_eq!(times.points.len(), 2, "nothing happened meanwhile: two ends say it");
        assert_eq!(times.timestamp_at(WallTime(250)), Some(at(5)));
        assert_eq!(times.wall_of(at(6)), Some(WallTime(300)));
    }

    #[test]
    fn unneeded_points_are_forgotten() {
        let mut times = WallTimes::default();
        (1..10_u8).for_each(|n| assert!(times.note(point(n.into(), i64::from(n) * 10))));
        times.forget_below(at(5));
        assert_eq!(times.first(), Some(point(4, 40)));
        assert_eq!(times.wall_of(at(5)), Some(WallTime(40)));
        assert!(times.contains(point(4, 40)) && !times.contains(point(3, 30)));
        times.forget_below(at(1000));
        assert_eq!(times.last(), Some(point(9, 90)));
    }

    /// All answers are true, and as exact as their age requires, however many points were removed.
    #[test]
    fn a_month_of_commits_stays_small_and_exact_enough() {
        let seed = 0x77a1;
        let mut rng = SeededRng::new(seed);
        let (mut times, mut wall, mut all) = (WallTimes::default(), 0_i64, Vec::new());
        for commit in 1..400_000_u64 {
            let pause = if rng.below(5000) == 0 { 3_600_000_000 } else { 1_000_000 };
            wall += pause + i64::try_from(rng.below(1_000_000)).unwrap();
            all.push(point(commit, wall));
            times.note(point(commit, wall));
            assert!(times.points.len() < 30_000, "seed {seed}: {} points", times.points.len());
        }
        let found: Vec<_> = times.points.iter().copied().collect();
        assert!(found.windows(2).all(|pair| pair[0] < pair[1]), "seed {seed}");
        for _ in 0..10_000 {
            let exact = all[usize::try_from(rng.below(all.len() as u64)).unwrap()];
            let age = wall - exact.wall.0;
            let known = times.timestamp_at(exact.wall).map_or(0, Timestamp::get);
            assert!(known <= exact.timestamp.get(), "seed {seed}: it was not there yet");
            let behind = times.wall_of(exact.timestamp).map_or(0, |wall| exact.wall.0 - wall.0);
            assert!(behind > 0, "seed {seed}");
            let before = all[usize::try_from(exact.timestamp.get()).unwrap().saturating_sub(2)];
            let gap = exact.wall.0 - before.wall.0;
            assert!(behind <= gap + age / FINENESS + 1, "seed {seed}: {behind} µs behind at {age}");
        }
    }

    #[test]
    fn times_out_of_range_are_refused() {
        let mut times = WallTimes::default();
        times.note(point(5, 1_000_000));
        let kind = |error: Error| (error.kind(), error.message().to_owned());
        let (ahead, said) = kind(times.find(WallTime(99), WallTime(98), at(7)).unwrap_err());
        assert_eq!(ahead, ErrorKind::Invalid, "{said}");
        assert_eq!(times.find(WallTime(2_000_000), WallTime(2_000_000), at(7)).unwrap(), at(7));
        assert_eq!(times.find(WallTime(1_999_999), WallTime(2_000_000), at(7)).unwrap(), at(5));
        let (early, said) = kind(times.find(WallTime(99), WallTime(100), at(7)).unwrap_err());
        assert_eq!(early, ErrorKind::TooOld);
        assert!(
            said.contains("from timestamp 5 on") && said.contains("1970-01-01 00:00:01"),
            "{said}"
        );
        assert_eq!(times.find_wall(at(8), at(7)).unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(times.find_wall(at(7), at(7)).unwrap(), WallTime(1_000_000));
        assert_eq!(times.find_wall(at(5), at(7)).unwrap_err().kind(), ErrorKind::TooOld);
    }
}
