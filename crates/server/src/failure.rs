//! Failures of statements, and their error codes in the protocol.
//!
//! Drivers act on the error's code: they retry some by themselves, and raise a separate kind of
//! exception for each. The choice of the code is therefore part of the contract:
//!
//! | outcome | code | because drivers |
//! | --- | --- | --- |
//! | no effect, retry ([`Conflict`], [`Overloaded`]) | 0x1001 | may retry elsewhere, with backoff |
//! | unknown whether it was committed ([`Unknown`]) | 0x1700, in v4 0x1100 of a CAS write | never retry |
//! | no effect, no time left ([`Timeout`]) | 0x1200, none of one answered | do not retry |
//! | the statement is wrong | 0x2000 and above | never retry |
//! | an operator ended the statement ([`Killed`]) | 0x2200 | never retry |
//! | a transaction of several statements has ended without effect ([`Aborted`]) | 0x2200 | never retry: its client runs all of it again |
//!
//! Several outcomes have one code. A program tells them apart by the custom payload of the response, in
//! which each outcome that calls for a decision has a [name](FailureKind::name). The table of errors in
//! `docs/cql.md` is made by file `failure_docs`.
//!
//! [`Conflict`]: FailureKind::Conflict
//! [`Overloaded`]: FailureKind::Overloaded
//! [`Unknown`]: FailureKind::Unknown
//! [`Timeout`]: FailureKind::Timeout
//! [`Killed`]: FailureKind::Killed
//! [`Aborted`]: FailureKind::Aborted

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use carnet_base::{Error, ErrorKind};

use crate::protocol::error::{ErrorCode, ErrorDetail, ErrorResponse, Replies};
use crate::protocol::types::Consistency;

/// Name of the outcome in the custom payload of an ERROR response.
pub const ERROR: &str = "carnet.error";

/// Name of the time after which a retry makes sense, as a decimal number of milliseconds.
pub const RETRY_AFTER: &str = "retry_after_ms";

/// Name of the table of a row that was lost to another transaction.
pub const TABLE: &str = "carnet.table";

/// Name of the key of a row that was lost to another transaction.
pub const KEY: &str = "carnet.key";

/// Time after which a statement or transaction that lost a conflict is run again.
const CONFLICT_RETRY: Duration = Duration::from_millis(10);

/// Time after which a store that could not be reached is tried again.
const UNAVAILABLE_RETRY: Duration = Duration::from_secs(1);

/// Kind of a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The request violates the protocol, for example by a paging state that no server returned.
    Protocol,
    /// The text is not CQL.
    Syntax,
    /// The text is CQL that is invalid here, or that is not supported yet.
    Invalid,
    /// An option of a keyspace or table has an invalid value.
    Config,
    /// The user has no permission.
    Unauthorized,
    /// The keyspace or table to create exists.
    AlreadyExists {
        /// Keyspace that exists, or that contains the table.
        keyspace: String,
        /// Table that exists; empty for a keyspace.
        table: String,
    },
    /// No prepared statement has this id. Drivers prepare it again and continue.
    Unprepared {
        /// Id of the statement.
        id: Bytes,
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
    /// Another transaction committed first; nothing was written. The statement may be retried.
    Conflict,
    /// A transaction of several statements has ended without effect: all of it may be run again.
    Aborted,
    /// The transaction raised this error, and has no effect.
    Raised,
    /// The server has no capacity; nothing was done.
    Overloaded {
        /// Time after which a retry makes sense.
        retry_after: Duration,
    },
    /// The deadline passed; nothing was written.
    Timeout,
    /// An operator ended the statement; nothing was written.
    Killed,
    /// The outcome of the transaction is unknown.
    Unknown,
    /// The store cannot be reached or written.
    Unavailable,
    /// An internal error of the server.
    Server,
}

/// Failure of a statement: a kind for the driver and a message for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Kind of the failure.
    pub kind: FailureKind,
    /// Message: the failure, its object, and the remedy.
    pub message: String,
    /// Table and key of a conflict, if they are known.
    pub lost_row: Option<Box<(String, String)>>,
}

impl FailureKind {
    /// Returns the name under [`ERROR`] in the custom payload, by which programs tell outcomes apart
    /// that call for a decision.
    #[must_use]
    pub const fn name(&self) -> Option<&'static str> {
        Some(match self {
            Self::Conflict => "conflict",
            Self::Aborted => "aborted",
            Self::Raised => "raised",
            Self::Overloaded { .. } => "overloaded",
            Self::Timeout => "timeout",
            Self::Killed => "killed",
            Self::Unknown => "unknown",
            Self::Unavailable => "unavailable",
            _ => return None,
        })
    }

    /// Returns the time after which a retry makes sense.
    const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Overloaded { retry_after } => Some(*retry_after),
            Self::Conflict | Self::Aborted => Some(CONFLICT_RETRY),
            Self::Unavailable => Some(UNAVAILABLE_RETRY),
            _ => None,
        }
    }
}

