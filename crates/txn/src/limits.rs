//! Limits of a transaction's size. Limits of cells are in [`carnet_base::limits`]; the table for
//! users is in `docs/limits.md`.

use carnet_base::{Error, KeyRange, MemoryBudget, Result};

/// Maximum size of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum bytes of written keys and payloads.
    pub write_bytes: u64,
    /// Memory for writes above which they spill to a file, if the store supports it.
    pub spill_bytes: u64,
    /// Maximum memory for writes, if the store has no files for them.
    pub memory_bytes: u64,
    /// Maximum number of written cells.
    pub write_cells: u64,
    /// Maximum memory of the read set: 8 bytes for a cell, both ends for a range.
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
    /// Returns `true` if `written` is within the limits and stays in memory.
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
        // A single cell always fits, whatever the settings are.
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
                "the transaction would remember {bytes} bytes of its read set, to be checked at \
                 its commit; at most {max} fit: split it, or read what it need not rely on in a \
                 snapshot"
            )));
        }
        Ok(())
    }
}

/// Maximum length of a delta. It bounds how far concurrent changes, none of which reads the row, can
/// exceed the limit of a row. Reading the row costs little beside writing a longer change.
pub(crate) const DELTA_BYTES_MAX: usize = 64 << 10;

/// Bytes of a read or write set that are not charged, unless small sets count.
pub(crate) const FREE_BYTES: usize = 64 << 10;

/// Minimum bytes of memory of a write set that is spilled for want of shared memory: the minimum
/// size of a file.
pub(crate) const RUN_BYTES_MIN: usize = 64 << 10;

/// Limits of a transaction, and the memory that all transactions share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bounds {
    pub(crate) limits: Limits,
    pub(crate) memory: Option<MemoryBudget>,
    /// Whether small sets are charged to the memory, too.
    pub(crate) counts_small_sets: bool,
}

impl Bounds {
    /// Returns the bytes of a set that are not charged.
    pub(crate) const fn free_bytes(&self) -> usize {
        if self.counts_small_sets { 0 } else { FREE_BYTES }
    }
}

/// Memory of a write in addition to its key and payload.
const CELL_MEMORY_BYTES: u64 = 128;

/// Amount that a transaction has written.
pub(crate) struct Written {
    /// Bytes in memory.
    pub(crate) bytes: u64,
    pub(crate) cells: u64,
    /// Bytes in files; overwritten writes count again.
    pub(crate) spilled_bytes: u64,
    pub(crate) spilled_cells: u64,
}

impl Written {
    pub(crate) const fn memory_bytes(&self) -> u64 {
        self.bytes + self.cells * CELL_MEMORY_BYTES
    }

    pub(crate) fn memory_len(&self) -> usize {
        usize::try_from(self.memory_bytes()).unwrap_or(usize::MAX)
    }
}

/// Returns the size of a range in a read set.
pub(crate) fn range_bytes(range: &KeyRange) -> usize {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let end = |bound: &std::ops::Bound<carnet_base::CellKey>| match bound {
        Included(key) | Excluded(key) => key.as_bytes().len(),
        Unbounded => 0,
    };
    size_of::<KeyRange>() + end(&range.lower) + end(&range.upper)
}
