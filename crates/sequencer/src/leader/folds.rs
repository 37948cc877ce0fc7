//! Decides when the versions of a cell are folded: when a row is written in place of its deltas. Pure.
//!
//! ```text
//!   S   40 41 42 43 44 45 46 47  48 49        eight commits with deltas since the last fold: due
//!       d  d  d  d  d  d  d  row d  d         written in place of 47, once P has passed its commit
//! ```

use std::collections::{HashMap, HashSet};

use carnet_base::CellHash;

use crate::cells::ByHash;

/// Number of commits with deltas of a cell after which its row is written in place of the newest one.
pub(crate) const DELTAS_MAX: u32 = 8;
/// Maximum number of cells that are folded at a time.
const FOLDS_MAX: usize = 16;
/// Number of cells after which the counts of the older half are forgotten. A forgotten cell gets
/// at most as many deltas again before it is folded.
const CELLS_MAX: usize = 1 << 15;

type Counts = HashMap<CellHash, u32, ByHash>;

/// The deltas of each cell since it was folded.
#[derive(Default)]
pub(super) struct Folds {
    younger: Counts,
    older: Counts,
    /// Cells that are being folded.
    begun: HashSet<CellHash, ByHash>,
}

impl Folds {
    /// Counts a commit with a delta of a cell; returns `true` if the caller has to fold the cell, and
    /// to call [`Folds::ended`] after that.
    pub(super) fn wrote(&mut self, cell: CellHash) -> bool {
        if self.younger.len() >= CELLS_MAX {
            self.older = std::mem::take(&mut self.younger);
        }
        let older = &mut self.older;
        let count = self.younger.entry(cell).or_insert_with(|| older.remove(&cell).unwrap_or(0));
        *count += 1;
        let is_due = *count >= DELTAS_MAX
            && (self.begun.len() < FOLDS_MAX || self.begun.contains(&cell))
            && self.begun.insert(cell);
        if is_due {
            *count = 0;
        }
        is_due
    }

    /// Ends the fold of a cell. After a failure the next commit begins it again.
    pub(super) fn ended(&mut self, cell: CellHash, is_folded: bool) {
        self.begun.remove(&cell);
        if !is_folded {
            self.younger.insert(cell, DELTAS_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CELL: CellHash = CellHash(7);

    fn due(folds: &mut Folds, commits: u32) -> Vec<u32> {
        (1..=commits).filter(|_| folds.wrote(CELL)).collect()
    }

    #[test]
    fn every_eighth_delta_is_folded() {
        let mut folds = Folds::default();
        for _ in 0..3 {
            assert_eq!(due(&mut folds, 8), [8]);
            folds.ended(CELL, true);
        }
        assert!(!folds.wrote(CellHash(8)), "each cell has a count of its own");
    }

    #[test]
    fn cell_is_folded_by_one_task_at_a_time() {
        let mut folds = Folds::default();
        assert_eq!(due(&mut folds, 30), [8]);
        folds.ended(CELL, true);
        assert_eq!(due(&mut folds, 1), [1], "more than eight came meanwhile");
    }

    #[test]
    fn failed_fold_begins_again() {
        let mut folds = Folds::default();
        assert_eq!(due(&mut folds, 8), [8]);
        folds.ended(CELL, false);
        assert_eq!(due(&mut folds, 1), [1]);
    }

    #[test]
    fn number_of_folds_is_limited() {
        let mut folds = Folds::default();
        let mut begun = 0;
        for cell in 0..40 {
            begun += (0..8).filter(|_| folds.wrote(CellHash(cell))).count();
        }
        assert_eq!(begun, FOLDS_MAX);
        folds.ended(CellHash(0), true);
        assert!(folds.wrote(CellHash(39)), "a waiting cell follows");
    }

    #[test]
    fn counts_of_many_cells_are_bounded() {
        let mut folds = Folds::default();
        for _ in 0..7 {
            assert!(!folds.wrote(CELL));
        }
        let cells = CELLS_MAX as u64;
        (100..100 + cells).for_each(|cell| assert!(!folds.wrote(CellHash(cell))));
        assert!(folds.wrote(CELL), "the older half is still there");
        folds.ended(CELL, true);
        for cell in 0..3 * cells {
            folds.wrote(CellHash(cell + 1_000_000));
        }
        assert!(folds.younger.len() + folds.older.len() <= 2 * CELLS_MAX);
    }
}
