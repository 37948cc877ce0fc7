//! What no reader needs any more.

use carnet_base::{TableId, Timestamp};

/// Below what compaction may forget, at one moment. Marks only rise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Every reader that there is or will be reads at this timestamp or later, but for those at
    /// `snapshots`.
    pub read: Timestamp,
    /// Readers at earlier timestamps, in any order.
    pub snapshots: Vec<Timestamp>,
    /// For every reader, what expires at this second (since 1970) or before is gone.
    pub wall: Option<u64>,
}

impl Mark {
    /// Returns the oldest timestamp that anybody reads at.
    #[must_use]
    pub fn oldest(&self) -> Timestamp {
        self.snapshots.iter().copied().fold(self.read, Timestamp::min)
    }
}

/// What compaction asks of the layer that knows transactions and the catalogue.
pub trait GcHook {
    /// Returns the mark as it stands now.
    fn mark(&self) -> Mark;

    /// Tells whether a table was dropped, and no reader will look into it again.
    fn is_dropped(&self, table: TableId) -> bool;

    /// Tells whether the cells of a table pass: each goes once [`GcHook::has_passed`]. Each key of
    /// such a table is written once.
    fn passes(&self, table: TableId) -> bool {
        let _ = table;
        false
    }

    /// Tells whether nobody needs a cell of such a table any more, as everybody reads at `mark` or
    /// later.
    fn has_passed(&self, mark: Timestamp, key: &[u8], commit: Timestamp) -> bool {
        let _ = (mark, key, commit);
        false
    }
}

/// The timestamps that somebody reads at, and thereby which versions somebody sees.
///
/// ```text
///  commits  ─────────┬───────────────┬──────────┬──────────────▶
///                 snapshot        snapshot     read
///           stripe 0 │   stripe 1    │ stripe 2 │  all stay
/// ```
///
/// Between two neighbouring readers lies a *stripe* of commits. Of a key's versions within one
/// stripe only the newest can be seen: each reader at the stripe's end or later sees it or
/// something newer, and each earlier reader sees nothing of the stripe. Above `read` there may be
/// a reader at every timestamp, so that everything stays.
#[derive(Clone, Debug)]
pub(crate) struct Stripes {
    /// Ascending; the last one is `Mark::read`.
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

    /// Returns a commit's stripe; `None` where everything stays.
    pub(crate) fn of(&self, commit: Timestamp) -> Option<usize> {
        match &self.ends[..] {
            // Nearly always nobody reads below the mark.
            [read] => (commit <= *read).then_some(0),
            ends => {
                let stripe = ends.partition_point(|end| *end < commit);
                (stripe < ends.len()).then_some(stripe)
            }
        }
    }

    /// Tells whether somebody reads at or above `newer` before all else that is above `older`:
    /// whether `newer` hides `older` from everybody who could see it.
    pub(crate) fn hides(&self, newer: Timestamp, older: Timestamp) -> bool {
        newer > older && self.of(newer).is_some_and(|stripe| self.of(older) == Some(stripe))
    }

    /// Returns the oldest timestamp that anybody reads at.
    pub(crate) fn oldest(&self) -> Timestamp {
        self.ends[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_stripe_only_the_newest_is_seen() {
        let at = |number| Timestamp::new(number).unwrap();
        let snapshots = vec![at(20), at(10), at(90), at(10)];
        let mark = Mark { read: at(30), snapshots, wall: None };
        let stripes = Stripes::new(&mark);
        assert_eq!((mark.oldest(), stripes.oldest()), (at(10), at(10)));
        let of = [1, 10, 11, 20, 30, 31].map(|commit| stripes.of(at(commit)));
        assert_eq!(of, [Some(0), Some(0), Some(1), Some(1), Some(2), None]);
        assert!(stripes.hides(at(10), at(9)));
        assert!(!stripes.hides(at(11), at(10)), "the reader at 10 still sees it");
        assert!(!stripes.hides(at(32), at(31)), "somebody may read at 31");
        assert!(!stripes.hides(at(9), at(9)));
        let alone = Stripes::new(&Mark { read: at(30), ..Mark::default() });
        assert_eq!((alone.of(at(30)), alone.of(at(31))), (Some(0), None));
    }
}
