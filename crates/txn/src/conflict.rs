//! Who wrote what, recently: the state that commits are checked against.
//!
//! For each cell written above the *low watermark* it keeps the newest commit timestamp under the
//! hash of the cell's key, and beside it the commits in their order, each with its keys, sorted:
//!
//! ```text
//!   newest, by hash:  #a→9  #b→4  #d→7          in order:   4:{b}  7:{d}  9:{a}
//!                            ▲                              ▲   ▲
//!          "b written after 5?"  no, at 4                   │   └ "d..f written after 5?" yes, at 7
//!                                                           └ forget ≤ 4: the watermark is 4 now
//! ```
//!
//! A point costs one look at a small table. A range costs a binary search in each commit after
//! the snapshot, of which there are as many as a transaction lasts long. A hash that two cells
//! share makes a transaction run again, and nothing worse.
//!
//! Forgetting what a live writer still needs to be checked against would let it commit wrongly,
//! so forgetting raises the watermark, and a transaction below it is refused. That happens only
//! when the state outgrows its budget, of which a single commit of very many cells is a case;
//! otherwise only what no active writer needs is forgotten.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use carnet_base::{CellHash, KeyRange, Timestamp};
use carnet_store::{Cells, Claim};

use crate::history::History;

/// How many bytes the state takes by default, at most.
pub const DEFAULT_BYTES_MAX: usize = 64 << 20;

/// After so many looks at how many cells are remembered the table is fitted to the most seen.
const FIT_LOOKS: u32 = 16;
/// A table of room for so many times as many is too large.
const FIT_TIMES: usize = 8;
/// And one of room for so few never is.
const FIT_CELLS_MIN: usize = 1 << 10;

/// Why a transaction may not commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Another transaction wrote a cell that this one wrote, after the snapshot.
    Written(Timestamp),
    /// Another transaction wrote a cell that this one read, after the snapshot.
    Read(Timestamp),
    /// The snapshot lies below the low watermark.
    BelowWatermark(Timestamp),
}

/// The recent writes. See the module's essay.
#[derive(Debug)]
pub struct ConflictState {
    newest: HashMap<CellHash, Timestamp, BuildHasherDefault<AsItIs>>,
    recent: History,
    bytes_max: usize,
    low_watermark: Timestamp,
    /// The most cells remembered since the table was fitted, and how often that was looked at.
    most: usize,
    looks: u32,
}

/// What was forgotten.
#[derive(Debug, Default)]
pub struct Trimmed {
    /// So many commits.
    pub commits: usize,
    /// What is left of them, for the caller to drop where nobody waits for it.
    pub left: Vec<Cells>,
}

