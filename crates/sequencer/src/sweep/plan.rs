//! What becomes of one cell's versions. Pure.
//!
//! ```text
//!   mark 50     S=61  C=64   ≤ 50? no     stamped, kept
//!               S=47  open                kept: it cannot commit any more, and says so itself
//!               S=40  C=44   the base     stamped, kept: what a snapshot at 50 sees
//!               S=31  aborted             deleted
//!               S=12  C=20                deleted: the base hides it
//! ```
//!
//! A base that is a tombstone goes as well, last of all: until every replica has deleted what it
//! hides, a replica that slept could bring that back.

use carnet_base::{Timestamp, Version};

/// What became of the transaction that wrote a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It committed at that timestamp.
    Committed(Timestamp),
    /// It never will.
    Aborted,
    /// Its leader has not said.
    Open,
}

/// What is to be done to a cell's versions, named by their starts, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Versions to be stamped with their commits.
    pub(crate) stamps: Vec<(Timestamp, Timestamp)>,
    /// Versions that nobody sees.
    pub(crate) deletes: Vec<Timestamp>,
    /// The tombstone that hid them, once they are gone.
    pub(crate) tombstone: Option<Timestamp>,
}

/// Plans a cell whose versions are given newest first, each with its fate.
pub(crate) fn plan(versions: &[(Version, Fate)], mark: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let mut has_base = false;
    for (version, fate) in versions {
        match *fate {
            Fate::Open => {}
            Fate::Aborted => plan.deletes.push(version.start),
            Fate::Committed(commit) if commit <= mark && has_base => {
                plan.deletes.push(version.start);
            }
            Fate::Committed(commit) => {
                has_base |= commit <= mark;
                if commit <= mark && version.payload.is_none() {
                    plan.tombstone = Some(version.start);
                }
                if version.commit.is_none() {
                    plan.stamps.push((version.start, commit));
                }
            }
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use carnet_base::Bytes;

    use super::*;

    fn at(number: u64) -> Timestamp {
        Timestamp::new(number).unwrap()
    }

    fn version(start: u64, fate: Fate, is_tombstone: bool) -> (Version, Fate) {
        let payload = (!is_tombstone).then(|| Bytes::from_static(b"x"));
        (Version { start: at(start), commit: None, payload }, fate)
    }

    fn committed(start: u64, commit: u64) -> (Version, Fate) {
        version(start, Fate::Committed(at(commit)), false)
    }

    #[test]
    fn the_newest_below_the_mark_stays_and_hides_what_is_deleted() {
        let versions = [
            committed(61, 64),
            version(47, Fate::Open, false),
            committed(40, 44),
            version(31, Fate::Aborted, false),
            committed(12, 20),
        ];
        let planned = plan(&versions, at(50));
        assert_eq!(planned.stamps, [(at(61), at(64)), (at(40), at(44))]);
        assert_eq!((planned.deletes, planned.tombstone), (vec![at(31), at(12)], None));
        let nothing_yet = plan(&versions, at(43));
        assert_eq!(nothing_yet.deletes, [at(31)], "44 lies above the mark: 20 is the base");
    }

    #[test]
    fn what_is_stamped_is_not_stamped_again() {
        let (mut seen, fate) = committed(40, 44);
        seen.commit = Some(at(44));
        assert_eq!(plan(&[(seen, fate)], at(50)), Plan::default());
    }

    #[test]
    fn a_tombstone_goes_with_all_that_it_hides_and_not_before_the_mark_has_passed_it() {
        let deleted = version(40, Fate::Committed(at(44)), true);
        let versions = [deleted, committed(12, 20)];
        let planned = plan(&versions, at(50));
        assert_eq!((planned.deletes, planned.tombstone), (vec![at(12)], Some(at(40))));
        let early = plan(&versions, at(43));
        assert_eq!((early.deletes, early.tombstone), (vec![], None));
    }

    #[test]
    fn an_old_tombstone_under_a_newer_version_is_deleted_like_any_other() {
        let versions = [committed(40, 44), version(12, Fate::Committed(at(20)), true)];
        let planned = plan(&versions, at(50));
        assert_eq!((planned.deletes, planned.tombstone), (vec![at(12)], None));
    }
}
