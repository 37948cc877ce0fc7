//! State of an executor for forwarded statements.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use carnet_base::{Rng, SeededRng, lock};

use super::cancel::Calls;

/// State of an executor for forwarded statements.
pub(in crate::exec) struct ForwardState {
    /// Names of calls.
    rng: Mutex<SeededRng>,
    /// Statements of other servers that run here.
    pub(in crate::exec) calls: Calls,
    /// Statements that were forwarded to other servers.
    pub(in crate::exec) sent: AtomicU64,
    /// Statements of other servers that ran here.
    pub(in crate::exec) served: AtomicU64,
}

impl Default for ForwardState {
    fn default() -> Self {
        Self {
            rng: Mutex::new(SeededRng::from_entropy()),
            calls: Calls::default(),
            sent: AtomicU64::new(0),
            served: AtomicU64::new(0),
        }
    }
}

impl ForwardState {
    /// Returns a name for a call.
    pub(in crate::exec) fn name(&self) -> u64 {
        lock(&self.rng).next_u64()
    }

    /// Returns the numbers of statements that were sent to other servers, and served for them.
    pub(in crate::exec) fn totals(&self) -> (u64, u64) {
        (self.sent.load(Ordering::Relaxed), self.served.load(Ordering::Relaxed))
    }
}
