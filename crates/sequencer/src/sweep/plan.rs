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
//! If the newest version at or below the mark is a delta, its row is made of it and the versions below,
//! and written in its place before these are deleted:
//!
//! ```text
//!   mark 50     S=40  C=44   delta        its row is written, and is the base
//!               S=31  aborted             deleted with all versions older than the base
//!               S=12  C=20   image        the same: the row has it
//! ```
//!
//! The row of a delta may lie on a minority of the replicas, written by a reader or by a round that ended early. It looks
//! like an image that a transaction wrote, so any base of a table with deltas is written again before the versions below
//! are deleted.
//!
//! Parts of a base's row that have expired for every reader from the mark on (`history`) are left out:
//! the row is written again without them. If nothing is left, the base counts as a tombstone.
//!
//! A base that is a tombstone is deleted too, last of all: until every replica has deleted the
//! older versions, a replica that was down could bring them back.

use carnet_base::{Bytes, CommitEntry, Result, Timestamp, Version};
use carnet_data::RowImage;
use carnet_store::cluster::Statement;
use carnet_store::{DeltaChain, looks_like_delta};

use crate::statements::MERGED;

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

impl From<CommitEntry> for VersionOutcome {
    fn from(entry: CommitEntry) -> Self {
        match entry {
            CommitEntry::Committed(commit) => Self::Committed(commit),
            CommitEntry::Aborted => Self::Aborted,
        }
    }
}

impl VersionOutcome {
    /// Returns `true` for a commit up to a timestamp.
    pub(crate) fn is_committed_by(self, through: Timestamp) -> bool {
        matches!(self, Self::Committed(commit) if commit <= through)
    }
}

/// Work on a cell's versions, named by their starts, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Versions to stamp, with their commits.
    pub(crate) stamps: Vec<(Timestamp, Timestamp)>,
    /// Aborted versions that are newer than the base.
    pub(crate) deletes: Vec<Timestamp>,
    /// The row that is written in place of the base, before older versions are deleted.
    pub(crate) row: Option<BaseRow>,
    /// All versions older than this base are deleted, visible or not.
    pub(crate) base: Option<Base>,
    /// Parts of the base's row have expired.
    pub(crate) is_trimmed: bool,
    /// The first expiry of the base's row that has not passed.
    pub(crate) next_expiry: Option<i64>,
}

/// The row of a base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BaseRow {
    pub(crate) start: Timestamp,
    /// The image; `None` is a tombstone.
    pub(crate) payload: Option<Bytes>,
    /// The deltas of which the row was made; `None` if the base is no delta.
    pub(crate) chain: Option<DeltaChain>,
    /// Number of the write: of two rows without their expired parts the later one wins.
    pub(crate) statement: Statement,
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
    /// The last second that has passed for every reader from the mark on.
    pub(crate) passed: i64,
}

/// Plans the work on a cell whose versions are given newest first, each with its outcome.
///
/// A stamp of a commit above `settled` may be on one replica only, left there by a round that ended
/// early. It is written again, because its entry is about to be deleted. Commits above `through`
/// are not stamped.
///
/// `has_deltas` is a property of the cell's table.
///
/// # Errors
///
/// `Corrupted` if a delta or an image cannot be read.
pub(crate) fn plan(
    versions: &[(Version, VersionOutcome)],
    Extent { mark, settled, through, passed }: Extent,
    has_deltas: bool,
) -> Result<Plan> {
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
                    let (start, hides_some) = (version.start, at + 1 < versions.len());
                    let is_delta = has_deltas && looks_like_delta(version);
                    let chain = is_delta.then(|| chain_of(&versions[at..]));
                    let payload = match &chain {
                        Some(chain) => chain.row()?,
                        None => version.payload.clone(),
                    };
                    let trimmed = if has_deltas { trim(payload, passed) } else { payload.into() };
                    (plan.is_trimmed, plan.next_expiry) = (trimmed.is_trimmed, trimmed.next_expiry);
                    let (is_tombstone, payload) = (trimmed.row.is_none(), trimmed.row);
                    let is_base = is_tombstone || hides_some || is_delta;
                    plan.base = is_base.then_some(Base { start, is_tombstone });
                    let is_rewritten = plan.is_trimmed && !is_tombstone;
                    if is_delta || is_rewritten || (has_deltas && hides_some) {
                        let statement = trimmed_at(passed);
                        plan.row = Some(BaseRow { start, payload, chain, statement });
                    }
                    break;
                }
            }
        }
    }
    Ok(plan)
}

/// A row without its expired parts.
#[derive(Default)]
pub(crate) struct Trimmed {
    /// `None` if nothing is left.
    pub(crate) row: Option<Bytes>,
    pub(crate) is_trimmed: bool,
    pub(crate) next_expiry: Option<i64>,
}

impl From<Option<Bytes>> for Trimmed {
    fn from(row: Option<Bytes>) -> Self {
        Self { row, ..Self::default() }
    }
}

