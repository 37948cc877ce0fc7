//! Arithmetic on decimals, with the scales and the rounding of Cassandra, whose numbers are Java's
//! `BigDecimal`.
//!
//! | operation | scale of the result |
//! | --- | --- |
//! | `a + b`, `a - b` | the larger one |
//! | `a * b` | the sum |
//! | `a / b` | so that it has 32 significant digits, at least 32 and at most 1000; then without zeros at its end |
//! | `a % b` | as `a - (a / b, truncated) * b` |
//!
//! Results are rounded half up to 10,000 digits. Numbers whose digits lie so far apart that aligning
//! them would take long are refused.

use carnet::Value;
use carnet_data::BigInt;

use crate::ast::ArithmeticOp;

/// Maximum number of bits of both numbers of an operation: longer ones are stored and compared, but
/// calculations would take too long.
pub(crate) const NUMBER_BITS_MAX: u64 = 1 << 18;

/// Maximum number of digits of a sum, difference or product.
const PRECISION: usize = 10_000;
/// Significant digits of a quotient, and its least scale.
const QUOTIENT_DIGITS: i64 = 32;
const QUOTIENT_SCALE_MAX: i64 = 1_000;
/// Maximum number of zeros that are appended to align two numbers.
const ZEROS_MAX: i64 = 65_536;

/// A decimal: the unscaled number and the scale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decimal(pub(crate) BigInt, pub(crate) i32);

/// Reason for which there is no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoResult {
    /// The divisor is zero; Java's message.
    DivisionByZero(&'static str),
    /// The result has a scale of more than 32 bits, or takes too long.
    OutOfRange,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Rounding {
    HalfUp,
    HalfEven,
}

impl Decimal {
    pub(crate) const ZERO: Self = Self(BigInt::ZERO, 0);

    /// Returns the decimal of a value; `None` for a value of another type.
    pub(crate) fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Decimal { unscaled, scale } => Some(Self(unscaled.clone(), *scale)),
            _ => None,
        }
    }

    /// Calculates `self op other`.
    pub(super) fn calculate(&self, op: ArithmeticOp, other: &Self) -> Result<Self, NoResult> {
        match op {
            ArithmeticOp::Add => self.plus(other)?.rounded(),
            ArithmeticOp::Subtract => self.plus(&other.negated())?.rounded(),
            ArithmeticOp::Multiply => {
                let scale = i64::from(self.1) + i64::from(other.1);
                Self::new(&self.0 * &other.0, scale)?.rounded()
            }
            ArithmeticOp::Divide => self.divided_by(other),
            ArithmeticOp::Remainder => self.remainder(other),
        }
    }

    /// Returns the exact sum.
    pub(crate) fn plus(&self, other: &Self) -> Result<Self, NoResult> {
        if self.0.bits() + other.0.bits() > NUMBER_BITS_MAX {
            return Err(NoResult::OutOfRange);
        }
        let scale = self.1.max(other.1);
        let aligned = |number: &Self| shifted(&number.0, i64::from(scale) - i64::from(number.1));
        Ok(Self(aligned(self)? + aligned(other)?, scale))
    }

    /// Returns the average of `count` numbers, of which `self` is the average of the others and
    /// `next` the last: the difference is divided in its own scale, as in Cassandra.
    pub(crate) fn average_with(&self, next: &Self, count: i64) -> Result<Self, NoResult> {
        let difference = next.plus(&self.negated())?;
        let part = divide(&difference.0, &BigInt::from(count), Rounding::HalfEven);
        self.plus(&Self(part, difference.1))
    }

    fn new(unscaled: BigInt, scale: i64) -> Result<Self, NoResult> {
        i32::try_from(scale).map(|scale| Self(unscaled, scale)).map_err(|_| NoResult::OutOfRange)
    }

    fn negated(&self) -> Self {
        Self(-self.0.clone(), self.1)
    }

    fn is_zero(&self) -> bool {
        self.0 == BigInt::ZERO
    }

    fn rounded(self) -> Result<Self, NoResult> {
        let surplus = digits(&self.0).saturating_sub(PRECISION);
        if surplus == 0 {
            return Ok(self);
        }
        let unit = power(i64::try_from(surplus).unwrap_or(i64::MAX))?;
        let scale = i64::from(self.1) - i64::try_from(surplus).unwrap_or(i64::MAX);
        // Digits of nines may become one digit more.
        Self::new(divide(&self.0, &unit, Rounding::HalfUp), scale)?.rounded()
    }

    fn divided_by(&self, other: &Self) -> Result<Self, NoResult> {
        if other.is_zero() {
            return Err(NoResult::DivisionByZero("BigInteger divide by zero"));
        }
        let whole = |number: &Self| {
            i64::try_from(digits(&number.0)).unwrap_or(i64::MAX) - i64::from(number.1)
        };
        let scale = (QUOTIENT_DIGITS - (whole(self) - whole(other)))
            .max(self.1.into())
            .max(other.1.into())
            .clamp(QUOTIENT_DIGITS, QUOTIENT_SCALE_MAX);
        let zeros = scale + i64::from(other.1) - i64::from(self.1);
        let dividend = shifted(&self.0, zeros.max(0))?;
        let divisor = shifted(&other.0, (-zeros).max(0))?;
        Self::new(divide(&dividend, &divisor, Rounding::HalfUp), scale)?.without_zeros(i64::MIN)
    }

    fn remainder(&self, other: &Self) -> Result<Self, NoResult> {
        if other.is_zero() {
            return Err(NoResult::DivisionByZero("Division by zero"));
        }
        let scale = self.1.max(other.1);
        let aligned = |number: &Self| shifted(&number.0, i64::from(scale) - i64::from(number.1));
        let quotient = aligned(self)? / aligned(other)?;
        let preferred = i64::from(self.1) - i64::from(other.1);
        let quotient = match preferred {
            0.. => Self::new(shifted(&quotient, preferred)?, preferred)?,
            _ if quotient == BigInt::ZERO => Self::new(quotient, preferred)?,
            _ => Self(quotient, 0).without_zeros(preferred)?,
        };
        let product =
            Self::new(&quotient.0 * &other.0, i64::from(quotient.1) + i64::from(other.1))?;
        self.plus(&product.negated())
    }

    /// Removes zeros from its end, down to a scale.
    fn without_zeros(self, scale_min: i64) -> Result<Self, NoResult> {
        if self.is_zero() {
            return Ok(Self::ZERO);
        }
        let text = self.0.magnitude().to_string();
        let zeros = text.len() - text.trim_end_matches('0').len();
        let zeros = i64::try_from(zeros).unwrap_or(i64::MAX);
        let zeros = zeros.min(i64::from(self.1).saturating_sub(scale_min));
        Self::new(self.0 / power(zeros)?, i64::from(self.1) - zeros)
    }
}

