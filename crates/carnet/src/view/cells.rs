//! The derived cells of a base row, and its values that have none.

use std::collections::BTreeMap;

use carnet_base::{Bytes, CellKey, Error, Result};
use carnet_data::RowImage;

/// Derived cells of a base row in one derived table. They depend on the stored bytes of the row only,
/// neither on limits for new values nor on a clock: what a row may have in a derived table is deleted
/// with it.
#[derive(Debug, Default)]
pub(crate) struct Cells {
    /// Cells with their contents.
    pub(crate) found: BTreeMap<CellKey, RowImage>,
    /// Errors for the values that no write may add, by their bytes. A value that can be a key, but is
    /// longer than new ones may be, also has a cell.
    pub(crate) refused: BTreeMap<Bytes, Error>,
}

/// Change of a cell of a derived table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Delete(CellKey),
    Put(CellKey, Bytes),
}

impl Cells {
    /// Returns the error for a value that no write may add and that the earlier row does not have.
    pub(crate) fn check_new(self, before: &Self) -> Result<BTreeMap<CellKey, RowImage>> {
        let mut refused = self.refused.into_iter();
        match refused.find(|(value, _)| !before.refused.contains_key(value)) {
            Some((_, error)) => Err(error),
            None => Ok(self.found),
        }
    }
}

/// Returns the changes from the cells that a row may have to those of its next image. Unless the
/// earlier ones are known to be there, unchanged cells are written, too.
pub(crate) fn changes(
    before: &BTreeMap<CellKey, RowImage>,
    after: &BTreeMap<CellKey, RowImage>,
    are_there: bool,
) -> Vec<Change> {
    let gone = before.keys().filter(|key| !after.contains_key(*key));
    let is_new = |(key, image): &(&CellKey, &RowImage)| {
        !are_there || before.get(*key).is_none_or(|older| !is_same(older, image))
    };
    let put = after.iter().filter(is_new);
    gone.map(|key| Change::Delete(key.clone()))
        .chain(put.map(|(key, image)| Change::Put(key.clone(), image.encode())))
        .collect()
}

/// Returns `true` if two images have the same contents, whichever version wrote them.
pub(crate) fn is_same(one: &RowImage, other: &RowImage) -> bool {
    let plain = |image: &RowImage| {
        let mut image = image.clone();
        image.schema_version = 0;
        image.begin_version(None);
        image
    };
    one == other || plain(one) == plain(other)
}
