//! Execution of statements, each as a transaction.
//!
//! ```text
//!   text ── parse ─▶ syntax tree ── compile, with the tables' schemas ─▶ plan ── run in a Tx ─▶ Response
//!                        └───────── kept in a prepared statement ────────┘
//! ```
//!
//! * A `SELECT` reads one snapshot, also across its pages: the paging state contains the snapshot.
//! * A statement that writes runs in a transaction of its own and is retried on conflict; so do a
//!   batch and `BEGIN TRANSACTION`. All its reads (rows whose other columns it keeps, conditions,
//!   `LET`s) are in that transaction, so its decisions still hold at the commit.
//! * The schema of each table is read in that transaction as well. A plan for another version of a
//!   schema is compiled anew; a *prepared* statement is refused with "prepare again" before it
//!   runs, because its client encodes and decodes by the earlier description.

mod answer_memory;
mod applied;
mod cell_queue;
mod condition;
mod ddl;
mod describe;
mod error;
mod grant;
mod large_answers;
mod level;
mod lru;
mod merge;
mod named;
mod outline;
mod paging;
mod parameters;
mod prepared;
mod row;
mod scan;
mod select;
mod service_levels;
mod system;
mod timestamps;
mod transaction;
mod uuids;
mod write;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use carnet::admission::Class;
use carnet::base::{Moment, SeededRng};
use carnet::catalog::{self, TableSchema};
use carnet::{AsOf, Db, Label, Timestamp, TransactionOptions, Tx, Value, WallTime};

pub use answer_memory::AnswerMemory;
pub use error::{CqlError, CqlErrorKind};
pub use grant::{Grant, Timeouts};
pub use level::Terms;
pub use outline::Outline;
pub use parameters::{BatchItem, Bound, Parameters, Session, Values};
pub use prepared::Prepared;
pub use timestamps::Timestamps;

pub(crate) use scan::{Access, Clustering, Partitions};
pub(crate) use uuids::Uuids;

use crate::ast::{BatchKind, Select, Statement, TableName, Transaction, TransactionResult, Write};
use crate::compile::{Compiler, Environment, SelectPlan, Tables, TransactionPlan, WritePlan};
use crate::parser::TERMS_MAX;
use crate::result::Response;
use crate::system::{NodeInfo, Peer};
use applied::Form;
use large_answers::LargeAnswers;
use level::LevelState;
use named::Naming;
use paging::PagingState;
use prepared::{Cache, Statements};

/// Executor of CQL statements on a database. Cheap to clone.
#[derive(Clone)]
pub struct Executor {
    shared: Arc<Shared>,
}

struct Shared {
    db: Db,
    node: NodeInfo,
    timestamps: Timestamps,
    /// Other servers at the last check.
    peers: Mutex<Arc<[Peer]>>,
    uuids: Uuids,
    prepared: Cache,
    timeouts: OnceLock<Timeouts>,
    levels: LevelState,
    large: LargeAnswers,
}

/// Parameters of a statement's run, beside the transaction.
struct Run<'a> {
    label: Option<Label>,
    parameters: &'a Parameters,
    bound: Vec<Bound>,
    keyspace: Option<String>,
    deadline: Option<Moment>,
}

impl Run<'_> {
    /// Returns the options of the statement's transaction.
    fn transaction<'d>(&self, db: &'d Db) -> TransactionOptions<'d> {
        let options = db.transaction().label(self.label.clone());
        self.parameters.grant.apply(options, self.deadline)
    }
}

/// A plan for the schemas that it was compiled with.
enum Plan {
    Select(SelectPlan),
    Writes(Vec<WritePlan>),
    Transaction(TransactionPlan),
}

impl Executor {
    /// Creates an executor for a database, at a node that describes itself by `node`.
    #[must_use]
    pub fn new(db: Db, node: NodeInfo) -> Self {
        Self::with_timestamps(db, node, Timestamps::default())
    }

    /// Like [`Executor::new`], with the treatment of `USING TIMESTAMP`.
    #[must_use]
    pub fn with_timestamps(db: Db, node: NodeInfo, timestamps: Timestamps) -> Self {
        let uuids = Uuids::new(SeededRng::from_entropy());
        let (peers, prepared) = (Mutex::new([].into()), Cache::default());
        let (timeouts, levels) = (OnceLock::new(), LevelState::default());
        let large = LargeAnswers::default();
        let shared =
            Shared { db, node, timestamps, peers, uuids, prepared, timeouts, levels, large };
        Self { shared: Arc::new(shared) }
    }

    /// Returns the database.
    #[must_use]
    pub fn db(&self) -> &Db {
        &self.shared.db
    }

    /// Returns the node's description of itself.
    #[must_use]
    pub fn node(&self) -> &NodeInfo {
        &self.shared.node
    }

