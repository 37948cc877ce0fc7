//! Classification of driver errors: certainly not done, or unknown.
//!
//! | error | blind write | conditional write |
//! | --- | --- | --- |
//! | nothing was sent: no connection, no stream, values that do not fit | failed | failed |
//! | rejected as wrong: syntax, rights, configuration | failed | failed |
//! | too few replicas alive, node starting | failed | **unknown** |
//! | overloaded, timeouts, failures of replicas, "outcome unknown" | unknown | unknown |
//! | connection broken, no answer in time, answer not understood | unknown | unknown |
//!
//! A conditional write looks for live replicas again between its phases. It can report too few of
//! them after a majority accepted the value, which is then decided. An overloaded node may have
//! sent a write to some replicas already. In doubt the result is *unknown*: the caller can find out
//! an unknown outcome, but cannot revoke a failure. Reads have no effect, so they only fail.

use std::time::Duration;

use carnet_base::{Error, ErrorKind};
use carnet_store::cluster::Fault;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};

/// Effect of a call on the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Blind,
    Conditional,
}

/// Certainty about a request after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Certainty {
    /// The request was never started.
    NotBegun,
    /// No replica received the request, unless it is a conditional write with several phases.
    NotBegunUnlessConditional,
    /// Nothing is certain.
    Nothing,
}

/// Time to stay away from an overloaded node.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// Creates a fault from an error of the driver.
pub(crate) fn fault_of(access: Access, error: ExecutionError) -> Fault {
    let is_done_by_nobody = match certainty(&error) {
        Certainty::NotBegun => true,
        Certainty::NotBegunUnlessConditional => access != Access::Conditional,
        Certainty::Nothing => access == Access::Read,
    };
    let kind = kind_of(&error);
    if is_done_by_nobody {
        Fault::Failed(Error::new(kind, "the cluster refused the request").with_source(error))
    } else {
        let message = "the cluster did not finish a write: it is not known whether the write was \
                       applied";
        Fault::Unknown(Error::new(ErrorKind::Unavailable, message).with_source(error))
    }
}

/// Creates a fault for the answer of a conditional write that is not understood: it may have been applied.
pub(crate) fn unclear(what: impl std::fmt::Display) -> Fault {
    misunderstood(Access::Conditional, what)
}

/// Creates a fault for an answer that is not understood.
pub(crate) fn misunderstood(access: Access, what: impl std::fmt::Display) -> Fault {
    let message = format!("the cluster's answer is invalid: {what}");
    match access {
        Access::Read => Fault::Failed(Error::unavailable(message)),
        Access::Blind | Access::Conditional => Fault::Unknown(Error::unavailable(message)),
    }
}

/// Returns `true` unless a node answered the request, or refused it as wrong.
pub(crate) fn is_failure(error: &ExecutionError) -> bool {
    kind_of(error) != ErrorKind::Invalid
}

fn certainty(error: &ExecutionError) -> Certainty {
    match error {
        // No request was sent to the last node that was tried. The driver stops at the first node
        // that it sent a request to.
        ExecutionError::BadQuery(_)
        | ExecutionError::EmptyPlan
        | ExecutionError::PrepareError(_)
        | ExecutionError::ConnectionPoolError(_) => Certainty::NotBegun,
        ExecutionError::LastAttemptError(attempt) => match attempt {
            RequestAttemptError::SerializationError(_)
            | RequestAttemptError::CqlRequestSerialization(_)
            | RequestAttemptError::UnableToAllocStreamId
            // The node did not know the statement, so it did not run it.
            | RequestAttemptError::RepreparedIdChanged { .. }
            | RequestAttemptError::RepreparedIdMissingInBatch => Certainty::NotBegun,
            RequestAttemptError::DbError(error, _) => certainty_of_answer(error),
            _ => Certainty::Nothing,
        },
        _ => Certainty::Nothing,
    }
}

fn certainty_of_answer(error: &DbError) -> Certainty {
    match error {
        DbError::SyntaxError
        | DbError::Invalid
        | DbError::AlreadyExists { .. }
        | DbError::AuthenticationError
        | DbError::Unauthorized
        | DbError::ConfigError
        | DbError::ProtocolError
        | DbError::Unprepared { .. }
        | DbError::RateLimitReached { rejected_by_coordinator: true, .. } => Certainty::NotBegun,
        DbError::Unavailable { .. } | DbError::IsBootstrapping => {
            Certainty::NotBegunUnlessConditional
        }
        _ => Certainty::Nothing,
    }
}

