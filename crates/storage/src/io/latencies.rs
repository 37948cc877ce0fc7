//! Histogram of latencies, with buckets that are at most an eighth wide.

/// Number of buckets per power of two.
const PARTS: usize = 8;
const PARTS_LOG2: u32 = PARTS.trailing_zeros();
/// Number of buckets; latencies above 2^40 ns (18 minutes) are in the last one.
const BUCKETS: usize = (40 - PARTS_LOG2 as usize) * PARTS;

/// Counts latencies in nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Latencies {
    buckets: Vec<u32>,
    count: u64,
}

impl Latencies {
    pub(super) fn new() -> Self {
        Self { buckets: vec![0; BUCKETS], count: 0 }
    }

    pub(super) fn add(&mut self, nanos: u64) {
        self.buckets[bucket(nanos)] += 1;
        self.count += 1;
    }

    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the upper bound of the bucket of the 99th percentile; 0 if there are no latencies.
    pub(super) fn p99(&self) -> u64 {
        let rank = (self.count * 99).div_ceil(100).max(1);
        let mut below = 0;
        for (at, count) in self.buckets.iter().enumerate() {
            below += u64::from(*count);
            if below >= rank {
                return upper(at);
            }
        }
        0
    }

    pub(super) fn clear(&mut self) {
        if self.count > 0 {
            self.buckets.fill(0);
            self.count = 0;
        }
    }
}

fn bucket(nanos: u64) -> usize {
    if nanos < PARTS as u64 {
        return usize::try_from(nanos).expect("it is less than eight");
    }
    let power = nanos.ilog2() - PARTS_LOG2;
    let part = usize::try_from(nanos >> power).expect("it is less than sixteen") - PARTS;
    (power as usize * PARTS + PARTS + part).min(BUCKETS - 1)
}

/// Returns the largest number in a bucket.
fn upper(bucket: usize) -> u64 {
    if bucket < PARTS {
        return bucket as u64;
    }
    let (power, part) = ((bucket - PARTS) / PARTS, bucket % PARTS);
    (((PARTS + part + 1) as u64) << power) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_is_exact_to_an_eighth() {
        for nanos in [0, 1, 7, 8, 15, 16, 100, 12_345, 1 << 30, (1 << 39) - 1] {
            let top = upper(bucket(nanos));
            assert!(nanos <= top && top <= nanos + nanos / 8, "{nanos} became {top}");
        }
        let mut latencies = Latencies::new();
        assert_eq!(latencies.p99(), 0);
        (0..990).for_each(|_| latencies.add(1000));
        (0..10).for_each(|_| latencies.add(u64::MAX));
        assert_eq!((latencies.p99(), latencies.count()), (upper(bucket(1000)), 1000));
        latencies.add(u64::MAX);
        assert_eq!(latencies.p99(), upper(BUCKETS - 1));
        latencies.clear();
        assert_eq!((latencies.p99(), latencies.count()), (0, 0));
    }
}