    /// Announces this server to the other servers of the database, until it
    /// [withdraws](Db::withdraw) or leaves.
    ///
    /// # Errors
    ///
    /// `Invalid` if the node's names are too long.
    pub fn announce(&self) -> carnet::Result<()> {
        self.shared.db.announce(self.shared.node.announcement())
    }

    /// Checks which other servers of the database announce themselves. Returns the servers of the
    /// previous check and of this one, each in the order of their addresses. `system.peers` shows
    /// the result of this check, so that clients that are notified of a difference can see it.
    #[must_use]
    pub fn look_at_peers(&self) -> (Arc<[Peer]>, Arc<[Peer]>) {
        let now: Arc<[Peer]> = self.shared.node.peers(&self.shared.db.announced()).into();
        let mut peers = self.shared.peers.lock().unwrap_or_else(PoisonError::into_inner);
        (std::mem::replace(&mut *peers, Arc::clone(&now)), now)
    }

    fn peers(&self) -> Arc<[Peer]> {
        Arc::clone(&self.shared.peers.lock().unwrap_or_else(PoisonError::into_inner))
    }

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

    /// Parses a statement once, and determines the types of its markers and result.
    ///
    /// # Errors
    ///
    /// See [`Executor::query`]; `Invalid` for a statement that would take more than a quarter of
    /// the memory for prepared statements.
    pub async fn prepare(
        &self,
        session: &Session,
        text: &str,
        keyspace: Option<&str>,
    ) -> Result<Arc<Prepared>, CqlError> {
        self.shared.prepared.check_text(text)?;
        let statements = Statements::parse(text)?;
        let keyspace = keyspace.map(str::to_owned).or_else(|| session.keyspace());
        let tx = self.shared.db.snapshot_async().await?;
        let described = self.describe_plan(&tx, &statements, keyspace.as_deref()).await?;
        let prepared = Prepared::new(text, keyspace, statements, described);
        self.shared.prepared.keep(text, prepared)
    }

    /// Sets the timeouts of statements that have an arrival time. Only the first call counts.
    ///
    /// Default: no timeout.
    pub fn set_timeouts(&self, timeouts: Timeouts) {
        self.shared.timeouts.get_or_init(|| timeouts);
    }

    fn timeouts(&self) -> Option<&Timeouts> {
        self.shared.timeouts.get()
    }

    /// Limits the memory of prepared statements, in bytes. Above the limit the least recently used
    /// ones are evicted. Default: 64 MiB.
    ///
    /// The bytes of a statement are estimated from its text and columns.
    pub fn set_prepared_bytes_max(&self, bytes_max: usize) {
        self.shared.prepared.set_bytes_max(bytes_max);
    }

    /// Returns the number of cached prepared statements, and their estimated bytes.
    #[must_use]
    pub fn prepared_size(&self) -> (usize, usize) {
        self.shared.prepared.size()
    }

