//! A wall clock that never goes back.
//!
//! ```text
//!  machine's clock   10:00  10:01  11:02 ─ set ahead ─ 11:03  10:04 ─ set back ─ 10:14   …
//!  this clock        10:00  10:01  11:02               11:03  11:03:54           11:12:54
//! ```
//!
//! Values with a time to live expire by this clock. So it follows the machine's clock ahead, but not
//! back: until the machine's clock has caught up, it goes on at nine tenths of the speed. A time to
//! live then takes at most a ninth longer than it says. (A clock that stood still meanwhile would end
//! no retention.)
//!
//! A single wrong reading would move this clock for ever. So a reading that leaps ahead is repeated,
//! and the least one counts. A machine that was suspended also leaps.

use carnet_base::{Clock, Moment, WallTime};

/// Difference between the wall clock and the monotonic clock, from one reading to the next, that is
/// a leap.
const LEAP_MICROS: i64 = 1_000_000;

/// Number of readings of which the least counts when the clock leaps ahead.
const READINGS: usize = 3;

/// A wall clock that never goes back. See the module documentation.
#[derive(Clone, Copy, Debug, Default)]
pub struct SteadyWall {
    last: Option<Reading>,
    has_leapt: bool,
}

#[derive(Clone, Copy, Debug)]
struct Reading {
    now: Moment,
    /// Time of the machine's clock; `None` if it is not known.
    machine: Option<WallTime>,
    steady: WallTime,
}

impl SteadyWall {
    /// Resumes from the last wall time of an earlier incarnation.
    #[must_use]
    pub fn resuming(clock: &dyn Clock, last: Option<WallTime>) -> Self {
        let reading = |steady| Reading { now: clock.now(), machine: None, steady };
        Self { last: last.map(reading), has_leapt: false }
    }

    /// Reads the clock.
    pub fn read(&mut self, clock: &dyn Clock) -> WallTime {
        let (now, mut machine) = (clock.now(), clock.wall());
        let ahead = self.ahead_by(now, machine);
        if ahead.is_none_or(|ahead| ahead > LEAP_MICROS) {
            machine = (1..READINGS).fold(machine, |least, _| least.min(clock.wall()));
        }
        let ahead = self.ahead_by(now, machine).unwrap_or(0);
        self.has_leapt |= ahead.saturating_abs() > LEAP_MICROS;
        let steady = match &self.last {
            None => machine,
            Some(last) => {
                let passed = i64::try_from(now.since(last.now).as_micros()).unwrap_or(i64::MAX);
                let slowed = passed / 10 * 9 + passed % 10 * 9 / 10;
                machine.max(WallTime(last.steady.0.saturating_add(slowed)))
            }
        };
        self.last = Some(Reading { now, machine: Some(machine), steady });
        steady
    }

    /// Returns `true` if the machine's clock was set since the last call, or the machine was suspended.
    pub fn take_leap(&mut self) -> bool {
        std::mem::take(&mut self.has_leapt)
    }

    /// Returns by how many microseconds the machine's clock has advanced more than the monotonic
    /// clock since the last reading; `None` for the first one.
    fn ahead_by(&self, now: Moment, machine: WallTime) -> Option<i64> {
        let last = self.last?;
        let passed = i64::try_from(now.since(last.now).as_micros()).unwrap_or(i64::MAX);
        Some(machine.0.saturating_sub(last.machine?.0).saturating_sub(passed))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;

    /// A monotonic time, and the wall times of the next readings; the last one stays.
    #[derive(Default)]
    struct Manual(Mutex<(u64, Vec<i64>)>);

    impl Manual {
        fn set(&self, now: u64, walls: &[i64]) {
            *self.0.lock().unwrap() = (now, walls.iter().rev().copied().collect());
        }
    }

    impl Clock for Manual {
        fn now(&self) -> Moment {
            Moment(Duration::from_micros(self.0.lock().unwrap().0))
        }

        fn wall(&self) -> WallTime {
            let walls = &mut self.0.lock().unwrap().1;
            WallTime(if walls.len() > 1 { walls.pop().unwrap() } else { walls[0] })
        }
    }

    const S: i64 = LEAP_MICROS;

    #[test]
    fn clock_set_back_slows_down_until_caught_up() {
        let clock = Manual::default();
        let mut steady = SteadyWall::default();
        let mut read = |now: i64, wall| {
            clock.set(now.cast_unsigned(), &[wall]);
            (steady.read(&clock).0, steady.take_leap())
        };
        assert_eq!(read(0, 1000 * S), (1000 * S, false));
        assert_eq!(read(10 * S, 1010 * S), (1010 * S, false));
        assert_eq!(read(30 * S, 30 * S), (1028 * S, true), "it was set back by a thousand");
        assert_eq!(read(130 * S, 130 * S), (1118 * S, false));
        assert_eq!(read(11_030 * S, 11_030 * S), (11_030 * S, false), "caught up");
        assert_eq!(read(11_031 * S, 900_000 * S), (900_000 * S, true), "set ahead");
        assert_eq!(read(11_032 * S, 900_001 * S), (900_001 * S, false));
        let mut later = SteadyWall::resuming(&clock, Some(WallTime(950_000 * S)));
        assert_eq!(later.read(&clock), WallTime(950_000 * S), "an earlier life had come further");
    }

    #[test]
    fn one_wrong_reading_is_repeated() {
        let clock = Manual::default();
        let mut steady = SteadyWall::default();
        let mut read = |now: i64, walls: &[i64]| {
            clock.set(now.cast_unsigned(), walls);
            (steady.read(&clock).0, steady.take_leap())
        };
        assert_eq!(read(0, &[1_000_000 * S, 1000 * S]), (1000 * S, false), "the first reading");
        assert_eq!(read(S, &[2_000_000 * S, 1001 * S]), (1001 * S, false));
        assert_eq!(read(2 * S, &[1002 * S]), (1002 * S, false));
    }
}
