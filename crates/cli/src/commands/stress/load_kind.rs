//! Kinds of loads.

use clap::ValueEnum;

/// Kind of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LoadKind {
    /// Each operation reads a row by its key.
    Read,
    /// Each operation writes a row.
    Write,
    /// Some operations read a row, the others write one.
    Mixed,
    /// Each operation reads successive rows of a partition.
    Scan,
    /// Each operation reads rows of several partitions by their keys, with IN.
    MultiGet,
}

impl LoadKind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Mixed => "mixed",
            Self::Scan => "scan",
            Self::MultiGet => "multi-get",
        }
    }
}