/// A hash that is one already.
#[derive(Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl ConflictState {
    /// Makes an empty state: nothing committed above the watermark.
    #[must_use]
    pub fn new(low_watermark: Timestamp, bytes_max: usize) -> Self {
        Self {
            newest: HashMap::default(),
            recent: History::default(),
            bytes_max,
            low_watermark,
            most: 0,
            looks: 0,
        }
    }

    /// Looks at how many cells are remembered, and now and then gives back what the table has room
    /// for beyond that: one that some large commits have left behind would cost each small one a
    /// miss of the cache for every cell.
    pub fn fit(&mut self) {
        self.most = self.most.max(self.newest.len());
        self.looks += 1;
        if self.looks < FIT_LOOKS {
            return;
        }
        let room = self.newest.capacity();
        if room > FIT_CELLS_MIN && room > self.most.saturating_mul(FIT_TIMES) {
            self.newest.shrink_to(self.most.saturating_mul(2).max(FIT_CELLS_MIN / 2));
        }
        (self.most, self.looks) = (0, 0);
    }

    /// Checks what a transaction wrote and read against every commit after its snapshot.
    ///
    /// # Errors
    ///
    /// The first [`Refusal`] found.
    pub fn check(&self, claim: &Claim) -> Result<(), Refusal> {
        if claim.read < self.low_watermark {
            return Err(Refusal::BelowWatermark(self.low_watermark));
        }
        self.check_points(claim.cells.hashes(), claim.read).map_err(Refusal::Written)?;
        self.check_beyond(&claim.beyond, claim.read).map_err(Refusal::Written)?;
        let points = claim.reads.points.iter().copied();
        self.check_points(points, claim.read).map_err(Refusal::Read)?;
        self.check_ranges(&claim.reads.ranges, claim.read).map_err(Refusal::Read)
    }

    fn check_points(
        &self,
        mut cells: impl Iterator<Item = CellHash>,
        read: Timestamp,
    ) -> Result<(), Timestamp> {
        let later = |cell| self.newest.get(&cell).copied().filter(|&at| at > read);
        match cells.find_map(later) {
            Some(commit) => Err(commit),
            None => Ok(()),
        }
    }

    /// As [`ConflictState::check_points`], for many sorted cells: whichever side has fewer is
    /// looked through.
    fn check_beyond(&self, cells: &[CellHash], read: Timestamp) -> Result<(), Timestamp> {
        if cells.len() <= self.newest.len() {
            return self.check_points(cells.iter().copied(), read);
        }
        let later = self.newest.iter().filter(|(_, at)| **at > read);
        let mut beaten = later.filter(|(cell, _)| cells.binary_search(cell).is_ok());
        beaten.next().map_or(Ok(()), |(_, at)| Err(*at))
    }

    fn check_ranges(&self, ranges: &[KeyRange], read: Timestamp) -> Result<(), Timestamp> {
        let mut bounds = ranges.iter().filter_map(KeyRange::byte_bounds);
        let beaten = bounds.find_map(|(lower, upper)| self.recent.within(read, &lower, &upper));
        beaten.map_or(Ok(()), Err)
    }

    /// Remembers a commit; may take the claim's cells. Commits come in their order.
    pub fn record(&mut self, commit: Timestamp, claim: &mut Claim) {
        if !claim.beyond.is_empty() {
            // Nobody can be checked against it: whoever began before it is refused.
            self.newest.clear();
            self.recent.clear();
            self.low_watermark = commit;
            return;
        }
        for hash in claim.cells.hashes() {
            self.newest.insert(hash, commit);
        }
        self.recent.push(commit, &mut claim.cells);
    }

    /// Tells whether the state takes more than its budget.
    #[must_use]
    pub const fn is_over_budget(&self) -> bool {
        self.recent.bytes() > self.bytes_max
    }

    /// Forgets the oldest commits up to `unneeded`, which no active writer has to be checked
    /// against, and, where the state is still over its budget, the oldest beyond that; at most
    /// `commits_max` of them.
    pub fn trim(&mut self, unneeded: Timestamp, commits_max: usize) -> Trimmed {
        let mut trimmed = Trimmed::default();
        while trimmed.commits < commits_max {
            let is_over = self.is_over_budget();
            let Some(oldest) = self.recent.oldest().filter(|at| *at <= unneeded || is_over) else {
                break;
            };
            let newest = &mut self.newest;
            let left = self.recent.forget_oldest(|hash| {
                if newest.get(&hash) == Some(&oldest) {
                    newest.remove(&hash);
                }
            });
            self.low_watermark = oldest;
            trimmed.commits += 1;
            trimmed.left.extend(left);
        }
        trimmed
    }

    /// Returns the watermark: a transaction with an older snapshot is refused.
    #[must_use]
    pub const fn low_watermark(&self) -> Timestamp {
        self.low_watermark
    }

    /// Returns how many cells are remembered.
    #[must_use]
    pub fn cells(&self) -> usize {
        self.newest.len()
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::{CellKey, PartitionKey, TableId, Token};
    use carnet_store::{Begun, CommitRequest, ReadSet, Slot, Write};

    use super::*;

    fn at(number: u64) -> Timestamp {
        Timestamp::new(number).unwrap()
    }

    fn cell(name: &'static str) -> CellKey {
        CellKey::new(TableId(1), &PartitionKey::first_at(Token(0)), name)
    }

    fn request(read: u64, reads: ReadSet, writes: &[&'static str]) -> Claim {
        let writes = writes.iter().map(|&name| Write { key: cell(name), payload: None }).collect();
        let start = at(read + 1);
        let begun =
            Begun { read: at(read), start: Some(start), slot: Slot::default(), schema: at(read) };
        CommitRequest::new(begun, start, reads, writes).into_claim()
    }

    fn state() -> ConflictState {
        let mut state = ConflictState::new(at(1), 10_000);
        state.record(at(4), &mut request(1, ReadSet::default(), &["b"]));
        state.record(at(7), &mut request(1, ReadSet::default(), &["d"]));
        state.record(at(9), &mut request(1, ReadSet::default(), &["a"]));
        state
    }

    #[test]
    fn blind_writes_conflict_with_later_commits_only() {
        let state = state();
        let check = |read, name| state.check(&request(read, ReadSet::default(), &[name]));
        assert_eq!(check(3, "b"), Err(Refusal::Written(at(4))));
        assert_eq!(check(4, "b"), Ok(()));
        assert_eq!(check(1, "c"), Ok(()));
    }

    #[test]
    fn a_range_read_meets_the_cells_written_into_it() {
        let state = state();
        let range = |from: &'static str, to: &'static str| ReadSet {
            ranges: vec![KeyRange {
                table: TableId(1),
                lower: std::ops::Bound::Included(cell(from)),
                upper: std::ops::Bound::Excluded(cell(to)),
            }],
            ..ReadSet::default()
        };
        let check = |read, from, to| state.check(&request(read, range(from, to), &[]));
        assert_eq!(check(5, "d", "f"), Err(Refusal::Read(at(7))));
        assert_eq!(check(7, "d", "f"), Ok(()));
        assert_eq!(check(5, "e", "f"), Ok(()));
        assert_eq!(check(5, "b", "d"), Ok(()));
        // Bounds the wrong way round hold nothing, and do not panic.
        assert_eq!(check(1, "f", "a"), Ok(()));
    }

    #[test]
    fn a_range_meets_every_key_of_a_commit_that_wrote_many() {
        let mut state = ConflictState::new(at(1), 10_000);
        state.record(at(4), &mut request(1, ReadSet::default(), &["b", "d", "f"]));
        let meets = |from: &'static str, to: &'static str| {
            let range = KeyRange {
                table: TableId(1),
                lower: std::ops::Bound::Excluded(cell(from)),
                upper: std::ops::Bound::Included(cell(to)),
            };
            let reads = ReadSet { ranges: vec![range], ..ReadSet::default() };
            state.check(&request(3, reads, &[])).is_err()
        };
        assert!(meets("a", "b") && meets("c", "e") && meets("e", "z") && meets("a", "z"));
        assert!(!meets("b", "c") && !meets("f", "z") && !meets("d", "e"));
    }

    #[test]
    fn what_large_commits_leave_behind_is_given_back_and_small_ones_stay_known() {
        let mut state = ConflictState::new(at(1), usize::MAX);
        let mut large = request(1, ReadSet::default(), &[]);
        for number in 0..50_000_u32 {
            let partition = PartitionKey::first_at(Token(0));
            large.cells.push(&CellKey::new(TableId(1), &partition, number.to_be_bytes()));
        }
        state.record(at(4), &mut large);
        state.fit();
        assert_eq!(state.trim(at(4), usize::MAX).commits, 1);
        state.record(at(7), &mut request(4, ReadSet::default(), &["d"]));
        let look = |state: &mut ConflictState| (0..FIT_LOOKS).for_each(|_| state.fit());
        look(&mut state);
        let room = state.newest.capacity();
        assert!(room > 30_000, "there were many when it was looked at first: {room}");
        look(&mut state);
        assert!(state.newest.capacity() <= FIT_CELLS_MIN, "{}", state.newest.capacity());
        let late = request(5, ReadSet::default(), &["d"]);
        assert_eq!(state.check(&late), Err(Refusal::Written(at(7))));
    }

    #[test]
    fn point_reads_conflict_like_writes() {
        let reads = ReadSet { points: vec![cell("d").hash()], ..ReadSet::default() };
        assert_eq!(state().check(&request(5, reads, &["z"])), Err(Refusal::Read(at(7))));
    }

    #[test]
    fn forgetting_raises_the_watermark_and_refuses_older_snapshots() {
        let mut state = state();
        drop(state.trim(at(7), usize::MAX));
        assert_eq!((state.low_watermark(), state.cells()), (at(7), 1));
        let old = state.check(&request(6, ReadSet::default(), &["z"]));
        assert_eq!(old, Err(Refusal::BelowWatermark(at(7))));
        assert_eq!(state.check(&request(7, ReadSet::default(), &["z"])), Ok(()));
    }

    #[test]
    fn a_cell_written_again_is_forgotten_with_its_last_commit() {
        let mut state = state();
        state.record(at(11), &mut request(9, ReadSet::default(), &["b"]));
        drop(state.trim(at(4), usize::MAX));
        let check = state.check(&request(9, ReadSet::default(), &["b"]));
        assert_eq!(check, Err(Refusal::Written(at(11))));
    }

    #[test]
    fn a_state_over_its_budget_forgets_what_writers_still_need() {
        let mut state = ConflictState::new(at(0), 300);
        for (commit, name) in [(2, "a"), (3, "b"), (4, "c")] {
            state.record(at(commit), &mut request(0, ReadSet::default(), &[name]));
            drop(state.trim(at(0), usize::MAX));
        }
        assert_eq!((state.low_watermark(), state.cells()), (at(2), 2));
    }
}
