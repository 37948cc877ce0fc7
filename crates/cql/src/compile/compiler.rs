//! State of the compilation of one statement.

use std::collections::HashMap;

use carnet::DataType;
use carnet::catalog::TableSchema;

use crate::ast::{BindMarker, FunctionCall};
use crate::cql_error::CqlError;
use crate::result::ColumnSpec;
use crate::steps::Steps;
use crate::timestamps::Timestamps;

/// A `LET`: its name, and the names and types of its columns.
type LetColumns = (String, Vec<(String, DataType)>);

/// Calls whose results follow the columns of the row: the place of each behind the columns, and its type.
pub(super) type Appended = HashMap<FunctionCall, (usize, DataType)>;

/// Compiler of one statement.
pub(crate) struct Compiler<'a> {
    /// Markers found so far, by index.
    pub(super) markers: Vec<Option<ColumnSpec>>,
    /// Table of the part that is being compiled.
    pub(super) table: Option<&'a TableSchema>,
    /// Whether a name may be a column of that table.
    pub(super) in_row: bool,
    /// Whether selected terms are being compiled: their markers have no name of their own.
    pub(super) in_selection: bool,
    /// Calls of aggregates, of times and of tokens within the selected term that is being compiled.
    pub(super) appended: Appended,
    pub(super) lets: Vec<LetColumns>,
    pub(super) timestamps: Timestamps,
    pub(super) steps: &'a Steps<'a>,
}

impl<'a> Compiler<'a> {
    pub(crate) fn new(timestamps: Timestamps, steps: &'a Steps<'a>) -> Self {
        Self {
            markers: Vec::new(),
            table: None,
            in_row: false,
            in_selection: false,
            appended: Appended::new(),
            lets: Vec::new(),
            timestamps,
            steps,
        }
    }

    /// Enters a table; names are not columns of it until [`Compiler::within_row`].
    pub(super) fn enter(&mut self, table: &'a TableSchema) {
        self.table = Some(table);
        self.in_row = false;
    }

    /// Compiles a part in which names are columns of the table.
    pub(super) fn within_row<T>(&mut self, compile: impl FnOnce(&mut Self) -> T) -> T {
        self.in_row = true;
        let compiled = compile(self);
        self.in_row = false;
        compiled
    }

    pub(super) fn row_table(&self) -> Option<&'a TableSchema> {
        self.table.filter(|_| self.in_row)
    }

    pub(super) fn find_let(&self, name: &str) -> Option<(usize, &[(String, DataType)])> {
        let found = self.lets.iter().position(|(known, _)| known == name)?;
        Some((found, &self.lets[found].1))
    }

    pub(super) fn type_marker(&mut self, marker: &BindMarker, what: &str, data_type: DataType) {
        let index = usize::from(marker.index);
        if self.markers.len() <= index {
            self.markers.resize(index + 1, None);
        }
        let (keyspace, table) = self
            .table
            .map_or(Default::default(), |table| (table.keyspace.clone(), table.name.clone()));
        let what = if self.in_selection { "[selection]" } else { what };
        let name = marker.name.clone().unwrap_or_else(|| what.to_owned());
        self.markers[index] = Some(ColumnSpec { keyspace, table, name, data_type });
    }

    /// Returns the markers by their index.
    ///
    /// # Errors
    ///
    /// `Unsupported` if a marker is at a place without a value.
    pub(crate) fn finish(self, count: usize) -> Result<Vec<ColumnSpec>, CqlError> {
        let mut markers = self.markers;
        markers.resize(count, None);
        let typed: Option<Vec<ColumnSpec>> = markers.into_iter().collect();
        typed.ok_or_else(|| CqlError::unsupported("a bind marker in such a place"))
    }
}
