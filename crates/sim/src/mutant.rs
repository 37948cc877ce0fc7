//! The deliberate breaks: what the simulator must find, so that its silence means something.
//!
//! Each removes one rule of the protocol and nothing else. Most are made at the seams between the
//! layers, by a store or by rules of order that do not keep a promise of their trait; the product
//! knows nothing of them.

use std::str::FromStr;

/// A rule that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A commit is not checked against writes of the cells that it read.
    ReadPointsIgnored,
    /// A commit is not checked against writes into the ranges that it read.
    ReadRangesIgnored,
    /// A commit that read nothing is not checked at all.
    BlindWritesUnchecked,
    /// P moves to a commit when it is decided, before it is resolved (I3).
    PublishedBeforeResolved,
    /// A commit is acknowledged when it is decided, before P has come to it.
    AcknowledgedBeforePublished,
    /// A commit is acknowledged before the log is synced.
    AcknowledgedBeforeDurable,
    /// A read-only snapshot is not registered as active (I3).
    SnapshotNotRegistered,
    /// The sweep mark passes over the oldest snapshot in use.
    MarkAheadOfSnapshots,
    /// Reads see commits that are decided and not published.
    UndecidedVersionsRead,
    /// A new life begins at the last commit, not above all that was handed out (I1).
    StartsHandedOutTwice,
    /// S is drawn before R.
    StartDrawnBeforeSnapshot,
    /// A commit of which nobody knows is reported as refused.
    UnknownReportedAsRefused,
    /// A table is named in the manifest before it is synced.
    TableNotSynced,
    /// The manifest replaces the old one before it is synced.
    ManifestNotSynced,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::ReadPointsIgnored,
        Self::ReadRangesIgnored,
        Self::BlindWritesUnchecked,
        Self::PublishedBeforeResolved,
        Self::AcknowledgedBeforePublished,
        Self::AcknowledgedBeforeDurable,
        Self::SnapshotNotRegistered,
        Self::MarkAheadOfSnapshots,
        Self::UndecidedVersionsRead,
        Self::StartsHandedOutTwice,
        Self::StartDrawnBeforeSnapshot,
        Self::UnknownReportedAsRefused,
        Self::TableNotSynced,
        Self::ManifestNotSynced,
    ];
}

impl Mutant {
    /// Returns its name, as on the command line.
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
        let found = Self::ALL.into_iter().find(|mutant| mutant.name() == name);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("there is no mutant {name}; there are {names}")
        })
    }
}
