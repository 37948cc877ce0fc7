//! The driver's session: prepared statements, bound values, classified errors.
//!
//! The driver has its own runtime, so callers need none: a call enters that runtime while it is
//! polled, so that the driver finds its timers. The driver's retries are disabled. If a retry
//! failed for certain the driver would report only that, although the first try may have taken
//! effect. Reads have no effect: one that is not answered soon is also sent to another node.
//!
//! A node may hang, and keep its connections open. The driver asks each connection for a sign of
//! life twice in a keepalive time, and closes it after a keepalive time without one. So a request
//! waits for a node that hangs for one and a half keepalive times at most.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use carnet_base::sync::{read, write};
use carnet_base::{Bytes, Clock, Error, ErrorKind, Result};
use carnet_store::cluster::{Fault, Faulty};
use futures::future::join_all;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session as Driver;
use scylla::client::session_builder::SessionBuilder;
use scylla::cluster::Node;
use scylla::cluster::metadata::ColumnType;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::policies::load_balancing::{
    DefaultPolicy, NodeIdentifier, SingleTargetLoadBalancingPolicy,
};
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::policies::speculative_execution::SimpleSpeculativeExecutionPolicy;
use scylla::response::query_result::{QueryResult, QueryRowsResult};
use scylla::response::{PagingState, PagingStateResponse};
use scylla::serialize::SerializationError;
use scylla::serialize::value::SerializeValue;
use scylla::serialize::writers::{CellWriter, WrittenCellProof};
use scylla::statement::batch::{Batch, BatchStatement, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, SerialConsistency};
use scylla::value::Row;
use tokio::runtime::{Builder, Runtime};

use crate::answer::ResultSet;
use crate::fault::{Access, fault_of, misunderstood};
use crate::options::{CqlOptions, Credentials, Quorum};
use crate::request_settings::RequestSettings;
use crate::requests::{Nodes, RequestCounters};
use crate::statement::Statement;
use crate::timing::{in_time, pause};
use crate::tls;

/// Timeout for the nodes to agree on a schema.
const SCHEMA_TIMEOUT: Duration = Duration::from_secs(60);

/// Interval between checks of the schema.
const SCHEMA_INTERVAL: Duration = Duration::from_millis(50);

/// Timeout for a node to tell a setting, about which there is only a warning.
const SETTING_TIMEOUT: Duration = Duration::from_secs(1);

/// Number of tries of a request that no node answered; the waits between them double.
const TRIES: u32 = 5;
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// Time after which a read is also sent to another node.
const SPECULATE_AFTER: Duration = Duration::from_millis(500);

/// Minimum time for a new connection, which may need several round trips and a password's hash.
const CONNECT_TIMEOUT_MIN: Duration = Duration::from_secs(2);

/// A value to bind.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bind<'a> {
    Long(i64),
    Int(i32),
    Flag(bool),
    Text(&'a str),
    Blob(&'a [u8]),
    Blobs(&'a [Bytes]),
    Slices(&'a [&'a [u8]]),
    Null,
}

impl SerializeValue for Bind<'_> {
    fn serialize<'b>(
        &self,
        kind: &ColumnType<'_>,
        writer: CellWriter<'b>,
    ) -> Result<WrittenCellProof<'b>, SerializationError> {
        match self {
            Self::Long(number) => number.serialize(kind, writer),
            Self::Int(number) => number.serialize(kind, writer),
            Self::Flag(flag) => flag.serialize(kind, writer),
            Self::Text(text) => text.serialize(kind, writer),
            Self::Blob(bytes) => bytes.serialize(kind, writer),
            Self::Blobs(list) => list.serialize(kind, writer),
            Self::Slices(list) => list.serialize(kind, writer),
            Self::Null => Ok(writer.set_null()),
        }
    }
}

