//! Figures of admission.

use std::time::Duration;

/// Figures of a class, or of one level in it, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Number of running statements.
    pub running: usize,
    /// Number of waiting statements.
    pub waiting: usize,
    /// Number of admitted statements.
    pub admitted: u64,
    /// Number of statements refused because of overload.
    pub shed_overloaded: u64,
    /// Number of statements whose deadline passed while they waited.
    pub shed_deadline: u64,
    /// Number of statements refused after admission, because no memory was left for their answers.
    pub shed_memory: u64,
    /// Number of statements that joined a full or slow queue, so that their client was slowed down.
    pub throttled: u64,
    /// Total wait of admitted and refused statements.
    pub waited: Duration,
}

impl Figures {
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            running: self.running + other.running,
            waiting: self.waiting + other.waiting,
            admitted: self.admitted + other.admitted,
            shed_overloaded: self.shed_overloaded + other.shed_overloaded,
            shed_deadline: self.shed_deadline + other.shed_deadline,
            shed_memory: self.shed_memory + other.shed_memory,
            throttled: self.throttled + other.throttled,
            waited: self.waited + other.waited,
        }
    }
}
