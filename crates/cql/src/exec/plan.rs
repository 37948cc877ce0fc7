//! Plans of statements: compiling, caching, and the description for `PREPARE`.

use std::sync::Arc;

use carnet::Tx;
use carnet::catalog::{self, TableSchema};
use carnet::roles::Rights;

use super::authorize::check_rows;
use super::executor::Executor;
use super::parameters::Session;
use super::prepared::{Described, Prepared, Statements};
use super::{explain, session, transaction};
use crate::ast::{Statement, TableName, Write};
use crate::compile::{Compiler, Plan, Tables, WritePlan, check_batch, set_batch_time, table_key};
use crate::cql_error::CqlError;
use crate::steps::Steps;

impl Executor {
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
        let steps = self.count_steps(None);
        let statements = Statements::parse(text)?;
        steps.take(statements.parsed.steps)?;
        let keyspace = keyspace.map(str::to_owned).or_else(|| session.keyspace());
        let tx = self.shared.db.snapshot_async().await?;
        let described = self.describe_plan(&tx, &statements, keyspace.as_deref(), &steps).await?;
        let prepared = Prepared::new(text, keyspace, statements, described);
        self.shared.prepared.keep(text, prepared)
    }

    /// Returns the plan of a statement for the schemas that a transaction sees, if the role may run it.
    pub(super) async fn plan(
        &self,
        tx: &Tx,
        statements: &Statements,
        (keyspace, rights): (Option<&str>, Option<&Rights>),
        steps: &Steps<'_>,
    ) -> Result<Arc<Plan>, CqlError> {
        let check = |tables: &Tables| check_rows(rights, &statements.parsed.statement, tables);
        if let Some(plan) = statements.pinned_plan(tx, check)? {
            return Ok(plan);
        }
        // In memory of its own, which nearly all runs do not need.
        let tables = Box::pin(self.tables(tx, &statements.parsed.statement, keyspace)).await?;
        check(&tables)?;
        statements.check_promised(&tables)?;
        if let Some(plan) = statements.cached_plan(tx, &tables) {
            return Ok(plan);
        }
        let mut compiler = Compiler::new(self.shared.timestamps, steps);
        let plan = compile(&mut compiler, &statements.parsed.statement, &tables)?;
        compiler.finish(statements.parsed.markers.len())?;
        let plan = statements.keep_plan(tx, tables, Arc::new(plan));
        if steps.are_many() {
            // In memory of its own, which short statements do not need.
            Box::pin(pace(tx, steps)).await?;
        }
        Ok(plan)
    }

    /// Returns a statement's markers and, if it returns rows, their columns.
    async fn describe_plan(
        &self,
        tx: &Tx,
        statements: &Statements,
        keyspace: Option<&str>,
        steps: &Steps<'_>,
    ) -> Result<Described, CqlError> {
        let statement = &statements.parsed.statement;
        let count = statements.parsed.markers.len();
        if let Statement::Open(open) = statement {
            return session::describe(open, count, steps);
        }
        if let Statement::KillStatement(id) = statement {
            return session::describe_kill(id, count, steps);
        }
        if *statement == Statement::ShowBottleneck {
            let result = crate::system::bottleneck_columns();
            return Ok(Described { result, ..Described::default() });
        }
        if !matches!(
            statement.planned(),
            Statement::Select(_)
                | Statement::Write(_)
                | Statement::Batch(_)
                | Statement::Transaction(_)
        ) {
            return Ok(Described::default());
        }
        let tables = self.tables(tx, statement, keyspace).await?;
        let mut compiler = Compiler::new(self.shared.timestamps, steps);
        let plan = compile(&mut compiler, statement, &tables)?;
        let markers = compiler.finish(count)?;
        let result = match &plan {
            _ if matches!(statement, Statement::Explain(_)) => explain::columns().to_vec(),
            Plan::Select(plan) => plan.columns.to_vec(),
            Plan::Writes(_) => Vec::new(),
            Plan::Transaction(plan) => transaction::result_columns(plan),
        };
        let partition_key = partition_key_markers(&plan, &tables);
        Ok(Described { markers, partition_key, result, tables })
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
            if tables.contains_key(&table_key(name)) {
                continue;
            }
            let schema = match (statement.planned(), find_system(name, keyspace)) {
                (Statement::Select(_), Some(schema)) => Arc::clone(schema),
                _ => find_table(tx, name, keyspace).await?,
            };
            tables.insert(table_key(name), schema);
        }
        Ok(tables)
    }
}

async fn pace(tx: &Tx, steps: &Steps<'_>) -> Result<(), CqlError> {
    steps.pace(&mut tx.time_slice()).await
}

/// Refuses a timeout, level or transaction of a part: a batch or transaction runs as a whole.
fn refuse_parts(are_given: bool) -> Result<(), CqlError> {
    if !are_given {
        return Ok(());
    }
    Err(CqlError::invalid(
        "USING TIMEOUT, TRANSACTION and SERVICE LEVEL belong to the whole batch, not to a statement \
         in it; a transaction has none of them",
    ))
}

fn compile<'a>(
    compiler: &mut Compiler<'a>,
    statement: &Statement,
    tables: &'a Tables,
) -> Result<Plan, CqlError> {
    let table = |name: &TableName| {
        tables
            .get(&table_key(name))
            .ok_or_else(|| CqlError::invalid(format!("table {name} does not exist")))
    };
    let write =
        |compiler: &mut Compiler<'a>, write: &Write| compiler.write(write, table(write.table())?);
    Ok(match statement.planned() {
        Statement::Select(select) => Plan::Select(compiler.select(select, table(&select.from)?)?),
        Statement::Write(one) => Plan::Writes(vec![write(compiler, one)?]),
        Statement::Batch(batch) => {
            let write_time = compiler.using(&batch.using)?;
            batch
                .writes
                .iter()
                .try_for_each(|write| refuse_parts(write.using().concerns_whole()))?;
            let writes = batch.writes.iter().map(|one| write(compiler, one));
            let mut writes: Vec<WritePlan> = writes.collect::<Result<_, _>>()?;
            set_batch_time(&mut writes, &write_time)?;
            check_batch(batch.kind, writes.iter())?;
            Plan::Writes(writes)
        }
        Statement::Transaction(transaction) => {
            transaction
                .writes()
                .try_for_each(|write| refuse_parts(write.using().concerns_whole()))?;
            let mut reads = transaction.selects();
            reads.try_for_each(|read| refuse_parts(read.using.concerns_whole()))?;
            Plan::Transaction(compiler.transaction(transaction, tables)?)
        }
        _ => return Err(CqlError::invalid("the statement has no plan")),
    })
}

/// Returns the tables that a statement reads and changes.
fn table_names(statement: &Statement) -> Vec<&TableName> {
    match statement.planned() {
        Statement::Select(select) => vec![&select.from],
        Statement::Write(write) => vec![write.table()],
        Statement::Batch(batch) => batch.writes.iter().map(Write::table).collect(),
        Statement::Transaction(transaction) => {
            let read = transaction.selects().map(|select| &select.from);
            read.chain(transaction.writes().map(Write::table)).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the schema of a system table.
fn find_system<'n>(
    name: &'n TableName,
    keyspace: Option<&'n str>,
) -> Option<&'static Arc<TableSchema>> {
    let keyspace = name.keyspace.as_ref().map(|keyspace| keyspace.text.as_str()).or(keyspace)?;
    crate::system::find_schema(keyspace, &name.table.text)
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
        if crate::system::find(keyspace, table).is_none() {
            return Err(CqlError::invalid(format!("table {keyspace}.{table} does not exist")));
        }
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
