//! Arithmetic on values, and their order.

use carnet::{DataType, Value};
use carnet_base::limits::VALUE_BYTES_MAX;
use carnet_data::BigInt;

use super::decimal::{Decimal, NUMBER_BITS_MAX, NoResult};
use super::temporal::{is_temporal, shift};
use crate::ast::ArithmeticOp;
use crate::cql_error::{CqlError, CqlErrorKind};
use crate::json;
use crate::shown::{shown, shown_value};

/// Calculates `a op b`; both operands and the result have one type.
pub(crate) fn calculate(a: &Value, op: ArithmeticOp, b: &Value) -> Result<Value, CqlError> {
    calculate_of([&a.data_type(), &b.data_type()], a.clone(), op, b)
}

/// Like [`calculate`], with the types that the operands had before they were converted.
pub(super) fn calculate_of(
    types: [&DataType; 2],
    a: Value,
    op: ArithmeticOp,
    b: &Value,
) -> Result<Value, CqlError> {
    if let Value::Text(_) | Value::Ascii(_) = a {
        return join(a, op, b);
    }
    let a = &a;
    check_bits(op, a, b)?;
    if matches!(op, ArithmeticOp::Divide | ArithmeticOp::Remainder) && is_integer_zero(b) {
        // Java's messages: one for fixed-size integers, one for integers of any size.
        let is_large = matches!(b, Value::Varint(_));
        let why = if is_large { "BigInteger divide by zero" } else { "/ by zero" };
        return Err(failure(types, op, why));
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
        (Value::Varint(x), Value::Varint(y)) => Value::Varint(match op {
            ArithmeticOp::Add => x + y,
            ArithmeticOp::Subtract => x - y,
            ArithmeticOp::Multiply => x * y,
            ArithmeticOp::Divide => x / y,
            ArithmeticOp::Remainder => x % y,
        }),
        (Value::Decimal { .. }, Value::Decimal { .. }) => {
            let (Some(x), Some(y)) = (Decimal::of(a), Decimal::of(b)) else {
                return Err(failed(a, op, b));
            };
            match x.calculate(op, &y) {
                Ok(result) => result.into(),
                Err(NoResult::DivisionByZero(why)) => return Err(failure(types, op, why)),
                Err(NoResult::OutOfRange) => return Err(failed(a, op, b)),
            }
        }
        (time, Value::Duration(duration)) if is_temporal(&time.data_type()) => {
            shift(time, op, *duration).map_err(|why| failure(types, op, &why))?
        }
        _ => return Err(no_arithmetic(op, a)),
    })
}

/// Appends a text to another one. The memory of the first one is used again, so that a chain of
/// operators copies each text once.
fn join(a: Value, op: ArithmeticOp, b: &Value) -> Result<Value, CqlError> {
    let (Value::Text(more) | Value::Ascii(more), ArithmeticOp::Add) = (b, op) else {
        return Err(no_arithmetic(op, &a));
    };
    let append = |mut text: String| {
        let bytes = text.len() + more.len();
        if bytes > VALUE_BYTES_MAX {
            return Err(CqlError::invalid(format!(
                "the text has {bytes} bytes, more than the {VALUE_BYTES_MAX} that a calculated text may \
                 have"
            )));
        }
        text.push_str(more);
        Ok(text)
    };
    match a {
        Value::Text(text) => append(text).map(Value::Text),
        Value::Ascii(text) => append(text).map(Value::Ascii),
        other => Err(no_arithmetic(op, &other)),
    }
}

fn no_arithmetic(op: ArithmeticOp, a: &Value) -> CqlError {
    CqlError::invalid(format!(
        "{} is no arithmetic on values of type {}",
        op.symbol(),
        a.data_type()
    ))
}

/// Returns the steps of an operation: for long numbers the product of their words, which limits the
/// time of a multiplication, a division and a conversion to digits. Longer ones than may be calculated
/// with are refused at once.
pub(crate) fn steps(a: &Value, b: &Value) -> u64 {
    let aligned = match (a, b) {
        (Value::Decimal { scale: a, .. }, Value::Decimal { scale: b, .. }) => aligned_bits(*a, *b),
        _ => 0,
    };
    steps_of_bits(bits(a).saturating_add(bits(b)), aligned)
}

