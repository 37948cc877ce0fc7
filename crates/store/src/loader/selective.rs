//! Selective batching: decides which cells of which groups are requested together.

use std::ops::Range;

/// Maximum numbers of cells in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum for a batch of several groups ("CC" in the decision record).
    pub merged_cells: usize,
    /// Maximum for a batch of one group ("SQ"); at least `merged_cells`.
    pub single_cells: usize,
}

impl Limits {
    /// Creates one limit for both.
    #[must_use]
    pub const fn both(cells: usize) -> Self {
        Self { merged_cells: cells, single_cells: cells }
    }
}

/// Positions at which a batch of small groups may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Within a group: all such batches but the last are full.
    Anywhere,
    /// Only between two groups: no group is requested twice.
    BetweenGroups,
}

/// A part of the cells of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Index of the group.
    pub group: usize,
    /// Indices of the cells in the group.
    pub cells: Range<usize>,
}

/// Puts groups of the given sizes into batches, each cell into one.
///
/// A group of `merged_cells` or more has batches of its own, of nearly equal sizes. Smaller groups
/// are put behind each other in the given order, and the sequence is cut into batches.
///
/// The rule is that of AtlasDB's transactions2 decision record. A limit of zero counts as one.
#[must_use]
pub fn batches(groups: &[usize], limits: Limits, cut: Cut) -> Vec<Vec<Piece>> {
    let merged_max = limits.merged_cells.max(1);
    let single_max = limits.single_cells.max(merged_max);
    let mut batches = Vec::new();
    let mut open = Open { batch: Vec::new(), cells: 0, cells_max: merged_max };
    for (group, &cells) in groups.iter().enumerate() {
        if cells >= merged_max {
            batches.extend(even(cells, single_max).map(|cells| vec![Piece { group, cells }]));
        } else if cells > 0 {
            open.add(group, cells, cut, &mut batches);
        }
    }
    batches.extend(Some(open.batch).filter(|batch| !batch.is_empty()));
    batches
}

/// Cuts a number of cells into the fewest parts within the limit, of nearly equal sizes.
fn even(cells: usize, cells_max: usize) -> impl Iterator<Item = Range<usize>> {
    let parts = cells.div_ceil(cells_max);
    let start = move |part: usize| cells / parts * part + (cells % parts).min(part);
    (0..parts).map(move |part| start(part)..start(part + 1))
}

/// The batch of small groups that is being filled.
struct Open {
    batch: Vec<Piece>,
    cells: usize,
    cells_max: usize,
}

impl Open {
    fn add(&mut self, group: usize, cells: usize, cut: Cut, done: &mut Vec<Vec<Piece>>) {
        let left = self.cells_max - self.cells;
        let first = match cut {
            Cut::Anywhere => cells.min(left),
            Cut::BetweenGroups if cells > left => 0,
            Cut::BetweenGroups => cells,
        };
        self.push(Piece { group, cells: 0..first });
        if first < cells {
            done.push(std::mem::take(&mut self.batch));
            self.cells = 0;
            self.push(Piece { group, cells: first..cells });
        }
    }

    fn push(&mut self, piece: Piece) {
        if !piece.cells.is_empty() {
            self.cells += piece.cells.len();
            self.batch.push(piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Names the pieces of a batch like the decision record: a letter and a number of cells.
    fn named(batches: &[Vec<Piece>]) -> Vec<String> {
        let name = |piece: &Piece| {
            format!("{}{}", ["A", "B", "C", "D", "E"][piece.group], piece.cells.len())
        };
        batches.iter().map(|batch| batch.iter().map(name).collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn the_worked_example_of_the_decision_record() {
        let columns = [80, 200, 70, 688, 30];
        let limits = Limits { merged_cells: 100, single_cells: 300 };
        let cut = batches(&columns, limits, Cut::Anywhere);
        assert_eq!(named(&cut), ["B200", "A80 C20", "D230", "D229", "D229", "C50 E30"]);
        // The first piece of C ends where the second begins.
        assert_eq!((&cut[1][1].cells, &cut[5][0].cells), (&(0..20), &(20..70)));
        // The record remarks that C and E would fit together.
        let whole = batches(&columns, limits, Cut::BetweenGroups);
        assert_eq!(named(&whole), ["B200", "A80", "D230", "D229", "D229", "C70 E30"]);
    }

    #[test]
    fn a_group_of_the_merged_limit_stays_alone() {
        let limits = Limits { merged_cells: 10, single_cells: 20 };
        for cut in [Cut::Anywhere, Cut::BetweenGroups] {
            assert_eq!(
                named(&batches(&[9, 10, 1, 21, 0], limits, cut)),
                ["B10", "D11", "D10", "A9 C1"]
            );
            assert_eq!(batches(&[], limits, cut), Vec::<Vec<Piece>>::new());
        }
        assert_eq!(named(&batches(&[2], Limits::both(0), Cut::Anywhere)), ["A1", "A1"]);
    }

    proptest! {
        #[test]
        fn every_cell_is_in_one_batch_within_limits(
            groups in vec(0_usize..400, 0..40),
            (merged_cells, more) in (1_usize..120, 0_usize..200),
            whole in any::<bool>(),
        ) {
            let limits = Limits { merged_cells, single_cells: merged_cells + more };
            let cut = if whole { Cut::BetweenGroups } else { Cut::Anywhere };
            let batches = batches(&groups, limits, cut);
            let mut seen: Vec<Vec<usize>> = vec![Vec::new(); groups.len()];
            for batch in &batches {
                let cells: usize = batch.iter().map(|piece| piece.cells.len()).sum();
                let is_single = groups[batch[0].group] >= merged_cells;
                prop_assert!(batch.iter().all(|piece| !piece.cells.is_empty()));
                if is_single {
                    prop_assert!(batch.len() == 1 && cells <= limits.single_cells);
                } else {
                    prop_assert!(cells <= limits.merged_cells);
                }
                for piece in batch {
                    prop_assert!(is_single || groups[piece.group] < merged_cells);
                    prop_assert!(!whole || is_single || piece.cells.len() == groups[piece.group]);
                    seen[piece.group].extend(piece.cells.clone());
                }
            }
            for (group, mut cells) in seen.into_iter().enumerate() {
                cells.sort_unstable();
                prop_assert_eq!(cells, (0..groups[group]).collect::<Vec<_>>());
            }
            if !whole {
                // All merged batches but the last are full, so no group is in three of them.
                let merged = batches.iter().filter(|batch| groups[batch[0].group] < merged_cells);
                let sizes: Vec<usize> =
                    merged.map(|batch| batch.iter().map(|piece| piece.cells.len()).sum()).collect();
                let full = sizes.len().saturating_sub(1);
                prop_assert!(sizes[..full].iter().all(|cells| *cells == merged_cells));
            }
        }
    }
}
