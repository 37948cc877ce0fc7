//! Objects that schema changes name.

use carnet::{Tx, Uuid};

use crate::ast::{Name, TableName};
use crate::cql_error::{CqlError, CqlErrorKind};
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

/// Makes the id of a new table or view for drivers, which only compare it.
pub(super) fn new_uuid(tx: &Tx, keyspace: &str, name: &str) -> Uuid {
    let start = tx.start_timestamp().map_or(0, carnet::Timestamp::get);
    // The start is unique; a transaction creates few tables.
    Uuid::from_u64_pair(0x1000 | (start << 16), catalog_salt(keyspace, name))
}

fn catalog_salt(keyspace: &str, name: &str) -> u64 {
    let hash = carnet_base::murmur3::token(format!("{keyspace}.{name}").as_bytes());
    (hash.0.cast_unsigned() >> 2) | (0b10 << 62)
}

/// Makes the error for a keyspace or table that exists.
pub(super) fn already_exists(keyspace: &str, table: Option<&str>) -> CqlError {
    let what = match table {
        Some(table) => format!("table {keyspace}.{table}"),
        None => format!("keyspace {keyspace}"),
    };
    let kind = CqlErrorKind::AlreadyExists {
        keyspace: keyspace.to_owned(),
        table: table.map(str::to_owned),
    };
    CqlError::new(kind, format!("{what} exists already"))
}
