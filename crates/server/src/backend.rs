//! What runs the statements.

use std::net::SocketAddr;

use bytes::Bytes;
use carnet::admission::{Admission, Arrived};
use carnet_base::Moment;
use carnet_cql::Grant;

use crate::events::Event;
use crate::failure::Failure;
use crate::protocol::Version;
use crate::protocol::peek::Peek;
use crate::protocol::request::{Batch, QueryParams};
use crate::protocol::response::{Prepared, Rows};
use crate::protocol::types::SchemaChange;

/// Who is at the other end of a connection.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its address.
    pub address: SocketAddr,
    /// The user that it proved to be; `None` where the server asks nobody.
    pub user: Option<String>,
    /// The protocol that it speaks.
    pub version: Version,
    /// What its STARTUP said: `DRIVER_NAME` and the like, in the order sent, unchecked.
    pub options: Vec<(String, String)>,
}

/// What a statement returns.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Nothing.
    Void,
    /// A page of rows.
    Rows(Rows),
    /// Nothing; the session's keyspace is this now.
    SetKeyspace(String),
    /// Nothing; the schema changed. The server tells the other connections.
    SchemaChange(SchemaChange),
}

/// What a statement returns, and what its user should know about it.
#[derive(Clone, Debug)]
pub struct Answer {
    /// What it returns.
    pub outcome: Outcome,
    /// Sentences for a person; drivers log them.
    pub warnings: Vec<String>,
}

impl From<Outcome> for Answer {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, warnings: Vec::new() }
    }
}

/// Runs statements for all connections of a server.
///
/// The requests of one connection run at the same time, so a session is shared: what changes in it
/// (the keyspace of USE) is behind a lock of its own. A future may be dropped wherever it waits,
/// because its client has gone: what it has not committed is rolled back.
///
/// Values are bytes in Cassandra's serialization, not checked against any type yet. Statements
/// with markers and without values, timestamps by the client's clock, and consistency levels are
/// the backend's to judge.
pub trait Backend: Send + Sync + 'static {
    /// What the backend keeps for a connection.
    type Session: Send + Sync + 'static;

    /// Begins a connection, once its client has said who it is.
    fn open(&self, client: Client) -> Self::Session;

    /// Asks for the admission of a statement whose request has `bytes` bytes and arrived at `now`.
    /// Returns `None` for one that needs none. It is asked before the request is decoded, so that a
    /// refusal costs little.
    ///
    /// # Errors
    ///
    /// [`FailureKind::Overloaded`](crate::FailureKind::Overloaded) where it is refused.
    fn arrive(
        &self,
        session: &Self::Session,
        statement: Peek<'_>,
        bytes: usize,
        now: Moment,
    ) -> Result<Option<Arrived>, Failure> {
        let _ = (session, statement, bytes, now);
        Ok(None)
    }

    /// Runs a statement's text.
    ///
    /// `params.keyspace`, where it is set, stands in for the session's.
    fn query(
        &self,
        session: &Self::Session,
        text: &str,
        params: QueryParams,
        grant: Grant,
    ) -> impl Future<Output = Result<Answer, Failure>> + Send;

    /// Keeps a statement's text. The id is good on every connection, until the backend answers it
    /// with [`FailureKind::Unprepared`](crate::FailureKind::Unprepared): after a restart, or once
    /// the columns that it returns have changed.
    fn prepare(
        &self,
        session: &Self::Session,
        text: &str,
        keyspace: Option<&str>,
    ) -> impl Future<Output = Result<Prepared, Failure>> + Send;

    /// Runs a prepared statement.
    fn execute(
        &self,
        session: &Self::Session,
        id: &Bytes,
        params: QueryParams,
        grant: Grant,
    ) -> impl Future<Output = Result<Answer, Failure>> + Send;

    /// Runs several statements as one transaction.
    fn batch(
        &self,
        session: &Self::Session,
        batch: Batch,
        grant: Grant,
    ) -> impl Future<Output = Result<Answer, Failure>> + Send;

    /// Waits for what happens elsewhere and clients are to hear of: what other servers of the same
    /// database did. It is called again once it has returned.
    fn news(&self) -> impl Future<Output = Vec<Event>> + Send {
        std::future::pending()
    }

    /// Checks that statements can be run now, for `/readyz`, and returns the text of the answer.
    ///
    /// # Errors
    ///
    /// The cause, where they cannot.
    fn readiness(&self) -> Result<String, Failure> {
        Ok("ok".to_owned())
    }

    /// Returns the memory that parts of the backend hold, by their names, in bytes.
    fn memory(&self) -> Vec<(&'static str, usize)> {
        Vec::new()
    }

    /// Returns the admission control, whose refusals the server reports.
    fn admission(&self) -> Option<&Admission> {
        None
    }

    /// Appends figures of the backend's own to those of the server, in Prometheus' text format.
    fn append_metrics(&self, _out: &mut String) {}
}
