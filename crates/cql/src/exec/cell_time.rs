//! Values of `TTL`, `WRITETIME` and `MAXWRITETIME`.

use carnet::catalog::{ColumnKind, ColumnSchema, TableSchema};
use carnet::{BytesMut, Tx, Value};
use carnet_base::{Bytes, WallTime};
use carnet_data::RowImage;
use carnet_data::row::{Collection, CollectionKind, Element, ElementRef};

use super::stored_row::StoredRow;
use crate::compile::{CellTime, Environment, Part, TimeOf};
use crate::cql_error::CqlError;

/// Returns the time of a column or of a part of it, or the list of the times of its elements; `None`
/// if the column is null, does not expire, or has no known write time.
pub(super) fn cell_time(
    tx: &Tx,
    table: &TableSchema,
    row: &StoredRow,
    selected: &TimeOf,
    environment: &Environment<'_>,
) -> Result<Option<Bytes>, CqlError> {
    let column = &table.columns[selected.position];
    let image = match column.kind {
        ColumnKind::Static => row.statics.as_deref(),
        _ => row.image.as_ref(),
    };
    let Some(image) = image else { return Ok(None) };
    let times = Times { tx, image, time: selected.time };
    let kind = CollectionKind::of_type(&column.data_type);
    let kind = kind.filter(|_| column.is_multi_cell || selected.part.is_some());
    let Some(kind) = kind else {
        let found = image.column(column.id);
        return Ok(found.and_then(|found| times.of(found.expiry, found.written)));
    };
    let Some(elements) = image.elements(column.id, kind)? else { return Ok(None) };
    environment.steps.take(elements.len() as u64)?;
    let part = match &selected.part {
        None => return times.of_all(column, &elements),
        Some(Part::Slice(slice)) => {
            let bounds = slice.bounds(environment)?;
            let keys = column.data_type.parts();
            let mut part = Vec::new();
            for element in elements.in_order(&column.data_type)? {
                if bounds.contains(&keys[0].deserialize(&element.key)?) {
                    part.push(element);
                }
            }
            return Ok(times.of_slice(column, &part));
        }
        Some(Part::Field(place)) => elements.get(&Element::place_of(*place)),
        Some(Part::Element(operand)) => match operand.value(environment)? {
            Some(Value::Int(index)) if kind == CollectionKind::List => {
                usize::try_from(index).ok().and_then(|index| elements.elements().get(index))
            }
            Some(key) => elements.find(&column.data_type, &key)?,
            None => None,
        },
    };
    Ok(part.and_then(|element| times.of(element.expiry, element.written)))
}

struct Times<'a> {
    tx: &'a Tx,
    image: &'a RowImage,
    time: CellTime,
}

impl Times<'_> {
    /// Returns the time of a column or element with an expiry and a write time.
    fn of(&self, expiry: Option<i64>, written: Option<WallTime>) -> Option<Bytes> {
        let value = match self.time {
            CellTime::TimeToLive => {
                let seconds = expiry?.saturating_sub(self.tx.wall_seconds());
                Value::Int(i32::try_from(seconds).unwrap_or(i32::MAX))
            }
            CellTime::WriteTime | CellTime::MaxWriteTime => {
                Value::Bigint(self.image.write_time(written)?.0)
            }
        };
        Some(value.serialize())
    }

    /// Returns the times of the elements of a slice; one time if the collection is frozen.
    fn of_slice(&self, column: &ColumnSchema, part: &[&Element]) -> Option<Bytes> {
        if self.time == CellTime::MaxWriteTime {
            let written = part.iter().filter_map(|element| self.image.write_time(element.written));
            return written.max().map(|last| Value::Bigint(last.0).serialize());
        }
        let mut times = part.iter().map(|element| self.of(element.expiry, element.written));
        if !column.is_multi_cell {
            return times.next().flatten();
        }
        (!part.is_empty()).then(|| list(times))
    }

    /// Returns the times of all elements, or of all fields of a user-defined type.
    fn of_all(
        &self,
        column: &ColumnSchema,
        elements: &Collection,
    ) -> Result<Option<Bytes>, CqlError> {
        if self.time == CellTime::MaxWriteTime {
            let written = |element: ElementRef<'_>| self.image.write_time(element.written);
            let last = elements.iter().filter_map(written).max();
            return Ok(last.map(|last| Value::Bigint(last.0).serialize()));
        }
        let of = |element: ElementRef<'_>| self.of(element.expiry, element.written);
        let times = match elements.kind() {
            CollectionKind::Record => {
                let fields = 0..column.data_type.parts().len();
                let field = |place| elements.get(&Element::place_of(place));
                list(fields.map(|place| field(place).and_then(|it| of(it.into()))))
            }
            CollectionKind::List => list(elements.iter().map(of)),
            _ => {
                let ordered = elements.in_order(&column.data_type)?;
                list(ordered.into_iter().map(|it| of(it.into())))
            }
        };
        Ok(Some(times))
    }
}

/// Serializes a list with nulls, which a list that is stored does not have.
fn list(values: impl Iterator<Item = Option<Bytes>>) -> Bytes {
    let length = |bytes: usize| i32::try_from(bytes).expect("a row is shorter than 2 GiB");
    let (mut out, mut count) = (BytesMut::zeroed(4), 0);
    for value in values {
        count += 1;
        let bytes = value.as_ref().map_or(-1, |value| length(value.len()));
        out.extend_from_slice(&bytes.to_be_bytes());
        out.extend_from_slice(value.as_deref().unwrap_or_default());
    }
    out[..4].copy_from_slice(&length(count).to_be_bytes());
    out.freeze()
}
