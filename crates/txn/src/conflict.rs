//! Who wrote what, recently: the state that commits are checked against.
//!
//! For each cell written above the *low watermark* it keeps the newest commit timestamp under the
//! hash of the cell's key, and beside it the commits in their order, each with its keys, sorted. All
//! of it lies in two *generations*, of which the younger one takes what is new:
//!
//! ```text
//!             older                          younger
//!   by hash   #a→4  #b→5                     #a→9  #d→7
//!   in order  4:{a}  5:{b}                   7:{d}  9:{a}
//!             └ forget ≤ 5, as a whole:       ▲      └ "a..c written after 5?"  yes, at 9
//!               the watermark is 5 then       └ "d written after 5?"  yes, at 7
//! ```
//!
//! A point costs a look at one or two small tables. A range costs a binary search in each commit after
//! the snapshot, of which there are as many as a transaction lasts long. A hash that two cells
//! share makes a transaction run again, and nothing worse.
//!
//! Once no active writer has to be checked against the older generation, it is emptied and becomes the
//! younger one. So nothing is forgotten one by one while others wait to be checked, and what is
//! remembered goes into memory that is there: a commit's own would be given back by another thread
//! than the one that asked for it, and an allocator that keeps memory by threads has the two wait for
//! each other. Both together made up most of the times that one of two committing threads slept.
//!
//! Forgetting what a live writer still needs to be checked against would let it commit wrongly,
//! so forgetting raises the watermark, and a transaction below it is refused. That happens only
//! when the state outgrows its budget, of which a single commit of very many cells is a case. A
//! generation takes up to half of the budget, and where both together outgrow it the older one goes:
//! the younger half of what the budget allows is kept, whatever commits were large.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use carnet_base::{CellHash, KeyRange, Timestamp};
use carnet_store::Claim;

use crate::history::History;

/// How many bytes the state takes by default, at most.
pub const DEFAULT_BYTES_MAX: usize = 64 << 20;

/// An emptied generation keeps its memory for the next one, unless it has more than this.
const KEPT_BYTES: usize = 512 << 10;
/// It also keeps so many times of what it was filled with. Small commits would miss the caches in a
/// table that large ones have left.
const KEPT_TIMES: usize = 8;

/// Why a transaction may not commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Another transaction wrote a cell that this one wrote, after the snapshot.
    Written(Lost),
    /// Another transaction wrote a cell that this one read, after the snapshot.
    Read(Lost),
    /// The snapshot lies below the low watermark.
    BelowWatermark(Timestamp),
}

/// A cell that another transaction wrote first, and its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// When the other transaction committed.
    pub commit: Timestamp,
    /// The cell.
    pub cell: CellHash,
}

/// The order of a cell's versions in the store that a log belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VersionOrder {
    /// By the start S: a transaction that writes a cell must not have been overtaken there since
    /// its snapshot, because its version would lie below that of an earlier commit.
    #[default]
    Start,
    /// By the commit C: a transaction that read nothing of what others wrote can be placed at any
    /// C, and is never refused for its writes.
    Commit,
}

/// The recent writes. See the module's essay.
#[derive(Debug)]
pub struct ConflictState {
    younger: Generation,
    older: Generation,
    bytes_max: usize,
    low_watermark: Timestamp,
    order: VersionOrder,
}

/// Some commits that follow each other.
#[derive(Debug, Default)]
pub struct Generation {
    newest: HashMap<CellHash, Timestamp, BuildHasherDefault<AsItIs>>,
    history: History,
}

impl Generation {
    /// Tells whether it has a commit after a timestamp.
    fn reaches_beyond(&self, at: Timestamp) -> bool {
        self.history.last().is_some_and(|last| last > at)
    }

    /// What it has of the allocator, in bytes, but for commits that keep their own memory.
    fn allocated_bytes(&self) -> usize {
        self.newest.capacity() * ENTRY_BYTES + self.history.shared_bytes()
    }

    /// Empties it; returns what the next one does not need, for the caller to drop.
    fn empty(&mut self) -> Self {
        let kept_max = KEPT_BYTES.max(self.history.bytes().saturating_mul(KEPT_TIMES));
        if self.allocated_bytes() > kept_max {
            return std::mem::take(self);
        }
        self.newest.clear();
        Self { history: self.history.clear(), ..Self::default() }
    }
}

