//! The recent changes of cells.

use std::collections::HashMap;

use carnet_base::{CellHash, Timestamp};

use super::by_hash::ByHash;

/// Number of cells after which the older half is forgotten; the two tables take 4 MiB.
const CELLS_MAX: usize = 1 << 16;

/// The last change of each cell that changed after the floor.
///
/// There are two halves. New changes go to the younger one. When it is full the older one is
/// dropped, and the floor rises to the timestamp at which the younger one began.
#[derive(Default)]
pub(super) struct Recent {
    floor: Timestamp,
    turned: Timestamp,
    reached: Timestamp,
    older: HashMap<CellHash, Timestamp, ByHash>,
    younger: HashMap<CellHash, Timestamp, ByHash>,
}

impl Recent {
    /// Forgets everything: changes up to `floor` are not known.
    pub(super) fn begin_at(&mut self, floor: Timestamp) {
        *self = Self { floor, turned: floor, reached: floor, ..Self::default() };
    }

    /// Adds a commit that changed a cell. Commits of a cell are added in their order.
    pub(super) fn changed(&mut self, cell: CellHash, commit: Timestamp) {
        self.younger.insert(cell, commit);
    }

    /// Notes that all changes up to `through` have been added.
    pub(super) fn reaches(&mut self, through: Timestamp) {
        self.reached = through;
        if self.younger.len() >= CELLS_MAX {
            self.older = std::mem::take(&mut self.younger);
            self.floor = self.turned;
            self.turned = self.reached;
        }
    }

    /// Returns `true` if a cell is known not to have changed after a snapshot.
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
    fn forgotten_cells_count_as_changed() {
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
        // Two rounds are forgotten: of snapshots before the third, nothing can be said.
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
