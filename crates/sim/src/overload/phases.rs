//! The parts of the load: their rates and durations.

use std::time::Duration;

/// Offered loads of gold, as multiples of the capacity.
pub(super) const FACTORS: [f64; 5] = [0.5, 1.0, 2.0, 5.0, 10.0];
/// Offered load of silver meanwhile.
pub(super) const ASIDE: f64 = 0.05;
/// Time for which each load is counted, and time before that to settle.
pub(super) const OFFERED_FOR: Duration = Duration::from_millis(500);
pub(super) const SETTLES_IN: Duration = Duration::from_millis(150);
/// Time after the largest load within which a small load must be served again.
pub(super) const RECOVERS_IN: Duration = Duration::from_secs(2);
/// Time for which the store answers no read, longer than any deadline of a statement.
pub(super) const STORE_PAUSES_FOR: Duration = Duration::from_millis(400);
/// Offered load of gold and silver while both are saturated, and its duration.
pub(super) const SATURATED: f64 = 3.0;
pub(super) const SATURATED_FOR: Duration = Duration::from_millis(1_500);
/// Time for statements in flight to complete at the end.
pub(super) const DRAINS_IN: Duration = Duration::from_secs(5);
