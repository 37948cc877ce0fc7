//! Who wrote what, recently: the state that commits are checked against.
//!
//! For each cell written above the *low watermark* it keeps the newest commit timestamp, in the
//! order of cells, so that a range is checked by looking at the cells in it. A second structure
//! keeps the same cells in the order of commits, so that the oldest can be forgotten:
//!
//! ```text
//!   cells, by key:   a→9   b→4   d→7           by commit:   4:{b}  7:{d}  9:{a}
//!                                  ▲                        ▲
//!         "d..f written after 5?"  yes, at 7                forget ≤ 4: the watermark is 4 now
//! ```
//!
//! Forgetting what a live writer still needs to be checked against would let it commit wrongly,
//! so forgetting raises the watermark, and a transaction below it is refused. That happens only
//! when the state outgrows its budget; otherwise only what no active writer needs is forgotten.

use std::collections::{BTreeMap, VecDeque};

use carnet_base::{CellKey, Timestamp};
use carnet_store::{CommitRequest, ReadSet};

/// How many cells the state remembers by default: about 100 MB with keys of 32 bytes.
pub const DEFAULT_CELLS_MAX: usize = 500_000;

/// Why a transaction may not commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Another transaction wrote this cell after the snapshot.
    Beaten {
        /// The cell.
        key: CellKey,
        /// When the other one committed.
        commit: Timestamp,
    },
    /// The snapshot lies below the low watermark.
    BelowWatermark(Timestamp),
}

/// The recent writes. See the module's essay.
#[derive(Debug)]
pub struct ConflictState {
    latest: BTreeMap<CellKey, Timestamp>,
    by_commit: VecDeque<(Timestamp, Vec<CellKey>)>,
    /// How many cells `by_commit` holds, the repeated ones included.
    remembered: usize,
    cells_max: usize,
    low_watermark: Timestamp,
}

impl ConflictState {
    /// Makes an empty state: nothing committed above the watermark.
    #[must_use]
    pub const fn new(low_watermark: Timestamp, cells_max: usize) -> Self {
        Self {
            latest: BTreeMap::new(),
            by_commit: VecDeque::new(),
            remembered: 0,
            cells_max,
            low_watermark,
        }
    }

    /// Checks what a transaction wrote and read against every commit after its snapshot.
    ///
    /// # Errors
    ///
    /// The first [`Refusal`] found.
    pub fn check(&self, request: &CommitRequest) -> Result<(), Refusal> {
        if request.read < self.low_watermark {
            return Err(Refusal::BelowWatermark(self.low_watermark));
        }
        for write in &request.writes {
            self.check_point(&write.key, request.read)?;
        }
        self.check_reads(&request.reads, request.read)
    }

    fn check_reads(&self, reads: &ReadSet, read: Timestamp) -> Result<(), Refusal> {
        for key in &reads.points {
            self.check_point(key, read)?;
        }
        for range in &reads.ranges {
            let Some(bounds) = range.map_bounds() else { continue };
            for (key, &commit) in self.latest.range(bounds) {
                if commit > read {
                    return Err(Refusal::Beaten { key: key.clone(), commit });
                }
            }
        }
        Ok(())
    }

    fn check_point(&self, key: &CellKey, read: Timestamp) -> Result<(), Refusal> {
        match self.latest.get(key) {
            Some(&commit) if commit > read => Err(Refusal::Beaten { key: key.clone(), commit }),
            _ => Ok(()),
        }
    }

    /// Remembers a commit. Commits come in their order.
    pub fn record(&mut self, commit: Timestamp, request: &CommitRequest) {
        let keys: Vec<CellKey> = request.writes.iter().map(|write| write.key.clone()).collect();
        for key in &keys {
            self.latest.insert(key.clone(), commit);
        }
        self.remembered += keys.len();
        self.by_commit.push_back((commit, keys));
    }

