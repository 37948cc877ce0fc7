//! Comparison of an index or a view with its base table.

use std::collections::BTreeMap;
use std::ops::Bound;

use carnet_base::{CellKey, KeyRange, Result};
use carnet_data::RowImage;
use carnet_store::PageLimit;

use super::table::Derived;
use super::write::RowStore;
use crate::catalog::{IndexSchema, TableSchema, ViewSchema};
use crate::tx::Tx;
use crate::view::is_same;

/// Number of cells in one read.
const PAGE: PageLimit = PageLimit::cells(1000);

/// Differences between a derived table and its base table, by the keys of the derived cells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// Cells that base rows should have.
    pub missing: Vec<CellKey>,
    /// Cells that no base row should have, or with other contents or another expiry.
    pub stray: Vec<CellKey>,
}

/// Compares an index that is built with its table at the snapshot of a transaction. Reads both as a
/// whole, and holds all entries in memory.
///
/// # Errors
///
/// Same as [`Tx::range_cells`]; `Corrupted` if a row does not decode.
pub async fn check_index(tx: &Tx, table: &TableSchema, index: &IndexSchema) -> Result<Differences> {
    check(tx, table, &Derived::index(table, index)?).await
}

/// Compares a view that is built with its base table at the snapshot of a transaction. Reads both as
/// a whole, and holds all rows of the view in memory.
///
/// # Errors
///
/// Same as [`check_index`].
pub async fn check_view(tx: &Tx, table: &TableSchema, view: &ViewSchema) -> Result<Differences> {
    check(tx, table, &Derived::view(table, view)?).await
}

async fn check(tx: &Tx, table: &TableSchema, derived: &Derived<'_>) -> Result<Differences> {
    let rows = RowStore::new(tx, table);
    let mut wanted = BTreeMap::new();
    for (cell, payload) in cells(tx, KeyRange::table(table.id)).await? {
        let image = rows.kept(tx.row_image(&payload)?);
        wanted.extend(derived.cells(&cell, image.as_ref())?.found);
    }
    let mut found = BTreeMap::new();
    for range in ranges(derived) {
        for (cell, payload) in cells(tx, range).await? {
            if let Some(image) = tx.row_image(&payload)? {
                found.insert(cell, image);
            }
        }
    }
    type Cells = BTreeMap<CellKey, RowImage>;
    let without = |these: &Cells, others: &Cells| {
        let differ = these
            .iter()
            .filter(|(key, image)| others.get(*key).is_none_or(|other| !is_same(image, other)));
        differ.map(|(key, _)| key.clone()).collect()
    };
    Ok(Differences { missing: without(&wanted, &found), stray: without(&found, &wanted) })
}

/// Returns the ranges of all derived cells.
fn ranges(derived: &Derived<'_>) -> Vec<KeyRange> {
    match derived {
        Derived::Index(layout) => {
            let partitions = layout.partitions(Bound::Unbounded, Bound::Unbounded);
            let of = |partition| KeyRange::partition(derived.id(), partition);
            partitions.iter().map(of).collect()
        }
        Derived::View(_) => vec![KeyRange::table(derived.id())],
    }
}

async fn cells(tx: &Tx, range: KeyRange) -> Result<BTreeMap<CellKey, carnet_base::Bytes>> {
    let mut found = BTreeMap::new();
    let mut rest = Some(range);
    while let Some(range) = rest {
        let page = tx.range_cells(&range, false, PAGE).await?;
        found.extend(page.cells.share_all());
        rest = page.resume;
    }
    Ok(found)
}