/// A session with a cluster.
pub(crate) struct Session {
    driver: Driver,
    keyspace: String,
    prepared: RwLock<HashMap<Statement, PreparedStatement>>,
    request_timeout: Duration,
    quorum: Quorum,
    pub(crate) requests: Arc<RequestCounters>,
    clock: Arc<dyn Clock>,
    /// Taken when the session ends.
    runtime: Option<Runtime>,
}

impl Session {
    pub(crate) async fn connect(options: &CqlOptions, clock: Arc<dyn Clock>) -> Result<Self> {
        let tls = options.tls.as_ref().map(tls::client_config).transpose()?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(options.threads)
            .thread_name("carnet-cql")
            .enable_all()
            .build()
            .map_err(|error| {
                Error::unavailable("cannot start the threads of the cluster's driver")
                    .with_source(error)
            })?;
        let builder = builder(options).tls_context(tls);
        let connected = within(&runtime, builder.build()).await;
        let driver = match connected {
            Ok(driver) => driver,
            Err(error) => {
                runtime.shutdown_background();
                let points = options.contact_points.join(", ");
                let message = format!("no cluster answers at {points}");
                return Err(Error::unavailable(message).with_source(error));
            }
        };
        Ok(Self {
            driver,
            keyspace: options.keyspace.clone(),
            prepared: RwLock::default(),
            request_timeout: options.request_timeout,
            quorum: options.quorum,
            requests: Arc::new(RequestCounters::of_consistency(options.consistency())),
            clock,
            runtime: Some(runtime),
        })
    }

    pub(crate) fn keyspace(&self) -> &str {
        &self.keyspace
    }

    /// Returns the settings of a read at a quorum.
    pub(crate) const fn read(&self) -> RequestSettings {
        self.how(Access::Read)
    }

    /// Returns `true` if any node is a ScyllaDB node.
    pub(crate) fn is_scylla(&self) -> bool {
        self.driver.get_cluster_state().get_nodes_info().iter().any(|node| node.sharder().is_some())
    }

    /// Returns the settings of a read of data that every node has.
    pub(crate) const fn read_any(&self) -> RequestSettings {
        RequestSettings { consistency: Consistency::One, ..self.read() }
    }

    /// Returns the settings of a blind write at a quorum.
    pub(crate) const fn blind(&self) -> RequestSettings {
        self.how(Access::Blind)
    }

    /// Returns the settings of a conditional write, serial and at a quorum.
    pub(crate) const fn conditional(&self) -> RequestSettings {
        self.how(Access::Conditional)
    }

    /// Returns the settings of a read that sees every answered conditional write, and settles the
    /// others.
    pub(crate) const fn serial(&self) -> RequestSettings {
        let consistency = match self.quorum {
            Quorum::OfAll => Consistency::Serial,
            Quorum::OfLocalDatacenter => Consistency::LocalSerial,
        };
        RequestSettings { consistency, ..self.read() }
    }

    const fn how(&self, access: Access) -> RequestSettings {
        let consistency = match self.quorum {
            Quorum::OfAll => Consistency::Quorum,
            Quorum::OfLocalDatacenter => Consistency::LocalQuorum,
        };
        RequestSettings { access, consistency, timeout: self.request_timeout }
    }

    /// Runs a `CREATE … IF NOT EXISTS`, and waits until every node knows the change. It is repeated if
    /// its connection breaks: a busy node may be silent for longer than the keepalive meanwhile, and
    /// the driver needs a moment to connect again.
    pub(crate) async fn create(&self, text: &str) -> Result<()> {
        let change = || self.within(self.driver.query_unpaged(text, ()));
        let may_pass = |error: &ExecutionError| is_of_connection(error) || is_overloaded(error);
        let changed = repeat(change, may_pass, |wait| self.within(pause(wait))).await;
        changed.map_err(|error| {
            Error::unavailable(format!("cannot change the schema: {text}")).with_source(error)
        })?;
        self.await_schema().await
    }

