//! Chooses the row of the commit table for the next start.
//!
//! A conditional batch takes one round of Paxos for one entry or a hundred. Neighbouring starts
//! belong to different rows, so sixteen concurrent transactions would need sixteen rounds. Starts
//! that are drawn for the same row share rounds, since the commits that arrive during one group
//! form the next. The allocator moves on from a row once more than a group of entries waits for it,
//! or once it has had its share of starts. All rows of a quantum fill alike.
//!
//! Timestamps between two starts of a row are skipped; there are 2⁶³ of them.
//!
//! The rounds saved per transaction are in docs/design/0006-cluster-protocol.md#figures.

use carnet_base::Timestamp;
use carnet_base::commit_encoding::v2::ROWS_PER_QUANTUM;

use crate::groups::ENTRIES_MAX;

/// The row of the next start, as the remainder of the start modulo the rows of a quantum.
#[derive(Debug, Default)]
pub(crate) struct RowAllocator {
    rest: u64,
    starts: u32,
}

impl RowAllocator {
    /// Returns the next start after the latest timestamp that was handed out, with at most
    /// `starts_max` consecutive starts for a row.
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

    /// Moves on if enough entries wait for the row of a start to fill a group.
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

    /// Draws starts as a leader does, each followed by a commit, and returns them.
    fn starts(
        row_allocator: &mut RowAllocator,
        latest: &mut Timestamp,
        count: usize,
    ) -> Vec<Timestamp> {
        let mut draw = || {
            let start = row_allocator.next(*latest, STARTS);
            assert!(start > *latest && start.get() <= latest.get() + ROWS_PER_QUANTUM);
            *latest = at(start.get() + 1);
            start
        };
        (0..count).map(|_| draw()).collect()
    }

    #[test]
    fn starts_share_a_row_up_to_the_limit() {
        let (mut row_allocator, mut latest) = (RowAllocator::default(), at(12_345));
        for _ in 0..2 * ROWS_PER_QUANTUM {
            let starts = starts(&mut row_allocator, &mut latest, STARTS as usize);
            let row = cell(starts[0]).row;
            assert!(starts.iter().all(|start| cell(*start).row == row));
            assert_ne!(cell(row_allocator.next(latest, STARTS)).row, row);
            row_allocator.starts = 0;
        }
    }

    #[test]
    fn row_with_a_full_group_waiting_is_left() {
        let (mut row_allocator, mut latest) = (RowAllocator::default(), at(7));
        let first = starts(&mut row_allocator, &mut latest, 1)[0];
        row_allocator.waiting(first, ENTRIES_MAX - 1);
        let second = starts(&mut row_allocator, &mut latest, 1)[0];
        assert_eq!(cell(second).row, cell(first).row);
        row_allocator.waiting(first, ENTRIES_MAX);
        let third = starts(&mut row_allocator, &mut latest, 1)[0];
        assert_ne!(cell(third).row, cell(first).row);
        // Entries that gather for the first row do not move the third start's row on.
        row_allocator.waiting(first, ENTRIES_MAX);
        let fourth = starts(&mut row_allocator, &mut latest, 1)[0];
        assert_eq!(cell(fourth).row, cell(third).row);
    }

    #[test]
    fn last_timestamps_do_not_overflow() {
        let mut row_allocator = RowAllocator::default();
        for below in 0..40 {
            let latest = at(Timestamp::MAX.get() - below);
            assert!(row_allocator.next(latest, STARTS) >= latest);
        }
    }
}
