//! `TTL`, `WRITETIME` and `MAXWRITETIME`: times of a column, or of its elements.

use carnet::DataType;
use carnet::catalog::{ColumnKind, TableSchema};

use super::compiler::Compiler;
use super::names::column_name;
use super::operand::{Operand, SliceOf};
use super::relation::find;
use crate::ast::{Arguments, FunctionCall, Reference, Term};
use crate::cql_error::CqlError;
use crate::shown::shown;

/// Time of a column or element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CellTime {
    /// Seconds until it expires.
    TimeToLive,
    /// Microseconds since 1970-01-01 UTC at which it was written.
    WriteTime,
    /// The latest write time of the elements.
    MaxWriteTime,
}

impl CellTime {
    pub(super) fn find(function: &str) -> Option<Self> {
        match function {
            "ttl" => Some(Self::TimeToLive),
            "writetime" => Some(Self::WriteTime),
            "maxwritetime" => Some(Self::MaxWriteTime),
            _ => None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::TimeToLive => "ttl",
            Self::WriteTime => "writetime",
            Self::MaxWriteTime => "maxwritetime",
        }
    }
}

/// Selected time of a column, or of a part of it.
#[derive(Clone, Debug)]
pub(crate) struct TimeOf {
    pub(crate) time: CellTime,
    /// Position of the column.
    pub(crate) position: usize,
    pub(crate) part: Option<Part>,
}

/// A part of a column.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    /// An element, by its index, key or value.
    Element(Operand),
    /// The elements between two.
    Slice(SliceOf),
    /// A field of a user-defined type, by its place.
    Field(usize),
}

impl Compiler<'_> {
    /// Compiles a call of a function of times. Returns the name and the type of the result.
    pub(super) fn time_of(
        &mut self,
        time: CellTime,
        call: &FunctionCall,
        table: &TableSchema,
    ) -> Result<(String, DataType, TimeOf), CqlError> {
        let function = time.name();
        let Arguments::Terms(terms) = &call.arguments else {
            return Err(CqlError::invalid(format!("{function}(*): name a column")));
        };
        let [term] = terms.as_slice() else {
            return Err(CqlError::invalid(format!("{function}() takes one column")));
        };
        let (Term::Reference(reference) | Term::Element(reference, _) | Term::Slice(reference, _)) =
            term
        else {
            return Err(CqlError::invalid(format!(
                "{function}() takes a column, not {}",
                shown(term)
            )));
        };
        let (position, column) = find(table, &reference.name)?;
        if matches!(column.kind, ColumnKind::Partition | ColumnKind::Clustering(_)) {
            return Err(CqlError::invalid(format!(
                "Cannot use selection function {function} on PRIMARY KEY part {}",
                column.name
            )));
        }
        let part = match (term, &reference.field) {
            (Term::Element(_, element), _) => {
                let whole = Reference { name: reference.name.clone(), field: None };
                Some(Part::Element(self.place_of(&whole, element)?))
            }
            (Term::Slice(_, slice), _) => {
                let whole = Reference { name: reference.name.clone(), field: None };
                Some(Part::Slice(self.slice_of(&whole, slice)?))
            }
            (_, Some(field)) => Some(Part::Field(super::elements::place(column, field)?)),
            _ => None,
        };
        let scalar = match time {
            CellTime::TimeToLive => DataType::Int,
            CellTime::WriteTime | CellTime::MaxWriteTime => DataType::Bigint,
        };
        let is_whole = matches!(part, None | Some(Part::Slice(_)));
        let is_list = column.is_multi_cell && is_whole && time != CellTime::MaxWriteTime;
        let data_type = if is_list { DataType::list(scalar) } else { scalar };
        let name = format!("{function}({})", column_name(term));
        Ok((name, data_type, TimeOf { time, position, part }))
    }
}
