//! Recording of a statement's end.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use carnet::levels::Effective;
use carnet::roles::Rights;
use carnet_admission::{Permit, Progress};
use carnet_base::{DurationCounts, Moment};

use crate::cql_error::{CqlError, CqlErrorKind, LostRow};
use crate::exec::executor::Executor;
use crate::exec::grant::Grant;
use crate::exec::named;
use crate::exec::naming::Naming;
use crate::exec::parameters::Session;
use crate::exec::prepared::Statements;
use crate::exec::run::Run;
use crate::exec::shown_row::shown_to;
use crate::exec::slow_log::Slow;
use crate::exec::statistics::{Conflict, Executed, StatementKind};
use crate::fingerprint;
use crate::result::Response;
use crate::system::ConflictRow;

/// Makes the fingerprint of a batch differ from the fingerprint of its first statement.
const BATCH: u64 = 0x9e37_79b9_7f4a_7c15;

/// A statement at its end.
struct Ended<'r> {
    executor: &'r Executor,
    session: &'r Session,
    statements: &'r Statements,
    keyspace: Option<&'r str>,
    grant: &'r Grant,
    /// Service level; for a driver's batch, the session's level.
    level: Option<&'r Arc<Effective>>,
    /// Number of statements of a driver's batch; `statements` is its first one.
    batch: Option<usize>,
    /// Time from which its duration counts.
    began: Moment,
}

/// A statement in progress, which is named at its first wait. One that is dropped before its end has
/// failed. It is small, because the future of each statement holds it.
pub(in crate::exec) struct Recorded<'r> {
    executor: &'r Executor,
    session: &'r Session,
    statements: &'r Statements,
    run: &'r Run<'r>,
    is_over: bool,
}

impl<'r> Recorded<'r> {
    pub(in crate::exec) const fn new(
        executor: &'r Executor,
        session: &'r Session,
        statements: &'r Statements,
        run: &'r Run<'r>,
    ) -> Self {
        Self { executor, session, statements, run, is_over: false }
    }

    /// Runs the statement, and names it before its first wait: the diagnosis counts waits of
    /// statements that run for long, and operators see it.
    pub(in crate::exec) async fn run<F: Future>(&self, mut statement: Pin<&mut F>) -> F::Output {
        poll_fn(|context| {
            let polled = statement.as_mut().poll(context);
            if polled.is_pending() {
                self.naming().name();
            }
            polled
        })
        .await
    }

    /// Records the end of the statement at a moment.
    pub(in crate::exec) fn end(mut self, now: Moment, result: &Result<Response, CqlError>) {
        self.is_over = true;
        // Names a statement that has waited without a pause.
        drop(self.naming());
        self.ended().record(now, Some(result));
    }

    fn naming(&self) -> Naming<'_> {
        Naming {
            statements: self.statements,
            keyspace: self.run.keyspace.as_deref(),
            user: self.session.user_name(),
            permit: self.run.parameters.grant.permit.as_deref(),
        }
    }

    fn ended(&self) -> Ended<'_> {
        Ended {
            executor: self.executor,
            session: self.session,
            statements: self.statements,
            keyspace: self.run.keyspace.as_deref(),
            grant: &self.run.parameters.grant,
            level: Some(&self.run.level),
            batch: None,
            began: self.run.began,
        }
    }
}

impl Drop for Recorded<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            drop(self.naming());
            self.ended().record(self.executor.shared.db.now(), None);
        }
    }
}

/// A driver's batch in progress. One that is dropped before its end has failed.
pub(in crate::exec) struct Recording<'r> {
    ended: Ended<'r>,
    is_over: bool,
}

impl Recording<'_> {
    /// Records the end of the batch at a moment.
    pub(in crate::exec) fn end(mut self, now: Moment, result: &Result<Response, CqlError>) {
        self.is_over = true;
        self.ended.record(now, Some(result));
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.ended.record(self.ended.executor.shared.db.now(), None);
        }
    }
}