    /// Waits until a table whose name is in the schema can be used.
    ///
    /// A node stores a table that another node created before it uses the table, and announces the
    /// schema's new version last: until then nodes agree on the old version.
    pub(crate) async fn await_table(&self, name: &str) -> Result<()> {
        let text = format!("SELECT * FROM {}.{name} LIMIT 1", self.keyspace);
        let asked = self.within(async {
            let mut failed = None;
            let asking = async {
                loop {
                    let preparing =
                        in_time(self.request_timeout, self.driver.prepare(text.as_str()));
                    match preparing.await {
                        Some(Ok(_)) => return,
                        Some(Err(error)) => {
                            tracing::debug!(name, %error, "a table cannot be used yet");
                            failed = Some(error);
                        }
                        None => tracing::debug!(name, "no node prepared a read of a table in time"),
                    }
                    pause(SCHEMA_INTERVAL).await;
                }
            };
            match (in_time(SCHEMA_TIMEOUT, asking).await, failed) {
                (Some(()), _) => Ok(()),
                (None, Some(error)) => Err(unusable(name).with_source(error)),
                (None, None) => Err(unusable(name)),
            }
        });
        asked.await?;
        self.await_schema().await
    }

    /// Waits until all reachable nodes have the same schema.
    pub(crate) async fn await_schema(&self) -> Result<()> {
        // The driver itself waits for agreement, and ends at once with some errors of connections.
        let agree = || self.within(self.driver.await_schema_agreement());
        let agreeing = Box::pin(repeat(agree, |_| true, |wait| self.within(pause(wait))));
        let disagree = || Error::unavailable("the nodes do not agree on a schema");
        match self.within(in_time(SCHEMA_TIMEOUT, agreeing)).await {
            Some(agreed) => agreed.map(|_| ()).map_err(|error| disagree().with_source(error)),
            None => Err(disagree()),
        }
    }

