//! Aggregates over the rows of a result, or of a group of them.

use carnet::base::{BigInt, Bytes};
use carnet::{DataType, Value};

use crate::ast::ArithmeticOp;
use crate::compile::{self, Aggregate, Decimal, NUMBER_BITS_MAX, Output, SelectPlan};
use crate::cql_error::CqlError;
use crate::steps::Steps;

/// Aggregates of the rows so far, one for each output; outputs that are no aggregates have none.
pub(super) struct Aggregates {
    slots: Vec<Gathered>,
    is_first: bool,
}

/// Aggregated state of one output.
#[derive(Default)]
struct Gathered {
    count: i64,
    value: Option<Value>,
}

impl Aggregates {
    pub(super) fn new(plan: &SelectPlan) -> Self {
        let slots = plan.outputs.iter().map(|_| Gathered::default()).collect();
        Self { slots, is_first: true }
    }

    /// Adds a row.
    pub(super) fn add(
        &mut self,
        plan: &SelectPlan,
        columns: &[Option<Bytes>],
        steps: &Steps<'_>,
    ) -> Result<(), CqlError> {
        for (output, slot) in plan.outputs.iter().zip(&mut self.slots) {
            if let Output::Aggregate(aggregate) = output {
                let column = aggregate.column().and_then(|position| columns[position].as_ref());
                steps.take(1)?;
                steps.take_bytes(column.map_or(0, Bytes::len))?;
                gather(aggregate, slot, plan, columns, self.is_first)?;
                if let Some(value) = &slot.value {
                    steps.take(compile::number_steps(value, value))?;
                }
            }
        }
        self.is_first = false;
        Ok(())
    }

    /// Sets the values of the aggregates in a row of the result.
    pub(super) fn conclude(
        self,
        plan: &SelectPlan,
        row: &mut [Option<Bytes>],
    ) -> Result<(), CqlError> {
        for ((output, slot), value) in plan.outputs.iter().zip(self.slots).zip(row) {
            if let Output::Aggregate(aggregate) = output {
                *value = conclude(aggregate, slot)?;
            }
        }
        Ok(())
    }
}

fn gather(
    aggregate: &Aggregate,
    slot: &mut Gathered,
    plan: &SelectPlan,
    columns: &[Option<Bytes>],
    is_first: bool,
) -> Result<(), CqlError> {
    let Some(position) = aggregate.column() else {
        slot.count += 1;
        return Ok(());
    };
    let Some(bytes) = &columns[position] else { return Ok(()) };
    let value = plan.table.columns[position].data_type.deserialize(bytes)?;
    slot.count += 1;
    let keep = |keep_new: bool, old: Value, new: Value| if keep_new { new } else { old };
    slot.value = match (slot.value.take(), aggregate) {
        (old, Aggregate::First(_)) => old.or_else(|| is_first.then_some(value)),
        (old, Aggregate::Sum(..) | Aggregate::Avg(..))
            if matches!(value, Value::Decimal { .. }) =>
        {
            Some(decimal(aggregate, old.as_ref(), &value, slot.count)?)
        }
        (None, Aggregate::Avg(..)) => Some(widen(value)),
        (None, _) => Some(value),
        (Some(old), Aggregate::Min(_)) => Some(keep(value.compare(&old).is_lt(), old, value)),
        (Some(old), Aggregate::Max(_)) => Some(keep(value.compare(&old).is_gt(), old, value)),
        (Some(old), Aggregate::Avg(..)) => {
            Some(compile::calculate(&old, ArithmeticOp::Add, &widen(value))?)
        }
        (Some(old), Aggregate::Sum(..)) => {
            Some(compile::calculate(&old, ArithmeticOp::Add, &value)?)
        }
        (old, Aggregate::Count(_)) => old,
    };
    Ok(())
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
        Aggregate::Count(_) => Some(Value::Bigint(slot.count)),
        Aggregate::Min(_) | Aggregate::Max(_) | Aggregate::First(_) => slot.value,
        Aggregate::Sum(_, data_type) => Some(slot.value.map_or_else(|| zero(data_type), Ok)?),
        Aggregate::Avg(_, data_type) => match slot.value {
            None => Some(zero(data_type)?),
            Some(average @ Value::Decimal { .. }) => Some(average),
            Some(sum) => Some(average(&sum, slot.count, data_type)?),
        },
    };
    Ok(value.map(|value| value.serialize()))
}

fn zero(data_type: &DataType) -> Result<Value, CqlError> {
    Ok(data_type.parse_text("0")?)
}

fn average(sum: &Value, count: i64, data_type: &DataType) -> Result<Value, CqlError> {
    let count = sum.data_type().parse_text(&count.to_string())?;
    let average = compile::calculate(sum, ArithmeticOp::Divide, &count)?;
    Ok(data_type.parse_text(&average.to_string())?)
}
