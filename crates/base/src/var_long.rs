//! `VAR_LONG`: AtlasDB's self-delimiting, order-preserving integers of 1 to 10 bytes.
//!
//! A value of n × 7 bits takes n bytes, big-endian: n − 1 one bits, a zero bit, then the value.
//! The first byte alone tells the length, except for the two longest forms:
//!
//! ```text
//! 0xxxxxxx                                1 byte    0 ..= 2⁷ − 1
//! 10xxxxxx xxxxxxxx                       2 bytes   2⁷ ..= 2¹⁴ − 1
//! 110xxxxx xxxxxxxx xxxxxxxx              3 bytes   …
//! 11111110 + 7 bytes                      8 bytes   2⁴⁹ ..= 2⁵⁶ − 1
//! 11111111 0xxxxxxx + 7 bytes             9 bytes   2⁵⁶ ..= 2⁶³ − 1
//! 11111111 10000000 + 8 bytes            10 bytes   negative numbers, two's complement
//! ```
//!
//! Among non-negative values, byte order is numeric order. Negative numbers sort behind all of
//! them; the only one in use is the abort marker of the commit table's first encoding.
//!
//! The decoder accepts exactly the bytes that the encoder writes: a longer form of a small value is
//! rejected, so that equal values have equal bytes.

use bytes::BufMut;

use crate::error::{Error, Result};

/// Maximum length of an encoding in bytes.
pub const LEN_MAX: usize = 10;

/// Returns the encoded length of a value, `1..=10`.
#[must_use]
pub const fn len(value: i64) -> usize {
    let bits = 64 - value.cast_unsigned().leading_zeros();
    match bits.div_ceil(7) {
        0 => 1,
        groups => groups as usize,
    }
}

/// Appends a value.
#[inline]
pub fn put(out: &mut impl BufMut, value: i64) {
    // Fast path: nearly all values, such as lengths, flags, and small differences.
    match u8::try_from(value) {
        Ok(byte @ 0..0x80) => out.put_u8(byte),
        _ => put_long(out, value),
    }
}

fn put_long(out: &mut impl BufMut, value: i64) {
    let len = len(value);
    let be = value.to_be_bytes();
    match len {
        1..=8 => {
            // The bits above the value are zero: set the n − 1 ones in them.
            let ones = !(u64::MAX >> (len - 1));
            let shifted = value.cast_unsigned() << (64 - 8 * len);
            out.put_slice(&(shifted | ones).to_be_bytes()[..len]);
        }
        9 => {
            out.put_u8(0xff);
            out.put_slice(&be);
        }
        _ => {
            out.put_slice(&[0xff, 0x80]);
            out.put_slice(&be);
        }
    }
}

/// Returns the encoding of a value.
#[must_use]
pub fn encode(value: i64) -> Vec<u8> {
    let mut out = Vec::with_capacity(len(value));
    put(&mut out, value);
    out
}

/// Takes one value off the front of `bytes`.
///
/// # Errors
///
/// `Corrupted` if the bytes end too early or [`put`] does not write them.
#[inline]
pub fn take(bytes: &mut &[u8]) -> Result<i64> {
    // Fast path, as in `put`.
    if let [first @ 0..0x80, rest @ ..] = *bytes {
        *bytes = rest;
        return Ok(i64::from(*first));
    }
    take_long(bytes)
}

#[inline(never)]
fn take_long(bytes: &mut &[u8]) -> Result<i64> {
    let first = *bytes.first().ok_or_else(truncated)?;
    let (len, value) = match first.leading_ones() {
        8 => long_form(bytes)?,
        ones => {
            let len = ones as usize + 1;
            let taken = bytes.get(..len).ok_or_else(truncated)?;
            let mask = 0x7f_u8 >> ones;
            let value = taken[1..]
                .iter()
                .fold(i64::from(first & mask), |value, &byte| (value << 8) | i64::from(byte));
            (len, value)
        }
    };
    if self::len(value) != len {
        return Err(Error::corrupted(format!("VAR_LONG: {value} is written in {len} bytes")));
    }
    *bytes = &bytes[len..];
    Ok(value)
}

