//! `ORDER BY`: the order in which a `SELECT` reads rows.

use carnet::catalog::{ColumnKind, ColumnSchema, TableSchema};
use carnet_data::key::Order;

use super::relation::find;
use super::where_clause::Where;
use crate::ast::Ordering;
use crate::cql_error::CqlError;

/// Order in which rows are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowOrder {
    /// Whether the rows of a partition are read from the last to the first.
    pub(crate) reverse: bool,
    /// Number of leading clustering columns whose order merges the rows of several partitions;
    /// `None` if partitions are read one after the other.
    pub(crate) merged: Option<usize>,
}

/// Compiles an `ORDER BY`.
///
/// Rows are stored in one order, which can be read in both directions. A clustering column that has
/// only one value may be left out: it does not influence the order.
pub(super) fn order(
    table: &TableSchema,
    order_by: &[Ordering],
    filter: &Where,
) -> Result<RowOrder, CqlError> {
    if order_by.is_empty() {
        return Ok(RowOrder::default());
    }
    if !filter.names_partitions() {
        return Err(CqlError::invalid(
            "ORDER BY is only supported when the partition key is restricted by an EQ or an IN.",
        ));
    }
    let mut reverse = None;
    let mut compared = 0;
    for (number, asked) in order_by.iter().enumerate() {
        let is_same = |other: &&Ordering| other.column.text == asked.column.text;
        if order_by[..number].iter().any(|other| is_same(&other)) {
            continue;
        }
        // Like in Cassandra, the last direction of a column counts.
        let asked = order_by.iter().rfind(is_same).unwrap_or(asked);
        let (place, column) = clustering_column(table, asked)?;
        if place < compared || !(compared..place).all(|skipped| filter.fixes(table, skipped)) {
            return Err(CqlError::invalid(
                "Order by currently only supports the ordering of columns following their \
                 declared order in the PRIMARY KEY",
            ));
        }
        compared = place + 1;
        let backwards = (column.kind == ColumnKind::Clustering(Order::Desc)) != asked.descending;
        if reverse.replace(backwards).is_some_and(|before| before != backwards) {
            return Err(CqlError::invalid(
                "Unsupported order by relation: either all columns in the table's order, or all \
                 in the opposite one",
            ));
        }
    }
    let merged = (!filter.names_one_partition()).then_some(compared);
    Ok(RowOrder { reverse: reverse.unwrap_or_default(), merged })
}

/// Finds a clustering column, and its position among them.
fn clustering_column<'t>(
    table: &'t TableSchema,
    asked: &Ordering,
) -> Result<(usize, &'t ColumnSchema), CqlError> {
    find(table, &asked.column)?;
    let found = table.clustering_key().enumerate();
    found.into_iter().find(|(_, column)| column.name == asked.column.text).ok_or_else(|| {
        CqlError::invalid(format!(
            "Order by is currently only supported on the clustered columns of the PRIMARY KEY, \
             got {}",
            asked.column.text
        ))
    })
}
