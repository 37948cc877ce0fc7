//! Results of statements: rows with their columns' types, or the change that was made.

mod row_set;

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::slice;
use std::sync::{Arc, OnceLock};

use carnet::DataType;
use carnet_base::Bytes;

pub use self::row_set::RowSet;

/// A column of a result, or a bind marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSpec {
    /// Keyspace of its table.
    pub keyspace: String,
    /// Name of its table.
    pub table: String,
    /// Name of the column or marker.
    pub name: String,
    /// Type of the values.
    pub data_type: DataType,
}

impl ColumnSpec {
    /// Creates a description of a column.
    pub fn new(
        keyspace: impl Into<String>,
        table: impl Into<String>,
        name: impl Into<String>,
        data_type: DataType,
    ) -> Self {
        let (keyspace, table, name) = (keyspace.into(), table.into(), name.into());
        Self { keyspace, table, name, data_type }
    }
}

/// Columns of a result. Cheap to clone: all results of a plan share them.
#[derive(Clone, Default)]
pub struct Columns(Arc<Inner>);

#[derive(Default)]
struct Inner {
    specs: Vec<ColumnSpec>,
    /// The columns as the server encodes them.
    form: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl Columns {
    /// Returns the columns in a form of the caller, which is made once and kept with the columns.
    /// They keep one form: for a second type it is made by each call.
    pub fn form<F: Clone + Send + Sync + 'static>(&self, make: impl Fn(&[ColumnSpec]) -> F) -> F {
        let Inner { specs, form } = &*self.0;
        let kept = form.get_or_init(|| Arc::new(make(specs))).downcast_ref::<F>();
        kept.cloned().unwrap_or_else(|| make(specs))
    }
}

impl From<Vec<ColumnSpec>> for Columns {
    fn from(specs: Vec<ColumnSpec>) -> Self {
        Self(Arc::new(Inner { specs, form: OnceLock::new() }))
    }
}

impl Deref for Columns {
    type Target = [ColumnSpec];

    fn deref(&self) -> &[ColumnSpec] {
        &self.0.specs
    }
}

impl<'a> IntoIterator for &'a Columns {
    type Item = &'a ColumnSpec;
    type IntoIter = slice::Iter<'a, ColumnSpec>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl PartialEq for Columns {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Columns {}

impl fmt::Debug for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Rows of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// Columns of the result.
    pub columns: Columns,
    /// Values of the rows.
    pub rows: RowSet,
    /// Paging state of the next page; `None` after the last rows.
    pub paging_state: Option<Bytes>,
}

impl Rows {
    /// Returns the values of the rows; `None` is null.
    #[must_use]
    pub fn values(&self) -> Vec<Vec<Option<Bytes>>> {
        self.rows.to_vec()
    }
}

/// Kind of a schema change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// The object was created.
    Created,
    /// The object was altered.
    Updated,
    /// The object was dropped.
    Dropped,
}

/// A change of the schema: the result of DDL, and the event for other connections.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SchemaChange {
    /// Kind of the change.
    pub kind: ChangeKind,
    /// Keyspace that changed, or that contains the changed object.
    pub keyspace: String,
    /// Object that changed.
    pub target: ChangeTarget,
}

/// Object of a schema change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ChangeTarget {
    /// The keyspace itself.
    Keyspace,
    /// A table of the keyspace, or an index on it.
    Table(String),
    /// A user-defined type of the keyspace.
    Type(String),
}

/// Result of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// The statement is done and has no result.
    Void,
    /// Rows of a query.
    Rows(Rows),
    /// The session's keyspace was changed to this one.
    SetKeyspace(String),
    /// The schema changed.
    SchemaChange(SchemaChange),
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn form_is_made_once() {
        let made = Cell::new(0);
        let make = |specs: &[ColumnSpec]| {
            made.set(made.get() + 1);
            specs.len()
        };
        let columns = Columns::default();
        let again = columns.clone();
        assert_eq!([columns.form(make), again.form(make), again.form(make)], [0; 3]);
        assert_eq!(made.get(), 1);
        assert_eq!(columns.form(|_| "another type"), "another type");
    }
}
