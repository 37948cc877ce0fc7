//! The result of a round of the sweep, and of the rounds of a term.

use carnet_base::Timestamp;

/// Result of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Timestamp up to which the round swept.
    pub mark: Timestamp,
    /// Cells that were scanned.
    pub cells: u64,
    /// Versions that were stamped.
    pub stamped: u64,
    /// Versions of aborted transactions that were deleted.
    pub aborted: u64,
    /// Cells whose versions older than the newest visible one were deleted.
    pub cleared: u64,
    /// Rows that were written before older versions were deleted, most of them in place of deltas.
    pub merged: u64,
    /// Rows of which parts had expired for every reader, and were removed.
    pub expired: u64,
    /// Deleted and expired cells that were removed entirely.
    pub tombstones: u64,
    /// Deleted and expired cells that stay until the next round, because a replica did not answer.
    pub left: u64,
    /// Commit entries that were deleted.
    pub entries: u64,
}

/// Progress of the sweep in a term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepStatus {
    /// Whether a round is under way.
    pub is_running: bool,
    /// Commit up to which the last whole round of the term swept; zero before.
    pub mark: Timestamp,
    /// Cells that the whole rounds of the term scanned.
    pub cells: u64,
    /// Rounds of the term that failed; the next round continues their work.
    pub failed: u64,
}
