//! Runs a seed in its scenario.

use crate::order::Order;
use crate::run::Run;
use crate::scenario::Scenario;
use crate::{cluster, embedded, overload};

impl Order {
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
