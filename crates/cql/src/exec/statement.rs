//! Running statements: queries, prepared statements and batches.

use std::borrow::Cow;
use std::pin::pin;

use carnet::roles::Rights;
use carnet::{AsOf, Tx, Uuid};
use carnet_admission::Class;

use super::applied::Form;
use super::batch::{BatchPart, BatchParts, batch_transaction};
use super::executor::Executor;
use super::found::LevelAndTimeout;
use super::grant::Grant;
use super::moment::as_of;
use super::naming::Naming;
use super::open::using_transaction;
use super::outline::Outline;
use super::paging::{self, PagingState};
use super::parameters::{BatchItem, Parameters, Session};
use super::prepared::{Prepared, Statements};
use super::run::Run;
use super::session::Recorded;
use super::thresholds::BatchSize;
use super::timeout::using_timeout;
use super::{select, transaction, write};
use crate::ast::{BatchKind, Select, Statement};
use crate::bound::{Bound, Values};
use crate::compile::{Environment, Plan, SelectPlan, WritePlan, check_batch};
use crate::cql_error::{CqlError, CqlErrorKind};
use crate::result::Response;
use crate::steps::Steps;

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
        let statements = match Statements::parse(text) {
            Ok(statements) => Box::new(statements),
            Err(error) => return Err(self.not_begun(session, error)),
        };
        self.note(&parameters.grant, || "Parsed the statement".to_owned());
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
        self.forget_stale(result, [&*prepared.statements])
    }

    /// Removes stale statements from the cache, so that they are prepared again. One that was prepared again
    /// while this one waited has the same id, and stays.
    fn forget_stale<'s, T>(
        &self,
        result: Result<T, CqlError>,
        statements: impl IntoIterator<Item = &'s Statements>,
    ) -> Result<T, CqlError> {
        if let Err(error) = &result
            && let CqlErrorKind::Unprepared { id } = error.kind()
        {
            let statements = statements.into_iter();
            statements.for_each(|statements| self.shared.prepared.forget(id, statements));
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
        let grant = &parameters.grant;
        let (_, timeout) = self.level_and_timeout_of_batch(session, grant)?;
        let steps = self.count_steps_of(self.deadline(session, timeout, grant), grant);
        let mut slice = self.time_slice(&parameters.grant);
        let mut parts = BatchParts::new(session, parameters, items.len());
        for item in items {
            parts.push(item, &steps)?;
            steps.pace(&mut slice).await?;
        }
        drop(steps);
        self.run_parts(session, kind, &parts.into_parts(), parameters).await
    }

    /// Returns the level and the timeout of a driver's batch.
    fn level_and_timeout_of_batch(
        &self,
        session: &Session,
        grant: &Grant,
    ) -> Result<LevelAndTimeout, CqlError> {
        let outline = || Outline::of_class(Class::Write);
        self.level_and_timeout(session, grant, grant.found.level_and_timeout(), outline)
    }

    pub(super) async fn run_parts(
        &self,
        session: &Session,
        kind: BatchKind,
        parts: &[BatchPart],
        parameters: &Parameters,
    ) -> Result<Response, CqlError> {
        let audited = self.audited_batch(session, parts);
        let running = pin!(self.run_parts_unaudited(session, kind, parts, parameters));
        let result = match parts.first() {
            Some(part) => {
                let keyspace = part.keyspace.as_deref();
                let of = (&*part.statements, keyspace, parts.len());
                let recording = self.recording(session, of, &parameters.grant);
                let naming = Naming {
                    statements: &part.statements,
                    keyspace: part.keyspace.as_deref(),
                    user: session.user_name(),
                    permit: parameters.grant.permit.as_deref(),
                };
                let result = naming.run(running).await;
                recording.end(self.shared.db.now(), &result);
                result
            }
            None => running.await,
        };
        if let Some(audited) = audited {
            (*audited).end(&result);
        }
        result
    }

    async fn run_parts_unaudited(
        &self,
        session: &Session,
        kind: BatchKind,
        parts: &[BatchPart],
        parameters: &Parameters,
    ) -> Result<Response, CqlError> {
        let grant = &parameters.grant;
        let (level, timeout) = self.level_and_timeout_of_batch(session, grant)?;
        let rights = self.rights(session)?;
        let rights = rights.as_deref();
        let deadline = self.deadline(session, timeout, grant);
        let run = self.shared.db.transaction().label(session.label("BATCH"));
        let run = run.wall_time(parameters.now);
        let run = grant.apply(run, deadline);
        let steps = &self.count_steps_of(deadline, grant);
        let transaction = batch_transaction(parts)?;
        let of_parts = || parts.iter().map(|part| &*part.statements);
        let holders = transaction.and_then(|id| Some((id, self.holders(session, id)?)));
        if let Some((id, holders)) = holders {
            let given = (parameters, deadline);
            let forward = self.forward_batch(session, id, &holders, kind, parts, given);
            return self.forget_stale(Box::pin(forward).await, of_parts());
        }
        let result = match (transaction, parts.first()) {
            (Some(id), Some(first)) => {
                let named = first.statements.named(first.keyspace.as_deref());
                let body =
                    async |tx: Tx| self.run_batch(&tx, kind, (parts, rights), steps, grant).await;
                Box::pin(self.inside(session, id, named, (run, grant), body)).await
            }
            _ if session.transaction().is_some() => Err(not_as_text()),
            _ => {
                let committed = run.try_run(|tx| async move {
                    self.note_begin(grant, &tx);
                    let response = self.run_batch(&tx, kind, (parts, rights), steps, grant).await;
                    self.note(grant, || format!("Made {} changes, committing", parts.len()));
                    response
                });
                let result = committed.await;
                self.note_end(grant, &result);
                result
            }
        };
        self.count_timeout(&level, &result);
        self.forget_stale(self.name_lost_row(result), of_parts())
    }

    async fn run_batch(
        &self,
        tx: &Tx,
        kind: BatchKind,
        (parts, rights): (&[BatchPart], Option<&Rights>),
        steps: &Steps<'_>,
        grant: &Grant,
    ) -> Result<Response, CqlError> {
        let mut plans = Vec::with_capacity(parts.len());
        let mut slice = tx.time_slice();
        // A batch is made at one time.
        let now = self.shared.db.wall_time();
        for BatchPart { statements, keyspace, bound } in parts {
            steps.take(1)?;
            let given = (keyspace.as_deref(), rights);
            let plan = self.plan(tx, statements, given, steps).await?;
            plans.push((plan, Environment { now, ..self.environment(bound, steps) }));
            steps.pace(&mut slice).await?;
        }
        let mut writes: Vec<(&WritePlan, Environment<'_>)> = Vec::with_capacity(parts.len());
        for (plan, environment) in &plans {
            if let Plan::Writes(plans) = &**plan {
                writes.extend(plans.iter().map(|plan| (plan, *environment)));
            }
        }
        check_batch(kind, writes.iter().map(|(plan, _)| *plan))?;
        self.run_writes(tx, &writes, Some(kind), grant).await
    }

    pub(super) async fn run(
        &self,
        session: &Session,
        statements: &Statements,
        keyspace: Option<String>,
        parameters: &Parameters,
    ) -> Result<Response, CqlError> {
        let statement = &statements.parsed.statement;
        let audited = self.audited(session, statement, keyspace.as_deref());
        let result = match self.begin(session, statements, keyspace, parameters) {
            Ok(run) => {
                let recorded = Recorded::new(self, session, statements, &run);
                let running = pin!(self.run_by(session, statements, &run));
                let result = recorded.run(running).await;
                self.count_timeout(&run.level, &result);
                let (large, now) = (&self.shared.large, self.shared.db.now());
                recorded.end(now, &result);
                large.log(now, statements, run.keyspace.as_deref(), &parameters.grant);
                result
            }
            Err(error) => Err(self.not_begun(session, error)),
        };
        if let Some(audited) = audited {
            (*audited).end(&result);
        }
        result
    }

    /// Says in the error of a statement that has not begun that the connection's transaction is open.
    fn not_begun(&self, session: &Session, error: CqlError) -> CqlError {
        match session.transaction() {
            Some(id) => self.still_open(session, id, error),
            None => error,
        }
    }

    /// Resolves what the run of a statement needs, on the heap: each future of the server around it would
    /// move it.
    fn begin<'a>(
        &'a self,
        session: &Session,
        statements: &Statements,
        keyspace: Option<String>,
        parameters: &'a Parameters,
    ) -> Result<Box<Run<'a>>, CqlError> {
        let parsed = &statements.parsed;
        let is_explained = matches!(parsed.statement, Statement::Explain(_));
        let bound = if is_explained && parameters.values == Values::default() {
            // It is explained as far as it does not depend on the values.
            Cow::Owned(vec![Bound::Unset; parsed.markers.len()])
        } else {
            parameters.values.resolve(&parsed.markers)?
        };
        let label = session.label(parsed.statement.kind());
        let grant = &parameters.grant;
        let using = using_timeout(&parsed.statement, &bound)?;
        let found = grant.found.of(&parsed.statement);
        let outline = || Outline::of_statement(&parsed.statement, keyspace.as_deref(), |_| None);
        let (level, timeout) = self.level_and_timeout(session, grant, found, outline)?;
        let rights = self.rights(session)?;
        if let (Some(rights), Some(level)) = (&rights, parsed.statement.level()) {
            self.check_level(rights, level)?;
        }
        let deadline = self.deadline(session, using.or(timeout), grant);
        if let Some(memory) = &grant.memory {
            memory.apply(&level);
        }
        let values = bound.len() as u64;
        let steps = self.count_steps_of(deadline, grant);
        let text_steps = if statements.is_prepared() { 0 } else { parsed.steps };
        steps.take(text_steps + values)?;
        let began = grant.arrived.unwrap_or_else(|| self.shared.db.now());
        let run = Run { label, parameters, bound, keyspace, began, deadline, steps, level, rights };
        Ok(Box::new(run))
    }

    async fn run_by(
        &self,
        session: &Session,
        statements: &Statements,
        run: &Run<'_>,
    ) -> Result<Response, CqlError> {
        // All but reads of rows are in memory of their own, which those do not need.
        if let Some(id) = self.transaction_of(session, statements, run)? {
            if let Some(holders) = self.holders(session, id) {
                return Box::pin(self.forward(session, id, &holders, statements, run)).await;
            }
            return Box::pin(self.join(session, id, statements, run)).await;
        }
        match &statements.parsed.statement {
            Statement::Open(open) => {
                Box::pin(self.open_statement(session, open, (statements, run))).await
            }
            Statement::Select(select) => self.select(select, statements, run).await,
            Statement::Write(write) => {
                self.refuse_system(write.table(), run)?;
                Box::pin(self.write(statements, run)).await
            }
            Statement::Batch(_) => Box::pin(self.write(statements, run)).await,
            Statement::Transaction(_) => Box::pin(self.transaction(statements, run)).await,
            Statement::Use(name) => Box::pin(self.use_keyspace(session, &name.text)).await,
            Statement::Describe(describe) => Box::pin(self.describe(describe, run)).await,
            Statement::Level(level) => Box::pin(self.level_statement(session, level, run)).await,
            Statement::Role(role) => Box::pin(self.role_statement(session, role, run)).await,
            Statement::ShowBottleneck => self.show_bottleneck(run.rights.as_deref()),
            Statement::KillStatement(id) => self.kill_statement(session, id, run),
            Statement::Explain(explained) => {
                Box::pin(self.explain(session, explained, statements, run)).await
            }
            Statement::Unsupported(drop) if drop.has_no_effect => Ok(Response::Void),
            Statement::Unsupported(unsupported) => Err(CqlError::unsupported(&unsupported.what)),
            ddl => Box::pin(self.ddl(ddl, run)).await,
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
        let environment = self.environment(&run.bound, &run.steps);
        let options = run.transaction(&self.shared.db);
        let options = options.bypass_cache(select.bypass_cache);
        let now = run.parameters.now.filter(|_| select.as_of.is_none());
        let options = options.wall_time(state.as_ref().map(|state| state.wall).or(now));
        let at = match &state {
            Some(state) => Some(AsOf::Timestamp(state.snapshot)),
            None => select.as_of.as_ref().map(|term| as_of(term, &environment)).transpose()?,
        };
        let snapshot = match at {
            Some(at) => Box::pin(options.snapshot_as_of_async(at)).await.map_err(|error| {
                let error = CqlError::of_moment(error);
                match state {
                    Some(_) => error.followed_by("; begin the query anew"),
                    None => error,
                }
            })?,
            None => options.snapshot_async(None).await?,
        };
        let is_past = at.is_some();
        let grant = &run.parameters.grant;
        self.note(grant, || {
            format!("Reading the snapshot at timestamp {}", snapshot.read_timestamp())
        });
        let plan = self.plan(&snapshot, statements, run.given(), &run.steps).await;
        // "Unprepared" would repeat for ever: the snapshot has the earlier schema of the table.
        let plan = plan.map_err(|error| match (&state, is_past, error.kind()) {
            (Some(_), _, CqlErrorKind::Unprepared { .. }) => CqlError::invalid(
                "the table has changed since the first page of this result; begin the query anew",
            ),
            (None, true, CqlErrorKind::Unprepared { .. }) => CqlError::invalid(
                "the table had another definition at that time than when the statement was \
                 prepared; send the statement unprepared",
            ),
            _ => error,
        })?;
        let Plan::Select(plan) = &*plan else { return Ok(Response::Void) };
        check_state(state.as_ref(), plan)?;
        if state.as_ref().is_some_and(|state| state.start.is_some()) {
            return Err(paging::invalid("it belongs to a statement of a transaction"));
        }
        if let (Some(memory), Some(warning)) = (&grant.memory, plan.warning()) {
            memory.warn(warning);
        }
        self.note(grant, || {
            format!("Planned the read of {}.{}", plan.table.keyspace, plan.table.name)
        });
        // In memory of its own: the futures of the server around it would move it each.
        let (parameters, state) = (run.parameters, state.as_ref());
        let rows = match plan.system {
            None => Box::pin(select::run(&snapshot, plan, &environment, parameters, state)).await,
            Some(table) => {
                let select = (plan, table);
                Box::pin(self.system_select(&snapshot, select, &environment, (run, state))).await
            }
        };
        let rows =
            rows.map_err(|error| if is_past { CqlError::of_moment(error) } else { error })?;
        self.warn_of_tombstones(&snapshot, 0, (plan, rows.rows.len()), grant);
        self.note(grant, || {
            let more = if rows.paging_state.is_some() { ", and more on the next page" } else { "" };
            format!("Found {} rows{more}", rows.rows.len())
        });
        Ok(Response::Rows(rows))
    }

    /// Returns the open transaction that a statement is part of.
    fn transaction_of(
        &self,
        session: &Session,
        statements: &Statements,
        run: &Run<'_>,
    ) -> Result<Option<Uuid>, CqlError> {
        let statement = &statements.parsed.statement;
        let is_system = |run| match statement {
            Statement::Select(select) => self.is_system(&select.from, run),
            _ => false,
        };
        if let Some(id) = using_transaction(statement, &run.bound)? {
            if is_system(run) {
                return Err(CqlError::invalid("system tables are not part of a transaction"));
            }
            return Ok(Some(id));
        }
        let Some(id) = session.transaction() else { return Ok(None) };
        match statement {
            Statement::Open(_)
            | Statement::Use(_)
            | Statement::Describe(_)
            | Statement::ShowBottleneck
            | Statement::KillStatement(_)
            | Statement::Explain(_)
            | Statement::Unsupported(_) => Ok(None),
            Statement::Select(_) if is_system(run) => Ok(None),
            // Other statements of a driver may share the connection.
            _ if statements.is_prepared() => Err(not_as_text()),
            _ => Ok(Some(id)),
        }
    }

    /// Runs a statement in an open transaction.
    async fn join(
        &self,
        session: &Session,
        id: Uuid,
        statements: &Statements,
        run: &Run<'_>,
    ) -> Result<Response, CqlError> {
        if let Some(refused) = refused_inside(&statements.parsed.statement) {
            return Err(self.still_open(session, id, refused));
        }
        let options = run.transaction(&self.shared.db);
        let options = match &statements.parsed.statement {
            Statement::Select(select) => options.bypass_cache(select.bypass_cache),
            _ => options,
        };
        let named = statements.named(run.keyspace.as_deref());
        let body = async |tx: Tx| match self.run_in(&tx, statements, run).await {
            Err(error) => {
                Err(self.unless_changed(error, statements, run.keyspace.as_deref()).await)
            }
            done => done,
        };
        let options = (options, &run.parameters.grant);
        self.inside(session, id, named, options, body).await
    }

    async fn run_in(
        &self,
        tx: &Tx,
        statements: &Statements,
        run: &Run<'_>,
    ) -> Result<Response, CqlError> {
        let environment = self.environment(&run.bound, &run.steps);
        let state = run.parameters.paging_state.as_ref();
        let state = state.map(PagingState::decode).transpose()?;
        match &*self.plan(tx, statements, run.given(), &run.steps).await? {
            Plan::Select(plan) => {
                check_state(state.as_ref(), plan)?;
                let of_tx = (tx.read_timestamp(), tx.start_timestamp());
                if state.as_ref().is_some_and(|state| (state.snapshot, state.start) != of_tx) {
                    return Err(paging::invalid("it belongs to another transaction"));
                }
                let before = tx.deleted_read();
                let rows =
                    select::run(tx, plan, &environment, run.parameters, state.as_ref()).await?;
                let read = (plan, rows.rows.len());
                self.warn_of_tombstones(tx, before, read, &run.parameters.grant);
                Ok(Response::Rows(rows))
            }
            Plan::Writes(plans) => {
                let writes: Vec<_> = plans.iter().map(|plan| (plan, environment)).collect();
                let kind = batch_kind(&statements.parsed.statement);
                self.run_writes(tx, &writes, kind, &run.parameters.grant).await
            }
            Plan::Transaction(_) => Ok(Response::Void),
        }
    }

    async fn write(&self, statements: &Statements, run: &Run<'_>) -> Result<Response, CqlError> {
        let transaction = run.transaction(&self.shared.db);
        let kind = batch_kind(&statements.parsed.statement);
        let grant = &run.parameters.grant;
        let result = transaction
            .try_run(|tx| async move {
                self.note_begin(grant, &tx);
                let plan = self.plan(&tx, statements, run.given(), &run.steps).await?;
                let Plan::Writes(plans) = &*plan else { return Ok(Response::Void) };
                let environment = self.environment(&run.bound, &run.steps);
                let writes: Vec<_> = plans.iter().map(|plan| (plan, environment)).collect();
                let response = self.run_writes(&tx, &writes, kind, grant).await;
                self.note(grant, || format!("Made {} changes, committing", writes.len()));
                response
            })
            .await;
        self.note_end(grant, &result);
        self.name_lost_row(result)
    }

    /// Runs a statement, or those of a batch of a kind, of which large ones are warned of.
    async fn run_writes(
        &self,
        tx: &Tx,
        writes: &[(&WritePlan, Environment<'_>)],
        batch: Option<BatchKind>,
        grant: &Grant,
    ) -> Result<Response, CqlError> {
        let Some(kind) = batch else { return write::run(tx, writes, Form::Single, None).await };
        let mut size = BatchSize::default();
        let response = write::run(tx, writes, Form::Batch, Some(&mut size)).await?;
        self.warn_of_batch(grant, kind, &size);
        Ok(response)
    }

    async fn transaction(
        &self,
        statements: &Statements,
        run: &Run<'_>,
    ) -> Result<Response, CqlError> {
        let transaction = run.transaction(&self.shared.db);
        let grant = &run.parameters.grant;
        let result = transaction
            .try_run(|tx| async move {
                self.note_begin(grant, &tx);
                let plan = self.plan(&tx, statements, run.given(), &run.steps).await?;
                let Plan::Transaction(plan) = &*plan else { return Ok(Response::Void) };
                let environment = self.environment(&run.bound, &run.steps);
                let response = transaction::run(&tx, plan, &environment, run.parameters).await;
                self.note(grant, || "Ran the transaction, committing".to_owned());
                response
            })
            .await;
        self.note_end(grant, &result);
        self.name_lost_row(result)
    }
}

/// Returns the kind of a batch; `None` for one statement.
const fn batch_kind(statement: &Statement) -> Option<BatchKind> {
    match statement {
        Statement::Batch(batch) => Some(batch.kind),
        _ => None,
    }
}

/// Refuses the paging state of another table.
fn check_state(state: Option<&PagingState>, plan: &SelectPlan) -> Result<(), CqlError> {
    if state.is_some_and(|state| state.table != plan.table.id) {
        return Err(paging::invalid("it belongs to a statement on another table"));
    }
    Ok(())
}

/// Returns the error of a statement that may belong to a client that does not know of the
/// connection's transaction.
fn not_as_text() -> CqlError {
    CqlError::invalid(
        "this connection has an open transaction, whose statements are sent as text; drivers share \
         connections: begin with START DETACHED TRANSACTION, and name it by USING TRANSACTION in each \
         statement",
    )
}

/// Returns why a statement cannot be part of an open transaction.
fn refused_inside(statement: &Statement) -> Option<CqlError> {
    let message = match statement {
        Statement::Select(select) if select.as_of.is_none() => return None,
        Statement::Write(_) | Statement::Batch(_) => return None,
        Statement::Select(_) => {
            "AS OF inside a transaction: all of it reads one moment; use START TRANSACTION AS OF".into()
        }
        Statement::Transaction(_) => {
            "BEGIN TRANSACTION inside a transaction: it is one of its own; send its statements one by \
             one, or COMMIT or ROLLBACK first"
                .into()
        }
        other => format!(
            "{} inside a transaction: it is a transaction of its own; COMMIT or ROLLBACK first",
            other.kind()
        ),
    };
    Some(CqlError::invalid(message))
}
