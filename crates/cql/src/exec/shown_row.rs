//! What a role sees of a row that others have lost.

use carnet::roles::{Permission, Rights};

use crate::cql_error::LostRow;

/// Returns the table of a row, and its key if the role may read the table.
pub(super) fn shown_to(rights: Option<&Rights>, row: LostRow) -> (String, Option<String>) {
    let may_read =
        |rights: &Rights| rights.allows_table(&row.keyspace, row.table_name(), Permission::Select);
    let is_shown = rights.is_none_or(may_read);
    (row.table, is_shown.then_some(row.key))
}
