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
    /// The statement was ended by `KILL STATEMENT`. Nothing was written.
    Killed,
    /// The store cannot be read or written at present.
    Unavailable,
    /// Stored bytes are damaged.
    Corrupted,
}

/// Error of a statement: a kind and a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CqlError {
    kind: CqlErrorKind,
    message: Box<str>,
    lost: Option<Box<Lost>>,
}

/// Row of a conflict.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Lost {
    /// Bytes of the key of its cell.
    Cell(Box<[u8]>),
    Row(LostRow),
}

/// Row that another transaction wrote first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostRow {
    /// Table, with its keyspace.
    pub table: String,
    /// Keyspace of the table.
    pub keyspace: String,
    /// Key of the row, as a condition in CQL. Long values are cut.
    pub key: String,
}

impl LostRow {
    /// Returns the name of the table in its keyspace.
    #[must_use]
    pub fn table_name(&self) -> &str {
        self.table.get(self.keyspace.len() + 1..).unwrap_or_default()
    }
}

impl CqlError {
    /// Creates an error from its kind and message.
    #[must_use]
    pub fn new(kind: CqlErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into().into(), lost: None }
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

    /// Sets the row of a conflict.
    pub(crate) fn set_lost_row(&mut self, row: LostRow) {
        self.message = format!("{}; lost row: {} {}", self.message, row.table, row.key).into();
        self.lost = Some(Box::new(Lost::Row(row)));
    }

    /// Adds words to the message.
    pub(crate) fn followed_by(mut self, words: &str) -> Self {
        self.message = format!("{}{words}", self.message).into();
        self
    }

    /// Sets the cell of a conflict from another error.
    pub(crate) fn losing_like(mut self, error: &Error) -> Self {
        self.lost = Lost::of(error);
        self
    }

    /// Returns the row of a conflict, if it is known.
    #[must_use]
    pub fn lost_row(&self) -> Option<&LostRow> {
        match self.lost.as_deref()? {
            Lost::Row(row) => Some(row),
            Lost::Cell(_) => None,
        }
    }

    /// Returns the bytes of the key of a conflict's cell whose row is not named yet.
    pub(crate) fn lost_cell(&self) -> Option<&[u8]> {
        match self.lost.as_deref()? {
            Lost::Cell(key) => Some(key),
            Lost::Row(_) => None,
        }
    }

    /// Converts the error of a statement that names the moment that it reads: a moment that is swept
    /// stays so, and a retry cannot succeed.
    pub(crate) fn of_moment(error: impl Into<Self>) -> Self {
        let error = error.into();
        match error.kind {
            CqlErrorKind::Conflict => Self { kind: CqlErrorKind::Invalid, ..error },
            _ => error,
        }
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

impl Lost {
    fn of(error: &Error) -> Option<Box<Self>> {
        error.lost_key().map(|key| Box::new(Self::Cell(key.into())))
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
            ErrorKind::Aborted => CqlErrorKind::Killed,
            ErrorKind::Unsupported => CqlErrorKind::Unsupported,
            ErrorKind::Unavailable => CqlErrorKind::Unavailable,
            ErrorKind::Corrupted => CqlErrorKind::Corrupted,
            _ => CqlErrorKind::Invalid,
        };
        Self { kind, message: error.to_string().into(), lost: Lost::of(&error) }
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
        Self::new(kind, error.to_string())
    }
}
