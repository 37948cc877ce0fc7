//! Rows as columns: decoding of a cell's key and images into columns.

use carnet::catalog::{ColumnKind, ColumnSchema, TableSchema};
use carnet::{CellKey, Result};
use carnet_base::Bytes;
use carnet_data::{RowImage, key, partition};

use super::stored_row::StoredRow;
use crate::system::Compact;

/// Returns a row's columns in Cassandra's serialization, in the order of the table's columns.
pub(crate) fn columns(table: &TableSchema, row: &StoredRow) -> Result<Vec<Option<Bytes>>> {
    let mut columns = key_columns(table, &row.key)?;
    for (column, slot) in table.columns.iter().zip(&mut columns) {
        *slot = match column.kind {
            ColumnKind::Regular => value(row.image.as_ref(), column)?,
            ColumnKind::Static => value(row.statics.as_deref(), column)?,
            ColumnKind::Partition | ColumnKind::Clustering(_) => continue,
        };
    }
    Ok(columns)
}

/// Returns the memory of a result row.
pub(super) fn held_bytes(row: &[Option<Bytes>]) -> usize {
    let values = row.iter().map(|value| value.as_ref().map_or(0, Bytes::len)).sum::<usize>();
    size_of::<Vec<Option<Bytes>>>() + size_of_val(row) + values
}

/// Returns a column in Cassandra's serialization; `None` is null.
fn value(image: Option<&RowImage>, column: &ColumnSchema) -> Result<Option<Bytes>> {
    let Some(image) = image else { return Ok(None) };
    match image.value(column.id) {
        Some(value) => Ok(Some(value.clone())),
        None if column.is_multi_cell => {
            let elements = image.collection(column.id);
            elements.map(|elements| elements.serialize(&column.data_type)).transpose()
        }
        None => Ok(None),
    }
}

/// Returns the columns of a key; the others are null.
fn key_columns(table: &TableSchema, cell: &CellKey) -> Result<Vec<Option<Bytes>>> {
    let types: Vec<_> = table.partition_key().map(|column| column.data_type.clone()).collect();
    let mut partition = match types.as_slice() {
        // A partition key of one column is that column's bytes.
        [only] if !only.has_many_forms() => vec![cell.partition().bytes().clone()],
        types => {
            let values = partition::decode(types, cell.partition().bytes())?;
            values.iter().map(carnet::Value::serialize).collect()
        }
    }
    .into_iter();
    let mut clustering = if cell.clustering().is_empty() {
        Vec::new()
    } else {
        let types: Vec<_> = table.clustering_key().map(|column| column.data_type.clone()).collect();
        let orders = table.clustering_orders();
        let values = match key::decode(cell.clustering(), &types, &orders) {
            Err(_) if Compact::has_short_keys(table) => {
                key::decode_prefix(cell.clustering(), &types, &orders)?
            }
            decoded => decoded?,
        };
        values.iter().map(carnet::Value::serialize).collect()
    }
    .into_iter();
    let columns = table.columns.iter().map(|column| match column.kind {
        ColumnKind::Partition => partition.next(),
        ColumnKind::Clustering(_) => clustering.next(),
        ColumnKind::Static | ColumnKind::Regular => None,
    });
    Ok(columns.collect())
}
