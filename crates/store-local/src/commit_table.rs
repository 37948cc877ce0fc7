//! The commit table on this machine: rows of `_transactions2`, in the tickets encoding.

use carnet_base::commit_encoding::{CommitEntry, v2};
use carnet_base::{Bytes, CellKey, Error, PartitionKey, Result, TableId, Timestamp};
use carnet_storage::{FilterKind, TableOptions};

/// The table's id, reserved in the catalogue.
pub(crate) const TABLE: TableId = TableId(1);

/// The layout of its cells: entries are tiny and alike, and few rows hold many. In blocks of
/// 64 KiB they would take a tenth less, and a read of one from disk three times as long.
pub(crate) fn layout() -> TableOptions {
    TableOptions {
        block_bytes: 16 << 10,
        bloom_fp_chance: 0.0001,
        filter: FilterKind::Partitions,
        ..TableOptions::default()
    }
}

/// Names the cell in which the entry of a start lies.
pub(crate) fn entry_key(start: Timestamp) -> CellKey {
    let cell = v2::cell(start);
    CellKey::new(TABLE, &PartitionKey::new(cell.row), cell.column)
}

/// Returns the cell that records a commit; the engine writes it at flush.
pub(crate) fn entry_cell(start: Timestamp, commit: Timestamp) -> (CellKey, Bytes) {
    let value = v2::encode(start, CommitEntry::Committed(commit))
        .expect("the rules give a commit a timestamp above its start");
    (entry_key(start), value)
}

/// Reads the commit timestamp out of an entry.
pub(crate) fn decode(start: Timestamp, value: &[u8]) -> Result<Timestamp> {
    match v2::decode(start, value)? {
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

    #[test]
    fn an_entry_lies_where_the_decision_record_puts_it() {
        let at = |number| Timestamp::new(number).unwrap();
        let (key, value) = entry_cell(at(3_141_592), at(3_141_595));
        assert_eq!(key.partition().bytes()[..], [0x10, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!((key.clustering(), &value[..]), (&[0xc2, 0xfe, 0xfd][..], &[3][..]));
        assert_eq!(decode(at(3_141_592), &value).unwrap(), at(3_141_595));
        assert!(decode(at(1), &[]).is_err());
    }
}
