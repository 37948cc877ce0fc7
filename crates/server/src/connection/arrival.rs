//! Arrival time of a connection's bytes at the machine.
//!
//! A connection runs its statements itself and reads nothing meanwhile, so requests wait in the buffers of the kernel.
//! Their age counts from their arrival there. The kernel stamps bytes with its wall clock, which may jump. A stamp is
//! therefore converted to an age at once, and corrected by the order of the reads:
//!
//! * Bytes arrive in order, so no byte arrived before the bytes of an earlier read.
//! * A read that did not fill its buffer emptied the socket. The bytes of the next read arrived later.
//! * Without a stamp, the bytes of a read are assumed to have arrived at the read before it, if that filled its buffer.

use std::time::Duration;

use carnet_base::{Moment, WallTime};

/// Change of the wall clock relative to the monotonic one, since the last read, above which stamps are ignored.
const JUMP_MAX: Duration = Duration::from_millis(100);
/// Maximum age of received bytes.
const AGE_MAX: Duration = Duration::from_secs(60);

/// A read from the socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// Time at which the kernel received the last of the bytes, by its wall clock.
    pub(super) stamp: Option<WallTime>,
    /// Time of the read, by the wall clock.
    pub(super) wall: WallTime,
    /// Time of the read.
    pub(super) now: Moment,
    /// Whether bytes may be left in the socket.
    pub(super) is_full: bool,
}

/// Arrival times of one connection's bytes.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// Time before which no unread byte arrived.
    earliest: Moment,
    /// Time of the last read, if it may have left bytes in the socket.
    left_at: Option<Moment>,
    /// The wall clock minus the monotonic one at the last read, in microseconds.
    offset: Option<i64>,
}

impl Arrivals {
    /// Returns the time at which the bytes of a read arrived: never later than the read, and at the latest when the
    /// last of them arrived.
    pub(super) fn read(&mut self, reading: Reading) -> Moment {
        let Reading { stamp, wall, now, is_full } = reading;
        let offset = wall.0.saturating_sub(micros(now.0));
        let is_steady = self
            .offset
            .is_none_or(|before| Duration::from_micros(before.abs_diff(offset)) <= JUMP_MAX);
        let without_stamp = self.left_at.unwrap_or(now);
        let arrived = match stamp.filter(|_| is_steady) {
            Some(stamp) => {
                let age = u64::try_from(wall.0.saturating_sub(stamp.0)).unwrap_or(0);
                Moment(now.0.saturating_sub(Duration::from_micros(age).min(AGE_MAX)))
            }
            None => without_stamp,
        };
        let arrived = arrived.max(self.earliest).min(now);
        self.earliest = if is_full { arrived } else { now };
        self.left_at = is_full.then_some(now);
        self.offset = Some(offset);
        arrived
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Difference of the wall clock and the monotonic one.
    const OFFSET: i64 = 1_700_000_000_000_000;

    fn at(millis: u64) -> Moment {
        Moment(Duration::from_millis(millis))
    }

    fn wall(millis: u64) -> WallTime {
        WallTime(OFFSET + micros(Duration::from_millis(millis)))
    }

    fn reading(stamp: Option<u64>, now: u64, is_full: bool) -> Reading {
        Reading { stamp: stamp.map(wall), wall: wall(now), now: at(now), is_full }
    }

    #[test]
    fn stamped_bytes_are_as_old_as_their_stamp() {
        let mut arrivals = Arrivals::default();
        assert_eq!(arrivals.read(reading(Some(100), 130, true)), at(100));
        assert_eq!(arrivals.read(reading(Some(110), 140, false)), at(110));
    }

    #[test]
    fn bytes_arrive_in_order() {
        let mut arrivals = Arrivals::default();
        arrivals.read(reading(Some(100), 130, true));
        assert_eq!(arrivals.read(reading(Some(90), 140, false)), at(100));
        // The socket was empty at 140.
        assert_eq!(arrivals.read(reading(Some(120), 150, false)), at(140));
    }

    #[test]
    fn no_stamp_is_later_than_its_read() {
        let mut arrivals = Arrivals::default();
        assert_eq!(arrivals.read(reading(Some(500), 130, false)), at(130));
    }

    #[test]
    fn stamps_around_a_jump_of_the_wall_clock_are_ignored() {
        let mut arrivals = Arrivals::default();
        arrivals.read(reading(Some(1_000), 1_000, false));
        for jump in [3_600_000_000, -3_600_000_000] {
            let before = reading(Some(9_000), 9_000, false);
            arrivals.read(before);
            let jumped = Reading {
                wall: WallTime(wall(9_500).0 + jump),
                ..reading(Some(9_490), 9_500, false)
            };
            assert_eq!(arrivals.read(jumped), at(9_500));
        }
    }

    #[test]
    fn age_is_bounded() {
        let mut arrivals = Arrivals::default();
        let arrived = arrivals.read(reading(Some(0), 3_600_000, false));
        assert_eq!(at(3_600_000).since(arrived), AGE_MAX);
    }

    #[test]
    fn without_stamps_a_full_read_tells_the_age_of_the_next() {
        let mut arrivals = Arrivals::default();
        assert_eq!(arrivals.read(reading(None, 100, true)), at(100));
        assert_eq!(arrivals.read(reading(None, 150, true)), at(100));
        assert_eq!(arrivals.read(reading(None, 180, false)), at(150));
        assert_eq!(arrivals.read(reading(None, 190, false)), at(190));
    }
}
