//! How large a transaction can be. How large a cell can be says [`carnet_base::limits`]; the table
//! for users is in `docs/limits.md`.

use carnet_base::{Error, KeyRange, Result};

/// How large a transaction can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of keys and payloads that it writes.
    pub write_bytes: u64,
    /// Cells that it writes.
    pub write_cells: u64,
    /// What it remembers of what it read, in memory: 8 bytes for a cell, both ends for a range.
    pub read_set_bytes: usize,
}

impl Default for Limits {
    /// 64 MiB each, which is kept in memory until the commit, and a million cells.
    fn default() -> Self {
        Self { write_bytes: 64 << 20, write_cells: 1_000_000, read_set_bytes: 64 << 20 }
    }
}

impl Limits {
    pub(crate) fn check_writes(&self, bytes: u64, cells: u64) -> Result<()> {
        for (what, count, max) in
            [("bytes", bytes, self.write_bytes), ("cells", cells, self.write_cells)]
        {
            if count > max {
                return Err(Error::invalid(format!(
                    "the transaction would write {count} {what}; at most {max} fit in one, \
                     split it"
                )));
            }
        }
        Ok(())
    }

    pub(crate) fn check_reads(&self, bytes: usize) -> Result<()> {
        let max = self.read_set_bytes;
        if bytes > max {
            return Err(Error::invalid(format!(
                "the transaction would remember {bytes} bytes of what it read, to be checked at \
                 its commit; at most {max} fit: split it, or read what it need not rely on in a \
                 snapshot"
            )));
        }
        Ok(())
    }
}

/// What a range takes in a read set.
pub(crate) fn range_bytes(range: &KeyRange) -> usize {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let end = |bound: &std::ops::Bound<carnet_base::CellKey>| match bound {
        Included(key) | Excluded(key) => key.as_bytes().len(),
        Unbounded => 0,
    };
    size_of::<KeyRange>() + end(&range.lower) + end(&range.upper)
}
