//! Kinds of transactions.

use std::sync::LazyLock;

use clap::ValueEnum;
use clap::builder::PossibleValue;

use super::load_kind::LoadKind;

/// A workload as it is chosen on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chosen {
    /// Its transactions are checked.
    Checked(Workload),
    /// Its operations are timed.
    Load(LoadKind),
}

impl Chosen {
    pub(super) const fn checked(self) -> Option<Workload> {
        match self {
            Self::Checked(workload) => Some(workload),
            Self::Load(_) => None,
        }
    }

    pub(super) const fn load(self) -> Option<LoadKind> {
        match self {
            Self::Checked(_) => None,
            Self::Load(kind) => Some(kind),
        }
    }
}

impl ValueEnum for Chosen {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: LazyLock<Vec<Chosen>> = LazyLock::new(|| {
            let checked = Workload::value_variants().iter().copied().map(Chosen::Checked);
            let loads = LoadKind::value_variants().iter().copied().map(Chosen::Load);
            checked.chain(loads).collect()
        });
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Checked(workload) => workload.to_possible_value(),
            Self::Load(kind) => kind.to_possible_value(),
        }
    }
}

/// Kind of transactions that are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Workload {
    /// Transactions read lists and append to them.
    ListAppend,
    /// Transactions read registers and set them.
    Register,
    /// Transactions move money between accounts; the total is invariant.
    Bank,
    /// A doctor goes off call only while the other one is on call: one of each pair must stay.
    WriteSkew,
    /// Transactions count a flight's passengers and take a seat: no flight may be overbooked.
    Phantom,
}

impl Workload {
    /// Returns the kind of objects in its history; transfers have none.
    pub(super) const fn history(self) -> Option<carnet_checker::Workload> {
        match self {
            Self::ListAppend | Self::Phantom => Some(carnet_checker::Workload::ListAppend),
            Self::Register | Self::WriteSkew => Some(carnet_checker::Workload::Register),
            Self::Bank => None,
        }
    }

    /// Returns the verdict on its invariant for a run without violations.
    pub(super) const fn held(self) -> Option<&'static str> {
        match self {
            Self::ListAppend | Self::Register => None,
            Self::Bank => Some("the accounts held their total in every read, and do in the end"),
            Self::WriteSkew => Some("one of each pair was on call in every read"),
            Self::Phantom => Some("no flight was overbooked in any read"),
        }
    }
}
