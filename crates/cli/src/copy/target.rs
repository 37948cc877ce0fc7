//! A table's columns, as its statements describe them.

use anyhow::Result;
use carnet::{DataType, block_on};
use carnet_cql::result::ColumnSpec;
use carnet_cql::{Executor, Session, is_reserved};

/// Column of a table, with its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) data_type: DataType,
}

impl Column {
    pub(super) fn all(specs: &[ColumnSpec]) -> Vec<Self> {
        let column =
            |spec: &ColumnSpec| Self { name: spec.name.clone(), data_type: spec.data_type.clone() };
        specs.iter().map(column).collect()
    }
}

/// Returns the names of a table's columns.
pub(super) fn column_names(
    executor: &Executor,
    session: &Session,
    table: &str,
) -> Result<Vec<String>> {
    let select = format!("SELECT * FROM {table}");
    let prepared = block_on(executor.prepare(session, &select, None))?;
    Ok(prepared.result.iter().map(|column| column.name.clone()).collect())
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
