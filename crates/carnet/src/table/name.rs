//! Names of tables.

/// Keyspace of table names without a keyspace.
pub const DEFAULT_KEYSPACE: &str = "main";

/// Splits `keyspace.table`; a name without a keyspace belongs to [`DEFAULT_KEYSPACE`].
pub(super) fn split_name(name: &str) -> (&str, &str) {
    name.split_once('.').unwrap_or((DEFAULT_KEYSPACE, name))
}