fn kind_of(error: &ExecutionError) -> ErrorKind {
    match error {
        ExecutionError::BadQuery(_) => ErrorKind::Invalid,
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, _)) => match error {
            DbError::SyntaxError | DbError::Invalid | DbError::ProtocolError => ErrorKind::Invalid,
            DbError::Overloaded | DbError::RateLimitReached { .. } => {
                ErrorKind::Overloaded { retry_after: RETRY_AFTER }
            }
            _ => ErrorKind::Unavailable,
        },
        _ => ErrorKind::Unavailable,
    }
}

#[cfg(test)]
mod tests {
    use scylla::errors::{OperationType, WriteType};
    use scylla::statement::Consistency;

    use super::*;

    const READ: Access = Access::Read;
    const BLIND: Access = Access::Blind;
    const CONDITIONAL: Access = Access::Conditional;

    fn answered(error: DbError) -> ExecutionError {
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, "why".into()))
    }

    fn unknown(error: &ExecutionError) -> [bool; 3] {
        [READ, BLIND, CONDITIONAL].map(|access| fault_of(access, error.clone()).is_unknown())
    }

    fn write_timeout(write_type: WriteType) -> DbError {
        let consistency = Consistency::Quorum;
        DbError::WriteTimeout { consistency, received: 1, required: 2, write_type }
    }

    #[test]
    fn timeouts_and_broken_connections_are_unknown_to_writers() {
        let consistency = Consistency::Quorum;
        let (received, required, numfailures) = (1, 2, 1);
        let data_present = true;
        for error in [
            write_timeout(WriteType::Simple),
            write_timeout(WriteType::Cas),
            write_timeout(WriteType::UnloggedBatch),
            DbError::ReadTimeout { consistency, received, required, data_present },
            DbError::ReadFailure { consistency, received, required, numfailures, data_present },
            DbError::WriteFailure {
                consistency,
                received,
                required,
                numfailures,
                write_type: WriteType::Simple,
            },
            DbError::Overloaded,
            DbError::ServerError,
            DbError::TruncateError,
            // CAS_WRITE_UNKNOWN of protocol v5.
            DbError::Other(0x1700),
            DbError::RateLimitReached {
                op_type: OperationType::Write,
                rejected_by_coordinator: false,
            },
        ] {
            assert_eq!(unknown(&answered(error.clone())), [false, true, true], "{error}");
        }
        let late = ExecutionError::RequestTimeout(Duration::from_secs(1));
        assert_eq!(unknown(&late), [false, true, true]);
        let odd = ExecutionError::LastAttemptError(RequestAttemptError::NonfinishedPagingState);
        assert_eq!(unknown(&odd), [false, true, true]);
    }

    #[test]
    fn misread_answers_are_unknown_to_writers() {
        let unknown = |access| misunderstood(access, "it has no row").is_unknown();
        assert_eq!([READ, BLIND, CONDITIONAL].map(unknown), [false, true, true]);
        assert!(unclear("it has no row").is_unknown());
    }

    #[test]
    fn requests_never_started_have_failed() {
        for error in [
            DbError::SyntaxError,
            DbError::Invalid,
            DbError::Unauthorized,
            DbError::RateLimitReached {
                op_type: OperationType::Write,
                rejected_by_coordinator: true,
            },
        ] {
            assert_eq!(unknown(&answered(error.clone())), [false; 3], "{error}");
        }
        assert_eq!(unknown(&ExecutionError::EmptyPlan), [false; 3]);
        let no_stream = RequestAttemptError::UnableToAllocStreamId;
        assert_eq!(unknown(&ExecutionError::LastAttemptError(no_stream)), [false; 3]);
    }

    #[test]
    fn unavailable_conditional_write_is_unknown() {
        let consistency = Consistency::Quorum;
        let error = DbError::Unavailable { consistency, required: 2, alive: 1 };
        assert_eq!(unknown(&answered(error)), [false, false, true]);
        assert_eq!(unknown(&answered(DbError::IsBootstrapping)), [false, false, true]);
    }

    #[test]
    fn errors_map_to_their_kinds() {
        let kind = |error| fault_of(READ, answered(error)).into_error().kind();
        assert_eq!(kind(DbError::Overloaded), ErrorKind::Overloaded { retry_after: RETRY_AFTER });
        assert_eq!(kind(DbError::Invalid), ErrorKind::Invalid);
        assert_eq!(kind(DbError::ServerError), ErrorKind::Unavailable);
        // An unknown outcome must never read like "nothing was done, come back".
        let fault = fault_of(BLIND, answered(DbError::Overloaded));
        assert_eq!(fault.into_error().kind(), ErrorKind::Unavailable);
    }
}
