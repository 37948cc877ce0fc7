//! A table's columns, as the schema describes them.

use anyhow::Result;
use carnet::{Bytes, DataType};
use carnet_cql::result::ColumnSpec;
use carnet_cql::{Bound, is_reserved};

use crate::database::{Database, Page};

/// Column of a table, with its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    /// Name as stored.
    pub(super) name: String,
    pub(super) data_type: DataType,
    /// Whether the column is part of the primary key.
    pub(super) is_key: bool,
}

/// Returns a table's columns in the order of cqlsh: the primary key, and the others by name.
pub(super) fn of_table(database: &Database, table: &str) -> Result<Vec<Column>> {
    let prepared = database.prepare(&format!("SELECT * FROM {table}"))?;
    let Some(first) = prepared.columns.first() else { return Ok(Vec::new()) };
    let key = key(database, first)?;
    let mut columns: Vec<Column> = prepared
        .columns
        .iter()
        .map(|spec| Column {
            name: spec.name.clone(),
            data_type: spec.data_type.clone(),
            is_key: key.iter().any(|(_, name)| *name == spec.name),
        })
        .collect();
    columns.sort_by_key(|column| {
        let place = key.iter().position(|(_, name)| *name == column.name);
        (place.unwrap_or(usize::MAX), column.name.clone())
    });
    Ok(columns)
}

/// Returns the names of the partition key's columns, by one of the table's columns.
pub(super) fn partition_key(database: &Database, of: &ColumnSpec) -> Result<Vec<String>> {
    let key = key(database, of)?.into_iter();
    Ok(key.filter(|(is_clustering, _)| !is_clustering).map(|(_, name)| name).collect())
}

/// Returns the names of the primary key's columns in their order, and whether each is a clustering column.
fn key(database: &Database, of: &ColumnSpec) -> Result<Vec<(bool, String)>> {
    let select = "SELECT column_name, kind, position FROM system_schema.columns \
                  WHERE keyspace_name = ? AND table_name = ?";
    let prepared = database.prepare(select)?;
    let bound = |name: &str| Bound::Bytes(Bytes::copy_from_slice(name.as_bytes()));
    let values = [bound(&of.keyspace), bound(&of.table)];
    let rows = database.execute(&prepared, &values, &Page::default())?;
    let mut key: Vec<(bool, Bytes, String)> = Vec::new();
    for mut row in rows.values() {
        let mut take = |place: usize| row.get_mut(place).and_then(Option::take).unwrap_or_default();
        let (name, kind, position) = (take(0), take(1), take(2));
        let is_clustering = &*kind == b"clustering";
        if is_clustering || &*kind == b"partition_key" {
            let name = String::from_utf8_lossy(&name).into_owned();
            // Positions are not negative, so that their bytes have their order.
            key.push((is_clustering, position, name));
        }
    }
    key.sort();
    Ok(key.into_iter().map(|(is_clustering, _, name)| (is_clustering, name)).collect())
}

/// Returns a stored name as a CQL identifier.
pub(crate) fn spelled(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && !is_reserved(name);
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_if_needed() {
        assert_eq!(spelled("id_2"), "id_2");
        assert_eq!(spelled("select"), "\"select\"");
        assert_eq!(spelled("Id"), "\"Id\"");
        assert_eq!(spelled("a\"b"), "\"a\"\"b\"");
        assert_eq!(spelled(""), "\"\"");
    }
}
