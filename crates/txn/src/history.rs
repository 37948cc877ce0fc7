//! The recent commits in their order, each with the keys that it wrote.
//!
//! Keys are copied into pieces of memory that many commits share, and that are used again once all
//! of those are forgotten:
//!
//! ```text
//!   pieces      [ 4:{b} 7:{d} 9:{a,c} ]   [ 11:{large …} ]   [ 12:{e} 15:{b}  ··· ]
//!                 ────▶ forgotten          a piece of its own      ▲ the next commit's place
//! ```
//!
//! A commit's own memory would be given back by another thread than the one that asked for it, and an
//! allocator that keeps memory by threads has the two wait for each other: of the times that one of two
//! committing threads slept two in three were for that. Only a commit of very many keys is not copied,
//! because everybody waits for it here.

use std::collections::VecDeque;

use carnet_base::{CellHash, Timestamp};
use carnet_store::Cells;

/// What a remembered cell costs beside its key.
const CELL_BYTES: usize = 120;
/// A piece takes no more commits once it has so much; the cells of a commit of so much become a piece
/// of their own.
const PIECE_BYTES: usize = 64 << 10;

/// See the module's essay.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// None of them is without a commit that is remembered.
    pieces: VecDeque<Piece>,
    /// An empty one, for the next commits.
    spare: Option<Piece>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Piece {
    cells: Cells,
    /// Each commit, and where its cells end.
    commits: Vec<(Timestamp, usize)>,
    /// So many of them are forgotten.
    forgotten: usize,
}

/// What one commit has taken.
fn bytes_of(cells: usize, key_bytes: usize) -> usize {
    key_bytes + cells * CELL_BYTES
}

impl Piece {
    fn bytes(&self) -> usize {
        bytes_of(self.cells.len(), self.cells.key_bytes())
    }

    fn begin_of(&self, place: usize) -> usize {
        place.checked_sub(1).map_or(0, |before| self.commits[before].1)
    }

    fn push(&mut self, commit: Timestamp, cells: &Cells) {
        self.cells.append(cells);
        self.commits.push((commit, self.cells.len()));
    }

    /// Returns the first commit after a timestamp that has a cell in `[lower, upper)`.
    fn within(&self, after: Timestamp, lower: &[u8], upper: &[u8]) -> Option<Timestamp> {
        let first = self.commits.partition_point(|(commit, _)| *commit <= after);
        let mut later = (first.max(self.forgotten)..self.commits.len()).map(|place| {
            let (commit, end) = self.commits[place];
            (commit, self.begin_of(place)..end)
        });
        let beaten = later.find(|(_, cells)| self.cells.any_within(cells.clone(), lower, upper));
        beaten.map(|(commit, _)| commit)
    }
}

impl History {
    /// Remembers a commit, which comes after all that are there; takes its cells, or leaves them.
    pub(crate) fn push(&mut self, commit: Timestamp, cells: &mut Cells) {
        let bytes = bytes_of(cells.len(), cells.key_bytes());
        self.bytes += bytes;
        if bytes >= PIECE_BYTES {
            let commits = vec![(commit, cells.len())];
            self.pieces.push_back(Piece { cells: std::mem::take(cells), commits, forgotten: 0 });
            return;
        }
        match self.pieces.back_mut().filter(|last| last.bytes() < PIECE_BYTES) {
            Some(last) => last.push(commit, cells),
            None => {
                let mut piece = self.spare.take().unwrap_or_default();
                piece.push(commit, cells);
                self.pieces.push_back(piece);
            }
        }
    }

    /// The commit that was remembered first.
    pub(crate) fn oldest(&self) -> Option<Timestamp> {
        let first = self.pieces.front()?;
        first.commits.get(first.forgotten).map(|(commit, _)| *commit)
    }

