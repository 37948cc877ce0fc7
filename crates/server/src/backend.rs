//! Interface of the backend that runs statements.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use carnet::cluster::ForwardHandler;
use carnet_admission::diagnosis::Why;
use carnet_admission::{Admission, Arrived, Class, LevelId, Permit};
use carnet_base::Moment;
use carnet_cql::result::Response;
use carnet_cql::{Found, Grant, RequestTimes, RunningStatement, Terms, Trace};

use crate::failure::Failure;
use crate::protocol::Version;
use crate::protocol::event::Event;
use crate::protocol::head::Peek;
use crate::protocol::response::Prepared;
use crate::protocol::statement::{Batch, QueryParams, Statement};

/// A user who has logged in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Name of the user.
    pub name: String,
    /// Whether it is a role of the database, whose permissions are checked. Otherwise the user is one of
    /// the password file, who may do everything.
    pub is_role: bool,
}

/// Client of a connection.
#[derive(Clone, Debug)]
pub struct Client {
    /// Address of the client.
    pub address: SocketAddr,
    /// Authenticated user; `None` on a server without authentication.
    pub user: Option<User>,
    /// Protocol version in use.
    pub version: Version,
    /// Options of its STARTUP: `DRIVER_NAME` and others, in the order sent, unchecked.
    pub options: Vec<(String, String)>,
    /// Whether its statements watch the server, so that statistics of statements leave them out.
    pub is_watching: bool,
}

/// A statement that was not refused on its arrival.
#[derive(Default)]
pub struct Arrival {
    /// Its admission, and the terms of it; `None` for a statement that needs none.
    pub admission: Option<(Arrived, Terms)>,
    /// What its run does not look up again.
    pub found: Found,
}

/// Result of a statement, with warnings.
#[derive(Clone, Debug)]
pub struct StatementResult {
    /// Result of the statement. The server notifies other connections of a schema change.
    pub response: Response,
    /// Warnings for people; drivers log them.
    pub warnings: Vec<String>,
}

impl From<Response> for StatementResult {
    fn from(response: Response) -> Self {
        Self { response, warnings: Vec::new() }
    }
}