/// Like [`steps`], of the sum of two decimals.
pub(super) fn steps_of_sum(a: &Decimal, b: &Decimal) -> u64 {
    steps_of_bits(a.0.bits().saturating_add(b.0.bits()), aligned_bits(a.1, b.1))
}

/// Returns the bits of the zeros that align two scales.
fn aligned_bits(a: i32, b: i32) -> u64 {
    u64::from(a.abs_diff(b)) * 10 / 3
}

fn steps_of_bits(bits: u64, aligned: u64) -> u64 {
    if bits > NUMBER_BITS_MAX {
        return 1;
    }
    let words = (bits + aligned.min(NUMBER_BITS_MAX)) / 64;
    1 + words.saturating_mul(words) / 64
}

fn bits(number: &Value) -> u64 {
    match number {
        Value::Varint(number) | Value::Decimal { unscaled: number, .. } => number.bits(),
        _ => 0,
    }
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
fn failure(types: [&DataType; 2], op: ArithmeticOp, why: &str) -> CqlError {
    let function = match op {
        ArithmeticOp::Add => "_add",
        ArithmeticOp::Subtract => "_substract",
        ArithmeticOp::Multiply => "_multiply",
        ArithmeticOp::Divide => "_divide",
        ArithmeticOp::Remainder => "_modulo",
    };
    let types = types.map(ToString::to_string);
    let (left, right) = (&types[0], &types[1]);
    let message = format!("the operation '{left} {} {right}' failed: {why}", op.symbol());
    let kind = CqlErrorKind::FunctionFailure {
        keyspace: "system".to_owned(),
        function: function.to_owned(),
        argument_types: types.into(),
    };
    CqlError::new(kind, message)
}

/// Fails for numbers that are too long for an operation.
pub(super) fn check_bits(op: ArithmeticOp, a: &Value, b: &Value) -> Result<(), CqlError> {
    if bits(a) + bits(b) <= NUMBER_BITS_MAX {
        return Ok(());
    }
    Err(CqlError::invalid(format!(
        "{} of values of types {} and {} with more than {NUMBER_BITS_MAX} bits together is not \
         calculated",
        op.symbol(),
        a.data_type(),
        b.data_type()
    )))
}

fn failed(a: &Value, op: ArithmeticOp, b: &Value) -> CqlError {
    CqlError::invalid(format!(
        "{} {} {} is outside of the range of type {}",
        shown_value(a),
        op.symbol(),
        shown_value(b),
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

/// Returns the type of `left op right`, as in Cassandra; `None` if there is no such operation.
///
/// A number is as long as the longer operand, and a float if one of them is. Any number beside a
/// `decimal` is a decimal, and an integer beside a `varint` a varint.
pub(super) fn result_type(left: &DataType, op: ArithmeticOp, right: &DataType) -> Option<DataType> {
    let is_text = |data_type: &DataType| matches!(data_type, DataType::Text | DataType::Ascii);
    if is_number(left) && is_number(right) {
        return Some(number_type(left, right));
    }
    match op {
        ArithmeticOp::Add if is_text(left) && is_text(right) => {
            Some(if left == right { left.clone() } else { DataType::Text })
        }
        ArithmeticOp::Add | ArithmeticOp::Subtract
            if is_temporal(left) && *right == DataType::Duration =>
        {
            Some(left.clone())
        }
        _ => None,
    }
}

fn number_type(left: &DataType, right: &DataType) -> DataType {
    let bytes = |data_type: &DataType| match data_type {
        DataType::Tinyint => 1,
        DataType::Smallint => 2,
        DataType::Int | DataType::Float => 4,
        DataType::Bigint | DataType::Counter | DataType::Double => 8,
        _ => usize::MAX,
    };
    let is_float = |data_type: &DataType| {
        matches!(data_type, DataType::Float | DataType::Double | DataType::Decimal)
    };
    match (is_float(left) || is_float(right), bytes(left).max(bytes(right))) {
        (true, 4) => DataType::Float,
        (true, 8) => DataType::Double,
        (true, _) => DataType::Decimal,
        (false, 1) => DataType::Tinyint,
        (false, 2) => DataType::Smallint,
        (false, 4) => DataType::Int,
        (false, 8) => DataType::Bigint,
        (false, _) => DataType::Varint,
    }
}

/// Converts an operand to the type of an operation.
pub(crate) fn convert(value: Value, data_type: &DataType) -> Result<Value, CqlError> {
    if value.data_type() == *data_type {
        return Ok(value);
    }
    if bits(&value) > NUMBER_BITS_MAX {
        return Err(CqlError::invalid(format!(
            "a number of type {} with more than {NUMBER_BITS_MAX} bits is not converted to {data_type}",
            value.data_type()
        )));
    }
    let text = match (value, data_type) {
        (Value::Varint(unscaled), DataType::Decimal) => {
            return Ok(Value::Decimal { unscaled, scale: 0 });
        }
        (Value::Ascii(text), DataType::Text) => return Ok(Value::Text(text)),
        // The same number: its decimal text, 0.1, is another double.
        (Value::Float(number), DataType::Double) => return Ok(Value::Double(number.into())),
        // Like Cassandra, which makes decimals of floats; 2 becomes 2.0.
        (value @ (Value::Float(_) | Value::Double(_)), DataType::Decimal) => java_double(&value)?,
        (number, DataType::Decimal) if is_exact_double(&number) => java_double(&number)?,
        (value, _) => value.to_string(),
    };
    data_type.parse_text(&text).map_err(|_| {
        CqlError::invalid(format!("{} is not a value of type {data_type}", shown(&text)))
    })
}

/// Returns `true` for an integer of fixed size that a double has exactly.
fn is_exact_double(value: &Value) -> bool {
    const EXACT_MAX: u64 = 1 << 53;
    match value {
        Value::Tinyint(_) | Value::Smallint(_) | Value::Int(_) => true,
        Value::Bigint(number) | Value::Counter(number) => number.unsigned_abs() <= EXACT_MAX,
        _ => false,
    }
}

/// Returns a number as Java writes it as a double.
fn java_double(value: &Value) -> Result<String, CqlError> {
    let double = match value {
        Value::Float(number) => f64::from(*number),
        value => value.to_string().parse().unwrap_or(f64::NAN),
    };
    json::java_text(&Value::Double(double))
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

    /// A float beside a double, an integer of eight bytes or a decimal is the same number.
    #[test]
    fn floats_are_widened_exactly() {
        let tenth = || Value::Float(0.1);
        assert_eq!(
            convert(tenth(), &DataType::Double),
            Ok(Value::Double(0.100_000_001_490_116_12))
        );
        let decimal = convert(tenth(), &DataType::Decimal).unwrap();
        assert_eq!(decimal.to_string(), "0.10000000149011612");
        for n in 0..10_000_u32 {
            let float = f32::from_bits(n * 400_009);
            let widened = convert(Value::Float(float), &DataType::Double).unwrap();
            let Value::Double(double) = widened else { panic!("{widened:?}") };
            assert_eq!(double.to_bits(), f64::from(float).to_bits(), "{float}");
        }
    }

    #[test]
    fn operands_are_converted_as_in_cassandra() {
        use DataType::{
            Ascii, Bigint, Date, Decimal, Double, Duration, Float, Int, Smallint, Text, Timestamp,
            Tinyint, Varint,
        };
        let of = |left: &DataType, right: &DataType| result_type(left, ArithmeticOp::Add, right);
        for (left, right, expected) in [
            (Tinyint, Int, Some(Int)),
            (Tinyint, Smallint, Some(Smallint)),
            (Int, Float, Some(Float)),
            (Bigint, Float, Some(Double)),
            (Varint, Float, Some(Decimal)),
            (Varint, Bigint, Some(Varint)),
            (Decimal, Tinyint, Some(Decimal)),
            (DataType::Counter, Int, Some(Bigint)),
            (Ascii, Ascii, Some(Ascii)),
            (Ascii, Text, Some(Text)),
            (Date, Duration, Some(Date)),
            (Duration, Timestamp, None),
            (Text, Int, None),
            (Duration, Duration, None),
        ] {
            assert_eq!(of(&left, &right), expected, "{left} + {right}");
        }
        assert_eq!(result_type(&Text, ArithmeticOp::Subtract, &Text), None);
        assert_eq!(result_type(&Timestamp, ArithmeticOp::Multiply, &Duration), None);
        let decimal = |value| convert(value, &Decimal).unwrap().to_string();
        assert_eq!(decimal(Value::Int(2)), "2.0");
        assert_eq!(decimal(Value::Bigint(9_007_199_254_740_993)), "9007199254740993");
        assert_eq!(decimal(Value::Float(5.5)), "5.5");
        assert_eq!(decimal(Value::Varint(7.into())), "7");
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
