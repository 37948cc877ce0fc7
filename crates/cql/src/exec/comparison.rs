//! Comparison of the rows of several partitions.

use carnet::catalog::TableSchema;
use carnet::{CellKey, DataType, Result};
use carnet_base::Bytes;
use carnet_data::key::{self, Order};

/// Comparison of rows.
pub(super) struct Comparison {
    /// Number of clustering columns compared, from the first on.
    columns: usize,
    types: Vec<DataType>,
    orders: Vec<Order>,
    pub(super) reverse: bool,
}

impl Comparison {
    pub(super) fn new(table: &TableSchema, columns: usize, reverse: bool) -> Self {
        let types = table.clustering_key().map(|column| column.data_type.clone()).collect();
        Self { columns, types, orders: table.clustering_orders(), reverse }
    }

    /// Returns the sort key of a row. A row of static columns only has an empty one, and comes
    /// first.
    pub(super) fn sort_key(&self, row: &CellKey) -> Result<Bytes> {
        let clustering = row.clustering_bytes();
        if clustering.is_empty() || self.columns == self.types.len() {
            return Ok(clustering);
        }
        // Rows of a table of COMPACT STORAGE may lack the last columns.
        let values = key::decode_prefix(&clustering, &self.types, &self.orders)?;
        key::encode(&values[..self.columns.min(values.len())], &self.orders)
    }
}
