//! Functions of numbers. Each returns a number of the type of its argument.

use carnet::base::BigInt;
use carnet::{DataType, Value};

use super::super::number;
use crate::cql_error::CqlError;

/// A function of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MathFunction {
    Abs,
    Exp,
    /// Natural logarithm, of base e.
    Log,
    Log10,
    /// The nearest integer; halves are rounded up, and those of decimals away from zero.
    Round,
}

impl MathFunction {
    pub(super) fn find(name: &str) -> Option<Self> {
        Some(match name {
            "abs" => Self::Abs,
            "exp" => Self::Exp,
            "log" => Self::Log,
            "log10" => Self::Log10,
            "round" => Self::Round,
            _ => return None,
        })
    }

    /// Returns `true` if the function takes a type, and the types that it takes.
    pub(super) fn accepts(self, data_type: &DataType) -> (bool, String) {
        let is_exact = matches!(data_type, DataType::Varint | DataType::Decimal);
        let is_number = number::is_number(data_type);
        match self {
            Self::Abs | Self::Round => (is_number, "a number".to_owned()),
            _ => (is_number && !is_exact, "a number other than a varint or decimal".to_owned()),
        }
    }

    /// Calculates the function. Integers wrap around and are truncated like Java's.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "casts of Rust round, truncate and saturate like those of Java"
    )]
    pub(super) fn of(self, number: &Value) -> Result<Value, CqlError> {
        macro_rules! integer {
            ($variant:ident, $number:expr, $type:ty) => {
                Value::$variant(match self {
                    Self::Abs => $number.wrapping_abs(),
                    Self::Round => *$number,
                    _ => self.approximate(*$number as f64) as i64 as $type,
                })
            };
        }
        Ok(match number {
            Value::Tinyint(number) => integer!(Tinyint, number, i8),
            Value::Smallint(number) => integer!(Smallint, number, i16),
            Value::Int(number) => integer!(Int, number, i32),
            Value::Bigint(number) => integer!(Bigint, number, i64),
            Value::Counter(number) => integer!(Counter, number, i64),
            Value::Float(number) => Value::Float(match self {
                // The nearest integer is one of 32 bits, as in Java.
                Self::Round => (f64::from(*number) + 0.5).floor() as i32 as f32,
                _ => self.approximate(f64::from(*number)) as f32,
            }),
            Value::Double(number) => Value::Double(self.approximate(*number)),
            Value::Varint(number) => Value::Varint(match self {
                Self::Abs => BigInt::from(number.magnitude().clone()),
                _ => number.clone(),
            }),
            Value::Decimal { unscaled, scale } => match self {
                Self::Abs => {
                    let unscaled = BigInt::from(unscaled.magnitude().clone());
                    Value::Decimal { unscaled, scale: *scale }
                }
                _ => round_decimal(unscaled, *scale),
            },
            other => {
                return Err(CqlError::invalid(format!("{other} is not a number")));
            }
        })
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "the nearest integer is one of 64 bits, as in Java"
    )]
    fn approximate(self, number: f64) -> f64 {
        match self {
            Self::Abs => number.abs(),
            Self::Exp => number.exp(),
            Self::Log => number.ln(),
            Self::Log10 => number.log10(),
            Self::Round => (number + 0.5).floor() as i64 as f64,
        }
    }
}

/// Rounds a decimal to an integer; halves are rounded away from zero.
fn round_decimal(unscaled: &BigInt, scale: i32) -> Value {
    let Some(places) = u32::try_from(scale).ok().filter(|places| *places > 0) else {
        return Value::Decimal { unscaled: unscaled.clone(), scale };
    };
    let digits = unscaled.magnitude().to_string().len();
    if usize::try_from(places).is_ok_and(|places| places > digits) {
        return Value::Decimal { unscaled: BigInt::ZERO, scale: 0 };
    }
    let unit = BigInt::from(10).pow(places);
    let half: BigInt = &unit / 2;
    let half = if *unscaled < BigInt::ZERO { -half } else { half };
    Value::Decimal { unscaled: (unscaled + half) / unit, scale: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, data_type: &DataType, text: &str) -> String {
        let function = MathFunction::find(name).unwrap();
        assert!(function.accepts(data_type).0, "{name} {data_type}");
        let value = function.of(&data_type.parse_text(text).unwrap()).unwrap();
        assert_eq!(value.data_type(), *data_type);
        value.to_string()
    }

    #[test]
    fn numbers_keep_their_type() {
        for (name, data_type, argument, expected) in [
            ("abs", DataType::Int, "-5", "5"),
            ("abs", DataType::Tinyint, "-128", "-128"),
            ("abs", DataType::Varint, "-100000000000000000000", "100000000000000000000"),
            ("abs", DataType::Decimal, "-1.50", "1.50"),
            ("abs", DataType::Double, "-0.5", "0.5"),
            ("exp", DataType::Int, "2", "7"),
            ("exp", DataType::Double, "0", "1"),
            ("exp", DataType::Bigint, "100", "9223372036854775807"),
            ("log", DataType::Double, "1", "0"),
            ("log", DataType::Int, "-1", "0"),
            ("log10", DataType::Bigint, "1000", "3"),
            ("log10", DataType::Float, "100", "2"),
            ("round", DataType::Double, "2.5", "3"),
            ("round", DataType::Double, "-2.5", "-2"),
            ("round", DataType::Float, "1.4", "1"),
            ("round", DataType::Int, "7", "7"),
            ("round", DataType::Decimal, "2.5", "3"),
            ("round", DataType::Decimal, "-2.5", "-3"),
            ("round", DataType::Decimal, "0.04", "0"),
            ("round", DataType::Decimal, "1E+5", "1E+5"),
            ("round", DataType::Decimal, "1e-2000000000", "0"),
        ] {
            assert_eq!(of(name, &data_type, argument), expected, "{name}({argument})");
        }
    }

    #[test]
    fn exact_numbers_have_no_logarithm() {
        let log = MathFunction::find("log").unwrap();
        assert!(!log.accepts(&DataType::Decimal).0);
        assert!(!log.accepts(&DataType::Text).0);
        assert!(!MathFunction::Abs.accepts(&DataType::Text).0);
    }
}
