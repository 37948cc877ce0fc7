//! Commits in their order, each with the keys that it wrote.

use carnet_base::{CellHash, Timestamp};
use carnet_store::Cells;

/// Memory of a remembered cell in addition to its key, and of a commit in addition to its cells.
const CELL_BYTES: usize = 120;
const COMMIT_BYTES: usize = 16;
/// Size above which a commit keeps its own memory: copying its cells would hold the lock too long.
const LARGE_BYTES: usize = 64 << 10;

/// Commits in their order. The cells of most are copied into shared memory.
#[derive(Debug, Default)]
pub(crate) struct History {
    cells: Cells,
    /// The commits whose cells are in `cells`, each with the end of its cells.
    commits: Vec<(Timestamp, usize)>,
    /// Large commits, each with its own memory.
    large: Vec<(Timestamp, Cells)>,
    bytes: usize,
    last: Option<Timestamp>,
}

impl History {
    /// Returns the estimated size in bytes of a commit of these cells.
    pub(crate) const fn bytes_of(cells: &Cells) -> usize {
        COMMIT_BYTES + cells.key_bytes() + cells.len() * CELL_BYTES
    }

    /// Adds a commit after all others; takes its cells, or leaves them.
    pub(crate) fn push(&mut self, commit: Timestamp, cells: &mut Cells) {
        let bytes = Self::bytes_of(cells);
        self.bytes += bytes;
        self.last = Some(commit);
        if bytes >= LARGE_BYTES {
            self.large.push((commit, std::mem::take(cells)));
        } else {
            self.cells.append(cells);
            self.commits.push((commit, self.cells.len()));
        }
    }

    /// Returns the last commit.
    pub(crate) const fn last(&self) -> Option<Timestamp> {
        self.last
    }

    /// Forgets all commits and keeps the shared memory; returns the large commits for dropping.
    pub(crate) fn clear(&mut self) -> Self {
        self.cells.clear();
        self.commits.clear();
        (self.bytes, self.last) = (0, None);
        Self { large: std::mem::take(&mut self.large), ..Self::default() }
    }

    /// Returns the allocated bytes of the shared memory.
    pub(crate) const fn shared_bytes(&self) -> usize {
        self.cells.allocated_bytes() + self.commits.capacity() * size_of::<(Timestamp, usize)>()
    }

    /// Returns the estimated size in bytes of all commits.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the first commit after a timestamp that wrote a cell in `[lower, upper)`, and the
    /// cell.
    pub(crate) fn within(
        &self,
        after: Timestamp,
        lower: &[u8],
        upper: &[u8],
    ) -> Option<(Timestamp, CellHash)> {
        let first = self.commits.partition_point(|(commit, _)| *commit <= after);
        let mut begin = first.checked_sub(1).map_or(0, |before| self.commits[before].1);
        let small = self.commits[first..].iter().find_map(|(commit, end)| {
            let cells = std::mem::replace(&mut begin, *end)..*end;
            self.cells.first_within(cells, lower, upper).map(|cell| (*commit, cell))
        });
        let first = self.large.partition_point(|(commit, _)| *commit <= after);
        let mut large = self.large[first..].iter();
        let large = large.find_map(|(commit, cells)| {
            cells.first_within(0..cells.len(), lower, upper).map(|cell| (*commit, cell))
        });
        small.into_iter().chain(large).min_by_key(|(commit, _)| *commit)
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
        Cells::from_sorted(keys.iter())
    }

    #[test]
    fn commits_of_all_sizes_are_found() {
        let mut rng = SeededRng::new(7);
        for _ in 0..20 {
            let (mut history, mut model) = (History::default(), Vec::new());
            for round in 1..300_u64 {
                let many = if rng.below(100) == 0 { rng.below(2_000) } else { rng.below(12) };
                let mut numbers: Vec<u64> = (0..=many).map(|_| rng.below(1 << 20)).collect();
                numbers.sort_unstable();
                numbers.dedup();
                history.push(at(round), &mut cells(&numbers));
                model.push((at(round), numbers));
                let (after, from) = (at(rng.below(round) + 1), rng.below(1 << 20));
                let to = from + rng.below(1 << 14);
                let keys = (cell(from), cell(to));
                let found = history.within(after, keys.0.as_bytes(), keys.1.as_bytes());
                let mut within = model.iter().filter(|(commit, _)| *commit > after);
                let first = within.find_map(|(commit, cells)| {
                    let number = cells.iter().find(|cell| (from..to).contains(cell))?;
                    Some((*commit, cell(*number).hash()))
                });
                assert_eq!(found, first, "{from}..{to}, {after}");
            }
        }
    }
}
