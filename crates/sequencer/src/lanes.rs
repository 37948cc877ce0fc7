//! Which row of the commit table the next starts belong to.
//!
//! A conditional batch takes a round of Paxos, one entry or a hundred. Neighbouring starts lie in
//! different rows, so that sixteen transactions at a time would be sixteen rounds; drawn for one row
//! they share rounds, because what commits while a group is under way is the next group. A row
//! that gathers more than a group holds is left for the next, and so is one that has had its share:
//! all rows of a quantum fill alike.
//!
//! The numbers between two starts of a row are left out. There are 2⁶³.
//!
//! What that saves, in rounds for a transaction, is in `docs/performance.md`, *Over a cluster*.

use carnet_base::Timestamp;
use carnet_base::commit_encoding::v2::ROWS_PER_QUANTUM;

use crate::groups::ENTRIES_MAX;

/// The row of the next start, as what it leaves when divided by the rows of a quantum.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    rest: u64,
    starts: u32,
}

impl Lanes {
    /// Returns what the next start is to be, after the latest timestamp that was handed out, where
    /// a row has so many starts in turn.
    pub(crate) fn next(&mut self, latest: Timestamp, starts_max: u32) -> Timestamp {
        if self.starts >= starts_max {
            self.move_on();
        }
        self.starts += 1;
        let first = latest.get() + 1;
        let rest = first % ROWS_PER_QUANTUM;
        let left_out = (self.rest + ROWS_PER_QUANTUM - rest) % ROWS_PER_QUANTUM;
        Timestamp::new(first + left_out).unwrap_or(Timestamp::MAX)
    }

    /// Looks at how many entries wait for the row of a start.
    pub(crate) fn waiting(&mut self, start: Timestamp, entries: usize) {
        if entries >= ENTRIES_MAX && start.get() % ROWS_PER_QUANTUM == self.rest {
            self.move_on();
        }
    }

    fn move_on(&mut self) {
        *self = Self { rest: (self.rest + 1) % ROWS_PER_QUANTUM, starts: 0 };
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::commit_encoding::v2::cell;

    use super::*;

    const STARTS: u32 = 100;

    fn at(number: u64) -> Timestamp {
        Timestamp::new(number).unwrap()
    }

    /// Draws starts as a leader does, each with a commit after it; returns them.
    fn starts(lanes: &mut Lanes, latest: &mut Timestamp, count: usize) -> Vec<Timestamp> {
        let mut draw = || {
            let start = lanes.next(*latest, STARTS);
            assert!(start > *latest && start.get() <= latest.get() + ROWS_PER_QUANTUM);
            *latest = at(start.get() + 1);
            start
        };
        (0..count).map(|_| draw()).collect()
    }

    #[test]
    fn starts_share_a_row_until_it_has_had_its_share() {
        let (mut lanes, mut latest) = (Lanes::default(), at(12_345));
        for _ in 0..2 * ROWS_PER_QUANTUM {
            let starts = starts(&mut lanes, &mut latest, STARTS as usize);
            let row = cell(starts[0]).row;
            assert!(starts.iter().all(|start| cell(*start).row == row));
            assert_ne!(cell(lanes.next(latest, STARTS)).row, row);
            lanes.starts = 0;
        }
    }

    #[test]
    fn a_row_that_gathers_more_than_a_group_is_left() {
        let (mut lanes, mut latest) = (Lanes::default(), at(7));
        let first = starts(&mut lanes, &mut latest, 1)[0];
        lanes.waiting(first, ENTRIES_MAX - 1);
        let second = starts(&mut lanes, &mut latest, 1)[0];
        assert_eq!(cell(second).row, cell(first).row);
        lanes.waiting(first, ENTRIES_MAX);
        let third = starts(&mut lanes, &mut latest, 1)[0];
        assert_ne!(cell(third).row, cell(first).row);
        // That one still gathers says nothing of this one.
        lanes.waiting(first, ENTRIES_MAX);
        let fourth = starts(&mut lanes, &mut latest, 1)[0];
        assert_eq!(cell(fourth).row, cell(third).row);
    }

    #[test]
    fn the_last_timestamps_are_no_trouble() {
        let mut lanes = Lanes::default();
        for below in 0..40 {
            let latest = at(Timestamp::MAX.get() - below);
            assert!(lanes.next(latest, STARTS) >= latest);
        }
    }
}