impl Failure {
    /// Creates a failure from its kind and message.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), lost_row: None }
    }

    fn payload(&self) -> Vec<(&'static str, String)> {
        let name = self.kind.name().map(|name| (ERROR, name.to_owned()));
        let retry_after = self.kind.retry_after();
        let retry_after =
            retry_after.map(|time| (RETRY_AFTER, time.as_millis().max(1).to_string()));
        let row = self.lost_row.as_deref().into_iter();
        let row = row.flat_map(|(table, key)| [(TABLE, table.clone()), (KEY, key.clone())]);
        name.into_iter().chain(retry_after).chain(row).collect()
    }

    /// Creates a [`FailureKind::Syntax`] failure.
    pub fn syntax(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Syntax, message)
    }

    /// Creates a [`FailureKind::Invalid`] failure.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Invalid, message)
    }

    /// Creates a [`FailureKind::Unprepared`] failure.
    #[must_use]
    pub fn unprepared(id: Bytes) -> Self {
        let message = "there is no prepared statement of this id: prepare it again";
        Self::new(FailureKind::Unprepared { id }, message)
    }

    /// Returns the error response to a client that requested this consistency level.
    #[must_use]
    pub(crate) fn into_response(self, consistency: Consistency) -> ErrorResponse {
        let payload = self.payload();
        // Carnet has one store, which did not answer.
        let replies = Replies { consistency, received: 0, required: 1 };
        let message = match self.kind {
            FailureKind::Conflict => format!("aborted, safe to retry: {}", self.message),
            _ => self.message,
        };
        let detail = match self.kind {
            FailureKind::Protocol => ErrorDetail::Plain(ErrorCode::Protocol),
            FailureKind::Syntax => ErrorDetail::Plain(ErrorCode::Syntax),
            FailureKind::Invalid
            | FailureKind::Aborted
            | FailureKind::Killed
            | FailureKind::Raised => ErrorDetail::Plain(ErrorCode::Invalid),
            FailureKind::Config => ErrorDetail::Plain(ErrorCode::Config),
            FailureKind::Unauthorized => ErrorDetail::Plain(ErrorCode::Unauthorized),
            FailureKind::AlreadyExists { keyspace, table } => {
                ErrorDetail::AlreadyExists { keyspace, table }
            }
            FailureKind::Unprepared { id } => ErrorDetail::Unprepared { id },
            FailureKind::FunctionFailure { keyspace, function, argument_types } => {
                ErrorDetail::FunctionFailure { keyspace, function, argument_types }
            }
            FailureKind::Conflict | FailureKind::Overloaded { .. } => {
                ErrorDetail::Plain(ErrorCode::Overloaded)
            }
            FailureKind::Timeout => ErrorDetail::ReadTimeout { replies, data_present: false },
            FailureKind::Unknown => ErrorDetail::CasWriteUnknown(replies),
            FailureKind::Unavailable => ErrorDetail::Unavailable(replies),
            FailureKind::Server => ErrorDetail::Plain(ErrorCode::Server),
        };
        ErrorResponse { detail, message, payload }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// The backend creates the kinds that need names which [`Error`] does not carry (the existing
/// object, the unprepared statement); here they become the nearest other kind.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::Conflict | ErrorKind::TooOld => FailureKind::Conflict,
            ErrorKind::Unknown { .. } => FailureKind::Unknown,
            ErrorKind::Overloaded { retry_after } => FailureKind::Overloaded { retry_after },
            ErrorKind::Timeout => FailureKind::Timeout,
            ErrorKind::Aborted => FailureKind::Killed,
            ErrorKind::Invalid | ErrorKind::Unsupported | ErrorKind::AlreadyExists => {
                FailureKind::Invalid
            }
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
        assert_eq!(code(ErrorKind::Unavailable, Version::V5), ErrorCode::Unavailable);
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
    fn conflict_says_that_it_may_be_retried() {
        let mut failure = Failure::from(Error::conflict("row 7 was written at 12"));
        failure.lost_row = Some(Box::new(("ks.t".to_owned(), "k = 7".to_owned())));
        let response = failure.into_response(Consistency::One);
        assert_eq!(response.message, "aborted, safe to retry: row 7 was written at 12");
        let payload = [(ERROR, "conflict"), (RETRY_AFTER, "10"), (TABLE, "ks.t"), (KEY, "k = 7")];
        assert_eq!(response.payload, payload.map(|(name, value)| (name, value.to_owned())));
    }
}
