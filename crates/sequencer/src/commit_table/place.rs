//! The place of a start's entry: table, row and column.

use carnet_base::{Bytes, Encoding, Error, Result, Timestamp};
use carnet_store::cluster::{CommitRow, CommitTable as Table, NewEntry};

/// Place of a start's entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) row: CommitRow,
    pub(crate) column: Bytes,
    pub(crate) encoding: Encoding,
}

impl Place {
    pub(super) fn entry(&self, value: Bytes) -> NewEntry {
        NewEntry { column: self.column.clone(), value }
    }
}

pub(super) fn table_of(encoding: Encoding) -> Result<Table> {
    match encoding {
        Encoding::V1 => Err(Error::corrupted(
            "the coordination map names encoding v1, which a cluster never has",
        )),
        Encoding::V2 => Ok(Table::V2),
        Encoding::V3 => Ok(Table::V3),
    }
}

/// Returns `true` if an encoding has a column for settled values.
pub(super) const fn confirms(encoding: Encoding) -> bool {
    matches!(encoding, Encoding::V3)
}

pub(super) fn place_in(encoding: Encoding, start: Timestamp) -> Result<Place> {
    let cell = encoding.cell(start);
    let row = CommitRow { table: table_of(encoding)?, row: cell.row };
    Ok(Place { row, column: cell.column, encoding })
}
