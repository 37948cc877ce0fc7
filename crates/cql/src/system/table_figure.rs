//! Figures of tables that a system table shows.

/// Figure that a system table shows of each table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TableFigure {
    ReadLatency,
    ScanLatency,
    WriteLatency,
    RowsPerRead,
    TombstonesPerRead,
    DiskUsage,
    All,
}
