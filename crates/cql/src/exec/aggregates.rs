//! Aggregates over the rows of a result, or of a group of them.
//!
//! The value of a row that an aggregate keeps is kept as its bytes: an element of a list takes ten times
//! as much memory as a value.

use std::cmp::Ordering;

use carnet::base::{BigInt, Bytes};
use carnet::{DataType, Value};

use super::select_reader::{SelectReader, of_table};
use crate::ast::ArithmeticOp;
use crate::compile::{self, Aggregate, Decimal, NUMBER_BITS_MAX, Output, SelectPlan};
use crate::cql_error::CqlError;
use crate::steps::Steps;

/// Least bytes of most elements of a collection, for their steps.
const ELEMENT_BYTES: usize = 8;

/// Aggregates of the rows so far, one for each output; outputs that are no aggregates have none.
pub(super) struct Aggregates {
    slots: Vec<Gathered>,
    is_first: bool,
    /// Bytes of the values in `slots`.
    bytes: usize,
}

/// Aggregated state of one output.
#[derive(Default)]
struct Gathered {
    count: i64,
    /// Sum, or average of decimals.
    number: Option<Value>,
    /// First, least or greatest value.
    kept: Option<Vec<u8>>,
}

impl Gathered {
    fn bytes(&self) -> usize {
        let number = match &self.number {
            Some(Value::Varint(number) | Value::Decimal { unscaled: number, .. }) => {
                usize::try_from(number.bits() / 8).unwrap_or(usize::MAX)
            }
            _ => 0,
        };
        number + self.kept.as_ref().map_or(0, Vec::capacity)
    }

    /// Keeps a value instead of the one before.
    fn keep(&mut self, bytes: &[u8]) {
        let kept = self.kept.get_or_insert_default();
        kept.clear();
        kept.reserve_exact(bytes.len());
        kept.extend_from_slice(bytes);
    }
}

impl Aggregates {
    pub(super) fn new(plan: &SelectPlan) -> Self {
        let slots = plan.outputs.iter().map(|_| Gathered::default()).collect();
        Self { slots, is_first: true, bytes: 0 }
    }

