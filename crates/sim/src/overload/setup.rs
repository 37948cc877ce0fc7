//! Settings drawn from a seed before the load begins.

use std::time::Duration;

use carnet_admission::{AdmissionLimits, GateLimits, Level, LevelId, LevelLimits};

use crate::mutant::Mutant;
use crate::random::Random;

/// Number of service levels of the scenario.
pub(super) const LEVELS: usize = 3;
/// Interactive statements with 1,000 shares, whose load varies.
pub(super) const GOLD: usize = 0;
/// Interactive statements with 100 shares.
pub(super) const SILVER: usize = 1;
/// Batch statements with 100 shares.
pub(super) const BATCH: usize = 2;
/// Shares of the levels.
const SHARES: [u32; LEVELS] = [1_000, 100, 100];
const NAMES: [&str; LEVELS] = ["gold", "silver", "batch"];

/// Processor time of a request's frame, including a refusal.
pub(super) const FRAME: Duration = Duration::from_micros(2);
/// Processor time of a statement without its cells.
pub(super) const STATEMENT: Duration = Duration::from_micros(20);

/// Settings of a run.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) processors: usize,
    /// Processor time of reading a cell.
    pub(super) cell: Duration,
    /// Minimum and maximum number of cells that an interactive statement reads.
    pub(super) keys: (u64, u64),
    /// Minimum number of cells that a batch statement reads; the maximum is three times as large.
    pub(super) scan: u64,
    pub(super) connections: usize,
    /// Time between two disconnects of clients.
    pub(super) leave_every: Duration,
    /// Time that a slow reader takes for an answer.
    pub(super) slow_read: Duration,
    /// One of this number of interactive statements has a deadline of tens of milliseconds.
    pub(super) deadline_every: u64,
}

impl Setup {
    pub(super) fn draw(random: &mut Random) -> Self {
        Self {
            processors: random.count(1, 2),
            cell: random.micros(15, 30),
            keys: (random.between(10, 20), random.between(40, 60)),
            scan: random.between(150, 250),
            connections: random.count(2, 8),
            leave_every: random.micros(10_000, 60_000),
            slow_read: random.micros(500, 4_000),
            deadline_every: random.between(3, 10),
        }
    }

    /// Returns the number of interactive statements per second that the processors can serve.
    pub(super) fn capacity(&self) -> f64 {
        let keys = u32::try_from(self.keys.0.midpoint(self.keys.1)).unwrap_or(u32::MAX);
        let cost = FRAME + STATEMENT + self.cell * keys;
        f64::from(u32::try_from(self.processors).unwrap_or(u32::MAX)) / cost.as_secs_f64()
    }

    pub(super) fn limits(&self, mutant: Option<Mutant>) -> AdmissionLimits {
        let server = AdmissionLimits::of_server(self.processors);
        let statements = if mutant == Some(Mutant::OverloadIgnored) {
            let shed_after = Duration::from_secs(3_600);
            GateLimits {
                queue_max: 1 << 30,
                queue_bytes_max: 1 << 40,
                shed_after,
                ..server.statements
            }
        } else {
            GateLimits { queue_max: 50 * self.processors, ..server.statements }
        };
        AdmissionLimits { statements, ..server }
    }
}

/// Returns the levels.
pub(super) fn levels(mutant: Option<Mutant>) -> [Level; LEVELS] {
    let shares_are_ignored = mutant == Some(Mutant::SharesIgnored);
    std::array::from_fn(|number| {
        let shares = if shares_are_ignored { SHARES[GOLD] } else { SHARES[number] };
        let queue_max = (number == BATCH).then_some(16);
        Level {
            id: LevelId(number as u64 + 1),
            name: NAMES[number].into(),
            limits: LevelLimits { shares, queue_max, ..LevelLimits::default() },
        }
    })
}
