//! The parameters of a run.

use crate::mutant::Mutant;
use crate::scenario::Scenario;
use crate::workload::Workload;

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

impl Order {
    /// Creates the parameters of a run of a seed with nothing broken and all workloads mixed.
    #[must_use]
    pub const fn new(scenario: Scenario, seed: u64) -> Self {
        Self { seed, scenario, workload: None, mutant: None, suits: None }
    }
}