/// What an entry of a table of hashes takes: a hash, a timestamp, and a byte of the table's own.
const ENTRY_BYTES: usize = size_of::<(CellHash, Timestamp)>() + 1;

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
        let (younger, older) = (Generation::default(), Generation::default());
        Self { younger, older, bytes_max, low_watermark, order: VersionOrder::default() }
    }

    /// Sets the order of a cell's versions.
    #[must_use]
    pub fn with_order(self, order: VersionOrder) -> Self {
        Self { order, ..self }
    }

    /// Returns `true` if no other transaction may have written the claim's cells since its
    /// snapshot. Changes of schema rely on that, and large transactions are checked as a whole.
    fn checks_writes(&self, claim: &Claim) -> bool {
        self.order == VersionOrder::Start
            || claim.checks_writes
            || claim.changes_schema()
            || !claim.names_all()
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
        if self.checks_writes(claim) {
            self.check_points(&claim.cells.hashes(), claim.read).map_err(Refusal::Written)?;
            self.check_beyond(&claim.beyond, claim.read).map_err(Refusal::Written)?;
        }
        let points = claim.reads.points.iter().copied();
        self.check_points(&points, claim.read).map_err(Refusal::Read)?;
        self.check_ranges(&claim.reads.ranges, claim.read).map_err(Refusal::Read)
    }

    /// The generations with commits after a snapshot, the younger one first.
    fn after(&self, read: Timestamp) -> impl Iterator<Item = &Generation> {
        let generations = [&self.younger, &self.older].into_iter();
        generations.filter(move |generation| generation.reaches_beyond(read))
    }

    fn check_points(
        &self,
        cells: &(impl Iterator<Item = CellHash> + Clone),
        read: Timestamp,
    ) -> Result<(), Lost> {
        for generation in self.after(read) {
            let later = |cell| {
                let commit = *generation.newest.get(&cell)?;
                (commit > read).then_some(Lost { commit, cell })
            };
            if let Some(lost) = cells.clone().find_map(later) {
                return Err(lost);
            }
        }
        Ok(())
    }

    /// Like [`ConflictState::check_points`], for many sorted cells: the side with fewer cells is
    /// looked through.
    fn check_beyond(&self, cells: &[CellHash], read: Timestamp) -> Result<(), Lost> {
        if cells.len() <= self.cells() {
            return self.check_points(&cells.iter().copied(), read);
        }
        let newest = self.after(read).flat_map(|generation| &generation.newest);
        let later = newest.filter(|(_, at)| **at > read);
        let mut beaten = later.filter(|(cell, _)| cells.binary_search(cell).is_ok());
        beaten.next().map_or(Ok(()), |(cell, at)| Err(Lost { commit: *at, cell: *cell }))
    }

    fn check_ranges(&self, ranges: &[KeyRange], read: Timestamp) -> Result<(), Lost> {
        let mut bounds = ranges.iter().filter_map(KeyRange::byte_bounds);
        let beaten = bounds.find_map(|(lower, upper)| {
            self.after(read).find_map(|generation| generation.history.within(read, &lower, &upper))
        });
        beaten.map_or(Ok(()), |(commit, cell)| Err(Lost { commit, cell }))
    }

    /// Remembers a commit; may take the claim's cells. Commits come in their order.
    ///
    /// Where that takes more than the budget, what has to be forgotten for it is dropped here, while
    /// others wait.
    pub fn record(&mut self, commit: Timestamp, claim: &mut Claim) {
        if !claim.beyond.is_empty() {
            // Nobody can be checked against it: whoever began before it is refused.
            *self = Self::new(commit, self.bytes_max).with_order(self.order);
            return;
        }
        let younger = self.younger.history.bytes();
        if younger > 0 && younger + History::bytes_of(&claim.cells) > self.bytes_max / 2 {
            drop(self.forget_older());
        }
        for hash in claim.cells.hashes() {
            self.younger.newest.insert(hash, commit);
        }
        self.younger.history.push(commit, &mut claim.cells);
        while self.bytes() > self.bytes_max {
            drop(self.forget_older());
        }
    }

    /// Forgets generations that end at or before `unneeded`: no active writer has to be checked
    /// against them. What is left of them is for the caller to drop, where nobody waits.
    pub fn trim(&mut self, unneeded: Timestamp) -> Vec<Generation> {
        let mut left = Vec::new();
        // An empty older one is passed over by the first turn, which makes it the younger one.
        for _ in 0..2 {
            if !self.older.reaches_beyond(unneeded) {
                left.push(self.forget_older());
            }
        }
        left
    }

    /// Empties the older generation, which takes what is new from now on.
    fn forget_older(&mut self) -> Generation {
        if let Some(last) = self.older.history.last() {
            self.low_watermark = last;
        }
        let left = self.older.empty();
        std::mem::swap(&mut self.younger, &mut self.older);
        left
    }

    /// Returns about how many bytes it takes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.younger.history.bytes() + self.older.history.bytes()
    }

    /// Returns the watermark: a transaction with an older snapshot is refused.
    #[must_use]
    pub const fn low_watermark(&self) -> Timestamp {
        self.low_watermark
    }

    /// Returns how many cells are remembered; one in both generations counts twice.
    #[must_use]
    pub fn cells(&self) -> usize {
        self.younger.newest.len() + self.older.newest.len()
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::{CellKey, PartitionKey, Rng, SeededRng, TableId, Token};
    use carnet_store::{Begun, CommitRequest, ReadSet, Slot, Write};

    use super::*;

    fn at(number: u64) -> Timestamp {
        Timestamp::new(number).unwrap()
    }

    fn cell(name: &'static str) -> CellKey {
        CellKey::new(TableId::FIRST, &PartitionKey::first_at(Token(0)), name)
    }

    fn request(read: u64, reads: ReadSet, writes: &[&'static str]) -> Claim {
        let write = |&name: &_| Write { key: cell(name), payload: None };
        let writes: Vec<_> = writes.iter().map(write).collect();
        let start = at(read + 1);
        let begun =
            Begun { read: at(read), start: Some(start), slot: Slot::default(), schema: at(read) };
        CommitRequest::new(begun, start, reads, writes).into_claim()
    }

    fn lost(commit: u64, name: &'static str) -> Lost {
        Lost { commit: at(commit), cell: cell(name).hash() }
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
        assert_eq!(check(3, "b"), Err(Refusal::Written(lost(4, "b"))));
        assert_eq!(check(4, "b"), Ok(()));
        assert_eq!(check(1, "c"), Ok(()));
    }

    /// Where versions are ordered by C, the writes alone of a transaction that read nothing are no
    /// reason to refuse it.
    #[test]
    fn blind_writes_by_commit_order_never_conflict() {
        let by_start = state();
        let by_commit = state().with_order(VersionOrder::Commit);
        let request = |reads, checks_writes| Claim { checks_writes, ..request(3, reads, &["b"]) };
        let blind = || request(ReadSet::default(), false);
        assert_eq!(by_commit.check(&blind()), Ok(()));
        assert_eq!(by_start.check(&blind()), Err(Refusal::Written(lost(4, "b"))));
        let read_at_snapshot = request(ReadSet::default(), true);
        assert_eq!(by_commit.check(&read_at_snapshot), Err(Refusal::Written(lost(4, "b"))));
        let points = vec![cell("d").hash()];
        let reader = request(ReadSet { points, ..ReadSet::default() }, false);
        assert_eq!(by_commit.check(&reader), Err(Refusal::Read(lost(7, "d"))));
        let drops = Claim { drops: vec![TableId(u32::MAX)], ..blind() };
        assert!(by_commit.check(&drops).is_err(), "a table is dropped");
        let large = Claim { beyond: vec![cell("b").hash()], ..blind() };
        assert!(by_commit.check(&large).is_err(), "too large to be placed anywhere");
    }

    #[test]
    fn a_range_read_meets_the_cells_written_into_it() {
        let state = state();
        let range = |from: &'static str, to: &'static str| ReadSet {
            ranges: vec![KeyRange {
                table: TableId::FIRST,
                lower: std::ops::Bound::Included(cell(from)),
                upper: std::ops::Bound::Excluded(cell(to)),
            }],
            ..ReadSet::default()
        };
        let check = |read, from, to| state.check(&request(read, range(from, to), &[]));
        assert_eq!(check(5, "d", "f"), Err(Refusal::Read(lost(7, "d"))));
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
                table: TableId::FIRST,
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
            large.cells.push(&CellKey::new(TableId::FIRST, &partition, number.to_be_bytes()));
        }
        let kept = |state: &ConflictState| {
            state.younger.allocated_bytes().max(state.older.allocated_bytes())
        };
        state.record(at(4), &mut large);
        drop(state.trim(at(4)));
        assert_eq!(state.cells(), 0);
        assert!(kept(&state) > KEPT_BYTES, "the next commits may be as large: {}", kept(&state));
        for commit in 5..9 {
            state.record(at(commit), &mut request(4, ReadSet::default(), &["d"]));
            drop(state.trim(at(commit - 1)));
        }
        assert!(kept(&state) <= KEPT_BYTES, "{}", kept(&state));
        let late = request(7, ReadSet::default(), &["d"]);
        assert_eq!(state.check(&late), Err(Refusal::Written(lost(8, "d"))));
    }

    #[test]
    fn point_reads_conflict_like_writes() {
        let reads = ReadSet { points: vec![cell("d").hash()], ..ReadSet::default() };
        assert_eq!(state().check(&request(5, reads, &["z"])), Err(Refusal::Read(lost(7, "d"))));
    }

    #[test]
    fn forgetting_raises_the_watermark_and_refuses_older_snapshots() {
        let mut state = state();
        drop(state.trim(at(7)));
        assert_eq!(
            (state.low_watermark(), state.cells()),
            (at(1), 3),
            "9 is needed, and with it all"
        );
        state.record(at(11), &mut request(9, ReadSet::default(), &["b"]));
        drop(state.trim(at(9)));
        assert_eq!((state.low_watermark(), state.cells()), (at(9), 1));
        let old = state.check(&request(8, ReadSet::default(), &["z"]));
        assert_eq!(old, Err(Refusal::BelowWatermark(at(9))));
        assert_eq!(state.check(&request(9, ReadSet::default(), &["z"])), Ok(()));
        assert_eq!(
            state.check(&request(9, ReadSet::default(), &["b"])),
            Err(Refusal::Written(lost(11, "b")))
        );
        drop(state.trim(at(11)));
        assert_eq!((state.low_watermark(), state.cells()), (at(11), 0));
    }

    #[test]
    fn what_either_generation_has_is_checked_and_the_newest_commit_counts() {
        let mut state = state();
        drop(state.trim(at(4)));
        state.record(at(11), &mut request(9, ReadSet::default(), &["b"]));
        let check = |read, name| state.check(&request(read, ReadSet::default(), &[name]));
        assert_eq!(check(3, "b"), Err(Refusal::Written(lost(11, "b"))));
        assert_eq!(check(10, "b"), Err(Refusal::Written(lost(11, "b"))));
        assert_eq!(check(8, "a"), Err(Refusal::Written(lost(9, "a"))));
        assert_eq!(check(9, "a"), Ok(()));
        let all = KeyRange::table(TableId::FIRST);
        let check = |read| {
            let reads = ReadSet { ranges: vec![all.clone()], ..ReadSet::default() };
            state.check(&request(read, reads, &[]))
        };
        let newest = Err(Refusal::Read(lost(11, "b")));
        assert_eq!((check(8), check(10)), (newest, newest));
        assert_eq!(check(11), Ok(()));
    }

    #[test]
    fn long_keys_that_commits_leave_behind_are_given_back() {
        let mut state = ConflictState::new(at(1), usize::MAX);
        for commit in 2..2_000 {
            let mut claim = request(1, ReadSet::default(), &[]);
            let key = vec![7; 8 << 10];
            claim.cells.push(&CellKey::new(TableId::FIRST, &PartitionKey::first_at(Token(0)), key));
            state.record(at(commit), &mut claim);
        }
        for commit in 2_000..2_004 {
            state.record(at(commit), &mut request(1, ReadSet::default(), &["d"]));
            drop(state.trim(at(commit - 1)));
        }
        let kept = state.younger.allocated_bytes() + state.older.allocated_bytes();
        assert!(kept <= 2 * KEPT_BYTES, "{kept}");
    }

    /// Commits that a plain list remembers, all of them.
    struct Model(Vec<(Timestamp, Vec<u64>, usize)>);

    impl Model {
        fn check(&self, read: Timestamp, written: &[u64], (from, to): (u64, u64)) -> bool {
            let mut later = self.0.iter().filter(|(commit, ..)| *commit > read);
            later.all(|(_, cells, _)| {
                cells.iter().all(|cell| !written.contains(cell) && !(from..to).contains(cell))
            })
        }

        /// What the newest commits take, down to the first one that does not fit.
        fn newest_within(&self, bytes: usize) -> Timestamp {
            let mut left = bytes;
            let fits = |(_, _, taken): &&(Timestamp, Vec<u64>, usize)| {
                left.checked_sub(*taken).inspect(|rest| left = *rest).is_some()
            };
            self.0.iter().rev().take_while(fits).last().map_or(Timestamp::MAX, |(at, ..)| *at)
        }
    }

    fn numbered(numbers: &[u64]) -> carnet_store::Cells {
        let partition = PartitionKey::first_at(Token(0));
        let key = |number: &u64| CellKey::new(TableId::FIRST, &partition, number.to_be_bytes());
        let keys: Vec<CellKey> = numbers.iter().map(key).collect();
        carnet_store::Cells::of(keys.iter())
    }

    fn claim_of(read: Timestamp, numbers: &[u64], (from, to): (u64, u64)) -> Claim {
        let partition = PartitionKey::first_at(Token(0));
        let end = |number: u64| CellKey::new(TableId::FIRST, &partition, number.to_be_bytes());
        let range = KeyRange {
            table: TableId::FIRST,
            lower: std::ops::Bound::Included(end(from)),
            upper: std::ops::Bound::Excluded(end(to)),
        };
        let reads = ReadSet { ranges: vec![range], ..ReadSet::default() };
        let mut claim = request(read.get(), reads, &[]);
        claim.cells = numbered(numbers);
        claim
    }

    /// What is kept is checked as a list of all commits would, and what is not is refused; nothing
    /// is forgotten that is needed and fits.
    #[test]
    fn the_state_decides_as_a_list_of_all_commits_would() {
        for seed in 0..16 {
            let mut rng = SeededRng::new(seed);
            let bytes_max =
                [4_000, 40_000, 400_000, usize::MAX][usize::try_from(seed % 4).unwrap()];
            let mut state = ConflictState::new(at(1), bytes_max);
            let mut model = Model(Vec::new());
            let (mut unneeded, mut forced) = (at(1), at(1));
            for number in 2..400_u64 {
                let many = match rng.below(50) {
                    0 => rng.below(1_500),
                    _ => rng.below(12),
                };
                let mut numbers: Vec<u64> = (0..many).map(|_| rng.below(1 << 14)).collect();
                numbers.sort_unstable();
                numbers.dedup();
                let range = (rng.below(1 << 14), rng.below(1 << 14));
                let read = at(rng.below(number).max(1));
                let found = state.check(&claim_of(read, &numbers, range));
                if read < state.low_watermark() {
                    assert_eq!(found, Err(Refusal::BelowWatermark(state.low_watermark())));
                } else {
                    let expected = model.check(read, &numbers, range);
                    assert_eq!(found.is_ok(), expected, "seed {seed}, {number}: {found:?}");
                }
                let mut claim = claim_of(read, &numbers, range);
                if rng.below(150) == 0 {
                    claim.beyond = vec![CellHash(7)];
                    forced = at(number + 1);
                }
                state.record(at(number), &mut claim);
                let bytes = History::bytes_of(&numbered(&numbers));
                model.0.push((at(number), numbers, bytes));
                if rng.below(10) == 0 {
                    unneeded = at(unneeded.get() + rng.below(number - unneeded.get() + 1));
                    drop(state.trim(unneeded));
                }
                assert!(state.bytes() <= bytes_max, "seed {seed}");
                let fits = model.newest_within(bytes_max / 2);
                let needed = fits.max(at(unneeded.get() + 1)).max(forced);
                let watermark = state.low_watermark();
                assert!(watermark < needed, "seed {seed}, {number}: {watermark}, {needed}");
            }
        }
    }

    #[test]
    fn a_state_over_its_budget_forgets_what_writers_still_need() {
        let one = History::bytes_of(&request(0, ReadSet::default(), &["a"]).cells);
        let mut state = ConflictState::new(at(0), 4 * one);
        for (commit, name) in [(2, "a"), (3, "b"), (4, "c"), (5, "d"), (6, "e"), (7, "f")] {
            state.record(at(commit), &mut request(0, ReadSet::default(), &[name]));
            assert!(state.bytes() <= state.bytes_max, "{}", state.bytes());
        }
        assert_eq!((state.low_watermark(), state.cells()), (at(3), 4), "at least half is kept");
        let mut large = request(0, ReadSet::default(), &["a", "b", "c", "d", "e", "f"]);
        state.record(at(9), &mut large);
        assert_eq!((state.low_watermark(), state.cells()), (at(9), 0));
    }
}
