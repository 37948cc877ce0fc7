//! Tables of a job: the input that it reads and the output that it writes.

use carnet_base::Result;

use super::super::merge::{Cell, Fragment, RangeVersion, Source};
use crate::manifest::FlatRange;

/// Reads the input tables of a job.
pub trait Tables {
    /// Cursor over a table's cells.
    type Cursor: Source;

    /// Reads all range tombstones of a table.
    ///
    /// # Errors
    ///
    /// `Corrupted` or `Unavailable`, naming the file; the job fails with it.
    fn range_tombstones(&self, table: u64) -> Result<Vec<Fragment>>;

    /// Opens a cursor over a table's cells within a range, positioned at the first one.
    ///
    /// # Errors
    ///
    /// `Corrupted` or `Unavailable`, naming the file; the job fails with it.
    fn cursor(&self, table: u64, within: &FlatRange) -> Result<Self::Cursor>;
}

/// Creates the output tables of a job.
pub trait Outputs {
    /// A table that is being written.
    type Output: Output;

    /// Starts a table with a new number.
    ///
    /// # Errors
    ///
    /// `Unavailable`; the job fails with it.
    fn begin(&mut self) -> Result<Self::Output>;
}

/// A table that is being written. Dropping it leaves a file that no manifest names.
pub trait Output {
    /// Adds the next version: keys ascending, the versions of a key newest first.
    ///
    /// # Errors
    ///
    /// `Unavailable`; the job fails with it.
    fn push(&mut self, key: &[u8], cell: Cell<'_>) -> Result<()>;

    /// Adds the next fragment. Fragments are disjoint and ascending, and each comes after the cells
    /// that it covers.
    ///
    /// # Errors
    ///
    /// `Unavailable`; the job fails with it.
    fn push_range_tombstone(
        &mut self,
        lower: &[u8],
        upper: &[u8],
        versions: &[RangeVersion],
    ) -> Result<()>;

    /// Returns the approximate file size if the table ended here.
    fn estimated_bytes(&self) -> u64;

    /// Finishes the table; its file is durable on return.
    ///
    /// # Errors
    ///
    /// `Unavailable`; the job fails with it.
    fn finish(self) -> Result<Written>;
}

/// File of a finished table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Number in the file's name.
    pub number: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
}
