//! Kinds of tables with statistics of tables.

/// Statistics that a table shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Statistic {
    ReadLatency,
    ScanLatency,
    WriteLatency,
    RowsPerRead,
    TombstonesPerRead,
    DiskUsage,
    All,
}
