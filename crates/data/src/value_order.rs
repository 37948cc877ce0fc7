//! Order of values, as Cassandra's comparators have it.

use std::cmp::Ordering;

use num_bigint::BigInt;

use crate::key::{self, Order};
use crate::value::{Composite, Value};

impl Value {
    /// Compares two values of one type.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            // The empty value is before all others.
            (Self::Empty(_), other) => other.is_empty_value().cmp(&true),
            (_, Self::Empty(_)) => Ordering::Greater,
            (Self::Text(a), Self::Text(b)) | (Self::Ascii(a), Self::Ascii(b)) => a.cmp(b),
            (Self::Blob(a), Self::Blob(b)) => a.cmp(b),
            (Self::Bigint(a), Self::Bigint(b))
            | (Self::Timestamp(a), Self::Timestamp(b))
            | (Self::Time(a), Self::Time(b))
            | (Self::Counter(a), Self::Counter(b)) => a.cmp(b),
            (Self::Int(a), Self::Int(b)) => a.cmp(b),
            (Self::Varint(a), Self::Varint(b)) => a.cmp(b),
            (Self::Duration(_), Self::Duration(_)) => self.serialize().cmp(&other.serialize()),
            (
                Self::Decimal { unscaled: a, scale: a_scale },
                Self::Decimal { unscaled: b, scale: b_scale },
            ) => compare_decimals(a, *a_scale, b, *b_scale),
            (Self::Composite(a), Self::Composite(b)) => compare_composites(a, b),
            (a, b) => {
                let bytes = |value: &Self| {
                    key::encode(std::slice::from_ref(value), &[Order::Asc]).unwrap_or_default()
                };
                bytes(a).cmp(&bytes(b))
            }
        }
    }

    const fn is_empty_value(&self) -> bool {
        matches!(self, Self::Empty(_))
    }

    /// Compares two values of one type; null is before all others.
    #[must_use]
    pub fn compare_nullable(a: Option<&Self>, b: Option<&Self>) -> Ordering {
        match (a, b) {
            (Some(a), Some(b)) => a.compare(b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        }
    }
}

/// Compares part by part; a list that begins with another one is after it.
fn compare_composites(a: &Composite, b: &Composite) -> Ordering {
    let parts = a.parts().iter().zip(b.parts());
    let unequal = parts
        .map(|(a, b)| Value::compare_nullable(a.as_ref(), b.as_ref()))
        .find(|ordering| ordering.is_ne());
    unequal.unwrap_or_else(|| a.parts().len().cmp(&b.parts().len()))
}

/// Compares decimals without writing out the zeros of a large difference in scale.
fn compare_decimals(a: &BigInt, a_scale: i32, b: &BigInt, b_scale: i32) -> Ordering {
    let sign = a.sign().cmp(&b.sign());
    if sign != Ordering::Equal || *a == BigInt::ZERO {
        return sign;
    }
    // The number of digits before the point decides first; only numbers of similar size are scaled.
    let ((a_least, a_most), (b_least, b_most)) = (digits(a, a_scale), digits(b, b_scale));
    if a_most < b_least || b_most < a_least {
        let by_size = a_least.cmp(&b_least);
        return if *a < BigInt::ZERO { by_size.reverse() } else { by_size };
    }
    let difference = a_scale.abs_diff(b_scale);
    let power = BigInt::from(10).pow(difference);
    if a_scale < b_scale { (a * power).cmp(b) } else { a.cmp(&(b * power)) }
}

/// Returns bounds of the number of digits before the point. The exact number takes quadratic time.
fn digits(number: &BigInt, scale: i32) -> (i64, i64) {
    /// Digits of 10¹² bits.
    const DIGITS: u128 = 301_029_995_663;
    let digits = u128::from(number.bits()) * DIGITS / 1_000_000_000_000;
    let digits = i64::try_from(digits).unwrap_or(i64::MAX / 2) - i64::from(scale);
    (digits - 1, digits + 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::DataType;

    fn decimal(unscaled: i64, scale: i32) -> Value {
        Value::Decimal { unscaled: BigInt::from(unscaled), scale }
    }

    #[test]
    fn decimals_compare_by_value() {
        let ordered = [
            decimal(-1, -2_000_000_000),
            decimal(-15, 1),
            decimal(-1, 0),
            decimal(0, 7),
            decimal(1, 2_000_000_000),
            decimal(99, 2),
            decimal(1, 0),
            decimal(11, 1),
            decimal(1, -1),
        ];
        for (n, a) in ordered.iter().enumerate() {
            for (m, b) in ordered.iter().enumerate() {
                assert_eq!(a.compare(b), n.cmp(&m), "{a:?} {b:?}");
            }
        }
        assert_eq!(decimal(10, 1).compare(&decimal(1, 0)), Ordering::Equal);
    }

    /// 4,000 comparisons by their digits took 20 s.
    #[test]
    fn long_decimal_compares_with_short_ones() {
        let long = Value::Decimal { unscaled: BigInt::from(1) << 16_000_000_u32, scale: 3 };
        for number in 0..4_000 {
            assert!(long.compare(&decimal(number, 1)).is_gt());
            assert!(decimal(-number, 1).compare(&long).is_lt());
        }
        // One digit more or less, where bits alone do not decide.
        for digits in 1..18 {
            let (nines, power) =
                (decimal(10_i64.pow(digits) - 1, 0), decimal(10_i64.pow(digits), 0));
            assert!(nines.compare(&power).is_lt() && power.compare(&nines).is_gt());
            let scale = -i32::try_from(digits).unwrap();
            assert!(power.compare(&decimal(1, scale)).is_eq());
            assert!(nines.compare(&decimal(1, scale)).is_lt());
        }
    }

    #[test]
    fn empty_value_is_before_all_others() {
        for (data_type, least) in [
            (DataType::Int, "-2147483648"),
            (DataType::Boolean, "false"),
            (DataType::Double, "-Infinity"),
            (DataType::Decimal, "-1e9"),
            (DataType::Timestamp, "-9223372036854775808"),
        ] {
            let (empty, least) =
                (Value::Empty(data_type.clone()), data_type.parse_text(least).unwrap());
            assert!(empty.compare(&least).is_lt() && least.compare(&empty).is_gt());
            assert!(empty.compare(&empty).is_eq());
            assert_eq!(data_type.deserialize(&empty.serialize()).unwrap(), empty);
        }
    }

    #[test]
    fn composites_compare_part_by_part() {
        let ordered = |data_type: DataType, texts: &[&str]| {
            let values: Vec<Value> =
                texts.iter().map(|text| data_type.parse_text(text).unwrap()).collect();
            for (n, a) in values.iter().enumerate() {
                for (m, b) in values.iter().enumerate() {
                    assert_eq!(a.compare(b), n.cmp(&m), "{a} {b}");
                }
            }
        };
        // Numbers without an order-preserving encoding.
        ordered(DataType::list(DataType::Varint), &["[]", "[-300]", "[2]", "[2, 1]", "[10]"]);
        ordered(
            DataType::map(DataType::Int, DataType::Decimal),
            &["{}", "{-1: 9.5}", "{1: 2.5}", "{1: 10, 2: 0}", "{3: 0}"],
        );
        let tuple = DataType::tuple([DataType::Int, DataType::Text]);
        ordered(tuple, &["(null, 'b')", "(-1, null)", "(1, null)", "(1, 'a')", "(2, null)"]);
    }
}
