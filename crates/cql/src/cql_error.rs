//! Errors of statements.

use std::fmt;
use std::time::Duration;

use carnet::{Error, ErrorKind, Timestamp};

use crate::error::{ParseError, ParseErrorKind};

/// Id of a prepared statement.
pub type StatementId = [u8; 32];

/// Kind of an error, as distinguished by the native protocol's error codes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CqlErrorKind {
    /// The text is not CQL.
    Syntax {
        /// Line of the mistake, from 1.
        line: usize,
        /// Character of the line, from 1.
        column: usize,
    },
    /// The statement or its values do not fit the existing tables.
    Invalid,
    /// The request violates the native protocol: its paging state is unknown.
    Protocol,
    /// The statement changes an object that users may not change.
    Unauthorized,
    /// An option of a keyspace or table has an invalid value.
    Config,
    /// The statement is valid, but not supported yet.
    Unsupported,
    /// A table of the prepared statement has changed since: it must be prepared again.
    Unprepared {
        /// Id of the statement.
        id: StatementId,
    },
    /// The object to create exists already.
    AlreadyExists {
        /// Name of the keyspace.
        keyspace: String,
        /// Name of the table; `None` if the object is the keyspace itself.
        table: Option<String>,
    },
    /// A scalar function failed, for example a division by zero.
    FunctionFailure {
        /// Keyspace of the function.
        keyspace: String,
        /// Name of the function.
        function: String,
        /// Types of its arguments.
        argument_types: Vec<String>,
    },
    /// Other transactions committed first in every attempt. Nothing was written.
    Conflict,
    /// The transaction has ended without effect: run all of it again.
    Aborted,
    /// The transaction raised this error, and has no effect.
    Raised,
    /// The server has no capacity now. Nothing was written.
    Overloaded {
        /// Time to wait before a retry.
        retry_after: Duration,
    },
    /// The outcome is unknown: the statement may have taken effect.
    Unknown {
        /// Start of the transaction, which identifies it.
        start: Timestamp,
    },
    /// The deadline passed. Nothing was written.
    Timeout,
    /// The store cannot be read or written at present.
    Unavailable,
    /// Stored bytes are damaged.
    Corrupted,
}

/// Error of a statement: a kind and a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CqlError {
    kind: CqlErrorKind,
    message: String,
}

impl CqlError {
    /// Creates an error from its kind and message.
    #[must_use]
    pub fn new(kind: CqlErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(CqlErrorKind::Invalid, message)
    }

    pub(crate) fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(CqlErrorKind::Unauthorized, message)
    }

    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self::new(CqlErrorKind::Config, message)
    }

    pub(crate) fn unsupported(what: impl fmt::Display) -> Self {
        Self::new(CqlErrorKind::Unsupported, format!("not supported yet: {what}"))
    }

    /// Returns the kind of the error.
    #[must_use]
    pub const fn kind(&self) -> &CqlErrorKind {
        &self.kind
    }

    /// Returns the error's message.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for CqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CqlError {}

impl From<Error> for CqlError {
    fn from(error: Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::Conflict | ErrorKind::TooOld => CqlErrorKind::Conflict,
            ErrorKind::Unknown { start } => CqlErrorKind::Unknown { start },
            ErrorKind::Overloaded { retry_after } => CqlErrorKind::Overloaded { retry_after },
            ErrorKind::Timeout => CqlErrorKind::Timeout,
            ErrorKind::Unsupported => CqlErrorKind::Unsupported,
            ErrorKind::Unavailable => CqlErrorKind::Unavailable,
            ErrorKind::Corrupted => CqlErrorKind::Corrupted,
            _ => CqlErrorKind::Invalid,
        };
        Self { kind, message: error.to_string() }
    }
}

impl From<ParseError> for CqlError {
    fn from(error: ParseError) -> Self {
        let kind = match error.kind() {
            ParseErrorKind::Syntax => {
                let location = error.location();
                CqlErrorKind::Syntax { line: location.line, column: location.column }
            }
            ParseErrorKind::Invalid => CqlErrorKind::Invalid,
            ParseErrorKind::Unsupported => CqlErrorKind::Unsupported,
        };
        Self { kind, message: error.to_string() }
    }
}
