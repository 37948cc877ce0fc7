//! The parts of a cluster that are copied at one moment.

use carnet_base::TableId;

use crate::cluster::commit_rows::CommitTable;

/// A part of a cluster that is copied at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The cells of a table.
    Cells(TableId),
    /// A commit table.
    Commits(CommitTable),
    /// The table of registers.
    Registers,
}
