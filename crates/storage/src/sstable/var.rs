//! `VAR_LONG`s (see `carnet_base::var_long`), with fast paths for short ones.

use carnet_base::var_long;

use super::damage::Wrong;

/// Appends a number of up to 64 bits.
pub(super) fn put(out: &mut Vec<u8>, value: u64) {
    match u8::try_from(value) {
        Ok(byte) if byte < 0x80 => out.push(byte),
        _ => var_long::put(out, value.cast_signed()),
    }
}

/// Reads a number from the beginning of `bytes`.
pub(super) fn take(bytes: &mut &[u8]) -> Result<u64, Wrong> {
    match **bytes {
        [byte, ref rest @ ..] if byte < 0x80 => {
            *bytes = rest;
            Ok(u64::from(byte))
        }
        [high, low, ref rest @ ..]
            if (0x81..0xc0).contains(&high) || (high == 0x80 && low > 127) =>
        {
            *bytes = rest;
            Ok(u64::from(high & 0x3f) << 8 | u64::from(low))
        }
        _ => var_long::take(bytes)
            .map(i64::cast_unsigned)
            .map_err(|_| "a number ends too early or is written too long"),
    }
}

/// Reads a length.
pub(super) fn take_len(bytes: &mut &[u8]) -> Result<usize, Wrong> {
    usize::try_from(take(bytes)?).map_err(|_| "a length is too large")
}

/// Moves the sign to the lowest bit, so that small differences of either sign are short.
pub(super) const fn zigzag(difference: i64) -> u64 {
    ((difference << 1) ^ (difference >> 63)).cast_unsigned()
}

/// Reverses [`zigzag`].
pub(super) const fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -((number & 1).cast_signed())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_round_trip_like_var_long(number: u64, shift in 0..64_u32) {
            let number = number >> shift;
            let mut out = Vec::new();
            put(&mut out, number);
            prop_assert_eq!(&out, &var_long::encode(number.cast_signed()));
            let mut rest = &out[..];
            prop_assert_eq!((take(&mut rest), rest.len()), (Ok(number), 0));
            let signed = number.cast_signed();
            prop_assert_eq!(unzigzag(zigzag(signed)), signed);
        }

        #[test]
        fn two_bytes_decode_like_var_long(high: u8, low: u8) {
            let bytes = [high, low];
            let (mut ours, mut theirs) = (&bytes[..], &bytes[..]);
            let expected = var_long::take(&mut theirs).ok().map(i64::cast_unsigned);
            prop_assert_eq!(take(&mut ours).ok(), expected);
            prop_assert!(expected.is_none() || ours == theirs);
        }
    }
}
