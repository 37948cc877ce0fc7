//! Functions of numbers. Each returns a number of the type of its argument.

use carnet::{DataType, Value};
use carnet_data::BigInt;

use super::super::number;
use crate::cql_error::CqlError;
use crate::json;
use crate::shown::shown_value;

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

    const fn name(self) -> &'static str {
        match self {
            Self::Abs => "abs",
            Self::Exp => "exp",
            Self::Log => "log",
            Self::Log10 => "log10",
            Self::Round => "round",
        }
    }

    /// Calculates the function. Results of integers are truncated like Java's.
    ///
    /// # Errors
    ///
    /// `Invalid` if the result is not in the range of the type. Java's would be another number.
    #[expect(clippy::cast_possible_truncation, reason = "a float has the nearest float")]
    pub(super) fn of(self, number: &Value) -> Result<Value, CqlError> {
        macro_rules! integer {
            ($variant:ident, $number:expr) => {
                match self {
                    Self::Abs => $number.checked_abs(),
                    Self::Round => Some(*$number),
                    _ => self.truncated(i64::from(*$number)).and_then(|it| it.try_into().ok()),
                }
                .map(Value::$variant)
                .ok_or_else(|| self.out_of_range(number))?
            };
        }
        Ok(match number {
            Value::Tinyint(integer) => integer!(Tinyint, integer),
            Value::Smallint(integer) => integer!(Smallint, integer),
            Value::Int(integer) => integer!(Int, integer),
            Value::Bigint(integer) => integer!(Bigint, integer),
            Value::Counter(integer) => integer!(Counter, integer),
            Value::Float(number) => Value::Float(self.approximate(f64::from(*number)) as f32),
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
                _ => round_decimal(unscaled, *scale)?,
            },
            other => {
                return Err(CqlError::invalid(format!("{} is not a number", shown_value(other))));
            }
        })
    }

    fn out_of_range(self, number: &Value) -> CqlError {
        CqlError::invalid(format!(
            "{}({}) is outside of the range of type {}",
            self.name(),
            shown_value(number),
            number.data_type()
        ))
    }

    /// Calculates the function of an integer; `None` if the result has no integer of 64 bits.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "the number is in the range of the integer, which truncates it"
    )]
    fn truncated(self, number: i64) -> Option<i64> {
        // 2⁶³, the first number that is too large.
        const END: f64 = 9_223_372_036_854_775_808.0;
        let result = self.approximate(number as f64);
        (-END..END).contains(&result).then_some(result as i64)
    }

    fn approximate(self, number: f64) -> f64 {
        match self {
            Self::Abs => number.abs(),
            Self::Exp => number.exp(),
            Self::Log => number.ln(),
            Self::Log10 => number.log10(),
            Self::Round => {
                let below = number.floor();
                if number - below >= 0.5 { below + 1.0 } else { below }
            }
        }
    }
}

/// Rounds a decimal to an integer; halves are rounded away from zero.
fn round_decimal(unscaled: &BigInt, scale: i32) -> Result<Value, CqlError> {
    let Some(places) = u32::try_from(scale).ok().filter(|places| *places > 0) else {
        return Ok(Value::Decimal { unscaled: unscaled.clone(), scale });
    };
    json::check_digits(unscaled)?;
    let digits = unscaled.magnitude().to_string().len();
    if usize::try_from(places).is_ok_and(|places| places > digits) {
        return Ok(Value::Decimal { unscaled: BigInt::ZERO, scale: 0 });
    }
    let unit = BigInt::from(10).pow(places);
    let half: BigInt = &unit / 2;
    let half = if *unscaled < BigInt::ZERO { -half } else { half };
    Ok(Value::Decimal { unscaled: (unscaled + half) / unit, scale: 0 })
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
            ("abs", DataType::Varint, "-100000000000000000000", "100000000000000000000"),
            ("abs", DataType::Decimal, "-1.50", "1.50"),
            ("abs", DataType::Double, "-0.5", "0.5"),
            ("exp", DataType::Int, "2", "7"),
            ("exp", DataType::Double, "0", "1"),
            ("exp", DataType::Bigint, "43", "4727839468229346304"),
            ("log", DataType::Double, "1", "0"),
            ("log10", DataType::Bigint, "1000", "3"),
            ("log10", DataType::Float, "100", "2"),
            ("round", DataType::Double, "2.5", "3"),
            ("round", DataType::Double, "-2.5", "-2"),
            ("round", DataType::Float, "1.4", "1"),
            ("round", DataType::Float, "3e10", "30000000000"),
            ("round", DataType::Double, "0.49999999999999994", "0"),
            ("round", DataType::Double, "4503599627370497", "4503599627370497"),
            ("round", DataType::Double, "1e300", "1e+300"),
            ("round", DataType::Double, "NaN", "NaN"),
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

    /// Java's results are -128, 9223372036854775807, and 0.
    #[test]
    fn results_outside_of_a_type_are_refused() {
        for (name, data_type, argument) in [
            ("abs", DataType::Tinyint, "-128"),
            ("abs", DataType::Smallint, "-32768"),
            ("abs", DataType::Int, "-2147483648"),
            ("abs", DataType::Bigint, "-9223372036854775808"),
            ("exp", DataType::Bigint, "44"),
            ("exp", DataType::Tinyint, "5"),
            ("log", DataType::Int, "-1"),
            ("log", DataType::Int, "0"),
            ("log10", DataType::Bigint, "-5"),
        ] {
            let function = MathFunction::find(name).unwrap();
            let error = function.of(&data_type.parse_text(argument).unwrap()).unwrap_err();
            let expected =
                format!("{name}({argument}) is outside of the range of type {data_type}");
            assert_eq!(error.message(), expected);
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
