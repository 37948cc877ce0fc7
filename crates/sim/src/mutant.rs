//! Mutants: deliberate bugs that the simulator must find, so that a clean run means something.
//!
//! Each removes one rule of the protocol and nothing else. Most are made at the interfaces between
//! the layers, by a store or a commit order that breaks a promise of its trait; the product
//! contains none of them.

use std::str::FromStr;

use crate::scenario::Scenario;
use crate::workload::Workload;

/// A rule that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A commit is not checked against writes of the cells that it read.
    ReadPointsIgnored,
    /// A commit is not checked against writes into the ranges that it read.
    ReadRangesIgnored,
    /// A commit that read nothing is not checked at all, although versions are ordered by starts.
    BlindWritesUnchecked,
    /// A commit at snapshot isolation is not checked against writes of the cells that it
    /// overwrites.
    OverwritesUnchecked,
    /// P moves to a commit when it is decided, before it is resolved (I3).
    PublishedBeforeResolved,
    /// A commit is acknowledged when it is decided, before P has reached it.
    AcknowledgedBeforePublished,
    /// A commit is acknowledged before the log is synced.
    AcknowledgedBeforeDurable,
    /// A read-only snapshot is not registered as active (I3).
    SnapshotNotRegistered,
    /// The sweep mark passes over the oldest snapshot in use.
    MarkAheadOfSnapshots,
    /// Entries of the commit table are deleted above the sweep mark (I9).
    EntriesDeletedAboveMark,
    /// A later commit has an earlier wall time.
    WallTimesDecrease,
    /// Reads see commits that are decided and not yet published.
    UndecidedVersionsRead,
    /// A new incarnation begins at the last commit, not above all timestamps that were handed out
    /// (I1).
    StartsHandedOutTwice,
    /// S is drawn before R.
    StartDrawnBeforeSnapshot,
    /// A commit with an unknown outcome is reported as refused.
    UnknownReportedAsRefused,
    /// A table is named in the manifest before it is synced.
    TableNotSynced,
    /// The manifest replaces the old one before it is synced.
    ManifestNotSynced,
    /// A commit is requested before a majority has its cells (I2).
    CellsNotAwaited,
    /// A new leader does not raise the epoch of rows, and entries are put without it (I5).
    FenceLeftOut,
    /// A leader decides for starts of an older term, which its rules do not know (I6).
    OlderStartsDecided,
    /// A leader decides again when a request is repeated (I6).
    DecidedTwice,
    /// A leader releases snapshots without the proof that it still leads (I7).
    SnapshotWithoutProof,
    /// An entry whose put timed out counts as written (I8).
    UnknownPutCounts,
    /// A value found on one replica is trusted without a touch (I8).
    TouchLeftOut,
    /// A reader does not settle an entry that it did not find (I9).
    AbsenceNotSettled,
    /// A process reads the map of encodings once, and never again (I10).
    MapReadOnce,
    /// Entries are swept although the versions that they decide were not stamped (I9).
    EntriesSweptUnstamped,
    /// A reader that finds no entry does not read the version again (I9).
    RereadLeftOut,
    /// The sweep mark is not checked after a read.
    SweepMarkUnread,
    /// A tombstone is swept before all replicas have deleted the versions that it hides.
    TombstoneSweptEarly,
    /// A leader releases a snapshot without the changed cells.
    ChangesUntold,
    /// A leader that does not know the changes reports that there were none.
    ChangesGuessed,
    /// Deltas are merged in the order of starts, not of commits.
    DeltasMergedByStart,
    /// A merge leaves out the oldest delta.
    DeltaLeftOut,
    /// A merge applies a delta twice.
    DeltaMergedTwice,
    /// A compaction merges deltas of different readers: the mark passes over snapshots in use.
    DeltasMergedAboveMark,
    /// A reader passes over a tombstone below a delta, and merges the delta with the deleted row.
    TombstoneBelowDeltaPassed,
    /// Versions below a delta are swept although the row of the delta was not written.
    DeltasSweptWithoutRow,
    /// A reader that misses a version below a delta finds the deltas as it read them before.
    DeltasReadOnce,
    /// No row is written in place of deltas when there are many.
    ChainsNotFolded,
    /// The sweep's clock is far behind, so that nothing expires.
    ExpiredKept,
    /// The sweep removes a part that has expired by its own clock, a minute early for others.
    ExpiredByOneClock,
    /// A commit is not checked against changes of the schema that it used: its writer may not know
    /// a new index or view.
    SchemaNotGuarded,
    /// A step of the build of an index or a view is not checked against changes of its rows.
    BuildNotGuarded,
    /// Cells of indexes and views are written, but not deleted.
    DerivedCellNotDeleted,
    /// A backup is named by the last commit at its end, not by the last one in its files.
    BackupNamedAfterItsEnd,
    /// A restore keeps commits after the requested timestamp.
    RestoreForgetsToCut,
    /// Some statements never give their permit back.
    PermitNotGivenBack,
    /// The gate's queue is unbounded, and is always served in order.
    OverloadIgnored,
    /// Statements have no deadlines.
    DeadlineIgnored,
    /// Waiting statements stay in the queue when their clients disconnect.
    CancelLeaks,
    /// Batch statements may take all permits of the gate.
    BatchUnlimited,
    /// All levels have the same shares.
    SharesIgnored,
    /// A statement does not yield at the end of its time slices.
    SliceNeverYielded,
}

