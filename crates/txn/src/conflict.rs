//! The recent writes: the state that commits are checked against.
//!
//! For each cell written above the *low watermark*, the state keeps the newest commit timestamp
//! under the hash of the cell's key. It also keeps the commits in their order, each with its sorted
//! keys. Both are split into two *generations*; new commits go to the younger one:
//!
//! ```text
//!             older                          younger
//!   by hash   #a→4  #b→5                     #a→9  #d→7
//!   in order  4:{a}  5:{b}                   7:{d}  9:{a}
//!             └ forget ≤ 5, as a whole:       ▲      └ "a..c written after 5?"  yes, at 9
//!               the watermark is 5 then       └ "d written after 5?"  yes, at 7
//! ```
//!
//! Checking a point costs a lookup in one or two small tables. Checking a range costs a binary
//! search in each commit after the snapshot; a transaction that runs longer has more of them. Two
//! cells with the same hash can make a transaction run again, and nothing worse.
//!
//! Once no active writer has to be checked against the older generation, it is emptied and becomes
//! the younger one. So commits are not forgotten one by one under the lock. New commits are also
//! copied into memory that is already allocated: the memory of a claim was allocated by another
//! thread, and freeing it here would make the two threads contend in the allocator.
//!
//! Forgetting a commit that a live writer must still be checked against would let that writer
//! commit wrongly. So forgetting raises the watermark, and a transaction below it is refused. This
//! happens only if the state outgrows its budget, for example by a single commit of very many
//! cells. A generation takes up to half of the budget, and if both together outgrow it, the older
//! one is forgotten. So the newest commits that fit into half of the budget are always kept, also
//! after large commits.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use carnet_base::{CellHash, KeyRange, Timestamp};
use carnet_store::Claim;

use crate::history::History;

/// Default maximum size of the state, in bytes.
pub const DEFAULT_BYTES_MAX: usize = 64 << 20;

/// An emptied generation keeps its memory for the next one, unless it exceeds this size.
const KEPT_BYTES: usize = 512 << 10;
/// An emptied generation also keeps up to this multiple of its contents' size. In a table sized for
/// large commits, small ones would miss the CPU caches.
const KEPT_TIMES: usize = 8;

/// Reason why a transaction may not commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Another transaction wrote a cell that this one wrote, after the snapshot.
    Written(Lost),
    /// Another transaction wrote a cell that this one read, after the snapshot.
    Read(Lost),
    /// The snapshot lies below the low watermark.
    BelowWatermark(Timestamp),
}

/// A cell that another transaction wrote first, with its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Commit timestamp of the other transaction.
    pub commit: Timestamp,
    /// Hash of the cell.
    pub cell: CellHash,
}

/// Order of a cell's versions in the store of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VersionOrder {
    /// By the start S. No other transaction may have written a cell since the snapshot of its
    /// writer: the new version would lie below that of an earlier commit.
    #[default]
    Start,
    /// By the commit C. A transaction that read no data of others can be placed at any C, and is
    /// never refused for its writes.
    Commit,
}

/// The recent writes. See the module documentation.
#[derive(Debug)]
pub struct ConflictState {
    younger: Generation,
    older: Generation,
    bytes_max: usize,
    low_watermark: Timestamp,
    order: VersionOrder,
}

/// A run of consecutive commits.
#[derive(Debug, Default)]
pub struct Generation {
    newest: HashMap<CellHash, Timestamp, BuildHasherDefault<AsItIs>>,
    history: History,
}

impl Generation {
    /// Returns `true` if it has a commit after a timestamp.
    fn reaches_beyond(&self, at: Timestamp) -> bool {
        self.history.last().is_some_and(|last| last > at)
    }

    /// Returns the allocated bytes, without the commits that keep their own memory.
    fn allocated_bytes(&self) -> usize {
        self.newest.capacity() * ENTRY_BYTES + self.history.shared_bytes()
    }

    /// Empties the generation; returns memory that the next one does not need, for the caller to
    /// drop.
    fn empty(&mut self) -> Self {
        let kept_max = KEPT_BYTES.max(self.history.bytes().saturating_mul(KEPT_TIMES));
        if self.allocated_bytes() > kept_max {
            return std::mem::take(self);
        }
        self.newest.clear();
        Self { history: self.history.clear(), ..Self::default() }
    }
}

/// Size of an entry in a table of hashes: a hash, a timestamp, and one byte of the table.
const ENTRY_BYTES: usize = size_of::<(CellHash, Timestamp)>() + 1;

