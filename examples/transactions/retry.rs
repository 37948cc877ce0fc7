//! Transactions over several statements with the Rust driver, run again after a conflict.
//!
//! The statements of the body name the transaction by `USING TRANSACTION`. They may go through any
//! server of the database.

use std::time::Duration;

use scylla::client::session::Session;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use uuid::Uuid;

/// Begin of the message of an error after which the whole transaction can be run again.
const RUN_AGAIN: &str = "aborted, run the transaction again: ";

/// Returns `true` if the transaction has ended without effect, and may succeed if it is run again.
///
/// The driver drops the payload of errors (`carnet.error = aborted`); the begin of the message says
/// the same, and does not change.
fn ended_without_effect(error: &ExecutionError) -> bool {
    match error {
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(DbError::Invalid, text)) => {
            text.contains(RUN_AGAIN)
        }
        _ => false,
    }
}

/// Runs the body and commits; runs it again if the transaction ended without effect.
///
/// # Errors
///
/// The body's errors and those of the commit. After an error of the commit its outcome may be
/// unknown: ask `SELECT outcome(transaction)` before trying again.
pub async fn run_transaction<T>(
    session: &Session,
    attempts: u32,
    body: impl AsyncFn(Uuid) -> Result<T, ExecutionError>,
) -> Result<T, ExecutionError> {
    let mut attempt = 0;
    loop {
        let rows = session.query_unpaged("START DETACHED TRANSACTION", &[]).await?;
        let rows = rows.into_rows_result().expect("the id of the transaction");
        let (transaction,): (Uuid,) = rows.single_row().expect("one row");
        let commit = format!("COMMIT TRANSACTION {transaction}");
        let result = match body(transaction).await {
            Ok(result) => session.query_unpaged(commit, &[]).await.map(|_| result),
            Err(error) => Err(error),
        };
        let error = match result {
            Ok(result) => return Ok(result),
            Err(error) => error,
        };
        // Without effect after a commit; if it cannot be sent, the transaction expires.
        let rollback = format!("ROLLBACK TRANSACTION {transaction}");
        let _ = session.query_unpaged(rollback, &[]).await;
        attempt += 1;
        if !ended_without_effect(&error) || attempt == attempts {
            return Err(error);
        }
        // Two transactions that conflict wait for different times; an id is random enough.
        let most = 5_000 << attempt.min(6);
        let wait = transaction.as_u64_pair().1 % most;
        tokio::time::sleep(Duration::from_micros(wait)).await;
    }
}
