//! Size of a Bloom filter.
//!
//! With n members in lines of 512 bits and c bits per member, the number of members in a line is
//! Poisson distributed around 512 / c. In a line with i members, each bit is set with probability 1
//! − (1 − 1/512)^ki. The filter reports a false positive if all k probed bits are set. The sum over
//! i is the false-positive rate (Putze, Sanders and Singler, "Cache-, Hash- and Space-Efficient
//! Bloom Filters", 2007, equation 3). Without lines, c = −log₂ p / ln 2 (Bloom 1970); with lines, 4
//! % more for p = 0.01, 3 % for 0.1, and 14 % for 0.0001.

use std::f64::consts::LN_2;

pub(super) const PROBES_MAX: u8 = 20;
pub(super) const BITS_BYTES_MAX: usize = 16 << 20;
pub(super) const LINE_BYTES: usize = 64;
pub(super) const LINE_BITS: usize = LINE_BYTES * 8;

/// Minimum size: with fewer bits, the probes of one member collide.
const BITS_BYTES_MIN: usize = 8;

/// Bits per member, and number of probes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    /// Requested false-positive rate.
    pub(super) chance: f64,
    bits_each: f64,
    pub(super) probes: u8,
}

/// Step and maximum of the search for the bits per member; the maximum suffices for a rate of one
/// in a million.
const STEP_BITS: f64 = 0.125;
const BITS_EACH_MAX: f64 = 64.0;

impl Size {
    /// Returns the smallest size whose false-positive rate is at most `chance`.
    pub(super) fn of(chance: f64) -> Self {
        let mut bits_each = -chance.log2() / LN_2;
        loop {
            // For crowded lines fewer probes are better: at 0.0001 12 instead of 15.
            let most = probes(bits_each);
            let fitting =
                (most.div_ceil(2)..=most).find(|&probes| false_chance(bits_each, probes) <= chance);
            if fitting.is_some() || bits_each >= BITS_EACH_MAX {
                return Self { chance, bits_each, probes: fitting.unwrap_or(most) };
            }
            bits_each += STEP_BITS;
        }
    }

    /// Returns the bytes for a number of members.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the product is positive and far below 2^53"
    )]
    pub(super) fn bytes(&self, members: usize) -> usize {
        let bytes = (members as f64 * self.bits_each / 8.0).ceil() as usize;
        match bytes.clamp(BITS_BYTES_MIN, BITS_BYTES_MAX) {
            bytes if bytes < LINE_BYTES => bytes,
            bytes => bytes.next_multiple_of(LINE_BYTES),
        }
    }
}

/// Returns the optimal number of probes for a filter without lines.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "there are 1 to 20 of them"
)]
fn probes(bits_each: f64) -> u8 {
    (bits_each * LN_2).round().clamp(1.0, f64::from(PROBES_MAX)) as u8
}

/// Returns the false-positive rate.
fn false_chance(bits_each: f64, probes: u8) -> f64 {
    let line_bits = LINE_BITS as f64;
    let mean = line_bits / bits_each;
    // Larger numbers of members have negligible probability.
    let most = mean + 10.0 * mean.sqrt();
    let (mut members, mut line_chance, mut sum) = (0, (-mean).exp(), 0.0);
    while f64::from(members) <= most {
        let clear = (1.0 - 1.0 / line_bits).powi(i32::from(probes) * members);
        sum += line_chance * (1.0 - clear).powi(i32::from(probes));
        members += 1;
        line_chance *= mean / f64::from(members);
    }
    sum
}