impl From<Decimal> for Value {
    fn from(decimal: Decimal) -> Self {
        Self::Decimal { unscaled: decimal.0, scale: decimal.1 }
    }
}

/// Returns the number of decimal digits; 1 for zero.
pub(super) fn digits(number: &BigInt) -> usize {
    number.magnitude().to_string().len()
}

/// Returns a number with zeros appended.
fn shifted(number: &BigInt, zeros: i64) -> Result<BigInt, NoResult> {
    if *number == BigInt::ZERO {
        return Ok(BigInt::ZERO);
    }
    Ok(number * power(zeros)?)
}

fn power(exponent: i64) -> Result<BigInt, NoResult> {
    let exponent =
        u32::try_from(exponent).ok().filter(|exponent| i64::from(*exponent) <= ZEROS_MAX);
    exponent.map(|exponent| BigInt::from(10).pow(exponent)).ok_or(NoResult::OutOfRange)
}

fn divide(dividend: &BigInt, divisor: &BigInt, rounding: Rounding) -> BigInt {
    let (quotient, rest) = (dividend / divisor, dividend % divisor);
    let twice = BigInt::from(rest.magnitude() * 2_u32);
    let ordering = twice.cmp(&BigInt::from(divisor.magnitude().clone()));
    let is_odd = quotient.bit(0);
    let rounds_away =
        ordering.is_gt() || (ordering.is_eq() && (rounding == Rounding::HalfUp || is_odd));
    if !rounds_away {
        return quotient;
    }
    let is_negative = (*dividend < BigInt::ZERO) != (*divisor < BigInt::ZERO);
    if is_negative { quotient - 1 } else { quotient + 1 }
}

#[cfg(test)]
mod tests {
    use carnet::DataType;

    use super::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::of(&DataType::Decimal.parse_text(text).unwrap()).unwrap()
    }

    fn calculated(a: &str, op: ArithmeticOp, b: &str) -> String {
        let result = decimal(a).calculate(op, &decimal(b));
        result.map_or_else(|error| format!("{error:?}"), |found| Value::from(found).to_string())
    }

    /// Results of Cassandra 5.0.6, and of `BigDecimal` as its documentation defines them.
    #[test]
    fn results_are_those_of_java() {
        use ArithmeticOp::{Add, Divide, Multiply, Remainder, Subtract};
        for (a, op, b, expected) in [
            ("8.50", Add, "1.0", "9.50"),
            ("8.50", Subtract, "1.0", "7.50"),
            ("8.50", Multiply, "2.0", "17.000"),
            ("8.50", Multiply, "8.50", "72.2500"),
            ("8.50", Divide, "3.0", "2.83333333333333333333333333333333"),
            ("8.50", Divide, "4.0", "2.125"),
            ("200", Divide, "2", "1E+2"),
            ("-1", Divide, "3", "-0.33333333333333333333333333333333"),
            (
                "2",
                Divide,
                "3e-40",
                "6666666666666666666666666666666666666666.6666666666666666666666666666666666666667",
            ),
            ("0", Divide, "7", "0"),
            ("8.50", Remainder, "3.0", "2.50"),
            ("8.50", Remainder, "3.25", "2.00"),
            ("32.5", Remainder, "3.25", "0.0"),
            ("-8.5", Remainder, "3", "-2.5"),
            ("1", Remainder, "7.25", "1"),
            ("1", Divide, "0", "DivisionByZero(\"BigInteger divide by zero\")"),
            ("1", Remainder, "0.0", "DivisionByZero(\"Division by zero\")"),
            ("1e2000000000", Add, "1", "OutOfRange"),
            ("1e-2000000000", Multiply, "1e-2000000000", "OutOfRange"),
        ] {
            assert_eq!(calculated(a, op, b), expected, "{a} {op:?} {b}");
        }
    }

    #[test]
    fn long_results_are_rounded() {
        let nines = "9".repeat(PRECISION + 1);
        let sum = calculated(&nines, ArithmeticOp::Add, "0");
        assert_eq!(decimal(&sum), Decimal(BigInt::from(10).pow(9_999), -2));
    }

    #[test]
    fn averages_depend_on_the_order() {
        let average = |texts: &[&str]| {
            let numbers = texts.iter().zip(1..);
            let average = numbers.fold(Decimal::ZERO, |average, (text, count)| {
                average.average_with(&decimal(text), count).unwrap()
            });
            Value::from(average).to_string()
        };
        assert_eq!(average(&["8.50", "1", "1E+2", "2"]), "27.88");
        assert_eq!(average(&["1", "2"]), "1");
        assert_eq!(average(&["1E+2"]), "100");
    }
}
