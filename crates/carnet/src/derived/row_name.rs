//! Names of rows in messages.

use carnet_base::{CellKey, Result};
use carnet_data::{Value, key, partition};

use crate::catalog::{ColumnSchema, TableSchema};

/// Maximum length of the text of a value.
const VALUE_BYTES_MAX: usize = 60;

/// Returns the key of a row of a table as a condition in CQL. Long values are cut.
#[must_use]
pub fn row_name(table: &TableSchema, cell: &CellKey) -> String {
    let partition: Vec<&ColumnSchema> = table.partition_key().collect();
    let clustering: Vec<&ColumnSchema> = match cell.clustering().is_empty() {
        true => Vec::new(),
        false => table.clustering_key().collect(),
    };
    match values(table, cell, &partition, &clustering) {
        Ok(values) => {
            let columns = partition.iter().chain(&clustering);
            let parts = columns
                .zip(&values)
                .map(|(column, value)| format!("{} = {}", column.name, shown(value)));
            parts.collect::<Vec<_>>().join(" AND ")
        }
        Err(_) => format!("of token {}", cell.token().0),
    }
}

fn values(
    table: &TableSchema,
    cell: &CellKey,
    partition: &[&ColumnSchema],
    clustering: &[&ColumnSchema],
) -> Result<Vec<Value>> {
    let types = |columns: &[&ColumnSchema]| -> Vec<_> {
        columns.iter().map(|column| column.data_type.clone()).collect()
    };
    let mut values = partition::decode(&types(partition), cell.partition().bytes())?;
    if !clustering.is_empty() {
        let orders = table.clustering_orders();
        values.extend(key::decode(cell.clustering(), &types(clustering), &orders)?);
    }
    Ok(values)
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    if text.len() <= VALUE_BYTES_MAX {
        return text;
    }
    let start: String = text.chars().take(VALUE_BYTES_MAX / 2).collect();
    format!("{start}… of {} bytes", value.serialize().len())
}