impl Ended<'_> {
    /// Records the end of the statement; without a result it was cut off.
    fn record(&self, now: Moment, result: Option<&Result<Response, CqlError>>) {
        if self.session.is_uncounted() {
            return;
        }
        let rows_returned = match result {
            Some(Ok(Response::Rows(rows))) => rows.rows.len() as u64,
            _ => 0,
        };
        let error = result.and_then(|result| result.as_ref().err());
        let progress = self.grant.permit.as_deref().map(Permit::progress);
        let lost = progress.map_or(0, Progress::conflicts);
        let is_lost = error.is_some_and(|error| {
            matches!(error.kind(), CqlErrorKind::Conflict | CqlErrorKind::Aborted)
                && error.lost_row().is_some()
        });
        let conflicts = lost.max(u64::from(is_lost));
        let executed = Executed {
            took: now.since(self.began),
            has_failed: !matches!(result, Some(Ok(_))),
            conflicts,
            rows_read: progress.map_or(0, Progress::rows_read),
            rows_returned,
        };
        self.count(executed, now);
        let kind = match self.batch {
            Some(_) => StatementKind::Batch,
            None => StatementKind::of(&self.statements.parsed.statement),
        };
        self.executor.shared.kinds.record(kind, executed.took);
        if self.executor.shared.slow.is_slow(executed.took) {
            let outcome = match result {
                Some(Ok(_)) => "ok",
                Some(Err(_)) => "error",
                None => "cut off",
            };
            self.log_slow(executed, outcome, now);
        }
        if conflicts > 0 {
            let key = progress.and_then(Progress::lost_key);
            self.keep_conflict(conflicts, error, (key, !executed.has_failed));
        }
    }

    #[cold]
    fn log_slow(&self, executed: Executed, outcome: &'static str, now: Moment) {
        let Some(not_logged) = self.executor.shared.slow.admit(now) else { return };
        let level = self.level.cloned().unwrap_or_else(|| self.executor.own_level(self.session));
        let (table, statement) = self.name();
        let slow = Slow {
            took: executed.took,
            permit: self.grant.permit.as_deref(),
            level: &level.level.name,
            user: self.session.user(),
            client: &self.session.client_address(),
            table: &table,
            statement: &statement,
            rows_read: executed.rows_read,
            rows_returned: executed.rows_returned,
            conflicts: executed.conflicts,
            outcome,
            trace: self.grant.trace.as_ref().map(|trace| trace.id.to_string()),
        };
        slow.log(not_logged);
    }

    #[cold]
    fn keep_conflict(
        &self,
        attempts: u64,
        error: Option<&CqlError>,
        (key, has_succeeded): (Option<Box<[u8]>>, bool),
    ) {
        self.executor.shared.conflicts.push(Conflict {
            at: self.executor.shared.db.wall_time(),
            client: self.session.name(),
            user: self.session.user_name().cloned(),
            named: self.statements.named(self.keyspace),
            attempts,
            row: error.and_then(|error| error.lost_row().cloned()),
            key,
            has_succeeded,
        });
    }

    fn count(&self, executed: Executed, now: Moment) {
        let statistics = &self.executor.shared.statistics;
        let Statements { parsed, .. } = self.statements;
        if self.batch.is_none() && self.statements.is_prepared() {
            let slot = self.statements.slot(statistics, self.keyspace);
            return statistics.count(slot, executed, now);
        }
        let keyspace = named::keyspace_of_names(&parsed.statement, self.keyspace);
        let batch = self.batch.map_or(0, |_| BATCH);
        let id = fingerprint::in_keyspace(parsed.fingerprint ^ batch, keyspace);
        statistics.count_id(id, || self.name(), executed, now);
    }

    /// Returns the table of the statement, and its text without values.
    fn name(&self) -> (String, String) {
        let (table, text) = named::fingerprint(&self.statements.parsed.statement, self.keyspace);
        match self.batch {
            None => (table, text),
            Some(1) => (table, format!("BATCH: {text}")),
            Some(_) => (table, format!("BATCH: {text}; …")),
        }
    }
}

impl Executor {
    /// Begins to record a driver's batch, by its first statement and the number of its statements.
    pub(in crate::exec) fn recording<'r>(
        &'r self,
        session: &'r Session,
        (statements, keyspace, count): (&'r Statements, Option<&'r str>, usize),
        grant: &'r Grant,
    ) -> Recording<'r> {
        let began = grant.arrived.unwrap_or_else(|| self.shared.db.now());
        let (executor, level, batch) = (self, None, Some(count));
        let ended = Ended { executor, session, statements, keyspace, grant, level, batch, began };
        Recording { ended, is_over: false }
    }

    /// Returns the durations of the statements of a kind since the start. Statements of the
    /// dashboard's pages are left out.
    #[must_use]
    pub fn statement_durations(&self, kind: StatementKind) -> DurationCounts {
        self.shared.kinds.counts(kind)
    }

    /// Returns the row that a statement lost last, if it is known.
    pub(in crate::exec) fn row_of(&self, conflict: &Conflict) -> Option<LostRow> {
        conflict.row.clone().or_else(|| self.lost_row(conflict.key.as_deref()?))
    }

    /// Lists the last statements that lost a row, the newest first, as a role sees them.
    pub(in crate::exec) fn conflict_rows(&self, rights: Option<&Rights>) -> Vec<ConflictRow> {
        let row = |conflict: &Arc<Conflict>| {
            let lost = self.row_of(conflict);
            ConflictRow {
                at: conflict.at,
                client: Arc::clone(&conflict.client),
                user: conflict.user.clone(),
                named: Arc::clone(&conflict.named),
                attempts: conflict.attempts,
                row: lost.map(|lost| shown_to(rights, lost)),
                has_succeeded: conflict.has_succeeded,
            }
        };
        self.shared.conflicts.list().iter().map(row).collect()
    }
}
