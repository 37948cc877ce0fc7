//! Space that a table of the layer above takes in the files.
//!
//! A file may have cells of several tables. Its bytes are divided by the positions of their keys in
//! the file, its versions and tombstones in the same proportion.

use std::sync::Arc;

use carnet_base::{Result, TableId};

use super::core::Engine;
use crate::manifest::FlatRange;

/// Files of one table. The numbers of a file that is shared with other tables are estimates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableSpace {
    /// Number of files with cells of the table.
    pub files: u64,
    /// Bytes of these files that the table takes.
    pub bytes: u64,
    /// Versions of cells, tombstones among them.
    pub versions: u64,
    /// Tombstones of cells.
    pub tombstones: u64,
}

impl Engine {
    /// Returns the space that a table takes in files; memtables are not counted. Reads at most two
    /// index pages and two blocks of each file that the table shares with others.
    ///
    /// # Errors
    ///
    /// `Corrupted`, naming the file and the offset; `Unavailable` if the disk fails.
    pub async fn space_of(&self, table: TableId) -> Result<TableSpace> {
        let view = Arc::clone(&self.core.view());
        let lower = table.0.to_be_bytes();
        let upper = table.0.checked_add(1).map_or(vec![0xFF; 5], |next| next.to_be_bytes().into());
        let range = FlatRange { lower: lower.to_vec().into(), upper: upper.into() };
        let mut space = TableSpace::default();
        for open in view.tables().filter(|open| open.meta.range.overlaps(&range)) {
            let meta = &open.meta;
            let is_shared = meta.range.lower < range.lower || meta.range.upper > range.upper;
            let part = if is_shared {
                open.table.part_before(&range.upper).await?
                    - open.table.part_before(&range.lower).await?
            } else {
                1.0
            };
            if part > 0.0 {
                space.files += 1;
                space.bytes += part_of(meta.bytes, part);
                space.versions += part_of(meta.contents.cells, part);
                space.tombstones += part_of(meta.contents.tombstones, part);
            }
        }
        Ok(space)
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "estimates are rounded, and a part is between 0 and 1"
)]
fn part_of(whole: u64, part: f64) -> u64 {
    (whole as f64 * part).round() as u64
}
