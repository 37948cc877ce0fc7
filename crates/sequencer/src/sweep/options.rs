//! The pacing of the sweep.

use std::time::Duration;

/// Pacing of the sweep.
#[derive(Clone, Copy, Debug)]
pub struct SweepOptions {
    /// Interval between rounds; zero disables automatic rounds.
    pub every: Duration,
    /// Time for which old versions stay readable.
    pub retention: Duration,
    /// Number of cells in a page.
    pub page_cells: usize,
    /// Maximum share of time spent sweeping, in percent from 1 to 100.
    pub duty_percent: u32,
}

impl Default for SweepOptions {
    fn default() -> Self {
        Self {
            every: Duration::from_secs(60),
            retention: Duration::from_secs(600),
            page_cells: 500,
            duty_percent: 20,
        }
    }
}
