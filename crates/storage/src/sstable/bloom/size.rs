//! How large a filter has to be.
//!
//! Of n members in lines of 512 bits, of which each member has c, a line gets a number of members that
//! is Poisson distributed around 512 / c. A line with i members has each of its bits with the chance
//! 1 − (1 − 1/512)^ki, and lets a stranger pass if it has all k that he asks for. The sum over i is the
//! filter's chance of a false "perhaps" (Putze, Sanders and Singler, "Cache-, Hash- and Space-Efficient
//! Bloom Filters", 2007, equation 3). Without lines it takes c = −log₂ p / ln 2 (Bloom 1970); with them,
//! 4 % more where p is 0.01, 3 % where it is 0.1, and 14 % where it is 0.0001.

use std::f64::consts::LN_2;

use super::{BITS_BYTES_MAX, LINE_BITS, LINE_BYTES, PROBES_MAX};

/// In fewer bits the probes of one member meet each other.
const BITS_BYTES_MIN: usize = 8;

/// Bits for each member, and probes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    /// The chance of a false "perhaps" that was asked for.
    pub(super) chance: f64,
    bits_each: f64,
    pub(super) probes: u8,
}

/// Bits are tried in such steps, up to so many for each member: enough for a chance of one in a million.
const STEP_BITS: f64 = 0.125;
const BITS_EACH_MAX: f64 = 64.0;

impl Size {
    /// Returns the smallest size whose chance of a false "perhaps" is at most that.
    pub(super) fn of(chance: f64) -> Self {
        let mut bits_each = -chance.log2() / LN_2;
        loop {
            // Where lines are crowded fewer probes are better: at 0.0001 12, where else 15 were.
            let most = probes(bits_each);
            let fitting =
                (most.div_ceil(2)..=most).find(|&probes| false_chance(bits_each, probes) <= chance);
            if fitting.is_some() || bits_each >= BITS_EACH_MAX {
                return Self { chance, bits_each, probes: fitting.unwrap_or(most) };
            }
            bits_each += STEP_BITS;
        }
    }

    /// Returns the bytes for so many members.
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

/// The best number of probes where lines do not matter.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "there are 1 to 20 of them"
)]
fn probes(bits_each: f64) -> u8 {
    (bits_each * LN_2).round().clamp(1.0, f64::from(PROBES_MAX)) as u8
}

/// The chance of a false "perhaps".
fn false_chance(bits_each: f64, probes: u8) -> f64 {
    let line_bits = LINE_BITS as f64;
    let mean = line_bits / bits_each;
    // Ten deviations above it there is nothing left to count.
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
