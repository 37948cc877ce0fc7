//! A run of one seed: what is asked for, and what came of it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::executor::Executor;
use crate::ledger::{Ledger, Told};
use crate::mutant::Mutant;
use crate::workload::Workload;
use crate::{cluster, embedded, overload};

/// What the database is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// One process and its disk.
    Embedded,
    /// Three processes over a weak cluster.
    Cluster,
    /// One process that is asked for more than its processors can do.
    Overload,
}

impl Scenario {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Embedded, Self::Cluster, Self::Overload];

    /// Returns its name, as on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Cluster => "cluster",
            Self::Overload => "overload",
        }
    }
}

impl FromStr for Scenario {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|scenario| scenario.name() == name);
        found.ok_or_else(|| {
            format!("there is no scenario {name}; there are embedded, cluster, overload")
        })
    }
}

/// Asks for a run.
#[derive(Clone, Debug)]
pub struct Order {
    /// The root of everything that is drawn.
    pub seed: u64,
    /// What the database is made of.
    pub scenario: Scenario,
    /// The only kind of transaction; `None` mixes all.
    pub workload: Option<Workload>,
    /// The rule that is broken.
    pub mutant: Option<Mutant>,
    /// The rule whose hunt sets the run up, where none is broken.
    pub suits: Option<Mutant>,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// What is wrong, in words, if anything.
    pub verdict: Result<(), String>,
    /// How many transactions ended, however.
    pub transactions: usize,
    /// How many of them committed.
    pub committed: usize,
    /// How many were left alone for so long that they were rolled back.
    pub expired: usize,
    /// How many restored copies were read.
    pub copies: usize,
    /// How many faults struck.
    pub faults: usize,
    /// A hash of all that happened, in its order.
    pub trace: u64,
    /// How many things happened.
    pub events: u64,
    /// How much time passed, as the clocks of the simulation count.
    pub virtual_time: Duration,
    /// How the seed set the database up.
    pub setup: String,
}

impl Order {
    /// Asks for a run of a seed with nothing broken and all workloads mixed.
    #[must_use]
    pub const fn of(scenario: Scenario, seed: u64) -> Self {
        Self { seed, scenario, workload: None, mutant: None, suits: None }
    }

    /// Runs it.
    #[must_use]
    pub fn run(&self) -> Run {
        match self.scenario {
            Scenario::Embedded => embedded::run(self),
            Scenario::Cluster => cluster::run(self),
            Scenario::Overload => overload::run(self),
        }
    }
}

impl Run {
    /// Sums a run up.
    pub(crate) fn of(
        executor: &Executor,
        ledger: &Ledger,
        faults: usize,
        setup: &impl fmt::Debug,
        verdict: Result<(), String>,
    ) -> Self {
        let records = ledger.records();
        let committed = records.iter().filter(|record| matches!(record.told, Told::Committed(_)));
        Self {
            verdict,
            transactions: ledger.ended(),
            committed: committed.count(),
            expired: ledger.expired(),
            copies: ledger.copies(),
            faults,
            trace: executor.trace(),
            events: executor.turns(),
            virtual_time: executor.now(),
            setup: format!("{setup:?}"),
        }
    }
}
