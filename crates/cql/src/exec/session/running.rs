//! `KILL STATEMENT`, and the list of running statements.

use std::sync::Arc;

use carnet::roles::{Permission, Resource, Rights};
use carnet::{DataType, Value};
use carnet_admission::{Class, LevelId, Permit};
use carnet_base::Moment;

use crate::ast::Term;
use crate::compile::Compiler;
use crate::cql_error::CqlError;
use crate::exec::authorize::check;
use crate::exec::executor::Executor;
use crate::exec::parameters::Session;
use crate::exec::prepared::Described;
use crate::exec::run::Run;
use crate::exec::running::{Entry, EntryState, RunningStatement, StatementSource};
use crate::exec::shown_row::shown_to;
use crate::result::Response;
use crate::steps::Steps;
use crate::system::{QUERIES, RunningRow};
use crate::timestamps::Timestamps;

impl Executor {
    /// Registers a statement of a session that has not ended in its first turn. `began` is the time at
    /// which it reached the server, `admission` its class and level, and `permit` its permit if it has
    /// begun.
    #[must_use]
    pub fn enter(
        &self,
        session: &Session,
        source: StatementSource,
        began: Moment,
        admission: Option<(Class, LevelId)>,
        permit: Option<&Arc<Permit>>,
    ) -> RunningStatement {
        RunningStatement::new(&self.shared.running, |id| Entry {
            id,
            client: session.name(),
            user: session.user_name().cloned(),
            began,
            admission,
            keyspace: match &source {
                StatementSource::Text(_) | StatementSource::Batch(..) => session.keyspace(),
                _ => None,
            },
            source,
            state: EntryState::of(permit).into(),
        })
    }

    /// Lists the statements that run or wait, the oldest first, as a role sees them.
    pub(in crate::exec) fn running_rows(&self, rights: Option<&Rights>) -> Vec<RunningRow> {
        let (now, levels) = (self.shared.db.now(), self.shared.db.levels());
        let name = |id: LevelId| {
            let level = levels.iter().find(|level| level.level.id == id)?;
            Some(Arc::clone(&level.level.name))
        };
        let lost = |key: &[u8]| {
            let (table, key) = shown_to(rights, self.lost_row(key)?);
            Some(key.map_or_else(|| table.clone(), |key| format!("{table} {key}")))
        };
        self.shared.running.list().iter().map(|entry| entry.row(now, name, lost)).collect()
    }

    /// Ends a running statement.
    pub(in crate::exec) fn kill_statement(
        &self,
        session: &Session,
        id: &Term,
        run: &Run<'_>,
    ) -> Result<Response, CqlError> {
        let mut compiler = Compiler::new(self.shared.timestamps, &run.steps);
        let id = compiler.operand(id, &DataType::Bigint, "statement")?;
        let environment = self.environment(&run.bound, &run.steps);
        let Value::Bigint(number) = id.required(&environment)? else {
            return Err(CqlError::invalid("the id of a statement is a bigint"));
        };
        let running = &self.shared.running;
        let id = u64::try_from(number).unwrap_or_default();
        let found = running.find(id);
        let is_own = |entry: &Entry| entry.user.as_ref() == session.user_name();
        if let Some(rights) = &run.rights
            && !found.as_deref().is_some_and(is_own)
        {
            // Without the permission a role does not learn which statements others run.
            let (keyspace, table) = QUERIES;
            check(rights, &Resource::table(keyspace, table), Permission::Modify)?;
        }
        let Some(entry) = found else {
            let why = if running.is_of_another(id) {
                "another server of the database gave this id: ask that one"
            } else {
                "it has ended, or never was; SHOW STATEMENTS lists those that run"
            };
            return Err(CqlError::invalid(format!("statement {number} does not run here: {why}")));
        };
        entry.kill();
        Ok(Response::Void)
    }
}

/// Returns the markers of `KILL STATEMENT`.
pub(in crate::exec) fn describe_kill(
    id: &Term,
    markers: usize,
    steps: &Steps<'_>,
) -> Result<Described, CqlError> {
    let mut compiler = Compiler::new(Timestamps::default(), steps);
    compiler.operand(id, &DataType::Bigint, "statement")?;
    let markers = compiler.finish(markers)?;
    Ok(Described { markers, ..Described::default() })
}
