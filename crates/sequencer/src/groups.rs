//! Group commit: one group of entries in flight for each row.
//!
//! Two concurrent conditional batches to one row conflict: each round that loses starts again.
//! While a group is in flight, the commits of its row gather, and leave as the next group when it
//! is answered. The busier a row, the larger its groups, without a timer.

use std::collections::{HashMap, VecDeque};

use carnet_store::cluster::CommitRow;

/// Maximum number of entries in a group. Larger batches do not raise the entry rate of a Cassandra
/// node. See docs/design/0006-cluster-protocol.md#figures.
pub(crate) const ENTRIES_MAX: usize = 256;

/// Entries that wait for their row.
#[derive(Debug)]
pub(crate) struct Groups<T> {
    rows: HashMap<CommitRow, Row<T>>,
}

#[derive(Debug)]
struct Row<T> {
    waiting: VecDeque<T>,
    is_under_way: bool,
}

impl<T> Default for Groups<T> {
    fn default() -> Self {
        Self { rows: HashMap::new() }
    }
}

impl<T> Groups<T> {
    /// Adds an entry, and returns the row's next group if none is in flight.
    pub(crate) fn push(&mut self, row: &CommitRow, entry: T) -> Option<Vec<T>> {
        let queue = self
            .rows
            .entry(row.clone())
            .or_insert_with(|| Row { waiting: VecDeque::new(), is_under_way: false });
        queue.waiting.push_back(entry);
        queue.next()
    }

    /// Returns the number of entries that wait for a row.
    pub(crate) fn waiting(&self, row: &CommitRow) -> usize {
        self.rows.get(row).map_or(0, |queue| queue.waiting.len())
    }

    /// Returns `true` if another group is certain to follow one in flight.
    pub(crate) fn another_follows(&self) -> bool {
        self.rows.values().any(|queue| !queue.waiting.is_empty())
    }

    /// Ends a row's group, and returns the next one if entries have gathered.
    pub(crate) fn done(&mut self, row: &CommitRow) -> Option<Vec<T>> {
        let queue = self.rows.get_mut(row)?;
        queue.is_under_way = false;
        let next = queue.next();
        if next.is_none() {
            self.rows.remove(row);
        }
        next
    }
}

impl<T> Row<T> {
    fn next(&mut self) -> Option<Vec<T>> {
        if self.is_under_way || self.waiting.is_empty() {
            return None;
        }
        self.is_under_way = true;
        let len = self.waiting.len().min(ENTRIES_MAX);
        Some(self.waiting.drain(..len).collect())
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::Bytes;
    use carnet_store::cluster::CommitTable;

    use super::*;

    #[test]
    fn each_row_has_one_group_in_flight() {
        let row = |name| CommitRow { table: CommitTable::V3, row: Bytes::from_static(name) };
        let (a, b) = (row(b"a"), row(b"b"));
        let mut groups = Groups::default();
        assert_eq!(groups.push(&a, 1), Some(vec![1]));
        assert_eq!((groups.push(&a, 2), groups.push(&a, 3)), (None, None));
        assert_eq!(groups.push(&b, 4), Some(vec![4]));
        assert_eq!(groups.done(&a), Some(vec![2, 3]));
        assert_eq!((groups.done(&a), groups.done(&b)), (None, None));
        assert!(groups.rows.is_empty(), "idle rows are forgotten");
        assert_eq!(groups.push(&a, 0), Some(vec![0]));
        (0..=ENTRIES_MAX).for_each(|n| assert_eq!(groups.push(&a, n), None));
        assert_eq!(groups.done(&a).map(|group| group.len()), Some(ENTRIES_MAX));
        assert_eq!(groups.done(&a).map(|group| group.len()), Some(1));
    }
}