    /// Forgets every commit up to `unneeded`, which no active writer has to be checked against,
    /// and, where the state is still over its budget, the oldest beyond that.
    pub fn trim(&mut self, unneeded: Timestamp) {
        while let Some(&(commit, _)) = self.by_commit.front() {
            if commit > unneeded && self.remembered <= self.cells_max {
                break;
            }
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some((commit, keys)) = self.by_commit.pop_front() else { return };
        self.remembered -= keys.len();
        for key in keys {
            if self.latest.get(&key) == Some(&commit) {
                self.latest.remove(&key);
            }
        }
        self.low_watermark = commit;
    }

    /// Returns the watermark: a transaction with an older snapshot is refused.
    #[must_use]
    pub const fn low_watermark(&self) -> Timestamp {
        self.low_watermark
    }

    /// Returns how many cells are remembered.
    #[must_use]
    pub fn cells(&self) -> usize {
        self.latest.len()
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::{KeyRange, PartitionKey, TableId, Token};
    use carnet_store::Write;

    use super::*;

    fn at(number: u64) -> Timestamp {
        Timestamp::new(number).unwrap()
    }

    fn cell(name: &'static str) -> CellKey {
        CellKey::new(TableId(1), &PartitionKey::first_at(Token(0)), name)
    }

    fn request(read: u64, reads: ReadSet, writes: &[&'static str]) -> CommitRequest {
        let writes = writes.iter().map(|&name| Write { key: cell(name), payload: None }).collect();
        CommitRequest { read: at(read), start: at(read + 1), reads, writes }
    }

    fn beaten(result: &Result<(), Refusal>) -> Option<(&[u8], u64)> {
        match result {
            Err(Refusal::Beaten { key, commit }) => Some((key.clustering(), commit.get())),
            _ => None,
        }
    }

    fn state() -> ConflictState {
        let mut state = ConflictState::new(at(1), 100);
        state.record(at(4), &request(1, ReadSet::default(), &["b"]));
        state.record(at(7), &request(1, ReadSet::default(), &["d"]));
        state.record(at(9), &request(1, ReadSet::default(), &["a"]));
        state
    }

    #[test]
    fn blind_writes_conflict_with_later_commits_only() {
        let state = state();
        let check = |read, name| state.check(&request(read, ReadSet::default(), &[name]));
        assert_eq!(beaten(&check(3, "b")), Some((&b"b"[..], 4)));
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
        assert_eq!(beaten(&check(5, "d", "f")), Some((&b"d"[..], 7)));
        assert_eq!(check(7, "d", "f"), Ok(()));
        assert_eq!(check(5, "e", "f"), Ok(()));
        assert_eq!(check(5, "b", "d"), Ok(()));
        // Bounds the wrong way round hold nothing, and do not panic.
        assert_eq!(check(1, "f", "a"), Ok(()));
    }

    #[test]
    fn point_reads_conflict_like_writes() {
        let reads = ReadSet { points: vec![cell("d")], ..ReadSet::default() };
        assert_eq!(beaten(&state().check(&request(5, reads, &["z"]))), Some((&b"d"[..], 7)));
    }

    #[test]
    fn forgetting_raises_the_watermark_and_refuses_older_snapshots() {
        let mut state = state();
        state.trim(at(7));
        assert_eq!((state.low_watermark(), state.cells()), (at(7), 1));
        let old = state.check(&request(6, ReadSet::default(), &["z"]));
        assert_eq!(old, Err(Refusal::BelowWatermark(at(7))));
        assert_eq!(state.check(&request(7, ReadSet::default(), &["z"])), Ok(()));
    }

    #[test]
    fn a_cell_written_again_is_forgotten_with_its_last_commit() {
        let mut state = state();
        state.record(at(11), &request(9, ReadSet::default(), &["b"]));
        state.trim(at(4));
        let check = state.check(&request(9, ReadSet::default(), &["b"]));
        assert_eq!(beaten(&check), Some((&b"b"[..], 11)));
    }

    #[test]
    fn a_state_over_its_budget_forgets_what_writers_still_need() {
        let mut state = ConflictState::new(at(0), 2);
        for (commit, name) in [(2, "a"), (3, "b"), (4, "c")] {
            state.record(at(commit), &request(0, ReadSet::default(), &[name]));
            state.trim(at(0));
        }
        assert_eq!((state.low_watermark(), state.cells()), (at(2), 2));
    }
}
