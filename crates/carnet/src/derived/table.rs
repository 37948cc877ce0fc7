//! The cells that a base row has in a derived table, and their changes.

use carnet_base::{Bytes, CellKey, PartitionKey, Result, TableId};
use carnet_data::{Marker, RowDelta, RowImage};

use crate::catalog::{BuildFailure, ColumnKind, IndexSchema, TableSchema, ViewSchema};
use crate::index::{IndexLayout, index_built};
use crate::tx::Tx;
use crate::view::{Cells, ViewLayout, view_built};

/// Partition of the progress of a build.
const PROGRESS: &[u8] = b"progress";

/// A table whose cells are derived from the rows of another one.
#[derive(Clone, Debug)]
pub enum Derived<'a> {
    /// The entries of an index.
    Index(IndexLayout<'a>),
    /// The rows of a view.
    View(ViewLayout<'a>),
}

impl<'a> Derived<'a> {
    /// Makes the derived table of an index.
    ///
    /// # Errors
    ///
    /// Same as [`IndexLayout::new`].
    pub fn index(table: &'a TableSchema, index: &'a IndexSchema) -> Result<Self> {
        IndexLayout::new(table, index).map(Self::Index)
    }

    /// Makes the derived table of a view.
    ///
    /// # Errors
    ///
    /// Same as [`ViewLayout::new`].
    pub fn view(table: &'a TableSchema, view: &'a ViewSchema) -> Result<Self> {
        ViewLayout::new(table, view).map(Self::View)
    }

    /// Returns the derived tables of a table.
    ///
    /// # Errors
    ///
    /// Same as [`IndexLayout::new`] and [`ViewLayout::new`].
    pub fn all(table: &'a TableSchema) -> Result<Vec<Self>> {
        let indexes = table.indexes.iter().map(|index| Self::index(table, index));
        let views = table.views.iter().map(|view| Self::view(table, view));
        indexes.chain(views).collect()
    }

    /// Returns the table of the derived cells.
    #[must_use]
    pub const fn id(&self) -> TableId {
        match self {
            Self::Index(layout) => layout.entries_table(),
            Self::View(layout) => layout.table(),
        }
    }

    /// Returns `true` if all rows of the base table have their derived cells.
    #[must_use]
    pub const fn is_built(&self) -> bool {
        match self {
            Self::Index(layout) => layout.index().is_built,
            Self::View(layout) => layout.view().is_built,
        }
    }

    /// Returns `true` if a builder has to go on: it is neither built, nor has failed.
    #[must_use]
    pub const fn is_building(&self) -> bool {
        match self {
            Self::Index(layout) => layout.index().is_building(),
            Self::View(layout) => layout.view().is_building(),
        }
    }

    /// Records that all rows of the base table have their derived cells, or why some have not.
    pub(crate) async fn built(&self, tx: &Tx, failure: Option<BuildFailure>) -> Result<()> {
        match self {
            Self::Index(layout) => {
                index_built(tx, layout.base(), &layout.index().name, failure).await
            }
            Self::View(layout) => view_built(tx, layout.base(), &layout.view().name, failure).await,
        }
    }

    /// Returns the cell with the progress of the build. No derived cell has its key.
    pub(crate) fn progress_cell(&self) -> CellKey {
        let clustering = match self {
            // Partitions of entries have at most one byte.
            Self::Index(_) => "",
            // A table with clustering columns has static columns under the empty clustering key, and
            // a view has none; a table without clustering columns has no other clustering key.
            Self::View(layout) if layout.view().clustering.is_empty() => "progress",
            Self::View(_) => "",
        };
        CellKey::new(self.id(), &PartitionKey::new(Bytes::from_static(PROGRESS)), clustering)
    }

    /// Returns the derived cells of a base row; none for a row that does not exist.
    ///
    /// # Errors
    ///
    /// `Corrupted`.
    pub(super) fn cells(&self, cell: &CellKey, image: Option<&RowImage>) -> Result<Cells> {
        match self {
            Self::Index(layout) => {
                let entries = layout.entries(cell, image)?;
                let found = entries.found.into_iter();
                let found = found.map(|(key, expiry)| (key, entry(expiry))).collect();
                Ok(Cells { found, refused: entries.refused })
            }
            Self::View(_) if is_static(layout_base(self), cell) => Ok(Cells::default()),
            Self::View(layout) => layout.row(cell, image),
        }
    }

    /// Returns `true` if a change of a base row may change its derived cells. `None` is a change of
    /// the whole row.
    pub(super) fn concerns(&self, cell: &CellKey, delta: Option<&RowDelta>) -> bool {
        let is_static_cell = is_static(layout_base(self), cell);
        match self {
            Self::Index(layout) => {
                index_concerns(layout.base(), layout.index(), is_static_cell, delta)
            }
            Self::View(layout) => {
                !is_static_cell && delta.is_none_or(|delta| layout.concerns(delta))
            }
        }
    }
}

const fn layout_base<'a>(derived: &Derived<'a>) -> &'a TableSchema {
    match derived {
        Derived::Index(layout) => layout.base(),
        Derived::View(layout) => layout.base(),
    }
}

/// Returns `true` for the cell of the static columns of a partition.
fn is_static(table: &TableSchema, cell: &CellKey) -> bool {
    cell.clustering().is_empty() && table.clustering_key().next().is_some()
}

fn index_concerns(
    table: &TableSchema,
    index: &IndexSchema,
    is_static_cell: bool,
    delta: Option<&RowDelta>,
) -> bool {
    let Some(column) = table.column_by_id(index.column) else { return false };
    match (column.kind, delta) {
        (ColumnKind::Static, _) if !is_static_cell => false,
        (ColumnKind::Static | ColumnKind::Regular, Some(delta)) => {
            delta.changes().iter().any(|(id, _)| *id == index.column)
        }
        // Any change may create a row, or remove its last column.
        (ColumnKind::Static, None) => true,
        (ColumnKind::Partition, _) => !is_static_cell || index.has_static_entries,
        _ => !is_static_cell,
    }
}

/// Makes the content of an index entry: a row that has a marker only.
fn entry(expiry: Option<i64>) -> RowImage {
    let mut image = RowImage::new(0);
    image.marker = Some(Marker::expiring(expiry));
    image
}