impl Mutant {
    /// All mutants, each with the scenarios that must find it.
    pub const ALL: [(Self, &[Scenario]); 54] = [
        (Self::ReadPointsIgnored, BOTH),
        (Self::ReadRangesIgnored, BOTH),
        (Self::BlindWritesUnchecked, CLUSTER),
        (Self::OverwritesUnchecked, EMBEDDED),
        (Self::PublishedBeforeResolved, BOTH),
        (Self::AcknowledgedBeforePublished, EMBEDDED),
        (Self::AcknowledgedBeforeDurable, EMBEDDED),
        (Self::SnapshotNotRegistered, EMBEDDED),
        (Self::MarkAheadOfSnapshots, EMBEDDED),
        (Self::EntriesDeletedAboveMark, EMBEDDED),
        (Self::WallTimesDecrease, EMBEDDED),
        (Self::UndecidedVersionsRead, EMBEDDED),
        (Self::StartsHandedOutTwice, BOTH),
        (Self::StartDrawnBeforeSnapshot, BOTH),
        (Self::UnknownReportedAsRefused, EMBEDDED),
        (Self::TableNotSynced, EMBEDDED),
        (Self::ManifestNotSynced, EMBEDDED),
        (Self::CellsNotAwaited, CLUSTER),
        (Self::FenceLeftOut, CLUSTER),
        (Self::OlderStartsDecided, CLUSTER),
        (Self::DecidedTwice, CLUSTER),
        (Self::SnapshotWithoutProof, CLUSTER),
        (Self::UnknownPutCounts, CLUSTER),
        (Self::TouchLeftOut, CLUSTER),
        (Self::AbsenceNotSettled, CLUSTER),
        (Self::MapReadOnce, BOTH),
        (Self::EntriesSweptUnstamped, CLUSTER),
        (Self::RereadLeftOut, CLUSTER),
        (Self::SweepMarkUnread, CLUSTER),
        (Self::TombstoneSweptEarly, CLUSTER),
        (Self::ChangesUntold, CLUSTER),
        (Self::ChangesGuessed, CLUSTER),
        (Self::DeltasMergedByStart, EMBEDDED),
        (Self::DeltaLeftOut, BOTH),
        (Self::DeltaMergedTwice, BOTH),
        (Self::DeltasMergedAboveMark, EMBEDDED),
        (Self::TombstoneBelowDeltaPassed, CLUSTER),
        (Self::DeltasSweptWithoutRow, CLUSTER),
        (Self::DeltasReadOnce, CLUSTER),
        (Self::ChainsNotFolded, CLUSTER),
        (Self::ExpiredKept, CLUSTER),
        (Self::ExpiredByOneClock, CLUSTER),
        (Self::SchemaNotGuarded, CLUSTER),
        (Self::BuildNotGuarded, CLUSTER),
        (Self::DerivedCellNotDeleted, CLUSTER),
        (Self::BackupNamedAfterItsEnd, EMBEDDED),
        (Self::RestoreForgetsToCut, EMBEDDED),
        (Self::PermitNotGivenBack, OVERLOAD),
        (Self::OverloadIgnored, OVERLOAD),
        (Self::DeadlineIgnored, OVERLOAD),
        (Self::CancelLeaks, OVERLOAD),
        (Self::BatchUnlimited, OVERLOAD),
        (Self::SharesIgnored, OVERLOAD),
        (Self::SliceNeverYielded, OVERLOAD),
    ];
}

const BOTH: &[Scenario] = &[Scenario::Embedded, Scenario::Cluster];
const EMBEDDED: &[Scenario] = &[Scenario::Embedded];
const CLUSTER: &[Scenario] = &[Scenario::Cluster];
const OVERLOAD: &[Scenario] = &[Scenario::Overload];

impl Mutant {
    /// Returns the only workload that may find the mutant; `None` if all are mixed.
    #[must_use]
    pub const fn workload(self) -> Option<Workload> {
        match self {
            Self::DeltasMergedAboveMark => Some(Workload::Columns),
            Self::ChainsNotFolded | Self::ExpiredKept | Self::ExpiredByOneClock => {
                Some(Workload::Expiring)
            }
            Self::SchemaNotGuarded | Self::BuildNotGuarded | Self::DerivedCellNotDeleted => {
                Some(Workload::Derived)
            }
            _ => None,
        }
    }

    /// Returns the name used on the command line.
    #[must_use]
    pub fn name(self) -> String {
        let mut name = String::new();
        for letter in format!("{self:?}").chars() {
            if letter.is_uppercase() && !name.is_empty() {
                name.push('-');
            }
            name.extend(letter.to_lowercase());
        }
        name
    }
}

impl FromStr for Mutant {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|(mutant, _)| mutant.name() == name);
        found.map(|(mutant, _)| mutant).ok_or_else(|| {
            let names = Self::ALL.map(|(mutant, _)| mutant.name()).join(", ");
            format!("there is no mutant {name}; there are {names}")
        })
    }
}