/// Removes the parts of a row that have expired up to a second. A row that cannot be read stays as it is.
pub(crate) fn trim(row: Option<Bytes>, passed: i64) -> Trimmed {
    let Some(bytes) = row else { return Trimmed::default() };
    let Ok(mut image) = RowImage::decode(&bytes) else { return Some(bytes).into() };
    let first = image.first_expiry();
    if first.is_none_or(|expiry| expiry > passed) {
        return Trimmed { row: Some(bytes), is_trimmed: false, next_expiry: first };
    }
    image.expire(passed);
    let row = image.is_live().then(|| image.encode());
    Trimmed { row, is_trimmed: true, next_expiry: image.first_expiry() }
}

/// Returns the number of the write of a row without the parts that have expired up to a second. It
/// takes precedence over the row with them, and over one of an earlier second.
fn trimmed_at(passed: i64) -> Statement {
    MERGED.max(Statement(u32::try_from(passed.max(0)).unwrap_or(u32::MAX)))
}

/// Returns the row of the newest version of a table of rows that committed up to a timestamp; `None` if it has
/// no older version to be merged with, or is no delta.
///
/// # Errors
///
/// `Corrupted` if a delta or an image cannot be read.
pub(crate) fn newest_row(
    versions: &[(Version, VersionOutcome)],
    through: Timestamp,
) -> Result<Option<BaseRow>> {
    let newest = versions.iter().position(|(_, outcome)| outcome.is_committed_by(through));
    let Some(newest) = newest else { return Ok(None) };
    let start = versions[newest].0.start;
    if !looks_like_delta(&versions[newest].0) {
        return Ok(None);
    }
    let chain = chain_of(&versions[newest..]);
    if chain.len() < 2 {
        return Ok(None);
    }
    let (payload, chain) = (chain.row()?, Some(chain));
    Ok(Some(BaseRow { start, payload, chain, statement: MERGED }))
}

/// Returns the committed versions of a cell, newest first, up to the first that is no delta.
fn chain_of(versions: &[(Version, VersionOutcome)]) -> DeltaChain {
    let mut chain = DeltaChain::default();
    for (version, outcome) in versions {
        if !matches!(outcome, VersionOutcome::Committed(_)) {
            continue;
        }
        match &version.payload {
            Some(delta) if looks_like_delta(version) => chain.push(version.start, delta.clone()),
            image => {
                chain.end_at(version.start, image.clone());
                break;
            }
        }
    }
    chain
}

#[cfg(test)]
mod tests {
    use carnet_base::ColumnId;
    use carnet_data::RowDelta;
    use carnet_data::row::{Change, Column};

    use super::*;

    /// The last second that has passed for all readers.
    const PASSED: i64 = 1_000;

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
        let extent = Extent { mark: at(mark), settled, through: at(70), passed: PASSED };
        plan(versions, extent, true).unwrap()
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
        let extent =
            Extent { mark: at(50), settled: Timestamp::ZERO, through: at(63), passed: PASSED };
        assert_eq!(plan(&versions, extent, false).unwrap().stamps, [(at(40), at(44))]);
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

    fn delta(start: u64, commit: u64, amount: i64) -> (Version, VersionOutcome) {
        let mut delta = RowDelta::new(1);
        delta.change(ColumnId(4), Change::Added(amount));
        let (version, outcome) = committed(start, commit);
        (Version { payload: Some(delta.encode()), ..version }, outcome)
    }

    fn counter(row: Option<BaseRow>) -> (Timestamp, i64) {
        let BaseRow { start, payload, chain, .. } = row.unwrap();
        assert!(chain.is_some());
        let row = RowImage::decode(&payload.unwrap()).unwrap();
        (start, i64::from_be_bytes(row.value(ColumnId(4)).unwrap()[..].try_into().unwrap()))
    }

    #[test]
    fn delta_below_the_mark_is_replaced_by_its_row() {
        let (image, outcome) = delta(12, 20, 1);
        let row = RowDelta::merge(None, &[(image.start, image.payload.clone().unwrap())]).unwrap();
        let image = (Version { payload: Some(row.encode()), ..image }, outcome);
        let aborted = (delta(35, 36, 1000).0, VersionOutcome::Aborted);
        let versions = [delta(61, 64, 100), delta(40, 44, 20), aborted, delta(31, 33, 3), image];
        let planned = planned_until(&versions, 50, Timestamp::ZERO);
        assert_eq!((counter(planned.row), planned.base), ((at(40), 24), base(40, false)));
        assert_eq!(planned.deletes, []);
        let early = planned_until(&versions, 40, Timestamp::ZERO);
        assert_eq!((counter(early.row), early.base), ((at(31), 4), base(31, false)));
        let image_only = planned_until(&versions, 30, Timestamp::ZERO);
        assert_eq!((image_only.row, image_only.base), (None, None));
    }

