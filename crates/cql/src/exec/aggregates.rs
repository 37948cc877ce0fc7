//! Aggregates over the rows of a result, or of a group of them.
//!
//! The value of a row that an aggregate keeps is kept as its bytes: an element of a list takes ten times
//! as much memory as a value.

use std::cmp::Ordering;

use carnet::{DataType, Tx, Value};
use carnet_base::Bytes;
use carnet_data::BigInt;

use super::answer_memory::of_table;
use super::project::{project, value};
use super::select_reader::SelectReader;
use super::stored_row::StoredRow;
use crate::ast::ArithmeticOp;
use crate::compile::{
    self, Aggregate, AggregateKind, Decimal, Environment, Evaluated, NUMBER_BITS_MAX, Output,
    SelectPlan,
};
use crate::cql_error::CqlError;
use crate::result::RowSet;
use crate::steps::Steps;

/// Least bytes of most elements of a collection, for their steps.
const ELEMENT_BYTES: usize = 8;

/// Aggregates of the rows so far, in the order of the outputs that depend on them.
pub(super) struct Aggregates {
    slots: Vec<Gathered>,
    /// Outputs of the first row; outputs that depend on aggregates are null.
    row: RowSet,
    /// Columns of the first row, if an output is calculated from aggregates.
    first: Option<Vec<Option<Bytes>>>,
    /// Bytes of the values in `slots`, and of the first row.
    bytes: usize,
}

/// State of one aggregate.
#[derive(Default)]
struct Gathered {
    count: i64,
    /// Sum, or average of decimals.
    number: Option<Value>,
    /// Least or greatest value.
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
        let aggregates = plan.outputs.iter().flat_map(Output::aggregates);
        let slots = aggregates.map(|_| Gathered::default()).collect();
        Self { slots, row: RowSet::default(), first: None, bytes: 0 }
    }

    /// Returns the bytes that it keeps.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a row. `before` are the bytes that the statement holds beside the aggregates.
    pub(super) async fn add(
        &mut self,
        (tx, plan): (&Tx, &SelectPlan),
        (stored, columns): (&StoredRow, &[Option<Bytes>]),
        environment: &Environment<'_>,
        (reader, before): (&mut SelectReader<'_>, usize),
    ) -> Result<(), CqlError> {
        if self.row.is_empty() {
            let row = (stored, columns);
            let given = (&mut *reader, before);
            Box::pin(project(tx, plan, row, environment, given, &mut self.row)).await?;
            self.bytes += self.row.encoded().len();
            if plan.outputs.iter().any(|output| matches!(output, Output::Composed(..))) {
                self.bytes += columns.iter().flatten().map(Bytes::len).sum::<usize>();
                self.first = Some(columns.to_vec());
            }
        }
        let aggregates = plan.outputs.iter().flat_map(Output::aggregates);
        for (aggregate, slot) in aggregates.zip(&mut self.slots) {
            reader.pace().await?;
            let held = slot.bytes();
            let row = (stored, columns);
            let value = match &aggregate.of {
                Some((output, _)) => value(tx, plan, output, row, environment)?,
                None => None,
            };
            gather(aggregate, slot, value, reader.steps())?;
            self.bytes = self.bytes - held + slot.bytes();
            reader.charge_row(before, self.bytes)?;
        }
        reader.charge(before + self.bytes).map_err(|error| of_table(&plan.table, &error))
    }

    /// Appends the row of the results to others.
    pub(super) fn conclude(
        self,
        plan: &SelectPlan,
        environment: &Environment<'_>,
        rows: &mut RowSet,
    ) -> Result<(), CqlError> {
        let mut slots = self.slots.into_iter();
        let mut first_row = self.row.iter().next().unwrap_or_default().into_iter();
        let none = vec![None; plan.table.columns.len()];
        let first = self.first.unwrap_or(none);
        for output in &plan.outputs {
            let of_first = first_row.next().flatten();
            let aggregates = output.aggregates().iter().zip(slots.by_ref());
            let results = aggregates.map(|(aggregate, slot)| conclude(aggregate, slot));
            let results: Vec<Option<Bytes>> = results.collect::<Result<_, _>>()?;
            match output {
                Output::Aggregate(_) => rows.push_value(results[0].as_deref()),
                Output::Composed(operand, _) => {
                    let columns = [&first[..], &results].concat();
                    match operand.evaluate(&environment.with_row(&columns))? {
                        Evaluated::Bytes(bytes) => rows.push_value(Some(&bytes)),
                        Evaluated::Null | Evaluated::Unset => rows.push_value(None),
                    }
                }
                _ => rows.push_value(of_first),
            }
        }
        rows.end_row();
        Ok(())
    }
}

/// Adds the value of a row.
fn gather(
    aggregate: &Aggregate,
    slot: &mut Gathered,
    value: Option<Bytes>,
    steps: &Steps<'_>,
) -> Result<(), CqlError> {
    let Some((_, data_type)) = &aggregate.of else {
        slot.count += 1;
        return Ok(());
    };
    let Some(bytes) = value else { return Ok(()) };
    slot.count += 1;
    match aggregate.kind {
        AggregateKind::Count => {}
        AggregateKind::Min | AggregateKind::Max => {
            let order = match &slot.kept {
                Some(kept) => compare(data_type, &bytes, kept, steps)?,
                None => Ordering::Equal,
            };
            let is_min = aggregate.kind == AggregateKind::Min;
            if slot.kept.is_none()
                || order == if is_min { Ordering::Less } else { Ordering::Greater }
            {
                slot.keep(&bytes);
            }
        }
        AggregateKind::Sum | AggregateKind::Avg => {
            steps.take_bytes(bytes.len())?;
            let value = data_type.deserialize(&bytes)?;
            if matches!(value, Value::Empty(_)) {
                slot.count -= 1;
                return Ok(());
            }
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
    let value = if aggregate.kind == AggregateKind::Avg { widen(value) } else { value };
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
    let result = match aggregate.kind {
        AggregateKind::Avg => before.average_with(&value, count),
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
    let value = match (aggregate.kind, &aggregate.of) {
        (AggregateKind::Count, _) | (_, None) => Value::Bigint(slot.count),
        (AggregateKind::Min | AggregateKind::Max, _) => return Ok(slot.kept.map(Bytes::from)),
        (AggregateKind::Sum, Some((_, data_type))) => {
            slot.number.map_or_else(|| zero(data_type), Ok)?
        }
        (AggregateKind::Avg, Some((_, data_type))) => match slot.number {
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
