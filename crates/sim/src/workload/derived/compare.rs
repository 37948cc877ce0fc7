//! Comparison of the indexes and views with their table.

use carnet::Tx;
use carnet::catalog::TableSchema;
use carnet::derived::{Differences, check_index, check_view};
use carnet_base::Result;

/// Returns the names of indexes and views that differ from the table, with the number of wrong cells.
pub(super) async fn differences(tx: &Tx, table: &TableSchema) -> Result<Vec<(String, usize)>> {
    let mut found: Vec<(String, Differences)> = Vec::new();
    for index in table.indexes.iter().filter(|index| index.is_built) {
        found.push((index.name.clone(), check_index(tx, table, index).await?));
    }
    for view in table.views.iter().filter(|view| view.is_built) {
        found.push((view.name.clone(), check_view(tx, table, view).await?));
    }
    let counts = found.into_iter().map(|(name, it)| (name, it.missing.len() + it.stray.len()));
    Ok(counts.filter(|(_, count)| *count > 0).collect())
}
