//! Histogram of durations whose buckets are an eighth to a quarter of their value wide.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets for each power of two.
const PARTS: u64 = 4;
/// Bits of [`PARTS`].
const PART_BITS: u32 = 2;
/// Number of buckets: up to 2³¹ µs, more than half an hour.
pub(in crate::exec) const BUCKETS: usize = 120;

/// Counts of durations by bucket.
#[derive(Debug)]
pub(in crate::exec) struct Histogram([AtomicU64; BUCKETS]);

impl Default for Histogram {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; BUCKETS])
    }
}

impl Histogram {
    /// Counts a duration.
    pub(in crate::exec) fn record(&self, took: Duration) {
        self.0[bucket(took)].fetch_add(1, Ordering::Relaxed);
    }

    /// Adds the counts to others.
    pub(in crate::exec) fn add_to(&self, counts: &mut Counts) {
        for (sum, count) in counts.0.iter_mut().zip(&self.0) {
            *sum += count.load(Ordering::Relaxed);
        }
    }

    /// Adds the counts of another copy.
    pub(in crate::exec) fn add(&self, counts: &Counts) {
        for (sum, count) in self.0.iter().zip(&counts.0) {
            sum.fetch_add(*count, Ordering::Relaxed);
        }
    }
}

/// Counts of durations at a moment.
#[derive(Clone, Debug)]
pub(in crate::exec) struct Counts([u64; BUCKETS]);

impl Default for Counts {
    fn default() -> Self {
        Self([0; BUCKETS])
    }
}

impl Counts {
    /// Returns the number of durations.
    pub(in crate::exec) fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns the duration that a part of all durations, from 0 to 1, does not exceed.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank is a positive number that is rounded"
    )]
    pub(in crate::exec) fn quantile(&self, part: f64) -> Duration {
        let rank = ((self.count() as f64 * part).ceil() as u64).max(1);
        let mut below = 0;
        for (bucket, count) in self.0.iter().enumerate() {
            below += count;
            if below >= rank {
                return middle(bucket);
            }
        }
        Duration::ZERO
    }
}

fn bucket(took: Duration) -> usize {
    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    if micros < PARTS {
        return usize::try_from(micros).unwrap_or_default();
    }
    let power = u64::from(micros.ilog2() - PART_BITS);
    let part = (micros >> power) & (PARTS - 1);
    let bucket = (power + 1) * PARTS + part;
    usize::try_from(bucket).map_or(BUCKETS - 1, |bucket| bucket.min(BUCKETS - 1))
}

/// Returns the middle of a bucket.
fn middle(bucket: usize) -> Duration {
    let bucket = bucket as u64;
    if bucket < PARTS {
        return Duration::from_nanos(bucket * 1_000 + 500);
    }
    let (power, part) = (bucket / PARTS - 1, bucket % PARTS);
    let (from, width) = ((PARTS + part) << power, 1_u64 << power);
    Duration::from_nanos(from * 1_000 + width * 500)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantile_is_near_the_exact_one() {
        let histogram = Histogram::default();
        for micros in 1..=10_000 {
            histogram.record(Duration::from_micros(micros));
        }
        let mut counts = Counts::default();
        histogram.add_to(&mut counts);
        assert_eq!(counts.count(), 10_000);
        for (part, exact) in [(0.5, 5_000.0), (0.95, 9_500.0), (0.99, 9_900.0), (0.0, 1.0)] {
            let found = counts.quantile(part).as_secs_f64() * 1e6;
            assert!((found / exact - 1.0).abs() <= 0.5_f64.max(1.0 / exact) && found > 0.0);
            assert!(part == 0.0 || (found / exact - 1.0).abs() < 0.13, "{part}: {found}");
        }
    }

    #[test]
    fn every_duration_has_a_bucket() {
        let mut last = 0;
        for micros in (0..64).chain((6..40).map(|power| 1 << power)).chain([u64::MAX]) {
            let bucket = bucket(Duration::from_micros(micros));
            assert!(bucket >= last && bucket < BUCKETS, "{micros}");
            last = bucket;
            if bucket < BUCKETS - 1 {
                let middle = middle(bucket).as_secs_f64() * 1e6;
                let micros = f64::from(u32::try_from(micros).unwrap());
                assert!((middle - micros).abs() <= 0.5 + micros * 0.13, "{micros}: {middle}");
            }
        }
        assert_eq!(Counts::default().quantile(0.5), Duration::ZERO);
    }
}
