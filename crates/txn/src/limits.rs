//! How large a transaction can be. How large a cell can be says [`carnet_base::limits`]; the table
//! for users is in `docs/limits.md`.

use carnet_base::{Error, KeyRange, Result};

/// How large a transaction can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of keys and payloads that it writes.
    pub write_bytes: u64,
    /// Beyond so many bytes of memory its writes go to a file of its own, where the store has
    /// files for that.
    pub spill_bytes: u64,
    /// What its writes take in memory, where the store has none.
    pub memory_bytes: u64,
    /// Cells that it writes.
    pub write_cells: u64,
    /// What it remembers of what it read, in memory: 8 bytes for a cell, both ends for a range.
    pub read_set_bytes: usize,
}

impl Default for Limits {
    /// 1 GiB and ten million cells, of which 8 MiB are in memory, or all of them up to 64 MiB; and
    /// 64 MiB of reads.
    fn default() -> Self {
        Self {
            write_bytes: 1 << 30,
            spill_bytes: 8 << 20,
            memory_bytes: 64 << 20,
            write_cells: 10_000_000,
            read_set_bytes: 64 << 20,
        }
    }
}

impl Limits {
    /// Tells whether so much may be written, and all of it stays in memory.
    pub(crate) const fn hold(&self, written: &Written) -> bool {
        written.bytes + written.spilled_bytes <= self.write_bytes
            && written.cells + written.spilled_cells <= self.write_cells
            && written.memory_bytes() <= self.spill_bytes
    }

    pub(crate) fn check_writes(&self, written: &Written) -> Result<()> {
        let bytes = written.bytes + written.spilled_bytes;
        let cells = written.cells + written.spilled_cells;
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

    pub(crate) fn check_memory(&self, written: &Written) -> Result<()> {
        let (bytes, max) = (written.memory_bytes(), self.memory_bytes.max(self.spill_bytes));
        // A single cell always fits, whatever the settings say.
        if bytes > max && written.cells > 1 {
            return Err(Error::invalid(format!(
                "the transaction's writes would take {bytes} bytes of memory, and this store has \
                 no file for them; at most {max} fit, split it"
            )));
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

/// What a write takes in memory beside its key and payload.
const CELL_MEMORY_BYTES: u64 = 128;

/// How much a transaction has written.
pub(crate) struct Written {
    /// In memory.
    pub(crate) bytes: u64,
    pub(crate) cells: u64,
    /// In files: what was written over counts again.
    pub(crate) spilled_bytes: u64,
    pub(crate) spilled_cells: u64,
}

impl Written {
    pub(crate) const fn memory_bytes(&self) -> u64 {
        self.bytes + self.cells * CELL_MEMORY_BYTES
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
