//! Source of fresh UUIDs.

use std::sync::Mutex;

use carnet::Uuid;
use carnet_base::{Rng, SeededRng, WallTime, lock};

/// Intervals of 100 nanoseconds between 1582-10-15, the origin of version 1, and 1970-01-01.
const GREGORIAN_TICKS: u64 = 0x01b2_1dd2_1381_4000;

/// Source of UUIDs: random ones, and time-based ones that are unique and ascending within the
/// process.
pub(crate) struct Uuids(Mutex<UuidState>);

struct UuidState {
    rng: SeededRng,
    last_ticks: u64,
    /// Stands for the network card's address; its multicast bit marks it as random.
    node: u64,
}

impl Uuids {
    pub(crate) fn new(mut rng: SeededRng) -> Self {
        let node = rng.next_u64();
        Self(Mutex::new(UuidState { rng, last_ticks: 0, node }))
    }

    pub(crate) fn random(&self) -> Uuid {
        let mut state = lock(&self.0);
        let (high, low) = (state.rng.next_u64(), state.rng.next_u64());
        let version_4 = (high & !0xf000) | 0x4000;
        Uuid::from_u64_pair(version_4, (low & !(0b11 << 62)) | (0b10 << 62))
    }

    pub(crate) fn time_based(&self, now: WallTime) -> Uuid {
        let mut state = lock(&self.0);
        let ticks = GREGORIAN_TICKS.saturating_add_signed(now.0.saturating_mul(10));
        state.last_ticks = ticks.max(state.last_ticks + 1) & ((1 << 60) - 1);
        let node = (state.node & !(0b11 << 62)) | (0b10 << 62) | (1 << 40);
        Uuid::from_u64_pair(time_half(state.last_ticks), node)
    }

    /// Returns the least version 1 UUID with a time in milliseconds since 1970-01-01, in the order of
    /// type `timeuuid`, which compares the bytes of the second half as signed.
    pub(crate) fn least(millis: i64) -> Uuid {
        Uuid::from_u64_pair(time_half(ticks_of(millis)), 0x8080_8080_8080_8080)
    }

    /// Returns the greatest version 1 UUID with a time in milliseconds since 1970-01-01.
    pub(crate) fn greatest(millis: i64) -> Uuid {
        Uuid::from_u64_pair(time_half(ticks_of(millis) + 9_999), 0x7f7f_7f7f_7f7f_7f7f)
    }

    /// Returns a version 1 UUID whose time is `ticks` intervals of 100 nanoseconds later.
    pub(crate) fn later(uuid: Uuid, ticks: u64) -> Uuid {
        let (_, node) = uuid.as_u64_pair();
        Uuid::from_u64_pair(time_half(ticks_in(uuid) + ticks), node)
    }

    /// Returns the time of a version 1 UUID in milliseconds since 1970-01-01.
    pub(crate) fn millis(uuid: Uuid) -> i64 {
        let ticks = ticks_in(uuid);
        let since = ticks.cast_signed() - GREGORIAN_TICKS.cast_signed();
        since.div_euclid(10_000)
    }
}

/// Returns the ticks at the beginning of a millisecond since 1970-01-01, within the range of UUIDs.
fn ticks_of(millis: i64) -> u64 {
    let ticks = GREGORIAN_TICKS.saturating_add_signed(millis.saturating_mul(10_000));
    ticks.min((1 << 60) - 10_000)
}

/// Returns the time of a version 1 UUID in intervals of 100 nanoseconds.
fn ticks_in(uuid: Uuid) -> u64 {
    let (high, _) = uuid.as_u64_pair();
    ((high & 0x0fff) << 48) | (((high >> 16) & 0xffff) << 32) | (high >> 32)
}

/// Returns the first half of a version 1 UUID.
const fn time_half(ticks: u64) -> u64 {
    let time_low = (ticks & 0xffff_ffff) << 32;
    let time_mid = ((ticks >> 32) & 0xffff) << 16;
    time_low | time_mid | 0x1000 | (ticks >> 48)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_based_uuids_ascend_and_contain_their_time() {
        let uuids = Uuids::new(SeededRng::new(3));
        let now = WallTime(1_700_000_000_123_456);
        let made: Vec<Uuid> = (0..1000).map(|_| uuids.time_based(now)).collect();
        assert!(made.windows(2).all(|pair| pair[0] != pair[1]));
        assert!(made.iter().all(|uuid| uuid.get_version_num() == 1));
        assert_eq!(Uuids::millis(made[0]), now.millis());
        let earlier = uuids.time_based(WallTime(0));
        assert!(Uuids::millis(earlier) >= now.millis(), "a clock that goes back is not followed");
    }

    #[test]
    fn least_and_greatest_uuids_enclose_a_millisecond() {
        let value = |uuid: Uuid| carnet::Value::Timeuuid(uuid);
        let compare = |a: Uuid, b: Uuid| value(a).compare(&value(b));
        let uuids = Uuids::new(SeededRng::new(3));
        for millis in [0, 1_700_000_000_123, -5] {
            let made = uuids.time_based(WallTime(millis * 1000));
            let now = Uuids::millis(made);
            assert!(compare(Uuids::least(now), made).is_lt(), "{millis}");
            assert!(compare(Uuids::greatest(now), made).is_gt(), "{millis}");
            assert!(compare(Uuids::greatest(now), Uuids::least(now + 1)).is_lt(), "{millis}");
        }
        for millis in [i64::MIN, i64::MAX] {
            assert_eq!(Uuids::least(millis).get_version_num(), 1);
            assert_eq!(Uuids::greatest(millis).get_version_num(), 1);
        }
    }

    #[test]
    fn random_uuids_have_version_4() {
        let uuids = Uuids::new(SeededRng::new(3));
        assert_eq!(uuids.random().get_version_num(), 4);
        assert_ne!(uuids.random(), uuids.random());
    }

    #[test]
    fn later_uuids_are_in_their_order() {
        let first = Uuid::parse_str("fffffffe-ffff-1123-8000-010203040506").unwrap();
        let ids = [first, Uuids::later(first, 1), Uuids::later(first, 2)];
        assert_eq!(ids[2].to_string(), "00000000-0000-1124-8000-010203040506");
        let values = ids.map(carnet::Value::Timeuuid);
        assert!(values.is_sorted_by(|a, b| a.compare(b).is_lt()));
    }
}
