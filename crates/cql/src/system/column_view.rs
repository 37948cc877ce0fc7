//! Columns of tables, as system tables show them.

use carnet::catalog::ColumnKind;

/// Column of a table.
#[derive(Clone, Debug)]
pub(crate) struct ColumnView {
    pub(crate) name: String,
    pub(crate) kind: ColumnKind,
    pub(crate) type_name: String,
}
