//! Slices of sets and maps: `column[from..to]`.

use carnet::{DataType, Value};
use carnet_data::Composite;

use super::compiler::Compiler;
use super::environment::Environment;
use super::evaluated::Evaluated;
use super::operand::{Operand, SliceOf};
use crate::ast::{Reference, Slice, Term};
use crate::cql_error::CqlError;

/// Bounds of a slice, both included.
#[derive(Debug)]
pub(crate) struct SliceBounds {
    from: Option<Value>,
    to: Option<Value>,
    is_multi_cell: bool,
}

impl SliceOf {
    /// Returns `true` if a bound depends on a column of the row.
    pub(super) fn reads_row(&self) -> bool {
        self.from.iter().chain(&self.to).any(Operand::reads_row)
    }

    /// Evaluates the bounds. A marker left unset is no bound.
    ///
    /// # Errors
    ///
    /// `Invalid` for a bound that is null.
    pub(crate) fn bounds(&self, environment: &Environment<'_>) -> Result<SliceBounds, CqlError> {
        let bound = |operand: &Option<Operand>| -> Result<Option<Value>, CqlError> {
            let Some(operand) = operand else { return Ok(None) };
            if operand.evaluate(environment)? == Evaluated::Unset {
                return Ok(None);
            }
            let value = operand.value(environment)?.ok_or_else(|| {
                let column = &self.column;
                CqlError::invalid(format!("Invalid null value for slice selection on {column}"))
            })?;
            Ok(Some(value))
        };
        let (from, to) = (bound(&self.from)?, bound(&self.to)?);
        Ok(SliceBounds { from, to, is_multi_cell: self.is_multi_cell })
    }
}

impl SliceBounds {
    /// Returns the slice of a collection; `None` if it is null.
    pub(super) fn part(&self, collection: &Composite) -> Option<Composite> {
        let part = collection.slice(self.from.as_ref(), self.to.as_ref());
        (!self.is_multi_cell || !part.parts().is_empty()).then_some(part)
    }

    /// Returns `true` if an element of a set, or a key of a map, is part of the slice.
    pub(crate) fn contains(&self, element: &Value) -> bool {
        self.from.as_ref().is_none_or(|from| Value::compare(element, from).is_ge())
            && self.to.as_ref().is_none_or(|to| Value::compare(element, to).is_le())
    }
}

impl Compiler<'_> {
    /// Compiles the bounds of a slice.
    ///
    /// # Errors
    ///
    /// `Invalid` if the column is no set and no map.
    pub(super) fn slice_of(
        &mut self,
        reference: &Reference,
        slice: &Slice,
    ) -> Result<SliceOf, CqlError> {
        let whole = self.reference(reference)?;
        let of_row = self.row_table().filter(|_| reference.field.is_none());
        let of_row = of_row.and_then(|table| table.column(reference.name.as_str()));
        let is_multi_cell = of_row.is_some_and(|column| column.is_multi_cell);
        self.slice_in(&whole, slice, is_multi_cell)
    }

    /// Compiles the bounds of a slice of a value.
    ///
    /// # Errors
    ///
    /// `Invalid` if it is no set and no map.
    pub(super) fn slice_in(
        &mut self,
        whole: &Operand,
        slice: &Slice,
        is_multi_cell: bool,
    ) -> Result<SliceOf, CqlError> {
        let column = whole.what().to_owned();
        match &whole.data_type {
            DataType::Set(_) | DataType::Map(_) => {}
            DataType::List(_) => {
                return Err(CqlError::invalid(format!(
                    "Slice selection is only allowed on sets and maps, but {column} is a list"
                )));
            }
            other => {
                return Err(CqlError::invalid(format!(
                    "Invalid slice selection: {column} is of type {other}, which is not a collection"
                )));
            }
        }
        let mut bound =
            |term: &Option<Term>| term.as_ref().map(|term| self.place_in(whole, term)).transpose();
        let (from, to) = (bound(&slice.from)?, bound(&slice.to)?);
        Ok(SliceOf { column, from, to, is_multi_cell })
    }
}