    /// Returns the bytes of the values that are kept.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a row. `before` are the bytes that the statement holds beside the aggregates.
    pub(super) async fn add(
        &mut self,
        plan: &SelectPlan,
        columns: &[Option<Bytes>],
        (reader, before): (&mut SelectReader<'_>, usize),
    ) -> Result<(), CqlError> {
        for (output, slot) in plan.outputs.iter().zip(&mut self.slots) {
            if let Output::Aggregate(aggregate) = output {
                reader.pace().await?;
                let held = slot.bytes();
                gather(aggregate, slot, plan, columns, self.is_first, reader.steps())?;
                self.bytes = self.bytes - held + slot.bytes();
                reader.charge_row(before, self.bytes)?;
            }
        }
        self.is_first = false;
        reader.charge(before + self.bytes).map_err(|error| of_table(plan, &error))
    }

    /// Returns the values of the aggregates; other outputs are null.
    pub(super) fn conclude(self, plan: &SelectPlan) -> Result<Vec<Option<Bytes>>, CqlError> {
        let values = plan.outputs.iter().zip(self.slots).map(|(output, slot)| match output {
            Output::Aggregate(aggregate) => conclude(aggregate, slot),
            _ => Ok(None),
        });
        values.collect()
    }
}

fn gather(
    aggregate: &Aggregate,
    slot: &mut Gathered,
    plan: &SelectPlan,
    columns: &[Option<Bytes>],
    is_first: bool,
    steps: &Steps<'_>,
) -> Result<(), CqlError> {
    let Some(position) = aggregate.column() else {
        slot.count += 1;
        return Ok(());
    };
    let Some(bytes) = &columns[position] else { return Ok(()) };
    let data_type = &plan.table.columns[position].data_type;
    slot.count += 1;
    match aggregate {
        Aggregate::Count(_) => {}
        Aggregate::First(_) if !is_first => {}
        Aggregate::First(_) => {
            steps.take_bytes(bytes.len())?;
            slot.keep(bytes);
        }
        Aggregate::Min(_) | Aggregate::Max(_) => {
            let order = match &slot.kept {
                Some(kept) => compare(data_type, bytes, kept, steps)?,
                None => Ordering::Equal,
            };
            let is_min = matches!(aggregate, Aggregate::Min(_));
            if slot.kept.is_none()
                || order == if is_min { Ordering::Less } else { Ordering::Greater }
            {
                slot.keep(bytes);
            }
        }
        Aggregate::Sum(..) | Aggregate::Avg(..) => {
            steps.take_bytes(bytes.len())?;
            let value = data_type.deserialize(bytes)?;
            if let Some(number) = &slot.number {
                steps.take(compile::number_steps(number, &value))?;
            }
            slot.number = Some(add(aggregate, slot.number.take(), value, slot.count)?);
        }
    }
    Ok(())
}

/// Adds a value to a sum, or to the average of decimals.
fn add(
    aggregate: &Aggregate,
    before: Option<Value>,
    value: Value,
    count: i64,
) -> Result<Value, CqlError> {
    if matches!(value, Value::Decimal { .. }) {
        return decimal(aggregate, before.as_ref(), &value, count);
    }
    let value = if matches!(aggregate, Aggregate::Avg(..)) { widen(value) } else { value };
    match before {
        Some(before) => compile::calculate(&before, ArithmeticOp::Add, &value),
        None => Ok(value),
    }
}

/// Compares two values in the order of their type.
fn compare(
    data_type: &DataType,
    one: &Bytes,
    other: &[u8],
    steps: &Steps<'_>,
) -> Result<Ordering, CqlError> {
    steps.take_bytes(one.len())?;
    if matches!(data_type, DataType::Text | DataType::Ascii | DataType::Blob) {
        return Ok(one[..].cmp(other));
    }
    // An element of a list has four bytes of length, and mostly four more.
    if !data_type.parts().is_empty() {
        steps.take(((one.len() + other.len()) / ELEMENT_BYTES) as u64)?;
    }
    let other = data_type.deserialize(&Bytes::copy_from_slice(other))?;
    Ok(data_type.deserialize(one)?.compare(&other))
}

/// Returns the sum or the average of decimals up to the last value.
fn decimal(
    aggregate: &Aggregate,
    before: Option<&Value>,
    value: &Value,
    count: i64,
) -> Result<Value, CqlError> {
    let before = before.and_then(Decimal::of).unwrap_or(Decimal::ZERO);
    let value = Decimal::of(value).unwrap_or(Decimal::ZERO);
    let result = match aggregate {
        Aggregate::Avg(..) => before.average_with(&value, count),
        _ => before.plus(&value),
    };
    result.map(Value::from).map_err(|_| {
        CqlError::invalid(format!(
            "the decimals of an aggregate differ too much in their scales, or have more than \
             {NUMBER_BITS_MAX} bits together"
        ))
    })
}

/// Converts an integer to a `varint`, so that no sum overflows.
fn widen(value: Value) -> Value {
    let integer = match value {
        Value::Tinyint(n) => BigInt::from(n),
        Value::Smallint(n) => BigInt::from(n),
        Value::Int(n) => BigInt::from(n),
        Value::Bigint(n) | Value::Counter(n) => BigInt::from(n),
        other => return other,
    };
    Value::Varint(integer)
}

fn conclude(aggregate: &Aggregate, slot: Gathered) -> Result<Option<Bytes>, CqlError> {
    let value = match aggregate {
        Aggregate::Count(_) => Value::Bigint(slot.count),
        Aggregate::Min(_) | Aggregate::Max(_) | Aggregate::First(_) => {
            return Ok(slot.kept.map(Bytes::from));
        }
        Aggregate::Sum(_, data_type) => slot.number.map_or_else(|| zero(data_type), Ok)?,
        Aggregate::Avg(_, data_type) => match slot.number {
            None => zero(data_type)?,
            Some(average @ Value::Decimal { .. }) => average,
            Some(sum) => average(&sum, slot.count, data_type)?,
        },
    };
    Ok(Some(value.serialize()))
}

fn zero(data_type: &DataType) -> Result<Value, CqlError> {
    Ok(data_type.parse_text("0")?)
}

fn average(sum: &Value, count: i64, data_type: &DataType) -> Result<Value, CqlError> {
    let count = sum.data_type().parse_text(&count.to_string())?;
    let average = compile::calculate(sum, ArithmeticOp::Divide, &count)?;
    Ok(data_type.parse_text(&average.to_string())?)
}
