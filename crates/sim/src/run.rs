//! A run of one seed: what is asked for, and what came of it.

use std::time::Duration;

use crate::embedded;
use crate::mutant::Mutant;
use crate::workload::Workload;

/// Asks for a run.
#[derive(Clone, Debug)]
pub struct Order {
    /// The root of everything that is drawn.
    pub seed: u64,
    /// The only kind of transaction; `None` mixes all.
    pub workload: Option<Workload>,
    /// The rule that is broken.
    pub mutant: Option<Mutant>,
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
    pub const fn of(seed: u64) -> Self {
        Self { seed, workload: None, mutant: None }
    }

    /// Runs it.
    #[must_use]
    pub fn run(&self) -> Run {
        embedded::run(self)
    }
}
