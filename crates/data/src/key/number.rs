//! `varint` and `decimal` as components of a clustering key.
//!
//! The bytes of a negative number are those of its absolute value, with every bit flipped. A number
//! that is not negative:
//!
//! ```text
//! varint    80 + n, then the n bytes of the number, without zeros in front; n is below 127
//!           FF, then n in 4 bytes, then the n bytes
//! decimal   80 for zero
//!           81, then the exponent e as a varint, then the digits, then 00
//! ```
//!
//! A decimal is `0.d₁d₂… × 10^e`, where neither the first nor the last digit is zero. Two digits are
//! one byte, their number plus 1; a last digit that stands alone is followed by a zero.
//!
//! ```text
//! 300     82 01 2c             -300    7d fe d3
//! 1.50    81 81 01 10 00       0.05    81 7e fe 33 00
//!            e = 1 15                     e = -1 50
//! ```
//!
//! Digits say nothing of the scale: 1.5 and 1.50 have the same bytes, because they are the same key.
//! A decimal is read back with the least scale that its digits allow; a whole number of up to 38
//! digits has the scale 0.

use bytes::{BufMut, BytesMut};
use carnet_base::error::{Error, Result};
use num_bigint::{BigInt, Sign};

use super::reader::{KeyReader, wrong};
use crate::value::DataType;

/// Maximum length of a number in a clustering key. Cassandra has the same limit, of all components.
const NUMBER_BYTES_MAX: usize = u16::MAX as usize;
/// Maximum number of decimal digits of a number of [`NUMBER_BYTES_MAX`] bytes.
const DIGITS_MAX: usize = NUMBER_BYTES_MAX * 5 / 2;
/// Maximum number of digits of a whole number that is read back without an exponent.
const PLAIN_DIGITS_MAX: usize = 38;

const ZERO: u8 = 0x80;
/// First byte of a number whose length takes four more bytes.
const LONG: u8 = 0xff;
/// First byte of a decimal above zero.
const POSITIVE: u8 = 0x81;
/// Behind the last digits.
const END: u8 = 0x00;

/// Appends a `varint`.
pub(super) fn put_varint(out: &mut BytesMut, number: &BigInt) -> Result<()> {
    let (sign, bytes) = number.to_bytes_be();
    let length = if sign == Sign::NoSign { 0 } else { bytes.len() };
    check_length(&DataType::Varint, length)?;
    let start = out.len();
    match u8::try_from(length).ok().and_then(|length| length.checked_add(ZERO)) {
        Some(first) if first < LONG => out.put_u8(first),
        _ => {
            out.put_u8(LONG);
            out.put_u32(u32::try_from(length).expect("the length was checked"));
        }
    }
    out.put_slice(&bytes[..length]);
    flip_negative(sign, &mut out[start..]);
    Ok(())
}

/// Appends a `decimal`.
pub(super) fn put_decimal(out: &mut BytesMut, unscaled: &BigInt, scale: i32) -> Result<()> {
    check_length(
        &DataType::Decimal,
        unscaled.magnitude().bits().div_ceil(8).try_into().unwrap_or(usize::MAX),
    )?;
    if unscaled.sign() == Sign::NoSign {
        out.put_u8(ZERO);
        return Ok(());
    }
    let start = out.len();
    let digits = unscaled.magnitude().to_string();
    let exponent = i64::try_from(digits.len()).expect("the length was checked") - i64::from(scale);
    out.put_u8(POSITIVE);
    put_varint(out, &BigInt::from(exponent))?;
    for pair in digits.trim_end_matches('0').as_bytes().chunks(2) {
        let digit = |place: usize| pair.get(place).map_or(0, |digit| digit - b'0');
        out.put_u8(10 * digit(0) + digit(1) + 1);
    }
    out.put_u8(END);
    flip_negative(unscaled.sign(), &mut out[start..]);
    Ok(())
}

fn flip_negative(sign: Sign, bytes: &mut [u8]) {
    if sign == Sign::Minus {
        bytes.iter_mut().for_each(|byte| *byte = !*byte);
    }
}

fn check_length(data_type: &DataType, length: usize) -> Result<()> {
    if length <= NUMBER_BYTES_MAX {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a {data_type} of {length} bytes in a clustering key; at most {NUMBER_BYTES_MAX} are allowed"
    )))
}

