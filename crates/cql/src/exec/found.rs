//! What a statement's arrival has found, so that its run does not look it up again.

use std::sync::Arc;
use std::time::Duration;

use carnet::levels::Effective;

use super::prepared::{Prepared, Statements};

/// Service level of a statement, and its timeout.
pub(super) type LevelAndTimeout = (Arc<Effective>, Option<Duration>);

/// What a statement's arrival has found. It is small, because the future of each statement holds it.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The prepared statement whose id was sent.
    pub prepared: Option<Arc<Prepared>>,
    /// Service level by which the statement was admitted.
    pub level: Option<Arc<Effective>>,
    /// Its timeout, if it was admitted.
    pub timeout: Option<Duration>,
}

impl Found {
    /// Returns the level and timeout of a statement. Those of a text are guessed from its first tokens: it
    /// is parsed after its admission, and has its level then.
    pub(super) fn of(&self, statements: &Statements) -> Option<LevelAndTimeout> {
        // A level that does not exist is reported when the statement runs.
        let named = statements.parsed.statement.level();
        let found = self.level.as_ref().filter(|_| statements.is_prepared())?;
        named.is_none_or(|name| *found.level.name == *name).then(|| self.of_batch())?
    }

    /// Returns the level and timeout of a driver's batch.
    pub(super) fn of_batch(&self) -> Option<LevelAndTimeout> {
        Some((Arc::clone(self.level.as_ref()?), self.timeout))
    }
}
