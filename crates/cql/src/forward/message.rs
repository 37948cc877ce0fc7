//! The messages.

use std::net::IpAddr;
use std::time::Duration;

use carnet::{Bytes, Uuid, WallTime};

use crate::ast::BatchKind;
use crate::bound::Bound;
use crate::cql_error::{CqlError, StatementId};
use crate::result::Response;

/// A statement of an open transaction, for the server that holds the transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Name of the call, drawn at random, by which the call can be cancelled.
    pub call: u64,
    /// Transaction that the statement is part of; nil for a list.
    pub transaction: Uuid,
    /// Client that sent the statement.
    pub caller: Caller,
    /// Time until the statement's deadline; `None` without a deadline.
    pub left: Option<Duration>,
    /// What the holder is asked to do.
    pub task: Task,
}

/// Client of a forwarded statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// Name for people.
    pub name: String,
    /// User that the client logged in as.
    pub user: Option<String>,
    /// Whether the user is a role of the database, whose permissions are checked.
    pub is_role: bool,
    /// Address of the client.
    pub address: Option<IpAddr>,
}

/// Task of a forwarded request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// Run a statement.
    Statement {
        /// Statement to run in the transaction.
        statement: Statement,
        /// Maximum number of rows per page; `None` for all rows at once.
        page_rows: Option<u64>,
        /// Paging state of the previous page.
        paging_state: Option<Bytes>,
        /// Wall time by which values expire.
        now: Option<WallTime>,
    },
    /// Run the statements of a batch.
    Batch {
        /// Kind of the batch.
        kind: BatchKind,
        /// Statements of the batch, each of which changes rows.
        statements: Vec<Statement>,
        /// Wall time by which values expire.
        now: Option<WallTime>,
    },
    /// Cancel the statement of this call, whose client is gone.
    Cancel,
    /// List the open transactions of the server.
    Transactions,
}

/// A statement with its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Text of the statement.
    pub text: String,
    /// Keyspace of unqualified names.
    pub keyspace: Option<String>,
    /// Values of the markers, in the order of the text.
    pub values: Vec<Bound>,
    /// Preparation that the client encodes and decodes by; `None` for a statement sent as text.
    pub preparation: Option<Preparation>,
}

/// Versions of the tables for which a statement was prepared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preparation {
    /// Id of the prepared statement.
    pub id: StatementId,
    /// Keyspace and name of each table as the statement names it, its id and version, in the order
    /// of the names.
    pub tables: Vec<(Option<String>, String, u32, u32)>,
}

/// Answer of a holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The server does not know the transaction; nothing was done.
    NotHeld,
    /// The server does not understand the request; nothing was done. The text says why.
    Refused(String),
    /// The statement has run.
    Done {
        /// Its result: `Void` or rows.
        result: Result<Response, CqlError>,
        /// Warnings for people.
        warnings: Vec<String>,
    },
}
