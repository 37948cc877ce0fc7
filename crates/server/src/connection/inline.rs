//! Limit of the statements that run on their connection's task.

use std::sync::Arc;
use std::time::Duration;

use carnet_base::Moment;

use super::lag::Lag;

/// Time for which the statements of a turn may keep the connection's thread. Then other tasks run
/// before the rest of the requests.
const TURN_MAX: Duration = Duration::from_micros(100);

/// Statements that ran on the connection's task in its present turn.
pub(super) struct Inline {
    lag: Arc<Lag>,
    used: Duration,
}

impl Inline {
    pub(super) const fn new(lag: Arc<Lag>) -> Self {
        Self { lag, used: Duration::ZERO }
    }

    /// Begins a turn.
    pub(super) const fn begin_turn(&mut self) {
        self.used = Duration::ZERO;
    }

    /// Returns `true` if a statement that has arrived may run on the connection's task.
    pub(super) fn runs(&self, now: Moment) -> bool {
        self.lag.is_short(now)
    }

    /// Counts the time of a statement that ran there.
    pub(super) fn ran(&mut self, took: Duration) {
        self.used += took;
    }

    /// Returns `true` if the turn has to end before another statement runs.
    pub(super) fn is_used_up(&self) -> bool {
        self.used >= TURN_MAX
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use carnet_base::SystemClock;

    use super::*;

    #[test]
    fn turn_ends_after_its_time() {
        let mut inline = Inline::new(Lag::new(Arc::new(SystemClock)));
        inline.ran(TURN_MAX / 2);
        assert!(!inline.is_used_up());
        inline.ran(TURN_MAX / 2);
        assert!(inline.is_used_up());
        inline.begin_turn();
        assert!(!inline.is_used_up());
    }
}
