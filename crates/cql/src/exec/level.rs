//! The service level of a statement, and its deadline.

use std::sync::Arc;
use std::time::Duration;

use carnet::levels::{Effective, no_level};
use carnet_admission::diagnosis::Why;
use carnet_admission::{Class, Workload};
use carnet_base::{Moment, lock};

use super::executor::Executor;
use super::found::LevelAndTimeout;
use super::grant::Grant;
use super::level_state::COUNTED_MAX;
use super::outline::Outline;
use super::parameters::Session;
use super::terms::Terms;
use crate::cql_error::{CqlError, CqlErrorKind};

impl Executor {
    /// Sets the users of the password file: levels are attached to these users and to roles only. Connections of a user who is not among them any more are refused.
    ///
    /// Default: unknown, any name is accepted.
    pub fn set_users(&self, users: impl IntoIterator<Item = String>) {
        self.shared.levels.users.store(Some(Arc::new(users.into_iter().collect())));
    }

    /// Returns the admission terms of a statement of a session. A level that does not exist is
    /// reported when the statement runs.
    #[must_use]
    pub fn terms(&self, session: &Session, outline: &Outline<'_>) -> Terms {
        let level = self.level_of(session, outline).unwrap_or_else(|_| self.own_level(session));
        let is_batch = outline.is_large && outline.class != Class::System;
        let workload =
            level.options.workload_type.unwrap_or(match (is_batch, session.throws_on_overload()) {
                (true, _) => Workload::Batch,
                (false, true) => Workload::Interactive,
                (false, false) => Workload::Unspecified,
            });
        let timeout = outline.timeout.or_else(|| self.timeout_of(&level, outline));
        Terms { class: outline.class, level, workload, timeout, tenant: session.tenant() }
    }

    /// Returns the terms of a statement that arrives again, with the present limits of its level. A level
    /// that was dropped meanwhile is replaced by the session's own.
    #[must_use]
    pub fn renewed(&self, session: &Session, terms: &Terms) -> Terms {
        let own = self.own_level(session);
        let level = if own.level.id == terms.level.level.id {
            own
        } else {
            self.shared.db.levels().get(&terms.level.level.name).map_or(own, Arc::clone)
        };
        Terms { level, ..terms.clone() }
    }

    /// Returns `true` if the statements of a session are refused under overload rather than delayed.
    #[must_use]
    pub fn refuses(&self, session: &Session) -> bool {
        let workload = self.own_level(session).options.workload_type;
        workload.map_or(session.throws_on_overload(), Workload::is_refused)
    }

    /// Tells the diagnosis for how long a refused request of a session waited unread.
    pub fn waited_unread(&self, session: &Session, why: Why, waited: Duration) {
        if let Some(admission) = self.shared.db.admission() {
            admission.waited_unread(&self.own_level(session).level.name, why, waited);
        }
    }

    /// Returns the number of statements that timed out, by level.
    #[must_use]
    pub fn timeouts_of_levels(&self) -> Vec<(Arc<str>, u64)> {
        let mut counted = lock(&self.shared.levels.timeouts).clone();
        // A level without timeouts counts as zero, so that it has a line.
        for level in self.shared.db.levels().iter() {
            counted.entry(Arc::clone(&level.level.name)).or_default();
        }
        counted.into_iter().collect()
    }

    /// Returns the level and the timeout of a statement: as its arrival found them, or else by its outline.
    pub(super) fn level_and_timeout<'s>(
        &self,
        session: &Session,
        grant: &Grant,
        found: Option<LevelAndTimeout>,
        outline: impl FnOnce() -> Outline<'s>,
    ) -> Result<LevelAndTimeout, CqlError> {
        if let Some(found) = found {
            return Ok(found);
        }
        let outline = outline();
        let level = self.level_of(session, &outline)?;
        // The server's timeouts apply to statements with an arrival time.
        let timeout =
            grant.arrived.map_or(level.options.timeout, |_| self.timeout_of(&level, &outline));
        Ok((level, timeout))
    }

    /// Returns the deadline of a statement with a timeout.
    pub(super) fn deadline(
        &self,
        session: &Session,
        timeout: Option<Duration>,
        grant: &Grant,
    ) -> Option<Moment> {
        if session.is_forwarded() {
            return session.deadline();
        }
        let arrived = || grant.arrived.unwrap_or_else(|| self.shared.db.now());
        timeout.map(|timeout| arrived().after(timeout))
    }

    /// Counts a statement that timed out.
    pub(super) fn count_timeout<T>(&self, level: &Effective, result: &Result<T, CqlError>) {
        let Err(error) = result else { return };
        if *error.kind() != CqlErrorKind::Timeout {
            return;
        }
        let timeouts = &self.shared.levels.timeouts;
        let mut timeouts = lock(timeouts);
        if timeouts.len() < COUNTED_MAX || timeouts.contains_key(&level.level.name) {
            *timeouts.entry(Arc::clone(&level.level.name)).or_default() += 1;
        }
    }

    /// Returns the service level of a statement of a session.
    ///
    /// # Errors
    ///
    /// `Invalid` for a level that does not exist.
    pub(super) fn level_of(
        &self,
        session: &Session,
        outline: &Outline<'_>,
    ) -> Result<Arc<Effective>, CqlError> {
        match outline.level {
            Some(name) => {
                let levels = self.shared.db.levels();
                Ok(Arc::clone(levels.get(name).ok_or_else(|| no_level(name))?))
            }
            None if outline.class == Class::System => Ok(self.shared.db.levels().driver()),
            None => Ok(self.own_level(session)),
        }
    }

    pub(super) fn own_level(&self, session: &Session) -> Arc<Effective> {
        let levels = self.shared.db.levels();
        // The levels of all roles that a role has are merged.
        if let Ok(Some(rights)) = self.rights(session)
            && let [_, _, ..] = rights.names()
        {
            let names: Vec<&str> = rights.names().iter().map(|name| &**name).collect();
            return levels.effective(&names);
        }
        levels.effective(session.user().as_slice())
    }

    fn timeout_of(&self, level: &Effective, outline: &Outline<'_>) -> Option<Duration> {
        let timeouts = self.timeouts();
        level.options.timeout.or_else(|| {
            timeouts.map(|timeouts| match outline.class {
                _ if outline.is_scan => timeouts.scan,
                Class::System => timeouts.schema,
                Class::Read | Class::Write => timeouts.statement,
            })
        })
    }
}