/// Decodes the forms of nine and ten bytes.
fn long_form(bytes: &[u8]) -> Result<(usize, i64)> {
    let (len, value) = match bytes.get(1).ok_or_else(truncated)? {
        0..=0x7f => (9, bytes.get(1..9)),
        0x80 => (10, bytes.get(2..10)),
        _ => return Err(Error::corrupted("VAR_LONG: no such length")),
    };
    let value = value.and_then(<[u8]>::first_chunk).ok_or_else(truncated)?;
    Ok((len, i64::from_be_bytes(*value)))
}

/// Takes one non-negative value off the front of `bytes`.
///
/// # Errors
///
/// See [`take`], and `Corrupted` if the value is negative.
#[inline]
pub fn take_unsigned(bytes: &mut &[u8]) -> Result<u64> {
    let value = take(bytes)?;
    u64::try_from(value).map_err(|_| negative(value))
}

#[cold]
fn negative(value: i64) -> Error {
    Error::corrupted(format!("VAR_LONG: {value} where no negative can be"))
}

/// Decodes a value that takes all of `bytes`.
///
/// # Errors
///
/// See [`take`], and `Corrupted` if bytes are left over.
pub fn decode(mut bytes: &[u8]) -> Result<i64> {
    let value = take(&mut bytes)?;
    if bytes.is_empty() {
        Ok(value)
    } else {
        Err(Error::corrupted(format!("VAR_LONG: {} bytes too many", bytes.len())))
    }
}

fn truncated() -> Error {
    Error::corrupted("VAR_LONG: the bytes end too early")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{self, unhex};

    #[test]
    fn bytes_match_the_golden_vectors() {
        let vectors = testing::vectors("commit_table_vectors.json");
        for vector in vectors["var_long"].as_array().unwrap() {
            let value = vector["value"].as_i64().unwrap();
            let bytes = unhex(vector["bytes"].as_str().unwrap());
            assert_eq!(encode(value), bytes);
            assert_eq!(decode(&bytes).unwrap(), value);
        }
    }

    /// Every length is equally likely.
    fn value() -> impl Strategy<Value = i64> {
        (any::<i64>(), 0..64_u32).prop_map(|(value, shift)| value >> shift)
    }

    proptest! {
        #[test]
        fn values_round_trip_and_keep_their_order(a in value(), b in value()) {
            let (left, right) = (encode(a), encode(b));
            prop_assert_eq!(left.len(), len(a));
            prop_assert_eq!(decode(&left).unwrap(), a);
            if a >= 0 && b >= 0 {
                prop_assert_eq!(left.cmp(&right), a.cmp(&b));
            }
            prop_assert!(a == b || !left.starts_with(&right));
            for cut in 0..left.len() {
                prop_assert!(decode(&left[..cut]).is_err());
            }
            let mut both = &[left, right].concat()[..];
            prop_assert!(decode(both).is_err());
            prop_assert_eq!((take(&mut both).unwrap(), take(&mut both).unwrap()), (a, b));
            prop_assert!(both.is_empty());
        }
    }

    #[test]
    fn longer_forms_of_small_values_are_refused() {
        for bytes in ["8000", "807f", "c00000", "ff00000000000000ff", "ff800000000000000001"] {
            assert!(decode(&unhex(bytes)).is_err(), "{bytes}");
        }
        assert!(decode(&unhex("ff81ffffffffffffffff")).is_err(), "no such length");
        assert!(take_unsigned(&mut &encode(-1)[..]).is_err());
    }

    #[test]
    fn decoder_accepts_only_canonical_bytes() {
        let good: Vec<_> = [0, 127, 128, 1 << 20, 1 << 55, i64::MAX, -1]
            .map(|value| bytes::Bytes::from(encode(value)))
            .into();
        testing::fuzz(&good, |bytes| {
            if let Ok(value) = decode(bytes) {
                assert_eq!(encode(value), bytes);
            }
        });
    }
}
