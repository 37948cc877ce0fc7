//! What a leader tells of commits.

use std::collections::VecDeque;

use carnet_base::{CellHash, Timestamp};
use carnet_store::Claim;

/// So many cells of the last commits are remembered, in up to 8 MiB: at four thousand transactions of
/// two a second those of half a minute.
const REMEMBERED_MAX: usize = 1 << 18;
/// More are not told at once. Whoever was away for so long keeps nothing of what he had.
pub(crate) const TOLD_MAX: usize = 1 << 12;

/// What has changed since a snapshot, up to the one that is released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changes {
    /// These cells, and no other, each with the commit that wrote it, in the order of commits.
    Cells(Vec<(CellHash, Timestamp)>),
    /// Any cell may have.
    Unknown,
}

/// The cells that the last commits of a term wrote.
pub(crate) struct ChangeLog {
    /// What was written up to here is not known.
    low: Timestamp,
    cells: VecDeque<(Timestamp, CellHash)>,
}

impl ChangeLog {
    /// A term's, which begins at that timestamp.
    pub(crate) const fn starting_at(first: Timestamp) -> Self {
        Self { low: first, cells: VecDeque::new() }
    }

    /// Tells whether what a claim changes can be remembered.
    pub(crate) fn takes(claim: &Claim) -> bool {
        claim.names_all() && claim.cells.len() <= TOLD_MAX
    }

    /// A commit was decided that writes these cells. Commits come in their order.
    pub(crate) fn wrote(&mut self, commit: Timestamp, cells: impl Iterator<Item = CellHash>) {
        self.cells.extend(cells.map(|cell| (commit, cell)));
        while self.cells.len() > REMEMBERED_MAX {
            // What is left of the same commit does not make it known.
            self.low = self.cells.pop_front().map_or(self.low, |(oldest, _)| oldest);
        }
    }

    /// A commit was decided that changes more cells than are remembered of one.
    pub(crate) fn wrote_any(&mut self, commit: Timestamp) {
        self.cells.clear();
        self.low = commit;
    }

    /// Returns what changed in `(known, read]`.
    pub(crate) fn between(&self, known: Option<Timestamp>, read: Timestamp) -> Changes {
        let Some(known) = known else { return Changes::Unknown };
        if known >= read {
            return Changes::Cells(Vec::new());
        }
        let from = self.cells.partition_point(|(commit, _)| *commit <= known);
        let to = self.cells.partition_point(|(commit, _)| *commit <= read);
        if known < self.low || to - from > TOLD_MAX {
            return Changes::Unknown;
        }
        let told = self.cells.range(from..to).map(|(commit, cell)| (*cell, *commit));
        Changes::Cells(told.collect())
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
    fn what_lies_between_two_snapshots_is_told() {
        let log = log();
        assert_eq!(log.between(Some(at(10)), at(11)), cells(&[]));
        assert_eq!(log.between(Some(at(10)), at(12)), cells(&[(1, 12), (2, 12)]));
        assert_eq!(log.between(Some(at(12)), at(20)), cells(&[(1, 15)]));
        assert_eq!(log.between(Some(at(15)), at(20)), cells(&[]));
        assert_eq!(log.between(Some(at(20)), at(15)), cells(&[]), "an older snapshot");
    }

    #[test]
    fn what_an_older_term_wrote_is_not_known() {
        assert_eq!(log().between(Some(at(9)), at(20)), Changes::Unknown);
        assert_eq!(log().between(None, at(20)), Changes::Unknown);
    }

    #[test]
    fn what_was_forgotten_is_not_known() {
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