    #[test]
    fn base_of_a_table_with_deltas_is_written_again() {
        let versions = [committed(40, 44), committed(12, 20)];
        let planned = planned_until(&versions, 50, Timestamp::ZERO);
        let payload = versions[0].0.payload.clone();
        let statement = Statement(1_000);
        assert_eq!(planned.row, Some(BaseRow { start: at(40), payload, chain: None, statement }));
        let extent =
            Extent { mark: at(50), settled: Timestamp::ZERO, through: at(70), passed: PASSED };
        let raw = plan(&versions, extent, false).unwrap();
        assert_eq!((raw.row, raw.base), (None, base(40, false)));
    }

    #[test]
    fn tombstone_ends_the_versions_of_a_row() {
        let deleted = version(31, VersionOutcome::Committed(at(33)), true);
        let versions = [delta(40, 44, 20), deleted, delta(12, 20, 1)];
        let planned = planned_until(&versions, 50, Timestamp::ZERO);
        assert_eq!(counter(planned.row), (at(40), 20));
    }

    #[test]
    fn row_without_columns_is_a_tombstone() {
        let mut removal = RowDelta::new(1);
        removal.change(ColumnId(4), Change::Deleted);
        let (version, outcome) = committed(40, 44);
        let removal = (Version { payload: Some(removal.encode()), ..version }, outcome);
        let planned = planned_until(&[removal, delta(12, 20, 1)], 50, Timestamp::ZERO);
        let row = planned.row.unwrap();
        assert_eq!((row.start, row.payload, planned.base), (at(40), None, base(40, true)));
    }

    /// Returns a committed version of a row with a column for each expiry.
    fn expiring(expiries: &[Option<i64>]) -> (Version, VersionOutcome) {
        let mut row = RowImage::new(1);
        for (id, expiry) in (1..).zip(expiries) {
            row.set(ColumnId(id), Column::new("v").expiring(*expiry));
        }
        let (version, outcome) = committed(40, 44);
        (Version { payload: Some(row.encode()), ..version }, outcome)
    }

    fn columns(row: &BaseRow) -> Vec<ColumnId> {
        let row = RowImage::decode(row.payload.as_ref().unwrap()).unwrap();
        row.columns().iter().map(|(id, _)| *id).collect()
    }

    #[test]
    fn expired_row_is_deleted_like_a_tombstone() {
        let planned = planned_until(&[expiring(&[Some(900), Some(PASSED)])], 50, Timestamp::ZERO);
        assert_eq!((planned.row, planned.base), (None, base(40, true)));
        assert!(planned.is_trimmed);
        let early = planned_until(&[expiring(&[Some(900)])], 43, Timestamp::ZERO);
        assert_eq!((early.base, early.is_trimmed), (None, false), "a snapshot at 43 may be older");
    }

    #[test]
    fn expired_parts_of_a_row_are_left_out() {
        let versions = [expiring(&[Some(PASSED + 1), Some(PASSED), None])];
        let planned = planned_until(&versions, 50, Timestamp::ZERO);
        let row = planned.row.unwrap();
        assert_eq!(columns(&row), [ColumnId(1), ColumnId(3)]);
        assert_eq!((row.start, row.statement), (at(40), Statement(1_000)));
        assert_eq!((planned.base, planned.next_expiry), (None, Some(PASSED + 1)));
        let later = trim(row.payload, PASSED);
        assert!(!later.is_trimmed, "nothing more has expired");
    }

    #[test]
    fn row_of_a_chain_has_no_expired_parts() {
        let mut change = RowDelta::new(1);
        change.change(ColumnId(9), Change::Set { value: "v".into(), expiry: Some(PASSED) });
        let (delta, outcome) = committed(45, 46);
        let delta = (Version { payload: Some(change.encode()), ..delta }, outcome);
        let below = expiring(&[None, Some(5)]);
        let planned = planned_until(&[delta.clone(), below], 50, Timestamp::ZERO);
        assert_eq!(columns(&planned.row.unwrap()), [ColumnId(1)]);
        let planned = planned_until(&[delta, expiring(&[Some(5)])], 50, Timestamp::ZERO);
        assert_eq!(planned.row.unwrap().payload, None);
        assert_eq!(planned.base, base(45, true));
    }

    #[test]
    fn unreadable_row_stays() {
        let planned = planned_until(&[committed(40, 44)], 50, Timestamp::ZERO);
        assert_eq!((planned.row, planned.base, planned.is_trimmed), (None, None, false));
    }

    #[test]
    fn row_without_expired_parts_takes_precedence() {
        assert_eq!(trimmed_at(i64::MIN), MERGED, "no second is known to have passed");
        assert!(trimmed_at(1_700_000_001) > trimmed_at(1_700_000_000));
        assert_eq!(trimmed_at(i64::MAX), Statement(u32::MAX));
    }
}
