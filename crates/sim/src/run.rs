//! A run of one seed: its parameters and its result.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::executor::Executor;
use crate::mutant::Mutant;
use crate::run_record::{Reported, RunRecord};
use crate::workload::Workload;
use crate::{cluster, embedded, overload};

/// The kind of database that is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// One process and its disk.
    Embedded,
    /// Three processes over a weak cluster.
    Cluster,
    /// One process under more load than its processors can serve.
    Overload,
}

impl Scenario {
    /// All scenarios, in the order in which they run.
    pub const ALL: [Self; 3] = [Self::Embedded, Self::Cluster, Self::Overload];

    /// Returns the name used on the command line.
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

/// Parameters of a run.
#[derive(Clone, Debug)]
pub struct Order {
    /// Seed of all random draws.
    pub seed: u64,
    /// Kind of database that is simulated.
    pub scenario: Scenario,
    /// The only kind of transaction; `None` mixes all.
    pub workload: Option<Workload>,
    /// The broken rule.
    pub mutant: Option<Mutant>,
    /// The rule whose hunt determines the settings, if none is broken.
    pub suits: Option<Mutant>,
}

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Description of a violation, if there was one.
    pub verdict: Result<(), String>,
    /// Number of transactions that ended.
    pub transactions: usize,
    /// Number of committed transactions.
    pub committed: usize,
    /// Number of transactions rolled back because they were idle for too long.
    pub expired: usize,
    /// Number of restored copies that were read.
    pub copies: usize,
    /// Number of injected faults.
    pub faults: usize,
    /// Hash of all occurrences, in their order.
    pub trace: u64,
    /// Number of events.
    pub events: u64,
    /// Elapsed virtual time.
    pub virtual_time: Duration,
    /// Settings drawn from the seed.
    pub setup: String,
}

impl Order {
    /// Creates the parameters of a run of a seed with nothing broken and all workloads mixed.
    #[must_use]
    pub const fn new(scenario: Scenario, seed: u64) -> Self {
        Self { seed, scenario, workload: None, mutant: None, suits: None }
    }

    /// Runs the seed.
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
    pub(crate) fn new(
        executor: &Executor,
        run_record: &RunRecord,
        faults: usize,
        setup: &impl fmt::Debug,
        verdict: Result<(), String>,
    ) -> Self {
        let records = run_record.records();
        let committed =
            records.iter().filter(|record| matches!(record.reported, Reported::Committed(_)));
        Self {
            verdict,
            transactions: run_record.ended(),
            committed: committed.count(),
            expired: run_record.expired(),
            copies: run_record.copies(),
            faults,
            trace: executor.trace(),
            events: executor.turns(),
            virtual_time: executor.now(),
            setup: format!("{setup:?}"),
        }
    }
}
