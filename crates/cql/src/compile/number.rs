//! Arithmetic on values, and their order.

use carnet::base::BigInt;
use carnet::{DataType, Value};

use crate::ast::ArithmeticOp;
use crate::cql_error::{CqlError, CqlErrorKind};

/// Maximum bits of a varint in arithmetic; larger ones are stored and compared, but calculations
/// would take too long.
const VARINT_BITS_MAX: u64 = 1 << 18;

/// Calculates `a op b`; both operands and the result have one type.
pub(crate) fn calculate(a: &Value, op: ArithmeticOp, b: &Value) -> Result<Value, CqlError> {
    if matches!(op, ArithmeticOp::Divide | ArithmeticOp::Remainder) && is_integer_zero(b) {
        return Err(division_by_zero(a, op, b));
    }
    macro_rules! integers {
        ($variant:ident, $a:expr, $b:expr) => {{
            let result = match op {
                ArithmeticOp::Add => $a.checked_add(*$b),
                ArithmeticOp::Subtract => $a.checked_sub(*$b),
                ArithmeticOp::Multiply => $a.checked_mul(*$b),
                ArithmeticOp::Divide => $a.checked_div(*$b),
                ArithmeticOp::Remainder => $a.checked_rem(*$b),
            };
            Value::$variant(result.ok_or_else(|| failed(a, op, b))?)
        }};
    }
    macro_rules! floats {
        ($variant:ident, $a:expr, $b:expr) => {
            Value::$variant(match op {
                ArithmeticOp::Add => $a + $b,
                ArithmeticOp::Subtract => $a - $b,
                ArithmeticOp::Multiply => $a * $b,
                ArithmeticOp::Divide => $a / $b,
                ArithmeticOp::Remainder => $a % $b,
            })
        };
    }
    Ok(match (a, b) {
        (Value::Tinyint(x), Value::Tinyint(y)) => integers!(Tinyint, x, y),
        (Value::Smallint(x), Value::Smallint(y)) => integers!(Smallint, x, y),
        (Value::Int(x), Value::Int(y)) => integers!(Int, x, y),
        (Value::Bigint(x), Value::Bigint(y)) => integers!(Bigint, x, y),
        (Value::Counter(x), Value::Counter(y)) => integers!(Counter, x, y),
        (Value::Float(x), Value::Float(y)) => floats!(Float, x, y),
        (Value::Double(x), Value::Double(y)) => floats!(Double, x, y),
        (Value::Varint(x), Value::Varint(y)) if x.bits() + y.bits() > VARINT_BITS_MAX => {
            return Err(CqlError::invalid(format!(
                "{} of varints of more than {VARINT_BITS_MAX} bits",
                op.symbol()
            )));
        }
        (Value::Varint(x), Value::Varint(y)) => Value::Varint(match op {
            ArithmeticOp::Add => x + y,
            ArithmeticOp::Subtract => x - y,
            ArithmeticOp::Multiply => x * y,
            ArithmeticOp::Divide => x / y,
            ArithmeticOp::Remainder => x % y,
        }),
        (Value::Decimal { .. }, Value::Decimal { .. }) => {
            return Err(CqlError::unsupported("arithmetic on decimals"));
        }
        _ => {
            return Err(CqlError::invalid(format!(
                "{} is no arithmetic on values of type {}",
                op.symbol(),
                a.data_type()
            )));
        }
    })
}

fn is_integer_zero(value: &Value) -> bool {
    match value {
        Value::Tinyint(number) => *number == 0,
        Value::Smallint(number) => *number == 0,
        Value::Int(number) => *number == 0,
        Value::Bigint(number) => *number == 0,
        Value::Varint(number) => *number == BigInt::ZERO,
        _ => false,
    }
}

/// Returns Cassandra's error; its operators are functions of the keyspace `system`.
fn division_by_zero(a: &Value, op: ArithmeticOp, b: &Value) -> CqlError {
    let types = [a, b].map(|value| value.data_type().to_string());
    let function = if op == ArithmeticOp::Divide { "_divide" } else { "_modulo" };
    // Java's messages: one for fixed-size integers, one for integers of any size.
    let why = if matches!(b, Value::Varint(_)) { "BigInteger divide by zero" } else { "/ by zero" };
    let (left, right) = (&types[0], &types[1]);
    let message = format!("the operation '{left} {} {right}' failed: {why}", op.symbol());
    let kind = CqlErrorKind::FunctionFailure {
        keyspace: "system".to_owned(),
        function: function.to_owned(),
        argument_types: types.into(),
    };
    CqlError::new(kind, message)
}

fn failed(a: &Value, op: ArithmeticOp, b: &Value) -> CqlError {
    CqlError::invalid(format!(
        "{a} {} {b} is outside of the range of type {}",
        op.symbol(),
        a.data_type()
    ))
}

/// Returns `true` for a numeric type, including that of counters.
pub(crate) const fn is_number(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Tinyint
            | DataType::Smallint
            | DataType::Int
            | DataType::Bigint
            | DataType::Counter
            | DataType::Varint
            | DataType::Float
            | DataType::Double
            | DataType::Decimal
    )
}

/// Converts a number to another numeric type.
pub(crate) fn convert(value: Value, data_type: &DataType) -> Result<Value, CqlError> {
    if value.data_type() == *data_type {
        return Ok(value);
    }
    let text = value.to_string();
    data_type.parse_text(&text).map_err(|_| {
        CqlError::invalid(format!(
            "{text}, of type {}, is not a value of type {data_type}",
            value.data_type()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_by_zero_is_a_failed_function() {
        let (five, zero) = (Value::Varint(BigInt::from(5)), Value::Varint(BigInt::ZERO));
        let error = calculate(&five, ArithmeticOp::Remainder, &zero).unwrap_err();
        assert_eq!(
            error.message(),
            "the operation 'varint % varint' failed: BigInteger divide by zero"
        );
        let kind = CqlErrorKind::FunctionFailure {
            keyspace: "system".to_owned(),
            function: "_modulo".to_owned(),
            argument_types: vec!["varint".to_owned(); 2],
        };
        assert_eq!(error.kind(), &kind);
        let infinite = calculate(&Value::Double(1.0), ArithmeticOp::Divide, &Value::Double(0.0));
        assert_eq!(infinite, Ok(Value::Double(f64::INFINITY)));
    }

    #[test]
    fn integers_never_wrap() {
        let max = Value::Int(i32::MAX);
        assert!(calculate(&max, ArithmeticOp::Add, &Value::Int(1)).is_err());
        assert!(calculate(&max, ArithmeticOp::Divide, &Value::Int(0)).is_err());
        let sum = calculate(&Value::Int(2), ArithmeticOp::Add, &Value::Int(3));
        assert_eq!(sum, Ok(Value::Int(5)));
    }
}
