//! Decides what the sweep does with one cell's versions. Pure.
//!
//! ```text
//!   mark 50     S=61  C=64   ≤ 50? no     stamped, kept
//!               S=47  open                kept: cannot commit any more; its leader will settle it
//!               S=40  C=44   the base     stamped, kept: the version that a snapshot at 50 sees
//!               S=31  aborted             deleted with all versions older than the base
//!               S=12  C=20                the same: the base hides it
//! ```
//!
//! Transactions that committed since the round began are not stamped: a backup that begins
//! meanwhile must copy no stamp above its own timestamp.
//!
//! A base that is a tombstone is deleted too, last of all: until every replica has deleted the
//! older versions, a replica that was down could bring them back.

use carnet_base::{Timestamp, Version};

/// Outcome of the transaction that wrote a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionOutcome {
    /// It committed at this timestamp.
    Committed(Timestamp),
    /// It will never commit.
    Aborted,
    /// Its leader has not decided it.
    Open,
}

/// Work on a cell's versions, named by their starts, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Versions to stamp, with their commits.
    pub(crate) stamps: Vec<(Timestamp, Timestamp)>,
    /// Aborted versions that are newer than the base.
    pub(crate) deletes: Vec<Timestamp>,
    /// All versions older than this base are deleted, visible or not.
    pub(crate) base: Option<Base>,
}

/// The newest version at or below the mark: every snapshot from the mark on sees it, or a newer
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    pub(crate) start: Timestamp,
    /// The base is deleted too, once all older versions are gone from every replica.
    pub(crate) is_tombstone: bool,
}

/// Extent of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Versions that no snapshot from here on sees are deleted.
    pub(crate) mark: Timestamp,
    /// Versions of commits up to here were stamped on a majority by an earlier round.
    pub(crate) settled: Timestamp,
    /// P when the round began: later commits are not stamped.
    pub(crate) through: Timestamp,
}

/// Plans the work on a cell whose versions are given newest first, each with its outcome.
///
/// A stamp of a commit above `settled` may be on one replica only, left there by a round that ended
/// early. It is written again, because its entry is about to be deleted. Commits above `through`
/// are not stamped.
pub(crate) fn plan(
    versions: &[(Version, VersionOutcome)],
    Extent { mark, settled, through }: Extent,
) -> Plan {
    let mut plan = Plan::default();
    for (at, (version, outcome)) in versions.iter().enumerate() {
        match *outcome {
            VersionOutcome::Open => {}
            VersionOutcome::Aborted => plan.deletes.push(version.start),
            VersionOutcome::Committed(commit) => {
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

    fn version(
        start: u64,
        outcome: VersionOutcome,
        is_tombstone: bool,
    ) -> (Version, VersionOutcome) {
        let payload = (!is_tombstone).then(|| Bytes::from_static(b"x"));
        (Version { start: at(start), commit: None, payload }, outcome)
    }

    fn committed(start: u64, commit: u64) -> (Version, VersionOutcome) {
        version(start, VersionOutcome::Committed(at(commit)), false)
    }

    fn planned_until(
        versions: &[(Version, VersionOutcome)],
        mark: u64,
        settled: Timestamp,
    ) -> Plan {
        plan(versions, Extent { mark: at(mark), settled, through: at(70) })
    }

    fn base(start: u64, is_tombstone: bool) -> Option<Base> {
        Some(Base { start: at(start), is_tombstone })
    }

    #[test]
    fn newest_below_the_mark_hides_older_versions() {
        let versions = [
            committed(61, 64),
            version(55, VersionOutcome::Aborted, false),
            version(47, VersionOutcome::Open, false),
            committed(40, 44),
            version(31, VersionOutcome::Aborted, false),
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
    fn stamped_versions_are_not_stamped_again() {
        let (mut seen, outcome) = committed(40, 44);
        seen.commit = Some(at(44));
        let again = planned_until(&[(seen.clone(), outcome)], 50, at(43));
        assert_eq!(again.stamps, [(at(40), at(44))], "it may be on one replica only");
        assert_eq!(planned_until(&[(seen, outcome)], 50, at(44)), Plan::default());
    }

    #[test]
    fn later_commits_than_the_round_are_not_stamped() {
        let versions = [committed(61, 64), committed(40, 44)];
        let extent = Extent { mark: at(50), settled: Timestamp::ZERO, through: at(63) };
        assert_eq!(plan(&versions, extent).stamps, [(at(40), at(44))]);
    }

    #[test]
    fn tombstone_below_the_mark_is_deleted() {
        let deleted = version(40, VersionOutcome::Committed(at(44)), true);
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
            "a replica with an older version may be down"
        );
    }

    #[test]
    fn hidden_tombstone_is_deleted_like_any_version() {
        let versions = [committed(40, 44), version(12, VersionOutcome::Committed(at(20)), true)];
        assert_eq!(planned_until(&versions, 50, Timestamp::ZERO).base, base(40, false));
    }
}
