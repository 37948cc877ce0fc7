//! When cells changed last, for a while.

use std::collections::HashMap;

use carnet_base::{CellHash, Timestamp};

use super::ByHash;

/// So many cells are remembered before the older half is forgotten: in two tables that take 4 MiB.
const CELLS_MAX: usize = 1 << 16;

/// The last change of each cell that changed after the floor.
///
/// It has two halves: the younger takes what comes, and when it is full the older is forgotten and
/// the floor rises to where the younger began.
#[derive(Default)]
pub(super) struct Recent {
    floor: Timestamp,
    turned: Timestamp,
    reached: Timestamp,
    older: HashMap<CellHash, Timestamp, ByHash>,
    younger: HashMap<CellHash, Timestamp, ByHash>,
}

impl Recent {
    /// Forgets everything: nothing is known of what changed up to there.
    pub(super) fn begin_at(&mut self, floor: Timestamp) {
        *self = Self { floor, turned: floor, reached: floor, ..Self::default() };
    }

    /// A commit changed a cell. Those of a cell come in their order.
    pub(super) fn changed(&mut self, cell: CellHash, commit: Timestamp) {
        self.younger.insert(cell, commit);
    }

    /// Everything up to there has been said.
    pub(super) fn reaches(&mut self, through: Timestamp) {
        self.reached = through;
        if self.younger.len() >= CELLS_MAX {
            self.older = std::mem::take(&mut self.younger);
            self.floor = self.turned;
            self.turned = self.reached;
        }
    }

    /// Tells whether a cell is known not to have changed after a snapshot.
    pub(super) fn is_unchanged(&self, cell: CellHash, since: Timestamp) -> bool {
        let last = self.younger.get(&cell).or_else(|| self.older.get(&cell));
        since >= self.floor && last.is_none_or(|last| *last <= since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(number: usize) -> Timestamp {
        Timestamp::new(number as u64).unwrap()
    }

    #[test]
    fn what_is_forgotten_counts_as_changed() {
        let mut recent = Recent::default();
        recent.begin_at(at(10));
        let cell = |number: usize| CellHash(number as u64);
        assert!(recent.is_unchanged(cell(1), at(10)) && !recent.is_unchanged(cell(1), at(9)));
        for round in 0..3 {
            for number in 0..CELLS_MAX {
                recent.changed(cell(round * CELLS_MAX + number), at(11 + round));
            }
            recent.reaches(at(11 + round));
        }
        // Two rounds' are gone, and with them what could be said of snapshots before the third.
        assert!(!recent.is_unchanged(cell(1), at(11)) && recent.is_unchanged(cell(1), at(12)));
        assert!(!recent.is_unchanged(cell(2 * CELLS_MAX), at(12)));
        assert!(recent.is_unchanged(cell(2 * CELLS_MAX), at(13)));
    }

    #[test]
    fn the_last_change_counts() {
        let mut recent = Recent::default();
        recent.begin_at(at(1));
        recent.changed(CellHash(5), at(4));
        recent.changed(CellHash(5), at(8));
        recent.reaches(at(9));
        assert!(!recent.is_unchanged(CellHash(5), at(7)));
        assert!(recent.is_unchanged(CellHash(5), at(8)));
    }
}
