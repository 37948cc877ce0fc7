//! Random numbers: the interface to randomness, which tests and the simulator replace.

use std::hash::{BuildHasher, RandomState};

/// A source of random numbers. Not for secrets.
pub trait Rng: Send + 'static {
    /// Returns 64 random bits.
    fn next_u64(&mut self) -> u64;

    /// Returns a number in `0..bound`; 0 when `bound` is 0.
    fn below(&mut self, bound: u64) -> u64 {
        // Multiply-shift; the bias is under 2⁻⁶⁴ × bound, which is negligible.
        let wide = u128::from(self.next_u64()) * u128::from(bound);
        u64::try_from(wide >> 64).expect("the upper half of a product of two u64 fits a u64")
    }

    /// Returns `true` with the given probability, in 1/1000.
    fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }
}

/// `SplitMix64`: small, fast, and the same everywhere for the same seed.
///
/// Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
#[derive(Clone, Debug)]
pub struct SeededRng(u64);

impl SeededRng {
    /// Starts the sequence of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Starts a sequence that differs from process to process.
    #[must_use]
    pub fn from_entropy() -> Self {
        Self(RandomState::new().hash_one(0x6361_726e_6574_u64))
    }
}

impl Rng for SeededRng {
    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_numbers_of_a_seed_never_change() {
        let mut rng = SeededRng::new(1_234_567);
        let drawn: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
        // The published test vector of SplitMix64.
        assert_eq!(
            drawn,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn below_stays_below() {
        let mut rng = SeededRng::new(7);
        assert!((0..1000).all(|_| rng.below(10) < 10));
        assert_eq!(rng.below(0), 0);
    }
}
