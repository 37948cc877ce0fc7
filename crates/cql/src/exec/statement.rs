//! Running statements: queries, prepared statements and batches.

use carnet::admission::Class;
use carnet::{AsOf, Timestamp, Tx, Value, WallTime};

use super::applied::Form;
use super::batch::{BatchPart, batch_parts};
use super::executor::Executor;
use super::naming::Naming;
use super::outline::Outline;
use super::paging::{self, PagingState};
use super::parameters::{BatchItem, Parameters, Session};
use super::prepared::{Prepared, Statements};
use super::run::Run;
use super::timeout::using_timeout;
use super::{select, transaction, write};
use crate::ast::{BatchKind, Select, Statement};
use crate::compile::{Compiler, Environment, Plan, WritePlan, check_batch};
use crate::cql_error::{CqlError, CqlErrorKind};
use crate::result::Response;

impl Executor {
    /// Runs a statement given as text, with values for its markers.
    ///
    /// # Errors
    ///
    /// Errors in the text, its names or the values, and failures of the database.
    pub async fn query(
        &self,
        session: &Session,
        text: &str,
        parameters: &Parameters,
    ) -> Result<Response, CqlError> {
        let statements = Statements::parse(text)?;
        let keyspace = parameters.keyspace.clone().or_else(|| session.keyspace());
        self.run(session, &statements, keyspace, parameters).await
    }

    /// Runs a prepared statement.
    ///
    /// # Errors
    ///
    /// See [`Executor::query`].
    pub async fn execute(
        &self,
        session: &Session,
        prepared: &Prepared,
        parameters: &Parameters,
    ) -> Result<Response, CqlError> {
        let keyspace = prepared.keyspace.clone();
        let result = self.run(session, &prepared.statements, keyspace, parameters).await;
        self.forget_stale(result)
    }

    /// Removes a stale statement from the cache, so that it is prepared again.
    fn forget_stale<T>(&self, result: Result<T, CqlError>) -> Result<T, CqlError> {
        if let Err(error) = &result
            && let CqlErrorKind::Unprepared { id } = error.kind()
        {
            self.shared.prepared.forget(id);
        }
        result
    }

    /// Runs statements that change rows, as one transaction.
    ///
    /// # Errors
    ///
    /// See [`Executor::query`]; `Invalid` for a statement that does not change rows.
    pub async fn batch(
        &self,
        session: &Session,
        kind: BatchKind,
        items: Vec<BatchItem>,
        parameters: &Parameters,
    ) -> Result<Response, CqlError> {
        let parts = batch_parts(session, items, parameters)?;
        let grant = &parameters.grant;
        let outline = Outline::of_class(Class::Write);
        let level = self.level_of(session, &outline)?;
        let deadline = self.deadline(&level, &outline, None, grant);
        let _naming = parts.first().map(|part| Naming {
            statements: &part.statements,
            keyspace: part.keyspace.as_deref(),
            permit: grant.permit.as_deref(),
        });
        let run = self.shared.db.transaction().label(session.label("BATCH"));
        let run = grant.apply(run, deadline);
        let result = run.try_run(|tx| {
            let parts = &parts;
            async move { self.run_batch(&tx, kind, parts).await }
        });
        let result = result.await;
        self.count_timeout(&level, &result);
        self.forget_stale(result)
    }

