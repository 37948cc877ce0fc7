//! What becomes of one cell's versions. Pure.
//!
//! ```text
//!   mark 50     S=61  C=64   ≤ 50? no     stamped, kept
//!               S=47  open                kept: it cannot commit any more, and says so itself
//!               S=40  C=44   the base     stamped, kept: what a snapshot at 50 sees
//!               S=31  aborted             deleted with all that is older than the base
//!               S=12  C=20                the same: the base hides it
//! ```
//!
//! What was committed since the round began is left as it is: a backup that begins meanwhile copies
//! no stamp above its own timestamp.
//!
//! A base that is a tombstone goes as well, last of all: until every replica has deleted what is
//! older, a replica that slept could bring that back.

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
    /// Aborted versions that are newer than the base.
    pub(crate) deletes: Vec<Timestamp>,
    /// What is older than this base goes, seen or not.
    pub(crate) base: Option<Base>,
}

/// The newest version that every snapshot from the mark on sees, or a newer one instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    pub(crate) start: Timestamp,
    /// It goes too, when everything older is gone from every replica.
    pub(crate) is_tombstone: bool,
}

/// How far a round goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// What no snapshot from here on sees goes.
    pub(crate) mark: Timestamp,
    /// What commits up to here wrote was stamped on a majority by an earlier round.
    pub(crate) settled: Timestamp,
    /// P as the round began: what committed later is not stamped.
    pub(crate) through: Timestamp,
}

/// Plans a cell whose versions are given newest first, each with its fate.
///
/// A stamp of a commit above `settled` may be on one replica only, left there by a round that ended
/// early: it is written again, for its entry is about to go. Commits above `through` are not stamped.
pub(crate) fn plan(
    versions: &[(Version, Fate)],
    Extent { mark, settled, through }: Extent,
) -> Plan {
    let mut plan = Plan::default();
    for (at, (version, fate)) in versions.iter().enumerate() {
        match *fate {
            Fate::Open => {}
            Fate::Aborted => plan.deletes.push(version.start),
            Fate::Committed(commit) => {
                if commit <= through && (version.commit.is_none() || commit > settled) {
                    plan.stamps.push((version.start, commit));
                }
                if commit <= mark {
                    let is_tombstone = version.payload.is_none();
                    let hides_some = at + 1 < versions.len();
                    let base = Base { start: version.start, is_tombstone };
                    plan.base = (is_tombstone || hides_some).then_some(base);
                    break;
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

    fn planned_until(versions: &[(Version, Fate)], mark: u64, settled: Timestamp) -> Plan {
        plan(versions, Extent { mark: at(mark), settled, through: at(70) })
    }

    fn base(start: u64, is_tombstone: bool) -> Option<Base> {
        Some(Base { start: at(start), is_tombstone })
    }

    #[test]
    fn the_newest_below_the_mark_stays_and_what_it_hides_goes() {
        let versions = [
            committed(61, 64),
            version(55, Fate::Aborted, false),
            version(47, Fate::Open, false),
            committed(40, 44),
            version(31, Fate::Aborted, false),
            committed(12, 20),
        ];
        let planned = planned_until(&versions, 50, Timestamp::ZERO);
        assert_eq!(planned.stamps, [(at(61), at(64)), (at(40), at(44))]);
        assert_eq!((planned.deletes, planned.base), (vec![at(55)], base(40, false)));
        let early = planned_until(&versions, 43, Timestamp::ZERO);
        assert_eq!(early.deletes, [at(55), at(31)]);
        assert_eq!(early.base, None, "44 lies above the mark, and nothing is older than 12");
    }

    #[test]
    fn what_is_stamped_is_not_stamped_again() {
        let (mut seen, fate) = committed(40, 44);
        seen.commit = Some(at(44));
        let again = planned_until(&[(seen.clone(), fate)], 50, at(43));
        assert_eq!(again.stamps, [(at(40), at(44))], "it may be on one replica only");
        assert_eq!(planned_until(&[(seen, fate)], 50, at(44)), Plan::default());
    }

    #[test]
    fn what_was_committed_since_the_round_began_is_not_stamped() {
        let versions = [committed(61, 64), committed(40, 44)];
        let extent = Extent { mark: at(50), settled: Timestamp::ZERO, through: at(63) };
        assert_eq!(plan(&versions, extent).stamps, [(at(40), at(44))]);
    }

    #[test]
    fn a_tombstone_goes_once_the_mark_has_passed_it() {
        let deleted = version(40, Fate::Committed(at(44)), true);
        assert_eq!(
            planned_until(&[deleted.clone(), committed(12, 20)], 50, Timestamp::ZERO).base,
            base(40, true)
        );
        assert_eq!(
            planned_until(&[deleted.clone(), committed(12, 20)], 43, Timestamp::ZERO).base,
            None
        );
        assert_eq!(
            planned_until(&[deleted], 50, Timestamp::ZERO).base,
            base(40, true),
            "what it hides may be asleep"
        );
    }

    #[test]
    fn an_old_tombstone_under_a_newer_version_goes_like_any_other() {
        let versions = [committed(40, 44), version(12, Fate::Committed(at(20)), true)];
        assert_eq!(planned_until(&versions, 50, Timestamp::ZERO).base, base(40, false));
    }
}