    /// Retries a call that may be repeated: the node that was asked may just have died, or have too
    /// much to do, and the driver picks another the next time.
    pub(crate) async fn retry<T, F>(&self, ask: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let may_pass = |error: &Error| {
            matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Overloaded { .. })
        };
        repeat(ask, may_pass, |wait| self.within(pause(wait))).await
    }

    /// Returns the output of a call, or `None` if it takes longer than a request may.
    pub(crate) async fn in_request_time<F: Future>(&self, call: F) -> Option<F::Output> {
        self.within(in_time(self.request_timeout, call)).await
    }

    /// Loads the locations of the keyspace's replicas, so that requests go directly to one of them.
    pub(crate) async fn learn_replicas(&self) -> Result<()> {
        let learn = || self.within(self.driver.refresh_metadata());
        let learned = repeat(learn, |_| true, |wait| self.within(pause(wait))).await;
        learned.map_err(|error| {
            Error::unavailable("cannot read where the replicas are").with_source(error)
        })
    }

    /// Returns the nodes of the cluster.
    pub(crate) fn nodes(&self) -> Vec<Arc<Node>> {
        self.driver.get_cluster_state().get_nodes_info().to_vec()
    }

    /// Counts the nodes, and those with a connection.
    pub(crate) fn count_nodes(&self) -> Nodes {
        let state = self.driver.get_cluster_state();
        let nodes = state.get_nodes_info();
        let connected = nodes.iter().filter(|node| node.is_connected()).count();
        Nodes { known: nodes.len(), connected }
    }

    /// Runs a statement and returns its rows.
    pub(crate) async fn rows(
        &self,
        how: RequestSettings,
        statement: Statement,
        values: &[Bind<'_>],
    ) -> Faulty<QueryRowsResult> {
        let result = self.run(how, statement, values).await?;
        result.into_rows_result().map_err(|error| misunderstood(how.access, error))
    }

    /// Returns a setting of a node, if it tells it.
    pub(crate) async fn setting(&self, node: &Arc<Node>, name: &str) -> Option<String> {
        let asking = Box::pin(self.ask_setting(node, name));
        let told = self.within(in_time(SETTING_TIMEOUT, asking)).await?;
        let told = told.inspect_err(|why| tracing::debug!(why, "a node tells no settings"));
        let rows = told.ok()?.into_rows_result().ok()?;
        let (value,) = rows.maybe_first_row::<(Option<String>,)>().ok()??;
        value
    }

    /// Asks one node for a setting. Its failures say nothing about the cluster's health, and are not counted: a
    /// role may not be allowed to read settings.
    async fn ask_setting(&self, node: &Arc<Node>, name: &str) -> Result<QueryResult, String> {
        let how = self.read_any();
        let prepared = self.prepare(how, Statement::Setting).await;
        let mut prepared = prepared.map_err(|fault| fault.to_string())?;
        how.apply(&mut prepared);
        let target = NodeIdentifier::Node(Arc::clone(node));
        prepared
            .set_load_balancing_policy(Some(SingleTargetLoadBalancingPolicy::new(target, None)));
        let values: &[Bind<'_>] = &[Bind::Text(name)];
        let ask = || self.within(self.driver.execute_unpaged(&prepared, values));
        let asked = repeat(ask, is_of_connection, |wait| self.within(pause(wait))).await;
        asked.map_err(|error| error.to_string())
    }

    /// Runs a conditional statement.
    pub(crate) async fn decide(
        &self,
        statement: Statement,
        values: &[Bind<'_>],
    ) -> Faulty<ResultSet> {
        answer_of(self.run(self.conditional(), statement, values).await?)
    }

    async fn run(
        &self,
        how: RequestSettings,
        statement: Statement,
        values: &[Bind<'_>],
    ) -> Faulty<QueryResult> {
        let mut prepared = self.prepare(how, statement).await?;
        how.apply(&mut prepared);
        self.requests.count(how);
        let ran = self.within(self.driver.execute_unpaged(&prepared, values)).await;
        self.requests.ended(how, || self.clock.now(), &ran);
        ran.map_err(|error| fault_of(how.access, error))
    }

    /// Runs statements of one partition atomically.
    pub(crate) async fn batch(
        &self,
        how: RequestSettings,
        statements: &[(Statement, Vec<Bind<'_>>)],
    ) -> Faulty<QueryResult> {
        // An unlogged batch: it is one mutation of one partition, so no batch log is needed.
        let mut batch = Batch::new(BatchType::Unlogged);
        for (statement, _) in statements {
            let prepared = self.prepare(how, *statement).await?;
            batch.append_statement(BatchStatement::PreparedStatement(prepared));
        }
        batch.set_consistency(how.consistency);
        batch.set_request_timeout(Some(how.timeout));
        self.requests.count(how);
        let values: Vec<&[Bind<'_>]> = statements.iter().map(|(_, values)| &values[..]).collect();
        let ran = self.within(self.driver.batch(&batch, values)).await;
        self.requests.ended(how, || self.clock.now(), &ran);
        ran.map_err(|error| fault_of(how.access, error))
    }

    /// Runs conditional statements of one partition atomically.
    pub(crate) async fn decide_batch(
        &self,
        statements: &[(Statement, Vec<Bind<'_>>)],
    ) -> Faulty<ResultSet> {
        answer_of(self.batch(self.conditional(), statements).await?)
    }

    /// Prepares the statements that a process needs to lead. Preparing takes as long as the slowest
    /// node; a process that takes over because a node hangs should not have to.
    pub(crate) async fn prepare_ahead(&self) {
        let prepare = async |statement| {
            if let Err(fault) = self.prepare(self.read(), statement).await {
                tracing::debug!(%fault, "a statement is prepared when it is needed");
            }
        };
        join_all(Statement::of_a_leader().map(prepare)).await;
    }

    async fn prepare(
        &self,
        how: RequestSettings,
        statement: Statement,
    ) -> Faulty<PreparedStatement> {
        let known = || read(&self.prepared);
        let prepared = known().get(&statement).cloned();
        if let Some(prepared) = prepared {
            return Ok(prepared);
        }
        let prepared = self.prepare_text(how, statement.text(&self.keyspace)).await?;
        let mut known = write(&self.prepared);
        Ok(known.entry(statement).or_insert(prepared).clone())
    }

    /// Prepares a statement that the caller keeps.
    pub(crate) async fn prepare_text(
        &self,
        how: RequestSettings,
        text: String,
    ) -> Faulty<PreparedStatement> {
        match self.within(in_time(how.timeout, self.driver.prepare(text))).await {
            Some(Ok(prepared)) => Ok(prepared),
            Some(Err(error)) => {
                let failed = Err(ExecutionError::PrepareError(error));
                self.requests.ended(how, || self.clock.now(), &failed);
                failed.map_err(|error| fault_of(how.access, error))
            }
            // The statement itself was not sent.
            None => Err(Fault::failed("no node prepared a statement in time")),
        }
    }

    /// Reads a page of at most `rows_max` rows.
    pub(crate) async fn page(
        &self,
        how: RequestSettings,
        mut prepared: PreparedStatement,
        values: &[Bind<'_>],
        page_rows: i32,
        state: PagingState,
    ) -> Result<(QueryResult, PagingStateResponse), ExecutionError> {
        how.apply(&mut prepared);
        prepared.set_page_size(page_rows);
        self.requests.count(how);
        let read = self.within(self.driver.execute_single_page(&prepared, values, state)).await;
        self.requests.ended(how, || self.clock.now(), &read);
        read
    }

    pub(crate) fn runtime(&self) -> tokio::runtime::Handle {
        self.runtime.as_ref().expect("taken by drop alone").handle().clone()
    }

    async fn within<F: Future>(&self, call: F) -> F::Output {
        let runtime = self.runtime.as_ref().expect("taken by drop alone");
        within(runtime, call).await
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Waiting for the runtime's threads would block a caller that may be a task of another
        // runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Polls a call inside the runtime, where the driver finds its timers.
async fn within<F: Future>(runtime: &Runtime, call: F) -> F::Output {
    let mut call = pin!(call);
    poll_fn(|context| {
        let _inside = runtime.enter();
        call.as_mut().poll(context)
    })
    .await
}

fn builder(options: &CqlOptions) -> SessionBuilder {
    let (is_local, serial) = match options.quorum {
        Quorum::OfAll => (false, SerialConsistency::Serial),
        Quorum::OfLocalDatacenter => (true, SerialConsistency::LocalSerial),
    };
    let mut nodes = DefaultPolicy::builder().token_aware(true);
    if let Some(datacenter) = &options.local_datacenter {
        // A node of another datacenter would ask the majority of *its* datacenter.
        nodes = nodes.prefer_datacenter(datacenter.clone()).permit_dc_failover(!is_local);
    }
    let profile = ExecutionProfile::builder()
        .consistency(Consistency::Quorum)
        .serial_consistency(Some(serial))
        .retry_policy(Arc::new(FallthroughRetryPolicy::new()))
        .speculative_execution_policy(Some(Arc::new(SimpleSpeculativeExecutionPolicy {
            max_retry_count: 1,
            retry_interval: SPECULATE_AFTER,
        })))
        .load_balancing_policy(nodes.build())
        .request_timeout(Some(SCHEMA_TIMEOUT))
        .build();
    let mut builder = SessionBuilder::new()
        .known_nodes(&options.contact_points)
        .default_execution_profile_handle(profile.into_handle())
        .keyspaces_to_fetch([&options.keyspace])
        .keepalive_interval(options.keepalive / 2)
        .keepalive_timeout(options.keepalive)
        .connection_timeout(CONNECT_TIMEOUT_MIN.max(2 * options.keepalive))
        .schema_agreement_interval(SCHEMA_INTERVAL)
        .schema_agreement_timeout(SCHEMA_TIMEOUT)
        .auto_await_schema_agreement(false);
    if let Some(Credentials { user, password }) = &options.credentials {
        builder = builder.user(user, password);
    }
    builder
}

fn unusable(table: &str) -> Error {
    let message = format!("the schema names the table {table}, and no node prepared a read of it");
    Error::unavailable(message)
}

/// Repeats a call while its error may pass, [`TRIES`] times in all. The waits between them double.
async fn repeat<T, E, F, P>(
    call: impl Fn() -> F,
    may_pass: impl Fn(&E) -> bool,
    pause: impl Fn(Duration) -> P,
) -> Result<T, E>
where
    E: std::fmt::Display,
    F: Future<Output = Result<T, E>>,
    P: Future,
{
    let mut wait = FIRST_WAIT;
    for _ in 1..TRIES {
        match call().await {
            Err(error) if may_pass(&error) => {
                tracing::debug!(%error, "a call failed; trying again");
            }
            answer => return answer,
        }
        pause(wait).await;
        wait *= 2;
    }
    call().await
}

/// Returns `true` if a statement's connection broke, or if none was there because it had broken before.
const fn is_of_connection(error: &ExecutionError) -> bool {
    matches!(
        error,
        ExecutionError::LastAttemptError(RequestAttemptError::BrokenConnectionError(_))
            | ExecutionError::ConnectionPoolError(_)
    )
}

/// Returns `true` if the node had too much to do, and did nothing.
const fn is_overloaded(error: &ExecutionError) -> bool {
    let ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, _)) = error else {
        return false;
    };
    matches!(error, DbError::Overloaded)
}

fn answer_of(result: QueryResult) -> Faulty<ResultSet> {
    let unclear = |error: &dyn std::fmt::Display| misunderstood(Access::Conditional, error);
    let result = result.into_rows_result().map_err(|error| unclear(&error))?;
    let names = result.column_specs().iter().map(|column| column.name().to_owned()).collect();
    let rows = result.rows::<Row>().map_err(|error| unclear(&error))?;
    let rows = rows.map(|row| row.map(|row| row.columns)).collect::<Result<_, _>>();
    Ok(ResultSet { names, rows: rows.map_err(|error| unclear(&error))? })
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use carnet_base::block_on;
    use scylla::errors::ConnectionPoolError;

    use super::*;

    #[test]
    fn statements_without_a_connection_may_pass() {
        let pool = |error| is_of_connection(&ExecutionError::ConnectionPoolError(error));
        assert!(pool(ConnectionPoolError::Initializing), "the driver connects again");
        assert!(!is_of_connection(&ExecutionError::RequestTimeout(SCHEMA_TIMEOUT)));
    }

    /// Repeats a call that answers in order; returns its result, and the waits in milliseconds.
    fn repeated(answers: &[Result<u8, &'static str>]) -> (Result<u8, &'static str>, Vec<u128>) {
        let (calls, waits) = (Cell::new(0), RefCell::new(Vec::new()));
        let call = || {
            let answer = answers[calls.replace(calls.get() + 1)];
            async move { answer }
        };
        let pause = |wait: Duration| {
            waits.borrow_mut().push(wait.as_millis());
            async {}
        };
        let result = block_on(repeat(call, |error| *error == "passes", pause));
        assert_eq!(calls.get(), waits.borrow().len() + 1);
        (result, waits.into_inner())
    }

    #[test]
    fn calls_are_repeated_after_waits_while_their_error_may_pass() {
        let passes = Err("passes");
        assert_eq!(repeated(&[Ok(7)]), (Ok(7), vec![]));
        assert_eq!(repeated(&[passes, passes, Ok(7)]), (Ok(7), vec![100, 200]));
        assert_eq!(repeated(&[passes, Err("stays")]), (Err("stays"), vec![100]));
        let all = repeated(&[passes; 5]);
        assert_eq!(all, (passes, vec![100, 200, 400, 800]));
    }
}
