//! Histogram of fixed size with a bounded relative error, which many threads add to.
//!
//! ```text
//!  value    0 1 2 … 7 │ 8 9 … 15 │ 16-17 18-19 … 30-31 │ 32-35 … 60-63 │ …
//!  buckets  one each  │ one each │ 8                   │ 8             │ 8 for each doubling
//! ```

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Number of buckets of a doubling; a quantile is at most 1/8 above the true one.
const PARTS: usize = 1 << PARTS_BITS;
const PARTS_BITS: usize = 3;
/// Number of buckets. The last one also has all greater values: 17 s in nanoseconds.
const BUCKETS: usize = 256;

/// Counts of values, which threads add to without a lock.
pub(super) struct Histogram {
    counts: [AtomicU32; BUCKETS],
    sum: AtomicU64,
    max: AtomicU64,
}

impl Histogram {
    pub(super) const fn new() -> Self {
        Self {
            counts: [const { AtomicU32::new(0) }; BUCKETS],
            sum: AtomicU64::new(0),
            max: AtomicU64::new(0),
        }
    }

    pub(super) fn record(&self, value: u64) {
        self.counts[bucket_of(value)].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
        if value > self.max.load(Ordering::Relaxed) {
            self.max.fetch_max(value, Ordering::Relaxed);
        }
    }

    pub(super) fn snapshot(&self) -> Distribution {
        Distribution {
            counts: self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect(),
            sum: self.sum.load(Ordering::Relaxed),
            max: self.max.load(Ordering::Relaxed),
        }
    }
}

fn bucket_of(value: u64) -> usize {
    if value < PARTS as u64 {
        return usize::try_from(value).unwrap_or_default();
    }
    let doubling = value.ilog2() as usize - PARTS_BITS;
    let part = usize::try_from(value >> doubling).unwrap_or_default() % PARTS;
    (PARTS * (doubling + 1) + part).min(BUCKETS - 1)
}

/// Returns the greatest value of a bucket.
fn end_of(bucket: usize) -> u64 {
    if bucket < PARTS {
        return bucket as u64;
    }
    let doubling = bucket / PARTS - 1;
    let part = (PARTS + bucket % PARTS) as u64;
    (part << doubling) + ((1 << doubling) - 1)
}

/// Distribution of sampled values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    counts: Vec<u32>,
    sum: u64,
    max: u64,
}

impl Distribution {
    /// Returns the number of sampled values.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.counts.iter().map(|count| u64::from(*count)).sum()
    }

    /// Returns the greatest sampled value; 0 if there is none.
    #[must_use]
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// Returns the mean of the sampled values; 0 if there is none.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a mean is rounded")]
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.samples().max(1) as f64
    }

    /// Returns the value below or at which a part of the sampled values lies: 0.5 for the median.
    /// At most an eighth too large; 0 if there is none.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a quantile is rounded")]
    pub fn quantile(&self, part: f64) -> u64 {
        let wanted = self.samples() as f64 * part.clamp(0.0, 1.0);
        let mut seen = 0_u64;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += u64::from(*count);
            if *count > 0 && seen as f64 >= wanted {
                // The last bucket has no end.
                let end = if bucket == BUCKETS - 1 { self.max } else { end_of(bucket) };
                return end.min(self.max);
            }
        }
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_adjoin_and_are_narrow() {
        let mut last = 0;
        for value in (0..5_000).chain((1..34).flat_map(|bits| [(1 << bits) - 1, 1 << bits])) {
            let bucket = bucket_of(value);
            assert!(bucket < BUCKETS && end_of(bucket) >= value, "{value} is in {bucket}");
            assert!(bucket == 0 || end_of(bucket - 1) < value, "{value} is not in {bucket}");
            assert!(end_of(bucket) - value <= value / 8, "{value}: {}", end_of(bucket));
        }
        for value in 0..5_000 {
            let bucket = bucket_of(value);
            assert!(bucket - last <= 1, "a bucket before {value} is never used");
            last = bucket;
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_of_the_values() {
        let histogram = Histogram::new();
        assert_eq!(histogram.snapshot().quantile(0.99), 0);
        for value in 1..=1000 {
            histogram.record(value * 1000);
        }
        let found = histogram.snapshot();
        assert_eq!((found.samples(), found.max(), found.mean()), (1000, 1_000_000, 500_500.0));
        for (part, exact) in [(0.5, 500_000), (0.99, 990_000), (1.0, 1_000_000)] {
            let quantile = found.quantile(part);
            assert!(quantile >= exact && quantile <= exact + exact / 8, "{part}: {quantile}");
        }
        histogram.record(u64::MAX);
        assert_eq!(histogram.snapshot().quantile(1.0), u64::MAX);
    }
}
