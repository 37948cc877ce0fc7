//! What a statement answers when it fails.

use std::fmt;
use std::time::Duration;

use carnet::{Error, ErrorKind, Timestamp};

use crate::error::{ParseError, ParseErrorKind};

/// What kind of failure it is: what the native protocol's error codes tell apart.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CqlErrorKind {
    /// The text is not CQL.
    Syntax {
        /// The line of the mistake, the first is 1.
        line: usize,
        /// The character of that line, the first is 1.
        column: usize,
    },
    /// The statement is wrong for the tables there are, or its values are.
    Invalid,
    /// The request breaks the native protocol: its paging state is unknown.
    Protocol,
    /// It changes what no user may change.
    Unauthorized,
    /// It does not fit the configuration: an option of a keyspace or table has a bad value.
    Config,
    /// It is right, but not built yet.
    Unsupported,
    /// A table of the prepared statement has changed since: prepare it again.
    Unprepared {
        /// Names the statement.
        id: [u8; 16],
    },
    /// What should be created is there already.
    AlreadyExists {
        /// The keyspace.
        keyspace: String,
        /// The table; `None` when it is the keyspace itself.
        table: Option<String>,
    },
    /// A function of values failed, as a division by zero does.
    FunctionFailure {
        /// The function's keyspace.
        keyspace: String,
        /// The function.
        function: String,
        /// The types of its arguments.
        argument_types: Vec<String>,
    },
    /// Another transaction was first, as often as the statement was run. Nothing was written.
    Conflict,
    /// There is no room for the work now. Nothing was written.
    Overloaded {
        /// How long to wait before trying again.
        retry_after: Duration,
    },
    /// Whether it took effect is not known.
    Unknown {
        /// Names the transaction.
        start: Timestamp,
    },
    /// The deadline passed. Nothing was written.
    Timeout,
    /// The store cannot be read or written now.
    Unavailable,
    /// Stored bytes are not what was written.
    Corrupted,
}

/// Why a statement failed: a kind, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CqlError {
    kind: CqlErrorKind,
    message: String,
}

impl CqlError {
    /// Makes an error.
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

    /// Returns what kind of failure it is.
    #[must_use]
    pub const fn kind(&self) -> &CqlErrorKind {
        &self.kind
    }

    /// Returns the sentence.
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
