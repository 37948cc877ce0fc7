//! Errors of transactions that stay open.
//!
//! A transaction that has ended without effect, and can succeed if its client runs it again, answers
//! with [`CqlErrorKind::Aborted`] and a message that begins with [`RUN_AGAIN`]. Drivers must not
//! retry its last statement by themselves, so it has the code of an invalid request, and not that of
//! a conflict of a single statement.

use std::time::Duration;

use carnet::Uuid;

use super::registry::{End, Refusal};
use crate::cql_error::{CqlError, CqlErrorKind};

/// Begin of the message of an error after which the whole transaction can be run again.
const RUN_AGAIN: &str = "aborted, run the transaction again";

/// Time after which a client that found no place may try again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Returns the error of a transaction that ended without effect and can be run again.
pub(in crate::exec) fn aborted(why: &str) -> CqlError {
    CqlError::new(CqlErrorKind::Aborted, format!("{RUN_AGAIN}: {why}"))
}

/// Returns the error of a statement that a transaction refuses. `elsewhere` says where an unknown
/// transaction may be.
pub(in crate::exec) fn refused(
    id: Uuid,
    refusal: Refusal,
    elsewhere: impl FnOnce() -> String,
) -> CqlError {
    let message = match refusal {
        Refusal::TooMany(max) => {
            return overloaded(&format!("{max} transactions are open, as many as may be"));
        }
        Refusal::TooManyOfClient(max) => {
            return overloaded(&format!(
                "{max} transactions of this client are open, and it may have no more now"
            ));
        }
        Refusal::NotOpen(Some(end)) => return ended(id, end),
        Refusal::NotOpen(None) => elsewhere(),
        Refusal::OtherUser => {
            let message = format!("transaction {id} was started by another user");
            return CqlError::unauthorized(message);
        }
        Refusal::Busy => format!(
            "a statement of transaction {id} is running, and a transaction runs one at a time: wait \
             for its answer; the transaction is still open"
        ),
        Refusal::Committing => format!("the commit of transaction {id} is in progress"),
    };
    CqlError::invalid(message)
}

fn overloaded(why: &str) -> CqlError {
    let message = format!(
        "no transaction was started: {why}; end one by COMMIT or ROLLBACK (system_views.transactions \
         lists them), or try again later"
    );
    CqlError::new(CqlErrorKind::Overloaded { retry_after: RETRY_AFTER }, message)
}

/// Returns the error of a statement of a transaction that has ended.
pub(in crate::exec) fn ended(id: Uuid, end: End) -> CqlError {
    let why = describe(end);
    let message = format!("transaction {id} {why}");
    match end {
        End::Conflict
        | End::NotCommitted
        | End::TooOld
        | End::Expired(_)
        | End::Disconnected
        | End::CutOff
        | End::Failed
        | End::Killed
        | End::Shutdown => aborted(&message),
        End::Committed(_) | End::OnlyRead(_) | End::RolledBack => CqlError::invalid(message),
        End::Unknown => CqlError::invalid(format!("{message}; SELECT outcome({id}) finds it out")),
    }
}

/// Returns the end of a transaction in words that follow its name.
pub(in crate::exec) fn describe(end: End) -> String {
    match end {
        End::Committed(at) => format!("was committed at {at}"),
        End::OnlyRead(_) => "was committed, and had only read".to_owned(),
        End::RolledBack => "was rolled back".to_owned(),
        End::Conflict => "lost a conflict, and nothing was written".to_owned(),
        End::NotCommitted => "was not committed, and nothing was written".to_owned(),
        End::Unknown => {
            "was being committed when its connection ended or failed, and its outcome is not known"
                .to_owned()
        }
        End::Failed => {
            "was rolled back, because a statement failed after some of its changes".to_owned()
        }
        End::TooOld => "was rolled back, because it can read no longer".to_owned(),
        End::CutOff => "was rolled back, because a statement was cut off before its end".to_owned(),
        End::Expired(limit) => {
            format!("was rolled back, because no statement came for {limit:?}")
        }
        End::Killed => "was rolled back by KILL TRANSACTION".to_owned(),
        End::Disconnected => "was rolled back with its connection".to_owned(),
        End::Shutdown => "was rolled back with its server".to_owned(),
    }
}

/// Says after a failed statement what became of its transaction.
pub(in crate::exec) fn after(error: CqlError, id: Uuid, end: Option<End>) -> CqlError {
    let Some(end) = end else {
        if matches!(error.kind(), CqlErrorKind::Unprepared { .. }) {
            return error;
        }
        // The place of a mistake in a text is shown on further lines.
        let (first, rest) =
            error.message().split_at(error.message().find('\n').unwrap_or(error.message().len()));
        let message = format!("{first}; the transaction is still open{rest}");
        return CqlError::new(error.kind().clone(), message);
    };
    let message = format!("{}; transaction {id} {}", error.message(), describe(end));
    match (end, error.kind()) {
        (End::TooOld | End::Expired(_) | End::Killed, _)
        | (_, CqlErrorKind::Conflict | CqlErrorKind::Overloaded { .. } | CqlErrorKind::Timeout) => {
            aborted(&message)
        }
        (_, CqlErrorKind::Unprepared { .. }) => CqlError::invalid(message),
        (_, kind) => CqlError::new(kind.clone(), message),
    }
}
