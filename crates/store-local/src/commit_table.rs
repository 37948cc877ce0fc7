//! Local commit tables: one for each encoding.

use carnet_base::commit_encoding::CommitEntry;
use carnet_base::{Bytes, CellKey, Encoding, Error, PartitionKey, Result, TableId, Timestamp};
use carnet_storage::{FilterKind, TableOptions};

/// Ids of the tables, reserved in the catalog.
const TABLES: [(TableId, Encoding); 3] =
    [(TableId(1), Encoding::V2), (TableId(6), Encoding::V1), (TableId(7), Encoding::V3)];

pub(crate) fn table_of(encoding: Encoding) -> TableId {
    let found = TABLES.into_iter().find(|(_, of)| *of == encoding);
    found.expect("every encoding has a table").0
}

/// Returns `true` for a commit table.
pub(crate) fn is_one(table: TableId) -> bool {
    TABLES.iter().any(|(id, _)| *id == table)
}

/// Returns the layout of a commit table's cells; `None` for other tables.
///
/// Entries are small and similar. Blocks of 64 KiB would take a tenth less space, but reads from
/// disk would take three times as long. In the encodings with many entries per row, a filter over
/// rows is tiny. With one row per entry, the filter costs 4.8 bits at a false-positive rate of 0.1.
pub(crate) fn layout(table: TableId) -> Option<TableOptions> {
    let (_, encoding) = TABLES.into_iter().find(|(id, _)| *id == table)?;
    Some(TableOptions {
        block_bytes: 16 << 10,
        bloom_fp_chance: if encoding == Encoding::V1 { 0.1 } else { 0.0001 },
        filter: FilterKind::Partitions,
        ..TableOptions::default()
    })
}

/// Returns the key of a start's entry.
pub(crate) fn entry_key(encoding: Encoding, start: Timestamp) -> CellKey {
    let cell = encoding.cell(start);
    CellKey::new(table_of(encoding), &PartitionKey::new(cell.row), cell.column)
}

/// Returns the cell that records a commit; the engine writes it at flush.
pub(crate) fn entry_cell(
    encoding: Encoding,
    start: Timestamp,
    commit: Timestamp,
) -> Result<(CellKey, Bytes)> {
    let value = encoding.encode(start, CommitEntry::Committed(commit))?;
    Ok((entry_key(encoding, start), value))
}

/// Decodes the commit timestamp of an entry.
pub(crate) fn decode(encoding: Encoding, start: Timestamp, value: &[u8]) -> Result<Timestamp> {
    match encoding.decode(start, value)? {
        CommitEntry::Committed(commit) => Ok(commit),
        CommitEntry::Aborted => Err(Error::corrupted(format!(
            "the commit table says that start {start} aborted: an embedded database never writes \
             such an entry"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(number: u64) -> Timestamp {
        Timestamp::new(number).unwrap()
    }

    #[test]
    fn entry_key_matches_the_decision_record() {
        let (key, value) = entry_cell(Encoding::V2, at(3_141_592), at(3_141_595)).unwrap();
        assert_eq!(key.partition().bytes()[..], [0x10, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!((key.clustering(), &value[..]), (&[0xc2, 0xfe, 0xfd][..], &[3][..]));
        assert_eq!(decode(Encoding::V2, at(3_141_592), &value).unwrap(), at(3_141_595));
        assert!(decode(Encoding::V2, at(1), &[]).is_err());
    }

    #[test]
    fn encodings_do_not_share_cells() {
        let keys = [Encoding::V1, Encoding::V2, Encoding::V3].map(|encoding| {
            let (key, value) = entry_cell(encoding, at(7), at(9)).unwrap();
            assert_eq!(decode(encoding, at(7), &value).unwrap(), at(9));
            assert!(layout(key.table()).is_some());
            key
        });
        assert!(keys[0] != keys[1] && keys[1] != keys[2] && keys[0] != keys[2]);
        assert!(layout(TableId(2)).is_none());
    }
}
