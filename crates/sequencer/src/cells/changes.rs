//! Log of the cells changed by recent commits, which a leader sends to followers.

use std::collections::VecDeque;

use carnet_base::{CellHash, Timestamp};
use carnet_store::Claim;

/// Maximum number of remembered cells, in up to 8 MiB: half a minute at four thousand transactions
/// of two cells a second.
const REMEMBERED_MAX: usize = 1 << 18;
/// Maximum number of changes in one answer. A process that missed more drops its cache.
pub(crate) const CHANGES_MAX: usize = 1 << 12;

/// Cells changed between an earlier snapshot and the released one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changes {
    /// Exactly these cells, each with the commit that wrote it, in the order of commits.
    Cells(Vec<(CellHash, Timestamp)>),
    /// Any cell may have changed.
    Unknown,
}

/// Cells written by the last commits of a term.
pub(crate) struct ChangeLog {
    /// Changes up to this timestamp are not known.
    low: Timestamp,
    cells: VecDeque<(Timestamp, CellHash)>,
}

impl ChangeLog {
    /// Creates the log of a term that begins at `first`.
    pub(crate) const fn starting_at(first: Timestamp) -> Self {
        Self { low: first, cells: VecDeque::new() }
    }

    /// Returns `true` if the cells that a claim changes can be remembered.
    pub(crate) fn takes(claim: &Claim) -> bool {
        claim.names_all() && claim.cells.len() <= CHANGES_MAX
    }

    /// Adds a commit that writes these cells. Commits are added in their order.
    pub(crate) fn wrote(&mut self, commit: Timestamp, cells: impl Iterator<Item = CellHash>) {
        self.cells.extend(cells.map(|cell| (commit, cell)));
        while self.cells.len() > REMEMBERED_MAX {
            // Other cells of the same commit may remain, but the commit is no longer known as a
            // whole.
            self.low = self.cells.pop_front().map_or(self.low, |(oldest, _)| oldest);
        }
    }

    /// Adds a commit that changes more cells than are remembered of one.
    pub(crate) fn wrote_any(&mut self, commit: Timestamp) {
        self.cells.clear();
        self.low = commit;
    }

    /// Returns the changes in `(known, read]`.
    pub(crate) fn between(&self, known: Option<Timestamp>, read: Timestamp) -> Changes {
        let Some(known) = known else { return Changes::Unknown };
        if known >= read {
            return Changes::Cells(Vec::new());
        }
        let from = self.cells.partition_point(|(commit, _)| *commit <= known);
        let to = self.cells.partition_point(|(commit, _)| *commit <= read);
        if known < self.low || to - from > CHANGES_MAX {
            return Changes::Unknown;
        }
        let changed = self.cells.range(from..to).map(|(commit, cell)| (*cell, *commit));
        Changes::Cells(changed.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(number: u64) -> Timestamp {
        Timestamp::new(number).unwrap()
    }

    fn cells(of: &[(u64, u64)]) -> Changes {
        Changes::Cells(of.iter().map(|(cell, commit)| (CellHash(*cell), at(*commit))).collect())
    }

    fn log() -> ChangeLog {
        let mut log = ChangeLog::starting_at(at(10));
        log.wrote(at(12), [CellHash(1), CellHash(2)].into_iter());
        log.wrote(at(15), [CellHash(1)].into_iter());
        log
    }

    #[test]
    fn changes_between_two_snapshots_are_returned() {
        let log = log();
        assert_eq!(log.between(Some(at(10)), at(11)), cells(&[]));
        assert_eq!(log.between(Some(at(10)), at(12)), cells(&[(1, 12), (2, 12)]));
        assert_eq!(log.between(Some(at(12)), at(20)), cells(&[(1, 15)]));
        assert_eq!(log.between(Some(at(15)), at(20)), cells(&[]));
        assert_eq!(log.between(Some(at(20)), at(15)), cells(&[]), "an older snapshot");
    }

    #[test]
    fn changes_of_older_terms_are_unknown() {
        assert_eq!(log().between(Some(at(9)), at(20)), Changes::Unknown);
        assert_eq!(log().between(None, at(20)), Changes::Unknown);
    }

    #[test]
    fn forgotten_changes_are_unknown() {
        let mut log = log();
        log.wrote(at(16), (0..REMEMBERED_MAX as u64 - 2).map(CellHash));
        assert_eq!(log.between(Some(at(11)), at(15)), Changes::Unknown);
        assert_eq!(log.between(Some(at(12)), at(15)), cells(&[(1, 15)]));
        assert_eq!(log.between(Some(at(12)), at(16)), Changes::Unknown, "too much to tell");
        log.wrote_any(at(18));
        assert_eq!(log.between(Some(at(17)), at(18)), Changes::Unknown);
        assert_eq!(log.between(Some(at(18)), at(19)), cells(&[]));
    }
}
