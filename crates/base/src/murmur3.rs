//! Cassandra's Murmur3 token.
//!
//! The token is the first half of `MurmurHash3_x64_128` with seed 0, with two peculiarities that
//! every driver must share to route requests to the right replica:
//!
//! * the bytes behind the last whole block of 16 are *signed*, so a byte of 0x80 or more also flips
//!   every bit above it;
//! * −2⁶³ is reserved for the empty key, and a hash of −2⁶³ becomes 2⁶³ − 1.
//!
//! `testdata/murmur3_vectors.json` holds tokens computed by a stock driver.

use crate::ids::Token;

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

/// Computes the token of a serialized partition key, like `Murmur3Partitioner`.
#[must_use]
pub fn token(key: &[u8]) -> Token {
    if key.is_empty() {
        return Token::MIN;
    }
    let hash = first_half(key).cast_signed();
    if hash == i64::MIN { Token::MAX } else { Token(hash) }
}

fn first_half(key: &[u8]) -> u64 {
    let (mut h1, mut h2) = (0_u64, 0_u64);
    let (blocks, tail) = key.as_chunks::<16>();
    for block in blocks {
        let wide = u128::from_le_bytes(*block);
        h1 ^= mix_k1(low_half(wide));
        h1 = h1.rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 ^= mix_k2(low_half(wide >> 64));
        h2 = h2.rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let (low, high) = tail.split_at(tail.len().min(8));
    h2 ^= mix_k2(signed_tail(high));
    h1 ^= mix_k1(signed_tail(low));

    h1 ^= key.len() as u64;
    h2 ^= key.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    avalanche(h1).wrapping_add(avalanche(h2))
}

/// Gathers up to eight bytes, least significant first, as if each were sign-extended before its
/// shift. A negative byte flips every bit above itself, so a byte is flipped if an odd number of
/// bytes before it are negative.
fn signed_tail(bytes: &[u8]) -> u64 {
    if bytes.is_empty() {
        return 0;
    }
    let mut padded = [0; 8];
    padded[..bytes.len()].copy_from_slice(bytes);
    let gathered = u64::from_le_bytes(padded);
    // A one for each negative byte, added up in all bytes above it: at most seven.
    let negative = (gathered >> 7) & ONES;
    let negative_before = (negative << 8).wrapping_mul(ONES);
    gathered ^ (negative_before & ONES).wrapping_mul(0xff)
}

/// A one in each byte.
const ONES: u64 = 0x0101_0101_0101_0101;

#[expect(clippy::cast_possible_truncation, reason = "the lower half is the result")]
const fn low_half(wide: u128) -> u64 {
    wide as u64
}

const fn mix_k1(k1: u64) -> u64 {
    k1.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

const fn mix_k2(k2: u64) -> u64 {
    k2.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

const fn avalanche(mut k: u64) -> u64 {
    k = (k ^ (k >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    k = (k ^ (k >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    k ^ (k >> 33)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{self, unhex};

    #[test]
    fn tokens_match_a_stock_driver() {
        let vectors = testing::vectors("murmur3_vectors.json");
        let vectors = vectors["vectors"].as_array().unwrap();
        assert!(vectors.len() > 150);
        for vector in vectors {
            let key = vector["key"].as_str().unwrap();
            let expected = Token(vector["token"].as_i64().unwrap());
            assert_eq!(token(&unhex(key)), expected, "{key}");
        }
    }

    proptest! {
        #[test]
        fn tail_matches_signed_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..=8)) {
            let signed = bytes.iter().zip((0..).step_by(8)).fold(0, |gathered, (&byte, shift)| {
                gathered ^ (i64::from(byte.cast_signed()).cast_unsigned() << shift)
            });
            prop_assert_eq!(signed_tail(&bytes), signed);
        }
    }

    #[test]
    fn only_the_empty_key_has_the_smallest_token() {
        assert_eq!(token(b""), Token::MIN);
        // The key was found by inverting the hash from its two halves.
        let key = key_that_hashes_to(i64::MIN.cast_unsigned());
        assert_eq!(first_half(&key).cast_signed(), i64::MIN);
        assert_eq!(token(&key), Token::MAX);
    }

    /// Inverts the hash for a key of one block: every step is a bijection.
    fn key_that_hashes_to(first: u64) -> [u8; 16] {
        let second = 0;
        // The last two additions, the avalanches and the two additions before them.
        let mut h2 = unavalanche(second_before(first, second));
        let mut h1 = unavalanche(first.wrapping_sub(second_before(first, second)));
        h2 = h2.wrapping_sub(h1);
        h1 = h1.wrapping_sub(h2);
        (h1, h2) = (h1 ^ 16, h2 ^ 16);
        let k2 = h2.wrapping_sub(0x3849_5ab5).wrapping_mul(inverse(5)).wrapping_sub(h1);
        let k2 = k2.rotate_right(31);
        let k1 = h1.wrapping_sub(0x52dc_e729).wrapping_mul(inverse(5)).rotate_right(27);
        let k1 = k1.wrapping_mul(inverse(C2)).rotate_right(31).wrapping_mul(inverse(C1));
        let k2 = k2.wrapping_mul(inverse(C1)).rotate_right(33).wrapping_mul(inverse(C2));
        let mut key = [0; 16];
        key[..8].copy_from_slice(&k1.to_le_bytes());
        key[8..].copy_from_slice(&k2.to_le_bytes());
        key
    }

    /// The second half is `h2 + (h1 + h2)`, the first `h1 + h2`.
    const fn second_before(first: u64, second: u64) -> u64 {
        second.wrapping_sub(first)
    }

    const fn unavalanche(mut k: u64) -> u64 {
        k ^= k >> 33;
        k = k.wrapping_mul(inverse(0xc4ce_b9fe_1a85_ec53));
        k ^= k >> 33;
        k = k.wrapping_mul(inverse(0xff51_afd7_ed55_8ccd));
        k ^ (k >> 33)
    }

    /// The multiplicative inverse of an odd number, by Newton's iteration.
    const fn inverse(odd: u64) -> u64 {
        let mut guess = odd;
        let mut round = 0;
        while round < 6 {
            guess = guess.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(guess)));
            round += 1;
        }
        guess
    }
}