    /// Forgets the commit that was remembered first, after its cells were visited. What is left of
    /// it is for the caller to drop.
    pub(crate) fn forget_oldest(&mut self, visit: impl FnMut(CellHash)) -> Option<Cells> {
        let first = self.pieces.front_mut()?;
        let cells = first.begin_of(first.forgotten)..first.commits[first.forgotten].1;
        self.bytes -= bytes_of(cells.len(), first.cells.key_bytes_of(cells.clone()));
        first.cells.hashes_of(cells).for_each(visit);
        first.forgotten += 1;
        if first.forgotten < first.commits.len() {
            return None;
        }
        let mut piece = self.pieces.pop_front()?;
        if piece.bytes() > 2 * PIECE_BYTES || self.spare.is_some() {
            return Some(piece.cells);
        }
        piece.cells.clear();
        piece.commits.clear();
        piece.forgotten = 0;
        self.spare = Some(piece);
        None
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// What all that is remembered takes, in bytes: an estimate.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns a commit after a timestamp that wrote a cell in `[lower, upper)`: the first one.
    pub(crate) fn within(&self, after: Timestamp, lower: &[u8], upper: &[u8]) -> Option<Timestamp> {
        let is_before = |piece: &Piece| piece.commits.last().is_none_or(|last| last.0 <= after);
        let first = self.pieces.partition_point(is_before);
        self.pieces.range(first..).find_map(|piece| piece.within(after, lower, upper))
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::{CellKey, PartitionKey, Rng, SeededRng, TableId, Token};

    use super::*;

    fn at(number: u64) -> Timestamp {
        Timestamp::new(number).unwrap()
    }

    fn cell(number: u64) -> CellKey {
        CellKey::new(TableId(1), &PartitionKey::first_at(Token(0)), number.to_be_bytes())
    }

    fn cells(numbers: &[u64]) -> Cells {
        let keys: Vec<CellKey> = numbers.iter().map(|number| cell(*number)).collect();
        Cells::of(keys.iter())
    }

    /// Commits as they would be kept by themselves.
    #[derive(Default)]
    struct Model(VecDeque<(Timestamp, Vec<u64>)>);

    impl Model {
        fn within(&self, after: Timestamp, from: u64, to: u64) -> Option<Timestamp> {
            let later = self.0.iter().filter(|(commit, _)| *commit > after);
            let mut within =
                later.filter(|(_, cells)| cells.iter().any(|n| (from..to).contains(n)));
            within.next().map(|(commit, _)| *commit)
        }
    }

    #[test]
    fn commits_of_all_sizes_are_found_and_forgotten_as_if_each_were_kept_by_itself() {
        let mut rng = SeededRng::new(7);
        let (mut history, mut model) = (History::default(), Model::default());
        for round in 1..4_000_u64 {
            let many = if rng.below(100) == 0 { rng.below(2_000) } else { rng.below(12) };
            let mut numbers: Vec<u64> = (0..=many).map(|_| rng.below(1 << 20)).collect();
            numbers.sort_unstable();
            numbers.dedup();
            history.push(at(round), &mut cells(&numbers));
            model.0.push_back((at(round), numbers));
            while model.0.len() > 500 || rng.below(3) == 0 {
                assert_eq!(history.oldest(), model.0.front().map(|(commit, _)| *commit));
                let Some((_, expected)) = model.0.pop_front() else { break };
                let mut forgotten = Vec::new();
                drop(history.forget_oldest(|hash| forgotten.push(hash)));
                assert!(cells(&expected).hashes().eq(forgotten));
            }
            let (after, from) =
                (at(round.saturating_sub(rng.below(600)).max(1)), rng.below(1 << 20));
            let to = from + rng.below(1 << 14);
            let keys = (cell(from), cell(to));
            let found = history.within(after, keys.0.as_bytes(), keys.1.as_bytes());
            assert_eq!(found, model.within(after, from, to), "{from}..{to} after {after}");
        }
        while history.oldest().is_some() {
            drop(history.forget_oldest(drop));
        }
        assert_eq!((history.bytes(), history.pieces.len()), (0, 0));
    }

    #[test]
    fn small_commits_go_on_in_memory_that_is_there() {
        let mut history = History::default();
        let mut commit = (1..).map(at);
        let mut step = |history: &mut History| {
            history.push(commit.next().unwrap(), &mut cells(&[1, 2, 3, 4, 5, 6, 7, 8]));
        };
        (0..100).for_each(|_| step(&mut history));
        for _ in 0..10_000 {
            step(&mut history);
            assert!(history.forget_oldest(drop).is_none(), "nothing is given back");
        }
        assert!(history.pieces.len() <= 3, "{}", history.pieces.len());
    }
}
