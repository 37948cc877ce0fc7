//! What a statement's arrival has found, so that its run does not look it up again.

use std::sync::Arc;
use std::time::Duration;

use carnet::levels::Effective;

use super::prepared::Prepared;
use crate::ast::Statement;

/// Service level of a statement, and its timeout.
pub(super) type LevelAndTimeout = (Arc<Effective>, Option<Duration>);

/// What a statement's arrival has found. It is small, because the future of each statement holds it.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The prepared statement whose id was sent.
    pub prepared: Option<Arc<Prepared>>,
    /// Service level by which the statement was admitted. `None` if the arrival did not know the statement: of
    /// a text it sees the first tokens, and of an id that is not prepared nothing.
    pub level: Option<Arc<Effective>>,
    /// Timeout of the statement, where its level is known; `None` as well if nothing sets one.
    pub timeout: Option<Duration>,
}

impl Found {
    /// Returns the level and the timeout of a statement, if its arrival knew them.
    pub(super) fn of(&self, statement: &Statement) -> Option<LevelAndTimeout> {
        let found = self.level_and_timeout()?;
        // In place of a level that does not exist the arrival takes the session's own. The run looks the level
        // up again, and fails.
        let is_other = statement.level().is_some_and(|name| *found.0.level.name != *name);
        (!is_other).then_some(found)
    }

    /// Returns the level and the timeout of a driver's batch, if its arrival knew them.
    pub(super) fn level_and_timeout(&self) -> Option<LevelAndTimeout> {
        Some((Arc::clone(self.level.as_ref()?), self.timeout))
    }
}
