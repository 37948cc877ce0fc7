//! Log of statements whose answers exceed their soft limit of memory.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use carnet_base::{LogRate, Moment};
use tracing::warn;

use super::grant::Grant;
use super::prepared::Statements;

/// Number of lines logged at once, and the interval between further ones.
const BURST: u32 = 5;
const INTERVAL: Duration = Duration::from_secs(10);

/// Limits the log of large answers.
pub(super) struct LargeAnswers(Mutex<LogRate>);

impl Default for LargeAnswers {
    fn default() -> Self {
        Self(Mutex::new(LogRate::new(BURST, INTERVAL)))
    }
}

impl LargeAnswers {
    /// Returns the number of answers left out since the last logged one; `None` if this one is left
    /// out too.
    fn admit(&self, now: Moment) -> Option<u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).admit(now)
    }

    /// Logs a statement whose answer exceeds its soft limit.
    pub(super) fn log(
        &self,
        now: Moment,
        statements: &Statements,
        keyspace: Option<&str>,
        grant: &Grant,
    ) {
        let Some((bytes, limit)) =
            grant.memory.as_ref().and_then(|memory| memory.beyond_soft_limit())
        else {
            return;
        };
        let Some(not_logged) = self.admit(now) else { return };
        let named = statements.named(keyspace);
        warn!(bytes, limit, not_logged, statement = named.statement(), "an answer is large");
    }
}
