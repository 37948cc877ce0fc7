//! A database behind a server, over CQL: of Carnet, Cassandra or ScyllaDB.
//!
//! All statements take one connection, which an open transaction is bound to. The driver connects
//! again by itself once the connection breaks. The server has rolled the transaction back then, so
//! each statement of a transaction first checks that the transaction is still open.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use carnet::{Bytes, Uuid};
use carnet_cql::ast::{BatchKind, OpenStatement, Statement as Ast};
use carnet_cql::result::{Response, Rows};
use carnet_cql::{Bound, CqlError, Limits, parse};
use scylla::client::PoolSize;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::{Session, TlsContext};
use scylla::client::session_builder::SessionBuilder;
use scylla::cluster::metadata::ColumnType;
use scylla::errors::ExecutionError;
use scylla::policies::host_filter::AllowListHostFilter;
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::response::{PagingState, PagingStateResponse};
use scylla::serialize::SerializationError;
use scylla::serialize::value::SerializeValue;
use scylla::serialize::writers::{CellWriter, WrittenCellProof};
use scylla::statement::batch::{Batch, BatchStatement, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::unprepared::Statement;
use scylla::statement::{Consistency, SerialConsistency};
use tokio::runtime::Runtime;

use super::answer::{Answer, Handle, Page, Prepared};
use super::types;
use crate::interrupt::{self, until_pressed};

/// Timeout for the connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Number of rows per page while paging is off: the driver has to page.
const ROWS_MAX: usize = 5_000;

/// Address of a server, and the credentials for it.
#[derive(Clone)]
pub(crate) struct Server {
    /// Address with its port.
    pub(crate) address: String,
    /// User name and password.
    pub(crate) credentials: Option<(String, String)>,
    /// TLS, if the connection is encrypted.
    pub(crate) tls: Option<TlsContext>,
}

/// Transaction that is open on the connection.
#[derive(Clone, Copy)]
struct Open {
    id: Uuid,
    /// Whether its connection was lost: the server rolls it back, and a later connection does not have it.
    is_lost: bool,
}

/// Connection to a server, and the settings of its statements.
pub(crate) struct Remote {
    server: RefCell<Server>,
    session: RefCell<Arc<Session>>,
    transaction: Cell<Option<Open>>,
    pub(crate) consistency: Cell<Consistency>,
    pub(crate) serial_consistency: Cell<SerialConsistency>,
    pub(super) traces: Cell<bool>,
    /// Last field: dropped after the session.
    runtime: Runtime,
}

impl Remote {
    /// Connects to a server.
    pub(crate) fn connect(server: Server) -> Result<Self> {
        let runtime = Runtime::new().context("cannot start the runtime")?;
        let session = runtime.block_on(until_pressed(open(&server)))??;
        Ok(Self {
            server: RefCell::new(server),
            session: RefCell::new(Arc::new(session)),
            transaction: Cell::new(None),
            consistency: Cell::new(Consistency::One),
            serial_consistency: Cell::new(SerialConsistency::Serial),
            traces: Cell::new(false),
            runtime,
        })
    }

    /// Returns the server's address.
    pub(crate) fn address(&self) -> String {
        self.server.borrow().address.clone()
    }

    /// Connects as another user.
    pub(crate) fn login(&self, user: String, password: String) -> Result<()> {
        let server = Server { credentials: Some((user, password)), ..self.server.borrow().clone() };
        let session = self.runtime.block_on(until_pressed(open(&server)))??;
        self.adopt(session)?;
        *self.server.borrow_mut() = server;
        Ok(())
    }

    pub(super) fn query(&self, text: &str, page: &Page) -> Result<Answer> {
        let open = match parse(text, &Limits::default()).map(|parsed| parsed.statement) {
            Ok(Ast::Open(open)) if !self.is_of_another(&open) => Some(open),
            _ => None,
        };
        if self.ends_lost(open.as_ref()) {
            return Ok(Answer::done());
        }
        let ends_open =
            self.is_in_transaction() && matches!(open, Some(OpenStatement::Rollback(_)));
        self.check_transaction(open.as_ref())?;
        let mut statement = Statement::new(text).with_page_size(page_rows(page));
        statement.set_consistency(self.consistency.get());
        statement.set_serial_consistency(Some(self.serial_consistency.get()));
        statement.set_tracing(self.traces.get());
        let session = self.session();
        let answer = self.wait(session.query_single_page(statement, (), paging_state(page)))?;
        let answer = answer.map_err(|error| self.failed(&error, open.as_ref()));
        let (result, next) = match answer {
            // The driver has connected again, and the transaction ended with the connection before.
            Err(error) if ends_open && is_not_open(&error) => return Ok(Answer::done()),
            answer => answer?,
        };
        let warnings = result.warnings().map(str::to_owned).collect();
        let trace = result.tracing_id();
        let response = types::response(result, state(next))?;
        self.note(open.as_ref(), &response);
        Ok(Answer { response, warnings, trace })
    }

    pub(super) fn prepare(&self, text: &str) -> Result<Prepared> {
        let session = self.session();
        let prepared = self.wait(session.prepare(text))?;
        let prepared = prepared.map_err(|error| anyhow!("cannot prepare {text}: {error}"))?;
        let columns = types::columns(prepared.get_current_result_set_col_specs().get())?;
        Ok(Prepared { columns, handle: Handle::Remote(Box::new(prepared)) })
    }

    pub(super) fn execute(
        &self,
        prepared: &PreparedStatement,
        values: &[Bound],
        page: &Page,
    ) -> Result<Rows> {
        let mut prepared = prepared.clone();
        prepared.set_page_size(page_rows(page));
        prepared.set_consistency(self.consistency.get());
        let values: Vec<Raw<'_>> = values.iter().map(Raw).collect();
        let session = self.session();
        let answer = self.run(session.execute_single_page(&prepared, values, paging_state(page)));
        let (result, next) = answer?;
        match types::response(result, state(next))? {
            Response::Rows(rows) => Ok(rows),
            _ => bail!("the statement returned no rows"),
        }
    }

    pub(super) fn batch(
        &self,
        kind: BatchKind,
        prepared: &PreparedStatement,
        rows: &[Vec<Bound>],
    ) -> Result<()> {
        let kind = match kind {
            BatchKind::Counter => BatchType::Counter,
            BatchKind::Unlogged => BatchType::Unlogged,
            BatchKind::Logged => BatchType::Logged,
        };
        let mut batch = Batch::new(kind);
        batch.set_consistency(self.consistency.get());
        for _ in rows {
            batch.append_statement(BatchStatement::PreparedStatement(prepared.clone()));
        }
        let values: Vec<Vec<Raw<'_>>> =
            rows.iter().map(|row| row.iter().map(Raw).collect()).collect();
        let session = self.session();
        self.run(session.batch(&batch, values)).map(|_| ())
    }

    /// Waits until the server has stored a trace.
    pub(crate) fn wait_for_trace(&self, id: Uuid) -> Result<()> {
        let session = self.session();
        let traced = self.wait(session.get_tracing_info(&id))?;
        traced.map(|_| ()).map_err(|error| anyhow!("the trace {id} is not there: {error}"))
    }

    pub(super) fn keyspace(&self) -> Option<String> {
        self.session().get_keyspace().map(|keyspace| keyspace.as_ref().clone())
    }

    pub(super) fn is_in_transaction(&self) -> bool {
        self.transaction.get().is_some()
    }

    /// Returns `true` for the `COMMIT` or `ROLLBACK` of a transaction that this connection does not hold, such as a
    /// detached one: the open transaction stays.
    fn is_of_another(&self, open: &OpenStatement) -> bool {
        let (OpenStatement::Commit(Some(id)) | OpenStatement::Rollback(Some(id))) = open else {
            return false;
        };
        let held = self.transaction.get();
        held.is_none_or(|held| id.to_string() != held.id.to_string())
    }

    fn session(&self) -> Arc<Session> {
        Arc::clone(&self.session.borrow())
    }

    fn run<T>(&self, statement: impl Future<Output = Result<T, ExecutionError>>) -> Result<T> {
        self.wait(statement)?.map_err(|error| self.failed(&error, None))
    }

    /// Returns the error of a statement. One that was lost with its connection says what becomes of the
    /// open transaction.
    fn failed(&self, error: &ExecutionError, ended: Option<&OpenStatement>) -> anyhow::Error {
        if !types::is_of_connection(error) {
            return types::error(error);
        }
        let lost = format!("the connection to {} was lost ({error})", self.address());
        let Some(open @ Open { id, .. }) = self.transaction.get() else {
            return anyhow!("{lost}; the shell connects again by itself");
        };
        if matches!(ended, Some(OpenStatement::Commit(_))) {
            self.transaction.set(None);
            return anyhow!(
                "{lost}; it is not known whether transaction {id} was committed: once the server answers \
                 again, SELECT outcome({id}) tells"
            );
        }
        self.transaction.set(Some(Open { is_lost: true, ..open }));
        anyhow!(
            "{lost}, and transaction {id} with it: nothing of it is written. Send ROLLBACK, and run the \
             transaction again"
        )
    }

    /// Returns `true` for the `ROLLBACK` of a transaction that was lost with its connection: no server has
    /// it.
    fn ends_lost(&self, open: Option<&OpenStatement>) -> bool {
        let is_lost = self.transaction.get().is_some_and(|open| open.is_lost);
        let ends = is_lost && matches!(open, Some(OpenStatement::Rollback(_)));
        if ends {
            self.transaction.set(None);
        }
        ends
    }

    /// Waits for a statement. If Ctrl-C ends the wait, another connection replaces the statement's:
    /// the server ends the statement with its connection, and the transaction too.
    fn wait<T>(&self, statement: impl Future<Output = T>) -> Result<T> {
        interrupt::check()?;
        let error = match self.runtime.block_on(until_pressed(Box::pin(statement))) {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let server = self.server.borrow().clone();
        let session = self.runtime.block_on(open(&server));
        self.adopt(session.context("interrupted, and connected no more")?)?;
        match self.transaction.take() {
            None => Err(error),
            Some(_) => Err(error.context("the transaction was rolled back")),
        }
    }

    /// Replaces the connection; the current keyspace stays.
    fn adopt(&self, session: Session) -> Result<()> {
        if let Some(keyspace) = self.keyspace() {
            self.runtime
                .block_on(session.use_keyspace(&keyspace, true))
                .with_context(|| format!("cannot use keyspace {keyspace}"))?;
        }
        self.session.replace(Arc::new(session));
        Ok(())
    }

    /// Checks that the open transaction is still bound to the connection, which the driver may have
    /// replaced: the statement would be committed alone.
    fn check_transaction(&self, open: Option<&OpenStatement>) -> Result<()> {
        let Some(Open { id, is_lost }) = self.transaction.get() else { return Ok(()) };
        if is_lost {
            bail!(
                "transaction {id} was lost with its connection, and this statement was not run: send \
                 ROLLBACK, and run the transaction again"
            );
        }
        if matches!(open, Some(OpenStatement::Rollback(_))) {
            self.transaction.set(None);
            return Ok(());
        }
        let session = self.session();
        let found = self.run(session.query_unpaged(format!("SELECT outcome({id})"), ()))?;
        let is_open = matches!(types::response(found, None)?, Response::Rows(rows)
            if rows.rows.iter().any(|row| row.contains(&Some(&b"open"[..]))));
        if !is_open {
            if matches!(open, Some(OpenStatement::Commit(_))) {
                self.transaction.set(None);
            }
            bail!(
                "transaction {id} has ended, by itself or with its connection, and this statement \
                 was not run: send ROLLBACK, and run the transaction again"
            );
        }
        Ok(())
    }

    /// Remembers whether a transaction is open.
    fn note(&self, open: Option<&OpenStatement>, response: &Response) {
        match open {
            Some(OpenStatement::Start(_)) => {
                if let Response::Rows(rows) = response
                    && let Some(Some(id)) =
                        rows.rows.iter().next().and_then(|row| row.first().copied())
                {
                    let id = Uuid::from_slice(id).ok();
                    self.transaction.set(id.map(|id| Open { id, is_lost: false }));
                }
            }
            Some(OpenStatement::Commit(_) | OpenStatement::Rollback(_)) => {
                self.transaction.set(None);
            }
            _ => {}
        }
    }
}

/// Returns `true` for the answer to a `ROLLBACK` on a connection without a transaction.
fn is_not_open(error: &anyhow::Error) -> bool {
    error.downcast_ref::<CqlError>().is_some_and(|error| {
        error.message().starts_with("no transaction is open on this connection")
    })
}

async fn open(server: &Server) -> Result<Session> {
    let at = &server.address;
    // Other nodes of the cluster are not connected: a transaction is bound to one connection.
    let filter =
        AllowListHostFilter::new([at.as_str()]).with_context(|| format!("cannot resolve {at}"))?;
    let profile = ExecutionProfile::builder()
        .retry_policy(Arc::new(FallthroughRetryPolicy::new()))
        .request_timeout(None)
        .build();
    let mut builder = SessionBuilder::new()
        .known_node(at)
        .host_filter(Arc::new(filter))
        .pool_size(PoolSize::PerHost(NonZeroUsize::MIN))
        .disallow_shard_aware_port(true)
        .connection_timeout(CONNECT_TIMEOUT)
        .fetch_schema_metadata(false)
        .tls_context(server.tls.clone())
        .default_execution_profile_handle(profile.into_handle());
    if let Some((user, password)) = &server.credentials {
        builder = builder.user(user, password);
    }
    builder.build().await.map_err(|error| anyhow!("cannot connect to {at}: {error}"))
}

fn page_rows(page: &Page) -> i32 {
    i32::try_from(page.rows.unwrap_or(ROWS_MAX)).unwrap_or(i32::MAX).max(1)
}

fn paging_state(page: &Page) -> PagingState {
    match &page.state {
        Some(state) => PagingState::new_from_raw_bytes(&state[..]),
        None => PagingState::start(),
    }
}

fn state(next: PagingStateResponse) -> Option<Bytes> {
    match next.into_paging_control_flow() {
        ControlFlow::Break(()) => None,
        ControlFlow::Continue(state) => {
            state.as_bytes_slice().map(|state| Bytes::copy_from_slice(state))
        }
    }
}

/// Value of a bind marker, in the serialization that it has.
struct Raw<'a>(&'a Bound);

impl SerializeValue for Raw<'_> {
    fn serialize<'b>(
        &self,
        _: &ColumnType<'_>,
        writer: CellWriter<'b>,
    ) -> Result<WrittenCellProof<'b>, SerializationError> {
        Ok(match self.0 {
            Bound::Bytes(bytes) => return writer.set_value(bytes).map_err(SerializationError::new),
            Bound::Null => writer.set_null(),
            Bound::Unset => writer.set_unset(),
        })
    }
}
