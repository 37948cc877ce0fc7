//! Statements whose transaction no server holds, or whose holder has not answered.
//!
//! The commit table knows what became of a transaction that wrote. A transaction whose process is
//! gone is settled there: an answer of `aborted` is final.

use std::net::SocketAddr;

use carnet::{Outcome, Timestamp, Uuid};

use crate::ast::{OpenStatement, Statement};
use crate::cql_error::{CqlError, CqlErrorKind};
use crate::exec::executor::Executor;
use crate::exec::open::{End, aborted, ended, start_of};
use crate::result::Response;

/// What a statement is for its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exec) enum Step {
    /// It reads or writes within the transaction.
    Inside,
    Commit,
    RollBack,
    Kill,
    /// It asks for the transaction's outcome.
    Outcome,
}

impl Step {
    pub(in crate::exec) const fn of(statement: &Statement) -> Self {
        match statement {
            Statement::Open(OpenStatement::Commit(_)) => Self::Commit,
            Statement::Open(OpenStatement::Rollback(_)) => Self::RollBack,
            Statement::Open(OpenStatement::Kill(_)) => Self::Kill,
            Statement::Open(OpenStatement::Outcome(_)) => Self::Outcome,
            _ => Self::Inside,
        }
    }
}

/// Why the server that holds a transaction did not answer its statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exec) enum Absence {
    /// No server is known to hold it.
    Unknown,
    /// Nothing was sent to it.
    NotReached(SocketAddr),
    /// It may have got the statement.
    Silent(SocketAddr),
}

impl Executor {
    /// Answers a statement of a transaction that no server holds, or whose holder has not answered.
    pub(in crate::exec) async fn lost(
        &self,
        id: Uuid,
        holder: Absence,
        step: Step,
    ) -> Result<Response, CqlError> {
        let start = start_of(id);
        if step == Step::Outcome {
            return self.outcome_of(start).await;
        }
        let outcome = match start {
            Some(start) => self.shared.db.outcome_async(start).await.ok(),
            // It only read. Nothing depends on its end.
            None if step == Step::Inside && holder != Absence::Unknown => None,
            None => Some(Outcome::Aborted),
        };
        match (outcome, step) {
            (Some(Outcome::Committed(_)), Step::Commit)
            | (Some(Outcome::Aborted), Step::RollBack) => Ok(Response::Void),
            (Some(Outcome::Aborted), Step::Commit) if start.is_none() => Ok(Response::Void),
            (Some(Outcome::Committed(at)), _) => Err(ended(id, End::Committed(at))),
            (Some(Outcome::Aborted), Step::Kill) => Err(CqlError::invalid(gone(id))),
            (Some(Outcome::Aborted), _) => Err(aborted(&gone(id))),
            (Some(Outcome::Pending) | None, _) => Err(unreachable(id, start, holder, step)),
        }
    }
}

fn gone(id: Uuid) -> String {
    format!("transaction {id} is gone: it was rolled back, or with the end of its server")
}

/// Returns the error of a statement whose transaction may be open at a server that does not answer.
fn unreachable(id: Uuid, start: Option<Timestamp>, holder: Absence, step: Step) -> CqlError {
    let unavailable = |message| CqlError::new(CqlErrorKind::Unavailable, message);
    let server = match holder {
        Absence::Silent(server) => server,
        Absence::NotReached(server) => {
            return unavailable(format!(
                "nothing could be sent to the server {server}, which holds transaction {id}, so that nothing \
                 was done: try again"
            ));
        }
        Absence::Unknown => {
            return unavailable(format!(
                "no server that is connected to this one holds transaction {id} now; nothing was done: \
                 try again, or run the transaction again"
            ));
        }
    };
    let lost = format!(
        "the connection to the server {server}, which holds transaction {id}, ended before its answer"
    );
    match (step, start) {
        (Step::Commit, Some(start)) => CqlError::new(
            CqlErrorKind::Unknown { start },
            format!(
                "{lost}: whether the transaction was committed is not known; SELECT outcome({id}) \
                 finds it out"
            ),
        ),
        // Nothing is committed, so that its client can run it again.
        (Step::Inside, _) => aborted(&format!(
            "{lost}, and the effect of the statement in it is not known; ROLLBACK TRANSACTION {id} ends \
             it if it is still open"
        )),
        _ => CqlError::new(
            CqlErrorKind::Unavailable,
            format!("{lost}: the transaction may still be open; send the statement again"),
        ),
    }
}
