//! Objects that schema changes name.

use crate::ast::{Name, TableName};
use crate::cql_error::CqlError;
use crate::result::{ChangeKind, ChangeTarget, SchemaChange};
use crate::system;

/// Refuses to change a system keyspace.
pub(super) fn refuse_system(keyspace: &str) -> Result<(), CqlError> {
    if system::is_system_keyspace(keyspace) {
        return Err(CqlError::unauthorized(format!("{keyspace} keyspace is not user-modifiable.")));
    }
    Ok(())
}

/// Returns the keyspace and name of the table of a DDL statement.
pub(super) fn place<'n>(
    table: &'n TableName,
    keyspace: Option<&'n str>,
) -> Result<(&'n str, &'n str), CqlError> {
    let keyspace = table.keyspace.as_ref().map(Name::as_str).or(keyspace).ok_or_else(|| {
        CqlError::invalid(format!(
            "No keyspace has been specified. USE a keyspace, or explicitly specify \
             keyspace.tablename (table {})",
            table.table.text
        ))
    })?;
    refuse_system(keyspace)?;
    Ok((keyspace, table.table.as_str()))
}

/// Makes the description of a change.
pub(super) fn changed(
    kind: ChangeKind,
    keyspace: &str,
    table: Option<&str>,
) -> Option<SchemaChange> {
    let target =
        table.map_or(ChangeTarget::Keyspace, |table| ChangeTarget::Table(table.to_owned()));
    Some(SchemaChange { kind, keyspace: keyspace.to_owned(), target })
}