    /// Returns a prepared statement; if it is missing, the client prepares it again.
    #[must_use]
    pub fn prepared(&self, id: &[u8]) -> Option<Arc<Prepared>> {
        self.shared.prepared.find(id)
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
        if kind == BatchKind::Counter {
            return Err(CqlError::unsupported("counter batches"));
        }
        let mut parts = Vec::with_capacity(items.len());
        let mut terms = 0;
        for item in items {
            let (statements, keyspace, values) = match item {
                BatchItem::Text { text, values } => {
                    let keyspace = parameters.keyspace.clone().or_else(|| session.keyspace());
                    let statements = Statements::parse(&text)?;
                    terms += statements.parsed.terms;
                    check_batch_terms(terms)?;
                    (Arc::new(statements), keyspace, values)
                }
                BatchItem::Prepared { prepared, values } => {
                    (Arc::clone(&prepared.statements), prepared.keyspace.clone(), values)
                }
            };
            let Statement::Write(write) = &statements.parsed.statement else {
                return Err(CqlError::invalid(
                    "a batch holds INSERT, UPDATE and DELETE statements only",
                ));
            };
            refuse_limits(write.using().limits())?;
            let bound = values.resolve(&statements.parsed.markers)?;
            parts.push((statements, keyspace, bound));
        }
        let grant = &parameters.grant;
        let outline = Outline::of_class(Class::Write);
        let level = self.level_of(session, &outline)?;
        let deadline = self.deadline(&level, &outline, None, grant);
        let _naming = parts.first().map(|(statements, keyspace, _)| Naming {
            statements,
            keyspace: keyspace.as_deref(),
            permit: grant.permit.as_deref(),
        });
        let run = self.shared.db.transaction().label(session.label("BATCH"));
        let run = grant.apply(run, deadline);
        let result = run.try_run(|tx| {
            let parts = &parts;
            async move {
                let mut writes = Vec::with_capacity(parts.len());
                for (statements, keyspace, bound) in parts {
                    let plan = self.plan(&tx, statements, keyspace.as_deref()).await?;
                    writes.push((plan, self.environment(bound)));
                }
                let writes: Vec<(&WritePlan, Environment<'_>)> = writes
                    .iter()
                    .flat_map(|(plan, environment)| {
                        match &**plan {
                            Plan::Writes(plans) => plans.as_slice(),
                            _ => &[],
                        }
                        .iter()
                        .map(|plan| (plan, *environment))
                    })
                    .collect();
                write::run(&tx, &writes, Form::Batch).await
            }
        });
        let result = result.await;
        self.count_timeout(&level, &result);
        self.forget_stale(result)
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
        let using = level::using_timeout(&parsed.statement, &bound)?;
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
        self.log_if_large(statements, keyspace.as_deref(), grant);
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
            Statement::Batch(batch) => {
                if batch.kind == BatchKind::Counter {
                    return Err(CqlError::unsupported("counter batches"));
                }
                self.write(statements, run).await
            }
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
                "the table had another definition at that time than the prepared statement; send \
                 the statement unprepared",
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

    fn environment<'a>(&'a self, bound: &'a [Bound]) -> Environment<'a> {
        Environment {
            bound,
            now: self.shared.db.wall_time(),
            uuids: &self.shared.uuids,
            row: None,
            lets: &[],
        }
    }

    /// Returns the plan of a statement for the schemas that a transaction sees.
    async fn plan(
        &self,
        tx: &Tx,
        statements: &Statements,
        keyspace: Option<&str>,
    ) -> Result<Arc<Plan>, CqlError> {
        let tables = self.tables(tx, &statements.parsed.statement, keyspace).await?;
        statements.check_promised(&tables)?;
        if let Some(plan) = statements.cached_plan(&tables) {
            return Ok(plan);
        }
        let mut compiler = Compiler::new(self.shared.timestamps);
        let plan = compile(&mut compiler, &statements.parsed.statement, &tables)?;
        compiler.finish(statements.parsed.markers.len())?;
        Ok(statements.keep_plan(tables, plan))
    }

    /// Returns a statement's markers and, if it returns rows, their columns.
    async fn describe_plan(
        &self,
        tx: &Tx,
        statements: &Statements,
        keyspace: Option<&str>,
    ) -> Result<prepared::Described, CqlError> {
        let statement = &statements.parsed.statement;
        let count = statements.parsed.markers.len();
        if let Statement::Select(select) = statement
            && let Some(table) = self.find_system(&select.from, keyspace)
        {
            return system::describe(select, table, count);
        }
        if *statement == Statement::ShowBottleneck {
            let result = crate::system::bottleneck_columns();
            return Ok(prepared::Described { result, ..prepared::Described::default() });
        }
        if !matches!(
            statement,
            Statement::Select(_)
                | Statement::Write(_)
                | Statement::Batch(_)
                | Statement::Transaction(_)
        ) {
            return Ok(prepared::Described::default());
        }
        let tables = self.tables(tx, statement, keyspace).await?;
        let mut compiler = Compiler::new(self.shared.timestamps);
        let plan = compile(&mut compiler, statement, &tables)?;
        let markers = compiler.finish(count)?;
        let result = match &plan {
            Plan::Select(plan) => plan.columns.clone(),
            Plan::Writes(_) => Vec::new(),
            Plan::Transaction(plan) => transaction::result_columns(plan),
        };
        let partition_key = partition_key_markers(&plan, &tables);
        Ok(prepared::Described { markers, partition_key, result, tables })
    }

    /// Reads the schemas of a statement's tables, in the transaction that will use them.
    async fn tables(
        &self,
        tx: &Tx,
        statement: &Statement,
        keyspace: Option<&str>,
    ) -> Result<Tables, CqlError> {
        let mut tables = Tables::new();
        for name in table_names(statement) {
            let schema = find_table(tx, name, keyspace).await?;
            tables.insert(crate::compile::table_key(name), schema);
        }
        Ok(tables)
    }
}

/// Refuses a timeout or level of a part: a batch or transaction runs as a whole.
fn refuse_limits(are_given: bool) -> Result<(), CqlError> {
    if !are_given {
        return Ok(());
    }
    Err(CqlError::invalid(
        "USING TIMEOUT and SERVICE LEVEL belong to the whole batch, not to a statement in it; a \
         transaction has neither",
    ))
}

/// Refuses a batch whose statements have too many terms in total.
fn check_batch_terms(terms: usize) -> Result<(), CqlError> {
    if terms <= TERMS_MAX {
        return Ok(());
    }
    Err(CqlError::invalid(format!(
        "the statements of the batch have more than {TERMS_MAX} terms together; send them in \
         several batches, or prepare them"
    )))
}

/// Evaluates an `AS OF`.
fn as_of(select: &Select, environment: &Environment<'_>) -> Result<Option<AsOf>, CqlError> {
    let Some(term) = &select.as_of else { return Ok(None) };
    let wrong = || CqlError::invalid(format!("AS OF {term}: it is no moment of the past"));
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

fn compile<'a>(
    compiler: &mut Compiler<'a>,
    statement: &Statement,
    tables: &'a Tables,
) -> Result<Plan, CqlError> {
    let table = |name: &TableName| {
        tables
            .get(&crate::compile::table_key(name))
            .ok_or_else(|| CqlError::invalid(format!("table {name} does not exist")))
    };
    let write =
        |compiler: &mut Compiler<'a>, write: &Write| compiler.write(write, table(write.table())?);
    Ok(match statement {
        Statement::Select(select) => Plan::Select(compiler.select(select, table(&select.from)?)?),
        Statement::Write(one) => Plan::Writes(vec![write(compiler, one)?]),
        Statement::Batch(batch) => {
            compiler.check_using(&batch.using)?;
            batch.writes.iter().try_for_each(|write| refuse_limits(write.using().limits()))?;
            let writes = batch.writes.iter().map(|one| write(compiler, one));
            Plan::Writes(writes.collect::<Result<_, _>>()?)
        }
        Statement::Transaction(transaction) => {
            transaction.writes().try_for_each(|write| refuse_limits(write.using().limits()))?;
            let mut reads = selects_of(transaction);
            reads.try_for_each(|read| {
                refuse_limits(read.timeout.is_some() || read.level.is_some())
            })?;
            Plan::Transaction(compiler.transaction(transaction, tables)?)
        }
        _ => return Err(CqlError::invalid("the statement has no plan")),
    })
}

/// Returns the queries of a transaction.
fn selects_of(transaction: &Transaction) -> impl Iterator<Item = &Select> {
    let lets = transaction.lets.iter().map(|read| &read.select);
    let result = match &transaction.result {
        Some(TransactionResult::Select(select)) => Some(&**select),
        _ => None,
    };
    lets.chain(result)
}

/// Returns the tables that a statement reads and changes.
fn table_names(statement: &Statement) -> Vec<&TableName> {
    match statement {
        Statement::Select(select) => vec![&select.from],
        Statement::Write(write) => vec![write.table()],
        Statement::Batch(batch) => batch.writes.iter().map(Write::table).collect(),
        Statement::Transaction(transaction) => {
            let read = selects_of(transaction).map(|select| &select.from);
            read.chain(transaction.writes().map(Write::table)).collect()
        }
        _ => Vec::new(),
    }
}

async fn find_table(
    tx: &Tx,
    name: &TableName,
    keyspace: Option<&str>,
) -> Result<Arc<TableSchema>, CqlError> {
    let keyspace = name.keyspace.as_ref().map(|keyspace| keyspace.text.as_str()).or(keyspace);
    let Some(keyspace) = keyspace else {
        return Err(CqlError::invalid(format!(
            "No keyspace has been specified. USE a keyspace, or explicitly specify \
             keyspace.tablename (table {})",
            name.table.text
        )));
    };
    let table = &name.table.text;
    if crate::system::is_system_keyspace(keyspace) {
        return Err(CqlError::unsupported(format!(
            "system table {keyspace}.{table} in a statement other than SELECT"
        )));
    }
    let found = catalog::table(tx, keyspace, table).await?;
    let schema = found
        .ok_or_else(|| CqlError::invalid(format!("table {keyspace}.{table} does not exist")))?;
    if schema.kind == catalog::TableKind::Raw {
        return Err(CqlError::unsupported(format!(
            "raw table {keyspace}.{table} through CQL; it holds bytes without columns"
        )));
    }
    Ok(schema)
}

/// Returns the markers of the partition key of a statement's only table, in column order, if each
/// column has one: drivers use them to find the owner of a row.
fn partition_key_markers(plan: &Plan, tables: &Tables) -> Vec<u16> {
    let mut schemas: Vec<&Arc<TableSchema>> = tables.values().collect();
    schemas.dedup_by_key(|schema| schema.id);
    if schemas.len() != 1 {
        return Vec::new();
    }
    let markers = match plan {
        Plan::Select(select) => select.filter.partition_markers(),
        // The last statement counts, like in Cassandra.
        Plan::Writes(writes) => writes.iter().rev().find_map(WritePlan::partition_markers),
        Plan::Transaction(transaction) => transaction.partition_markers(),
    };
    markers.unwrap_or_default()
}

#[cfg(test)]
mod tests;
