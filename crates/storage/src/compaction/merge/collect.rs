//! Which versions of a key stay.

use carnet_base::Timestamp;

use super::mark::{Mark, Stripes};
use super::source::{Cell, RangeVersion};

/// What becomes of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It comes out as it is.
    Keep,
    /// It is a tombstone, or counts as one. It comes out, without a payload, if an older version
    /// of the key does, or if there may be one further down.
    Shadow,
    /// Nobody sees it.
    Drop,
}

/// Decides over the versions of one key after the other, each key's newest first.
#[derive(Debug)]
pub(crate) struct Collector {
    stripes: Stripes,
    wall: Option<u64>,
    /// The commit before, of the same key.
    previous: Option<Timestamp>,
    /// The stripe whose newest version has been met.
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

    /// Decides over the key's next version; `covering` are the range tombstones over the key.
    pub(crate) fn decide(&mut self, cell: Cell<'_>, covering: &[RangeVersion]) -> Fate {
        if self.previous.replace(cell.commit) == Some(cell.commit) {
            return Fate::Drop;
        }
        let stripe = self.stripes.of(cell.commit);
        let Some(stripe) = stripe else { return Fate::Keep };
        if self.met.replace(stripe) == Some(stripe) {
            return Fate::Drop;
        }
        if covering.iter().any(|range| self.stripes.hides(range.commit, cell.commit)) {
            return Fate::Drop;
        }
        let expired = || matches!((cell.expiry, self.wall), (Some(at), Some(wall)) if at <= wall);
        if cell.payload.is_none() || expired() { Fate::Shadow } else { Fate::Keep }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(number: u64) -> Timestamp {
        Timestamp::new(number).unwrap()
    }

    /// What becomes of versions of one key: commits, newest first; at most 50 is seen at 50.
    fn fates(mark: &Mark, commits: &[u64], covering: &[u64]) -> String {
        let covering: Vec<_> = covering
            .iter()
            .map(|commit| RangeVersion { commit: at(*commit), start: Timestamp::ZERO })
            .collect();
        let mut collector = Collector::new(mark);
        collector.begin_key();
        let decide = |commit: &u64| {
            let payload = Some(&b"x"[..]);
            let cell = Cell { commit: at(*commit), start: Timestamp::ZERO, expiry: None, payload };
            match collector.decide(cell, &covering) {
                Fate::Keep => 'k',
                Fate::Shadow => 's',
                Fate::Drop => '-',
            }
        };
        commits.iter().map(decide).collect()
    }

    fn read(read: u64) -> Mark {
        Mark { read: at(read), ..Mark::default() }
    }

    #[test]
    fn the_newest_at_or_below_the_mark_stays_and_older_ones_go() {
        assert_eq!(fates(&read(50), &[50, 49, 7], &[]), "k--");
        assert_eq!(fates(&read(50), &[49, 7], &[]), "k-");
    }

    #[test]
    fn versions_above_the_mark_all_stay() {
        assert_eq!(fates(&read(50), &[53, 52, 51, 50, 3], &[]), "kkkk-");
        assert_eq!(fates(&read(50), &[53, 52], &[60]), "kk");
    }

    #[test]
    fn what_a_snapshot_below_the_mark_sees_stays() {
        let mark = Mark { snapshots: vec![at(20), at(10)], ..read(50) };
        assert_eq!(fates(&mark, &[60, 50, 40, 21, 20, 15, 9, 8], &[]), "kk--k-k-");
        assert_eq!(fates(&mark, &[9], &[15]), "k", "the snapshot at 10 does not see 15");
        assert_eq!(fates(&mark, &[9], &[15, 10]), "-");
    }

    #[test]
    fn a_range_tombstone_deletes_what_it_covers_and_older_ones_with_it() {
        assert_eq!(fates(&read(50), &[49, 30, 29], &[30]), "k--");
        assert_eq!(fates(&read(50), &[30, 29], &[30]), "k-", "the cell of its own commit wins");
        assert_eq!(fates(&read(50), &[30, 29], &[31]), "--");
        assert_eq!(fates(&read(50), &[30, 29], &[51]), "k-", "a reader at 50 does not see 51");
    }

    #[test]
    fn the_same_version_comes_out_once() {
        assert_eq!(fates(&read(50), &[53, 53, 51], &[]), "k-k");
        let mut collector = Collector::new(&read(50));
        let cell = Cell { commit: at(53), start: at(1), expiry: None, payload: None };
        for _ in 0..2 {
            collector.begin_key();
            assert_eq!(collector.decide(cell, &[]), Fate::Keep, "another key's version");
        }
    }

    #[test]
    fn tombstones_and_what_expired_are_shadows() {
        let mark = Mark { wall: Some(100), ..read(50) };
        let fate = |commit, expiry, payload| {
            let mut collector = Collector::new(&mark);
            collector.begin_key();
            collector.decide(Cell { commit: at(commit), start: at(1), expiry, payload }, &[])
        };
        let payload = Some(&b"x"[..]);
        assert_eq!(fate(50, None, None), Fate::Shadow);
        assert_eq!(fate(51, None, None), Fate::Keep);
        assert_eq!(fate(50, Some(100), payload), Fate::Shadow);
        assert_eq!(fate(50, Some(101), payload), Fate::Keep);
        assert_eq!(fate(51, Some(100), payload), Fate::Keep);
    }
}
