//! GC watermark: the versions that no reader needs.

use bytes::Bytes;
use carnet_base::{Error, Result, TableId, Timestamp};

/// GC watermark at one point in time: compaction may drop versions below it. Watermarks only rise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Every current and future reader reads at this timestamp or later, except for those at
    /// `snapshots`.
    pub read: Timestamp,
    /// Timestamps of readers below `read`, in any order.
    pub snapshots: Vec<Timestamp>,
    /// For every reader, versions that expire at this second (since 1970) or before are expired.
    pub wall: Option<u64>,
}

impl Mark {
    /// Returns the oldest timestamp of a reader.
    #[must_use]
    pub fn oldest(&self) -> Timestamp {
        self.snapshots.iter().copied().fold(self.read, Timestamp::min)
    }
}

/// Interface of compaction to the layer that knows transactions and the catalog.
pub trait GcHook {
    /// Returns the current GC watermark.
    fn mark(&self) -> Mark;

    /// Returns `true` if a table was dropped and no reader will read it again.
    fn is_dropped(&self, table: TableId) -> bool;

    /// Returns `true` if the cells of a table pass: each is dropped once [`GcHook::has_passed`].
    /// Each key of such a table is written once.
    fn passes(&self, table: TableId) -> bool {
        let _ = table;
        false
    }

    /// Returns `true` if the newest cell below the GC watermark, of a table whose cells pass, does not
    /// pass before a later one is below the watermark.
    fn keeps_newest(&self, table: TableId) -> bool {
        let _ = table;
        false
    }

    /// Returns the first byte of a table's deltas; `None` if it has none.
    fn delta_mark(&self, table: TableId) -> Option<u8> {
        let _ = table;
        None
    }

    /// Merges deltas, see [`MergeOperator::merge`](crate::MergeOperator::merge).
    ///
    /// # Errors
    ///
    /// `Unsupported` if there is no operator; those of the operator.
    fn merge(
        &self,
        value: Option<(Timestamp, &Bytes)>,
        deltas: &[(Timestamp, Bytes)],
    ) -> Result<Option<Bytes>> {
        let _ = (value, deltas);
        Err(Error::unsupported("deltas without a merge operator"))
    }

    /// Returns the expiry of a merged value, see
    /// [`MergeOperator::expiry`](crate::MergeOperator::expiry).
    fn expiry(&self, value: &[u8]) -> Option<u64> {
        let _ = value;
        None
    }

    /// Returns `true` if no reader at `mark` or later needs this cell of such a table.
    fn has_passed(&self, mark: Timestamp, key: &[u8], commit: Timestamp) -> bool {
        let _ = (mark, key, commit);
        false
    }
}

/// The timestamps of readers, which determine the visible versions.
///
/// ```text
///  commits  ─────────┬───────────────┬──────────┬──────────────▶
///                 snapshot        snapshot     read
///           stripe 0 │   stripe 1    │ stripe 2 │  all stay
/// ```
///
/// The commits between two adjacent readers form a *stripe*. Of a key's versions within one stripe
/// only the newest is visible: each reader at the stripe's end or later sees it or a newer one, and
/// earlier readers see no version of the stripe. Above `read` a reader may exist at every
/// timestamp, so all versions stay.
#[derive(Clone, Debug)]
pub(crate) struct Stripes {
    /// Upper bounds of the stripes, ascending; the last one is `Mark::read`.
    ends: Vec<Timestamp>,
}

impl Stripes {
    pub(crate) fn new(mark: &Mark) -> Self {
        let mut ends: Vec<_> =
            mark.snapshots.iter().copied().filter(|snapshot| *snapshot < mark.read).collect();
        ends.push(mark.read);
        ends.sort_unstable();
        ends.dedup();
        Self { ends }
    }

    /// Returns a commit's stripe; `None` above `read`, where all versions stay.
    pub(crate) fn of(&self, commit: Timestamp) -> Option<usize> {
        match &self.ends[..] {
            // The usual case: no snapshots below `read`.
            [read] => (commit <= *read).then_some(0),
            ends => {
                let stripe = ends.partition_point(|end| *end < commit);
                (stripe < ends.len()).then_some(stripe)
            }
        }
    }

    /// Returns `true` if `newer` hides `older` from every reader: no reader reads between them.
    pub(crate) fn hides(&self, newer: Timestamp, older: Timestamp) -> bool {
        newer > older && self.of(newer).is_some_and(|stripe| self.of(older) == Some(stripe))
    }

    /// Returns the oldest timestamp of a reader.
    pub(crate) fn oldest(&self) -> Timestamp {
        self.ends[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_newest_version_of_stripe_is_visible() {
        let at = |number| Timestamp::new(number).unwrap();
        let snapshots = vec![at(20), at(10), at(90), at(10)];
        let mark = Mark { read: at(30), snapshots, wall: None };
        let stripes = Stripes::new(&mark);
        assert_eq!((mark.oldest(), stripes.oldest()), (at(10), at(10)));
        let of = [1, 10, 11, 20, 30, 31].map(|commit| stripes.of(at(commit)));
        assert_eq!(of, [Some(0), Some(0), Some(1), Some(1), Some(2), None]);
        assert!(stripes.hides(at(10), at(9)));
        assert!(!stripes.hides(at(11), at(10)), "the reader at 10 still sees it");
        assert!(!stripes.hides(at(32), at(31)), "a reader may read at 31");
        assert!(!stripes.hides(at(9), at(9)));
        let alone = Stripes::new(&Mark { read: at(30), ..Mark::default() });
        assert_eq!((alone.of(at(30)), alone.of(at(31))), (Some(0), None));
    }
}
