//! How a statement fails, and which of the protocol's errors tells it.
//!
//! Drivers act on the error's code: they retry some on their own, and raise an exception of a kind
//! of its own for each. So the choice of the code is part of the contract:
//!
//! | what happened | code | because drivers |
//! | --- | --- | --- |
//! | definitely nothing, try again ([`Conflict`], [`Overloaded`]) | 0x1001 | may retry elsewhere, with backoff |
//! | unknown whether it was committed ([`Unknown`]) | 0x1700, in v4 0x1100 of a CAS write | never retry |
//! | definitely nothing, no time left ([`Timeout`]) | 0x1200, none of one answered | do not retry |
//! | the statement is wrong | 0x2000 and above | never retry |
//!
//! [`Conflict`]: FailureKind::Conflict
//! [`Overloaded`]: FailureKind::Overloaded
//! [`Unknown`]: FailureKind::Unknown
//! [`Timeout`]: FailureKind::Timeout

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use carnet_base::{Error, ErrorKind};

use crate::protocol::error::{ErrorCode, ErrorDetail, ErrorResponse, Replies};
use crate::protocol::types::Consistency;

/// Why a statement failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The request breaks the protocol, as a paging state that no server returned does.
    Protocol,
    /// The text is no CQL.
    Syntax,
    /// The text is CQL that makes no sense here, or that is not supported yet.
    Invalid,
    /// An option of a keyspace or table has a bad value.
    Config,
    /// The user may not do that.
    Unauthorized,
    /// The keyspace or table to be created is there.
    AlreadyExists {
        /// The keyspace that is there, or that holds the table.
        keyspace: String,
        /// The table, empty where it is the keyspace that is there.
        table: String,
    },
    /// There is no prepared statement of that id. Drivers prepare it again and go on.
    Unprepared {
        /// The id.
        id: Bytes,
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
    /// Another transaction came first; nothing was written. Run it again.
    Conflict,
    /// There is no room for the work; nothing was done.
    Overloaded {
        /// When another try makes sense.
        retry_after: Duration,
    },
    /// The deadline passed; nothing was written.
    Timeout,
    /// Whether the transaction was committed is not known.
    Unknown,
    /// The store cannot be reached or written.
    Unavailable,
    /// A fault of the server.
    Server,
}

/// Why a statement failed, in a word for the driver and a sentence for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What the driver can do.
    pub kind: FailureKind,
    /// What, where, and what to do.
    pub message: String,
}

impl Failure {
    /// Makes a failure.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// Makes a [`FailureKind::Syntax`].
    pub fn syntax(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Syntax, message)
    }

    /// Makes a [`FailureKind::Invalid`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Invalid, message)
    }

    /// Makes a [`FailureKind::Unprepared`].
    #[must_use]
    pub fn unprepared(id: Bytes) -> Self {
        let message = "there is no prepared statement of this id: prepare it again";
        Self::new(FailureKind::Unprepared { id }, message)
    }

    /// Returns the error that is sent, to a client that asked for that consistency level.
    #[must_use]
    pub(crate) fn into_response(self, consistency: Consistency) -> ErrorResponse {
        // One store, and it did not answer.
        let replies = Replies { consistency, received: 0, required: 1 };
        let detail = match self.kind {
            FailureKind::Protocol => ErrorDetail::Plain(ErrorCode::Protocol),
            FailureKind::Syntax => ErrorDetail::Plain(ErrorCode::Syntax),
            FailureKind::Invalid => ErrorDetail::Plain(ErrorCode::Invalid),
            FailureKind::Config => ErrorDetail::Plain(ErrorCode::Config),
            FailureKind::Unauthorized => ErrorDetail::Plain(ErrorCode::Unauthorized),
            FailureKind::AlreadyExists { keyspace, table } => {
                ErrorDetail::AlreadyExists { keyspace, table }
            }
            FailureKind::Unprepared { id } => ErrorDetail::Unprepared { id },
            FailureKind::FunctionFailure { keyspace, function, argument_types } => {
                ErrorDetail::FunctionFailure { keyspace, function, argument_types }
            }
            FailureKind::Conflict => {
                return ErrorResponse::plain(
                    ErrorCode::Overloaded,
                    format!("aborted, safe to retry: {}", self.message),
                );
            }
            FailureKind::Overloaded { retry_after } => {
                return ErrorResponse::overloaded(retry_after, self.message);
            }
            FailureKind::Timeout => ErrorDetail::ReadTimeout { replies, data_present: false },
            FailureKind::Unknown => ErrorDetail::CasWriteUnknown(replies),
            FailureKind::Unavailable => ErrorDetail::Unavailable(replies),
            FailureKind::Server => ErrorDetail::Plain(ErrorCode::Server),
        };
        ErrorResponse { detail, message: self.message, retry_after: None }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// The kinds of [`Error`] that need names which it does not carry (what exists already, what is not
/// prepared) are made by the backend; here they become the next best.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::Conflict | ErrorKind::TooOld => FailureKind::Conflict,
            ErrorKind::Unknown { .. } => FailureKind::Unknown,
            ErrorKind::Overloaded { retry_after } => FailureKind::Overloaded { retry_after },
            ErrorKind::Timeout => FailureKind::Timeout,
            ErrorKind::Invalid
            | ErrorKind::Unsupported
            | ErrorKind::Aborted
            | ErrorKind::AlreadyExists => FailureKind::Invalid,
            ErrorKind::Unavailable => FailureKind::Unavailable,
            _ => FailureKind::Server,
        };
        Self::new(kind, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::Timestamp;

    use super::*;
    use crate::protocol::Version;

    fn code(kind: ErrorKind, version: Version) -> ErrorCode {
        Failure::from(Error::new(kind, "why")).into_response(Consistency::One).code(version)
    }

    #[test]
    fn retryable_and_unknown_are_kept_apart() {
        let start = Timestamp::new(7).unwrap();
        assert_eq!(code(ErrorKind::Conflict, Version::V4), ErrorCode::Overloaded);
        assert_eq!(code(ErrorKind::TooOld, Version::V5), ErrorCode::Overloaded);
        assert_eq!(code(ErrorKind::Unknown { start }, Version::V4), ErrorCode::WriteTimeout);
        assert_eq!(code(ErrorKind::Unknown { start }, Version::V5), ErrorCode::CasWriteUnknown);
        assert_eq!(code(ErrorKind::Timeout, Version::V5), ErrorCode::ReadTimeout);
        assert_eq!(code(ErrorKind::Unsupported, Version::V5), ErrorCode::Invalid);
        assert_eq!(code(ErrorKind::Corrupted, Version::V5), ErrorCode::Server);
    }

    #[test]
    fn failed_function_is_named() {
        let kind = FailureKind::FunctionFailure {
            keyspace: "system".to_owned(),
            function: "_divide".to_owned(),
            argument_types: vec!["int".to_owned(); 2],
        };
        let response = Failure::new(kind, "/ by zero").into_response(Consistency::One);
        assert_eq!(response.code(Version::V4), ErrorCode::FunctionFailure);
    }

    #[test]
    fn a_conflict_says_that_it_may_be_retried() {
        let failure = Failure::from(Error::conflict("row 7 was written at 12"));
        let response = failure.into_response(Consistency::One);
        assert_eq!(response.message, "aborted, safe to retry: row 7 was written at 12");
    }
}