    async fn run_batch(
        &self,
        tx: &Tx,
        kind: BatchKind,
        parts: &[BatchPart],
    ) -> Result<Response, CqlError> {
        let mut plans = Vec::with_capacity(parts.len());
        for BatchPart { statements, keyspace, bound } in parts {
            let plan = self.plan(tx, statements, keyspace.as_deref()).await?;
            plans.push((plan, self.environment(bound)));
        }
        let mut writes: Vec<(&WritePlan, Environment<'_>)> = Vec::with_capacity(parts.len());
        for (plan, environment) in &plans {
            if let Plan::Writes(plans) = &**plan {
                writes.extend(plans.iter().map(|plan| (plan, *environment)));
            }
        }
        check_batch(kind, writes.iter().map(|(plan, _)| *plan))?;
        write::run(tx, &writes, Form::Batch).await
    }

    async fn run(
        &self,
        session: &Session,
        statements: &Statements,
        keyspace: Option<String>,
        parameters: &Parameters,
    ) -> Result<Response, CqlError> {
        let parsed = &statements.parsed;
        let bound = parameters.values.resolve(&parsed.markers)?;
        let label = session.label(parsed.statement.kind());
        let outline = Outline::of_statement(&parsed.statement, keyspace.as_deref());
        let using = using_timeout(&parsed.statement, &bound)?;
        let level = self.level_of(session, &outline)?;
        let grant = &parameters.grant;
        let deadline = self.deadline(&level, &outline, using, grant);
        if let Some(memory) = &grant.memory {
            memory.apply(&level);
        }
        let run = Run { label, parameters, bound, keyspace: keyspace.clone(), deadline };
        let _naming =
            Naming { statements, keyspace: keyspace.as_deref(), permit: grant.permit.as_deref() };
        let result = self.run_by(session, statements, &run).await;
        self.count_timeout(&level, &result);
        let (large, now) = (&self.shared.large, self.shared.db.now());
        large.log(now, statements, keyspace.as_deref(), grant);
        result
    }

    async fn run_by(
        &self,
        session: &Session,
        statements: &Statements,
        run: &Run<'_>,
    ) -> Result<Response, CqlError> {
        match &statements.parsed.statement {
            Statement::Select(select) if self.is_system(&select.from, run) => {
                self.system_select(select, run).await
            }
            Statement::Select(select) => self.select(select, statements, run).await,
            Statement::Write(write) => {
                self.refuse_system(write.table(), run)?;
                self.write(statements, run).await
            }
            Statement::Batch(_) => self.write(statements, run).await,
            Statement::Transaction(_) => self.transaction(statements, run).await,
            Statement::Use(name) => self.use_keyspace(session, &name.text).await,
            Statement::Describe(describe) => self.describe(describe, run).await,
            Statement::Level(level) => self.level_statement(level, run).await,
            Statement::ShowBottleneck => self.show_bottleneck(),
            Statement::Unsupported(unsupported) => Err(CqlError::unsupported(&unsupported.what)),
            ddl => self.ddl(ddl, run).await,
        }
    }

    async fn select(
        &self,
        select: &Select,
        statements: &Statements,
        run: &Run<'_>,
    ) -> Result<Response, CqlError> {
        let state = run.parameters.paging_state.as_ref();
        let state = state.map(PagingState::decode).transpose()?;
        let environment = self.environment(&run.bound);
        let options = run.transaction(&self.shared.db);
        let options = options.bypass_cache(select.bypass_cache);
        let options = options.wall_time(state.as_ref().map(|state| state.wall));
        let at = match &state {
            Some(state) => Some(AsOf::Timestamp(state.snapshot)),
            None => as_of(select, &environment)?,
        };
        let snapshot = match at {
            Some(at) => options.snapshot_as_of_async(at).await?,
            None => options.snapshot_async(None).await?,
        };
        let plan = self.plan(&snapshot, statements, run.keyspace.as_deref()).await;
        // "Unprepared" would repeat for ever: the snapshot has the earlier schema of the table.
        let plan = plan.map_err(|error| match (&state, at, error.kind()) {
            (Some(_), _, CqlErrorKind::Unprepared { .. }) => CqlError::invalid(
                "the table has changed since the first page of this result; begin the query anew",
            ),
            (None, Some(_), CqlErrorKind::Unprepared { .. }) => CqlError::invalid(
                "the table had another definition at that time than when the statement was \
                 prepared; send the statement unprepared",
            ),
            _ => error,
        })?;
        let Plan::Select(plan) = &*plan else { return Ok(Response::Void) };
        if state.as_ref().is_some_and(|state| state.table != plan.table.id) {
            return Err(paging::invalid("it belongs to a statement on another table"));
        }
        let rows =
            select::run(&snapshot, plan, &environment, run.parameters, state.as_ref()).await?;
        Ok(Response::Rows(rows))
    }

    async fn write(&self, statements: &Statements, run: &Run<'_>) -> Result<Response, CqlError> {
        let transaction = run.transaction(&self.shared.db);
        let is_batch = matches!(statements.parsed.statement, Statement::Batch(_));
        let form = if is_batch { Form::Batch } else { Form::Single };
        transaction
            .try_run(|tx| async move {
                let plan = self.plan(&tx, statements, run.keyspace.as_deref()).await?;
                let Plan::Writes(plans) = &*plan else { return Ok(Response::Void) };
                let environment = self.environment(&run.bound);
                let writes: Vec<_> = plans.iter().map(|plan| (plan, environment)).collect();
                write::run(&tx, &writes, form).await
            })
            .await
    }

    async fn transaction(
        &self,
        statements: &Statements,
        run: &Run<'_>,
    ) -> Result<Response, CqlError> {
        let transaction = run.transaction(&self.shared.db);
        transaction
            .try_run(|tx| async move {
                let plan = self.plan(&tx, statements, run.keyspace.as_deref()).await?;
                let Plan::Transaction(plan) = &*plan else { return Ok(Response::Void) };
                let environment = self.environment(&run.bound);
                transaction::run(&tx, plan, &environment, run.parameters).await
            })
            .await
    }
}

/// Evaluates an `AS OF`.
fn as_of(select: &Select, environment: &Environment<'_>) -> Result<Option<AsOf>, CqlError> {
    let Some(term) = &select.as_of else { return Ok(None) };
    let wrong = || CqlError::invalid(format!("AS OF {term}: expected a timestamp in the past"));
    Ok(Some(match Compiler::default().as_of(term)?.required(environment)? {
        Value::Bigint(number) => {
            let number = u64::try_from(number).map_err(|_| wrong())?;
            AsOf::Timestamp(Timestamp::new(number).ok_or_else(wrong)?)
        }
        Value::Timestamp(millis) => {
            AsOf::Wall(WallTime(millis.checked_mul(1000).ok_or_else(wrong)?))
        }
        _ => return Err(wrong()),
    }))
}