/// Hasher of keys that are hashes already.
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
    /// Creates an empty state: no commits above the watermark.
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

    /// Checks the writes and reads of a transaction against every commit after its snapshot.
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

    /// Like [`ConflictState::check_points`], for many sorted cells: iterates over the side with
    /// fewer cells.
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

    /// Remembers a commit, and may take the claim's cells. Commits are recorded in their order.
    ///
    /// If the budget is exceeded, older commits are dropped here, under the caller's lock.
    pub fn record(&mut self, commit: Timestamp, claim: &mut Claim) {
        if !claim.beyond.is_empty() {
            // The cells are not known, so every transaction that began before this commit is
            // refused.
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
    /// against them. Returns their memory, for the caller to drop outside the lock.
    pub fn trim(&mut self, unneeded: Timestamp) -> Vec<Generation> {
        let mut left = Vec::new();
        // If the older generation is empty, the first pass makes it the younger one and the second
        // sees the other.
        for _ in 0..2 {
            if !self.older.reaches_beyond(unneeded) {
                left.push(self.forget_older());
            }
        }
        left
    }

    /// Empties the older generation, which becomes the younger one.
    fn forget_older(&mut self) -> Generation {
        if let Some(last) = self.older.history.last() {
            self.low_watermark = last;
        }
        let left = self.older.empty();
        std::mem::swap(&mut self.younger, &mut self.older);
        left
    }

    /// Returns the estimated size in bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.younger.history.bytes() + self.older.history.bytes()
    }

    /// Returns the watermark: a transaction with an older snapshot is refused.
    #[must_use]
    pub const fn low_watermark(&self) -> Timestamp {
        self.low_watermark
    }

    /// Returns the number of remembered cells; a cell in both generations counts twice.
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

    /// The writes of a large transaction, of which only hashes are left, are looked up if they are
    /// few, and otherwise the later commits are looked up among them.
    #[test]
    fn large_write_sets_conflict_with_later_commits_only() {
        let state = state();
        let check = |read, names: &[&'static str]| {
            let mut beyond: Vec<CellHash> = names.iter().map(|name| cell(name).hash()).collect();
            beyond.sort_unstable();
            state.check(&Claim { beyond, ..request(read, ReadSet::default(), &[]) })
        };
        assert_eq!(check(3, &["b"]), Err(Refusal::Written(lost(4, "b"))));
        assert_eq!(check(4, &["b"]), Ok(()));
        let many = ["d", "e", "f", "g", "h", "i"];
        assert_eq!(check(6, &many), Err(Refusal::Written(lost(7, "d"))));
        assert_eq!(check(7, &many), Ok(()));
    }

    #[test]
    fn blind_writes_conflict_with_later_commits_only() {
        let state = state();
        let check = |read, name| state.check(&request(read, ReadSet::default(), &[name]));
        assert_eq!(check(3, "b"), Err(Refusal::Written(lost(4, "b"))));
        assert_eq!(check(4, "b"), Ok(()));
        assert_eq!(check(1, "c"), Ok(()));
    }

    /// If versions are ordered by C, a transaction that read nothing is not refused for its writes.
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
    fn range_reads_conflict_with_writes_into_them() {
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
        // Reversed bounds contain nothing, and do not panic.
        assert_eq!(check(1, "f", "a"), Ok(()));
    }

    #[test]
    fn range_conflicts_with_every_key_of_a_commit() {
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
    fn memory_of_large_commits_is_freed() {
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
    fn both_generations_are_checked_newest_first() {
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
    fn memory_of_long_keys_is_freed() {
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

    /// A plain list of all commits.
    struct Model(Vec<(Timestamp, Vec<u64>, usize)>);

    impl Model {
        fn check(&self, read: Timestamp, written: &[u64], (from, to): (u64, u64)) -> bool {
            let mut later = self.0.iter().filter(|(commit, ..)| *commit > read);
            later.all(|(_, cells, _)| {
                cells.iter().all(|cell| !written.contains(cell) && !(from..to).contains(cell))
            })
        }

        /// Returns the first commit, from the newest backwards, that does not fit into `bytes` with
        /// all newer ones.
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
        carnet_store::Cells::from_sorted(keys.iter())
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

    /// Remembered commits are checked as a list of all commits would check them, and transactions
    /// below the watermark are refused. No commit is forgotten that is needed and fits.
    #[test]
    fn state_decides_like_a_list_of_all_commits() {
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
    fn state_over_its_budget_forgets_needed_commits() {
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
