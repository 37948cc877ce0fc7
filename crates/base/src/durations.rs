//! Histogram of durations, in the buckets that monitors read.
//!
//! Recording is two relaxed additions and takes no lock. Threads that record often should have a
//! histogram each ([`stripe`](crate::stripe)), which are added up when they are read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets in microseconds, with their texts in seconds. One more bucket has no
/// bound.
pub const DURATION_BUCKETS: [(u64, &str); 16] = [
    (50, "0.00005"),
    (100, "0.0001"),
    (250, "0.00025"),
    (500, "0.0005"),
    (1_000, "0.001"),
    (2_500, "0.0025"),
    (5_000, "0.005"),
    (10_000, "0.01"),
    (25_000, "0.025"),
    (50_000, "0.05"),
    (100_000, "0.1"),
    (250_000, "0.25"),
    (500_000, "0.5"),
    (1_000_000, "1"),
    (2_500_000, "2.5"),
    (10_000_000, "10"),
];

const COUNTS: usize = DURATION_BUCKETS.len() + 1;

/// Histogram of durations.
#[derive(Debug, Default)]
pub struct Durations {
    counts: [AtomicU64; COUNTS],
    nanos: AtomicU64,
}

impl Durations {
    /// Counts one duration.
    pub fn record(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = DURATION_BUCKETS.partition_point(|(end, _)| end * 1_000 < nanos);
        // Relaxed: the counts guard no other memory.
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counts(&self) -> DurationCounts {
        DurationCounts {
            counts: self.counts.each_ref().map(|count| count.load(Ordering::Relaxed)),
            sum: Duration::from_nanos(self.nanos.load(Ordering::Relaxed)),
        }
    }
}

/// Counts of a histogram at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DurationCounts {
    counts: [u64; COUNTS],
    sum: Duration,
}

impl DurationCounts {
    /// Adds the counts of another histogram.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// Returns the number of durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of the durations.
    #[must_use]
    pub const fn sum(&self) -> Duration {
        self.sum
    }

    /// Returns the number of durations up to each bound, with the text of the bound; the last one
    /// is `+Inf`.
    pub fn cumulative(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let bounds = DURATION_BUCKETS.iter().map(|(_, text)| *text).chain(["+Inf"]);
        bounds.zip(self.counts).scan(0, |below, (bound, count)| {
            *below += count;
            Some((bound, *below))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_cumulative_and_add_up() {
        let (one, other) = (Durations::default(), Durations::default());
        one.record(Duration::from_micros(50));
        one.record(Duration::from_nanos(50_001));
        other.record(Duration::from_secs(20));
        let mut all = one.counts();
        all.add(&other.counts());
        let up_to = |bound: &str| all.cumulative().find(|(text, _)| *text == bound).unwrap().1;
        assert_eq!((up_to("0.00005"), up_to("0.0001"), up_to("10"), up_to("+Inf")), (1, 2, 2, 3));
        assert_eq!(all.count(), 3);
        assert_eq!(all.sum(), Duration::new(20, 100_001));
    }

    #[test]
    fn texts_are_the_bounds_in_seconds() {
        for (micros, text) in DURATION_BUCKETS {
            let seconds: f64 = text.parse().unwrap();
            assert!((seconds * 1e6 / micros as f64 - 1.0).abs() < 1e-9, "{micros}: {text}");
        }
        assert!(DURATION_BUCKETS.is_sorted());
    }
}