/// Backend that runs statements for all connections of a server.
///
/// The requests of one connection run concurrently, so a session is shared: its mutable state (the
/// keyspace of USE) has a lock of its own. A future may be dropped at any await point when its
/// client disconnects: an uncommitted transaction is rolled back.
///
/// Values are bytes in Cassandra's serialization, not yet checked against types. The backend checks
/// statements that have markers but no values, client timestamps and consistency levels.
pub trait Backend: Send + Sync + 'static {
    /// State that the backend keeps for a connection.
    type Session: Send + Sync + 'static;

    /// Opens a session, after the client's log-in.
    fn open(&self, client: Client) -> Self::Session;

    /// Requests the admission of a statement whose request has `bytes` bytes. It is called before the
    /// values of the request are decoded, so that a refusal is cheap.
    ///
    /// # Errors
    ///
    /// [`FailureKind::Overloaded`](crate::FailureKind::Overloaded) if the statement is refused.
    fn arrive(
        &self,
        session: &Self::Session,
        statement: Peek<'_>,
        bytes: usize,
        times: RequestTimes,
    ) -> Result<Arrival, Failure> {
        let _ = (session, statement, bytes, times);
        Ok(Arrival::default())
    }

    /// Returns the present terms of a statement that was admitted, could not begin, and arrives again.
    fn renewed(&self, session: &Self::Session, terms: &Terms) -> Terms {
        let _ = session;
        terms.clone()
    }

    /// Runs a statement given as text.
    ///
    /// `params.keyspace`, if set, replaces the session's keyspace.
    fn query(
        &self,
        session: &Self::Session,
        text: &str,
        params: QueryParams,
        grant: Grant,
    ) -> impl Future<Output = Result<StatementResult, Failure>> + Send;

    /// Prepares a statement. The id is valid on every connection, until the backend answers it with
    /// [`FailureKind::Unprepared`](crate::FailureKind::Unprepared): after a restart, or when the
    /// columns that it returns have changed.
    fn prepare(
        &self,
        session: &Self::Session,
        text: &str,
        keyspace: Option<&str>,
    ) -> impl Future<Output = Result<Prepared, Failure>> + Send;

    /// Runs a prepared statement, which its arrival may have found.
    fn execute(
        &self,
        session: &Self::Session,
        id: &Bytes,
        params: QueryParams,
        grant: Grant,
    ) -> impl Future<Output = Result<StatementResult, Failure>> + Send;

    /// Runs several statements as one transaction.
    fn batch(
        &self,
        session: &Self::Session,
        batch: Batch,
        grant: Grant,
    ) -> impl Future<Output = Result<StatementResult, Failure>> + Send;

    /// Begins the trace of a statement that arrived at a moment; `None` if the backend keeps no traces.
    fn begin_trace(
        &self,
        session: &Self::Session,
        statement: (&Statement, &Found),
        arrived: Moment,
    ) -> Option<Arc<Trace>> {
        let _ = (session, statement, arrived);
        None
    }

    /// Registers a statement that its first turn has not ended, until the result is dropped. `statement`
    /// is known before it has begun, and `permit` from its begin on. Returns `None` if the backend
    /// lists no statements.
    fn enter(
        &self,
        session: &Self::Session,
        statement: Option<(&Statement, &Found)>,
        began: Moment,
        admission: Option<(Class, LevelId)>,
        permit: Option<&Arc<Permit>>,
    ) -> Option<RunningStatement> {
        let _ = (session, statement, began, admission, permit);
        None
    }

    /// Ends a trace that [`Backend::begin_trace`] returned, before its statement is answered.
    fn end_trace(&self, trace: Arc<Trace>, permit: Option<&Permit>) {
        let _ = (trace, permit);
    }

    /// Sets the handler of statements that other servers of the database forward to this one.
    fn serve_forwarded(&self, handler: &Arc<dyn ForwardHandler>) {
        let _ = handler;
    }

    /// Runs a statement that another server has forwarded, and returns the encoded answer.
    fn answer_forwarded(&self, request: Bytes, grant: Grant) -> impl Future<Output = Bytes> + Send {
        let _ = (request, grant);
        std::future::ready(Bytes::new())
    }

    /// Returns `true` if a client's requests are refused while the server lacks memory for them;
    /// otherwise they wait unread for a while first.
    fn refuses(&self, session: &Self::Session) -> bool {
        let _ = session;
        false
    }

    /// Tells the diagnosis for how long a refused request of a client waited unread.
    fn waited_unread(&self, session: &Self::Session, why: Why, waited: Duration) {
        let _ = (session, why, waited);
    }

    /// Waits for events that clients are notified of: changes by other servers of the same database.
    /// It is called again after it has returned.
    fn news(&self) -> impl Future<Output = Vec<Event>> + Send {
        std::future::pending()
    }

    /// Returns `true` if [`Backend::news`] reports the change of the schema that a statement has just
    /// made. Otherwise the server publishes the statement's answer.
    fn reports_change(&self) -> bool {
        false
    }

    /// Ends what the backend keeps for its clients, after the last connection has ended in a drain.
    fn drained(&self) {}

    /// Checks that statements can run now, for `/readyz`, and returns the text of the answer.
    ///
    /// # Errors
    ///
    /// The reason why statements cannot run.
    fn readiness(&self) -> Result<String, Failure> {
        Ok("ok".to_owned())
    }

    /// Returns the memory that parts of the backend hold, by name, in bytes.
    fn memory(&self) -> Vec<(&'static str, usize)> {
        Vec::new()
    }

    /// Returns the admission control, whose refusals the server reports.
    fn admission(&self) -> Option<&Admission> {
        None
    }

    /// Appends the backend's metrics to the server's, in Prometheus' text format.
    fn append_metrics(&self, _out: &mut String) {}
}
