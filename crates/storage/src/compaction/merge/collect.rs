//! Decides which versions of a key survive compaction.

use carnet_base::Timestamp;

use super::mark::{Mark, Stripes};
use super::source::{Cell, RangeVersion};
use crate::manifest::VersionKind;

/// Decision about a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The version is written unchanged.
    Keep,
    /// The version is a tombstone, or expired. It is written as a tombstone if an older version of
    /// the key survives or may exist in a deeper level.
    Tombstone,
    /// No reader can see it.
    Drop,
    /// A range tombstone of its stripe hides it, and older versions of the stripe.
    Covered,
    /// The version is a delta, which needs the next older version.
    Delta,
}

/// Decides about versions, key by key, newest version first.
#[derive(Debug)]
pub(crate) struct Collector {
    stripes: Stripes,
    wall: Option<u64>,
    /// Commit of the previous version of the same key.
    previous: Option<Timestamp>,
    /// Stripe of the previous version that needs no older one.
    met: Option<usize>,
}

impl Collector {
    pub(crate) fn new(mark: &Mark) -> Self {
        Self { stripes: Stripes::new(mark), wall: mark.wall, previous: None, met: None }
    }

    pub(crate) const fn stripes(&self) -> &Stripes {
        &self.stripes
    }

    pub(crate) const fn begin_key(&mut self) {
        (self.previous, self.met) = (None, None);
    }

    /// Decides about the key's next version; `covering` are the range tombstones over the key.
    pub(crate) fn decide(
        &mut self,
        cell: Cell<'_>,
        kind: VersionKind,
        covering: &[RangeVersion],
    ) -> Decision {
        if self.previous.replace(cell.commit) == Some(cell.commit) {
            return Decision::Drop;
        }
        let stripe = self.stripes.of(cell.commit);
        let Some(stripe) = stripe else { return Decision::Keep };
        if self.met == Some(stripe) {
            return Decision::Drop;
        }
        if kind == VersionKind::Delta && !self.is_covered(cell.commit, covering) {
            return Decision::Delta;
        }
        self.met = Some(stripe);
        if self.is_covered(cell.commit, covering) {
            return Decision::Covered;
        }
        let expired = || matches!((cell.expiry, self.wall), (Some(at), Some(wall)) if at <= wall);
        if cell.payload.is_none() || expired() { Decision::Tombstone } else { Decision::Keep }
    }

    /// Returns `true` if a range tombstone hides a commit from every reader that could see it.
    fn is_covered(&self, commit: Timestamp, covering: &[RangeVersion]) -> bool {
        covering.iter().any(|range| self.stripes.hides(range.commit, commit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(number: u64) -> Timestamp {
        Timestamp::new(number).unwrap()
    }

    /// Returns the decisions about versions with these commits of one key, newest first.
    fn decisions(mark: &Mark, commits: &[u64], covering: &[u64]) -> String {
        let covering: Vec<_> = covering
            .iter()
            .map(|commit| RangeVersion { commit: at(*commit), start: Timestamp::ZERO })
            .collect();
        let mut collector = Collector::new(mark);
        collector.begin_key();
        let decide = |commit: &u64| {
            let payload = Some(&b"x"[..]);
            let cell = Cell { commit: at(*commit), start: Timestamp::ZERO, expiry: None, payload };
            match collector.decide(cell, VersionKind::Value, &covering) {
                Decision::Keep => 'k',
                Decision::Tombstone => 's',
                Decision::Drop => '-',
                Decision::Covered => 'c',
                Decision::Delta => 'd',
            }
        };
        commits.iter().map(decide).collect()
    }

    fn read(read: u64) -> Mark {
        Mark { read: at(read), ..Mark::default() }
    }

    #[test]
    fn only_newest_version_below_watermark_survives() {
        assert_eq!(decisions(&read(50), &[50, 49, 7], &[]), "k--");
        assert_eq!(decisions(&read(50), &[49, 7], &[]), "k-");
    }

    #[test]
    fn versions_above_watermark_survive() {
        assert_eq!(decisions(&read(50), &[53, 52, 51, 50, 3], &[]), "kkkk-");
        assert_eq!(decisions(&read(50), &[53, 52], &[60]), "kk");
    }

    #[test]
    fn versions_visible_to_snapshots_survive() {
        let mark = Mark { snapshots: vec![at(20), at(10)], ..read(50) };
        assert_eq!(decisions(&mark, &[60, 50, 40, 21, 20, 15, 9, 8], &[]), "kk--k-k-");
        assert_eq!(decisions(&mark, &[9], &[15]), "k", "the snapshot at 10 does not see 15");
        assert_eq!(decisions(&mark, &[9], &[15, 10]), "c");
    }

    #[test]
    fn range_tombstone_drops_covered_versions() {
        assert_eq!(decisions(&read(50), &[49, 30, 29], &[30]), "k--");
        assert_eq!(decisions(&read(50), &[30, 29], &[30]), "k-", "the cell of its own commit wins");
        assert_eq!(decisions(&read(50), &[30, 29], &[31]), "c-");
        assert_eq!(decisions(&read(50), &[30, 29], &[51]), "k-", "a reader at 50 does not see 51");
    }

    #[test]
    fn duplicate_version_is_kept_once() {
        assert_eq!(decisions(&read(50), &[53, 53, 51], &[]), "k-k");
        let mut collector = Collector::new(&read(50));
        let cell = Cell { commit: at(53), start: at(1), expiry: None, payload: None };
        for _ in 0..2 {
            collector.begin_key();
            assert_eq!(
                collector.decide(cell, VersionKind::Tombstone, &[]),
                Decision::Keep,
                "another key's version"
            );
        }
    }

    #[test]
    fn tombstones_and_expired_versions_become_tombstones() {
        let mark = Mark { wall: Some(100), ..read(50) };
        let decision = |commit, expiry, payload| {
            let mut collector = Collector::new(&mark);
            collector.begin_key();
            let cell = Cell { commit: at(commit), start: at(1), expiry, payload };
            collector.decide(cell, VersionKind::whole(payload), &[])
        };
        let payload = Some(&b"x"[..]);
        assert_eq!(decision(50, None, None), Decision::Tombstone);
        assert_eq!(decision(51, None, None), Decision::Keep);
        assert_eq!(decision(50, Some(100), payload), Decision::Tombstone);
        assert_eq!(decision(50, Some(101), payload), Decision::Keep);
        assert_eq!(decision(51, Some(100), payload), Decision::Keep);
    }
}
