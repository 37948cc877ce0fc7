//! Comparison of an index with its table.

use std::collections::BTreeMap;
use std::ops::Bound;

use carnet_base::{CellKey, KeyRange, Result};
use carnet_store::PageLimit;

use super::layout::{Entries, IndexLayout};
use super::write::RowStore;
use crate::catalog::{IndexSchema, TableSchema};
use crate::tx::Tx;

/// Number of cells in one read.
const PAGE: PageLimit = PageLimit::cells(1000);

/// Differences between an index and its table, by the keys of the entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexDifferences {
    /// Entries that rows should have.
    pub missing: Vec<CellKey>,
    /// Entries that no row should have, or with another expiry.
    pub stray: Vec<CellKey>,
}

/// Compares an index that is built with its table at the snapshot of a transaction. Reads both as a
/// whole, and holds all entries in memory.
///
/// # Errors
///
/// Same as [`Tx::range_cells`]; `Corrupted` if a row does not decode.
pub async fn check_index(
    tx: &Tx,
    table: &TableSchema,
    index: &IndexSchema,
) -> Result<IndexDifferences> {
    let layout = IndexLayout::new(table, index)?;
    let rows = RowStore::new(tx, table);
    let mut wanted = Entries::new();
    for (cell, payload) in cells(tx, KeyRange::table(table.id)).await? {
        let image = rows.kept(tx.row_image(&payload)?);
        wanted.extend(layout.entries(&cell, image.as_ref())?);
    }
    let mut found = Entries::new();
    for partition in layout.partitions(Bound::Unbounded, Bound::Unbounded) {
        for (cell, payload) in cells(tx, KeyRange::partition(index.id, &partition)).await? {
            if let Some(image) = tx.row_image(&payload)? {
                found.insert(cell, image.marker.and_then(|marker| marker.expiry));
            }
        }
    }
    let without = |these: &Entries, others: &Entries| {
        let differ = these.iter().filter(|(key, expiry)| others.get(*key) != Some(*expiry));
        differ.map(|(key, _)| key.clone()).collect()
    };
    Ok(IndexDifferences { missing: without(&wanted, &found), stray: without(&found, &wanted) })
}

async fn cells(tx: &Tx, range: KeyRange) -> Result<BTreeMap<CellKey, carnet_base::Bytes>> {
    let mut found = BTreeMap::new();
    let mut rest = Some(range);
    while let Some(range) = rest {
        let page = tx.range_cells(&range, false, PAGE).await?;
        found.extend(page.cells.into_iter().map(|(key, entry)| (key, entry.payload)));
        rest = page.resume;
    }
    Ok(found)
}