impl KeyReader<'_, '_> {
    /// Takes the first byte of a number, and returns it as that of the absolute value. The bytes
    /// behind it are read as those of the absolute value, too.
    fn sign(&mut self) -> Result<(Sign, u8)> {
        let [first] = self.array()?;
        if first >= ZERO {
            return Ok((Sign::Plus, first));
        }
        self.mask = !self.mask;
        Ok((Sign::Minus, !first))
    }

    pub(super) fn varint(&mut self) -> Result<BigInt> {
        let mask = self.mask;
        let (sign, first) = self.sign()?;
        let length = match first {
            LONG => usize::try_from(self.u32()?)
                .ok()
                .filter(|length| *length >= usize::from(LONG - ZERO)),
            short => Some(usize::from(short - ZERO)),
        };
        let length = length.filter(|length| *length <= NUMBER_BYTES_MAX);
        let bytes = self.bytes(length.ok_or_else(|| wrong(&DataType::Varint))?)?;
        self.mask = mask;
        let is_short = bytes.first() != Some(&0) && !(bytes.is_empty() && sign == Sign::Minus);
        if is_short {
            Ok(BigInt::from_bytes_be(sign, &bytes))
        } else {
            Err(wrong(&DataType::Varint))
        }
    }

    /// Takes a decimal: its unscaled digits and its scale.
    pub(super) fn decimal(&mut self) -> Result<(BigInt, i32)> {
        let mask = self.mask;
        let found = match self.sign()? {
            (Sign::Plus, ZERO) => Some((BigInt::ZERO, 0)),
            (sign, POSITIVE) => {
                let exponent = i64::try_from(self.varint()?).ok();
                let digits = self.digits()?;
                exponent
                    .zip(digits)
                    .and_then(|(exponent, digits)| from_digits(sign, digits, exponent))
            }
            _ => None,
        };
        self.mask = mask;
        found.ok_or_else(|| wrong(&DataType::Decimal))
    }

    /// Takes digits up to their end; `None` if they are not as the encoder writes them.
    fn digits(&mut self) -> Result<Option<Vec<u8>>> {
        let mut digits = Vec::new();
        loop {
            match self.array()? {
                [END] => break,
                [pair @ 1..=100] if digits.len() < DIGITS_MAX => {
                    digits.extend([b'0' + (pair - 1) / 10, b'0' + (pair - 1) % 10]);
                }
                _ => return Ok(None),
            }
        }
        // Only the last digit of a pair may be a zero that is not one of the number's.
        if digits.ends_with(b"0") {
            digits.pop();
        }
        let is_written_so =
            digits.first().is_some_and(|first| *first != b'0') && !digits.ends_with(b"0");
        Ok(is_written_so.then_some(digits))
    }
}

/// Returns an equal decimal with the scale that a clustering key reads back; `None` if the number is too
/// long for one.
pub(crate) fn least_scale(unscaled: &BigInt, scale: i32) -> Option<(BigInt, i32)> {
    if unscaled.sign() == Sign::NoSign {
        return Some((BigInt::ZERO, 0));
    }
    let bytes = usize::try_from(unscaled.magnitude().bits().div_ceil(8)).ok()?;
    check_length(&DataType::Decimal, bytes).ok()?;
    let mut digits = unscaled.magnitude().to_string().into_bytes();
    let exponent = i64::try_from(digits.len()).ok()? - i64::from(scale);
    let length = digits.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1);
    digits.truncate(length);
    from_digits(unscaled.sign(), digits, exponent)
}

/// Makes the decimal `0.d₁d₂… × 10^exponent`; `None` if its scale is no 32-bit integer.
fn from_digits(sign: Sign, mut digits: Vec<u8>, exponent: i64) -> Option<(BigInt, i32)> {
    let scale = i64::try_from(digits.len()).ok()?.checked_sub(exponent)?;
    let is_plain = usize::try_from(exponent).is_ok_and(|whole| whole <= PLAIN_DIGITS_MAX);
    // A number that was written with zeros at its end may need some of them for its scale.
    let scale_min = if is_plain { 0 } else { i64::from(i32::MIN) };
    let zeros = usize::try_from(scale_min.saturating_sub(scale)).unwrap_or(0);
    if digits.len().saturating_add(zeros) > DIGITS_MAX {
        return None;
    }
    digits.resize(digits.len() + zeros, b'0');
    let scale = i32::try_from(scale.max(scale_min)).ok()?;
    let magnitude = BigInt::parse_bytes(&digits, 10)?;
    Some((if sign == Sign::Minus { -magnitude } else { magnitude }, scale))
}
