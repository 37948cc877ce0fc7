//! By which service level a statement runs, and until when.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use carnet::admission::{Class, Workload};
use carnet::base::Moment;
use carnet::levels::{Effective, no_level};

use super::grant::Grant;
use super::outline::Outline;
use super::{Bound, CqlError, CqlErrorKind, Executor, Session};
use crate::ast::{Attribute, Literal, Statement, Term};
use crate::duration::CqlDuration;

/// Maximum number of levels, dropped ones included, whose timeouts are counted.
const COUNTED_MAX: usize = 1_000;

/// What a process knows for service levels beside the catalogue.
#[derive(Default)]
pub(super) struct LevelState {
    /// The users, where they are known.
    pub(super) users: OnceLock<BTreeSet<String>>,
    timeouts: Mutex<BTreeMap<Arc<str>, u64>>,
}

/// How a statement is admitted.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The level by which it runs.
    pub level: Arc<Effective>,
    /// How it is treated under overload.
    pub workload: Workload,
    /// When it has to be done, as far as that is known.
    pub deadline: Option<Moment>,
}

impl Executor {
    /// Says which users there are, so that levels are attached to no others. Only the first call counts.
    ///
    /// Default: not known, any name is taken.
    pub fn set_users(&self, users: impl IntoIterator<Item = String>) {
        self.shared.levels.users.get_or_init(|| users.into_iter().collect());
    }

    /// Returns how a statement of a session is admitted that arrives now. A level that is named and not
    /// there is answered when the statement runs.
    #[must_use]
    pub fn terms(&self, session: &Session, outline: &Outline<'_>, arrived: Moment) -> Terms {
        let level = self.level_of(session, outline).unwrap_or_else(|_| self.own_level(session));
        let is_batch = outline.is_large && outline.class != Class::System;
        let usual = if is_batch { Workload::Batch } else { Workload::Interactive };
        let workload = level.options.workload_type.unwrap_or(usual);
        let timeout = outline.timeout.or_else(|| self.timeout_of(&level, outline));
        // One without any time is answered as late, and not refused to be sent to another server.
        let timeout = timeout.filter(|timeout| !timeout.is_zero());
        Terms { level, workload, deadline: timeout.map(|timeout| arrived.after(timeout)) }
    }

    /// Returns the number of statements that ended at their timeout, by level.
    #[must_use]
    pub fn timeouts_of_levels(&self) -> Vec<(Arc<str>, u64)> {
        let mut counted =
            self.shared.levels.timeouts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // A level without timeouts has none, which is worth a line.
        for level in self.shared.db.levels().iter() {
            counted.entry(Arc::clone(&level.level.name)).or_default();
        }
        counted.into_iter().collect()
    }

    /// Returns when a statement has to be done that runs by a level.
    pub(super) fn deadline(
        &self,
        level: &Effective,
        outline: &Outline<'_>,
        using: Option<Duration>,
        grant: &Grant,
    ) -> Option<Moment> {
        let timeout = using.or_else(|| {
            // The server's are for statements that say when they arrived.
            grant.arrived.map_or(level.options.timeout, |_| self.timeout_of(level, outline))
        });
        let arrived = || grant.arrived.unwrap_or_else(|| self.shared.db.now());
        timeout.map(|timeout| arrived().after(timeout))
    }

    /// Counts a statement that ended at its timeout.
    pub(super) fn count_timeout<T>(&self, level: &Effective, result: &Result<T, CqlError>) {
        let Err(error) = result else { return };
        if *error.kind() != CqlErrorKind::Timeout {
            return;
        }
        let timeouts = &self.shared.levels.timeouts;
        let mut timeouts = timeouts.lock().unwrap_or_else(PoisonError::into_inner);
        if timeouts.len() < COUNTED_MAX || timeouts.contains_key(&level.level.name) {
            *timeouts.entry(Arc::clone(&level.level.name)).or_default() += 1;
        }
    }

    /// Returns the level by which a statement of a session runs.
    ///
    /// # Errors
    ///
    /// `Invalid` for a level that is not there.
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

    fn own_level(&self, session: &Session) -> Arc<Effective> {
        let user = session.user();
        self.shared.db.levels().effective(user.as_slice())
    }

    fn timeout_of(&self, level: &Effective, outline: &Outline<'_>) -> Option<Duration> {
        let timeouts = self.timeouts();
        level.options.timeout.or_else(|| {
            timeouts.map(
                |timeouts| {
                    if outline.is_scan { timeouts.scan } else { timeouts.statement }
                },
            )
        })
    }
}

/// Returns the `USING TIMEOUT` of a statement.
///
/// # Errors
///
/// `Invalid` where it cannot be a timeout.
pub(super) fn using_timeout(
    statement: &Statement,
    bound: &[Bound],
) -> Result<Option<Duration>, CqlError> {
    let term = match statement {
        Statement::Select(select) => select.timeout.as_ref(),
        Statement::Write(write) => write.using().get(Attribute::Timeout),
        Statement::Batch(batch) => batch.using.get(Attribute::Timeout),
        _ => None,
    };
    let wrong = || CqlError::invalid("the value of USING TIMEOUT is not a duration");
    match term {
        None => Ok(None),
        Some(Term::Literal(Literal::Duration(text))) => {
            let duration = CqlDuration::parse(text).ok_or_else(wrong)?;
            duration.timeout("Timeout").map(Some)
        }
        Some(Term::Marker(marker)) => match bound.get(usize::from(marker.index)) {
            Some(Bound::Bytes(bytes)) => {
                CqlDuration::decode(bytes).ok_or_else(wrong)?.timeout("Timeout").map(Some)
            }
            Some(Bound::Unset) => Ok(None),
            _ => Err(CqlError::invalid("Timeout value cannot be null")),
        },
        Some(_) => Err(wrong()),
    }
}

/// Returns the value of a timeout that is a constant and can be one.
pub(super) fn literal_timeout(term: &Term) -> Option<Duration> {
    let Term::Literal(Literal::Duration(text)) = term else { return None };
    CqlDuration::parse(text)?.timeout("Timeout").ok()
}
