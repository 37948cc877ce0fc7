//! A database that clients drive, and its answers.

use anyhow::Result;
use carnet_checker::Op;

use super::transaction::Transaction;

/// Outcome of a transaction.
pub(super) enum TransactionOutcome<T> {
    /// It committed, with the values that it read.
    Committed(T),
    /// It had no effect.
    Aborted,
    /// Its outcome is unknown.
    Unknown,
}

impl<T> TransactionOutcome<T> {
    pub(super) fn map<U>(self, map: impl FnOnce(T) -> U) -> TransactionOutcome<U> {
        match self {
            Self::Committed(read) => TransactionOutcome::Committed(map(read)),
            Self::Aborted => TransactionOutcome::Aborted,
            Self::Unknown => TransactionOutcome::Unknown,
        }
    }
}

/// A database that clients drive.
pub(super) trait Target: Sync {
    /// Returns a transaction's operations in the order in which the database runs them.
    fn arrange(&self, ops: Vec<Op>) -> Vec<Op> {
        ops
    }

    /// Runs a transaction; returns its reads, and its writes if its condition held.
    ///
    /// # Errors
    ///
    /// Errors that end the run.
    fn run(&self, transaction: &Transaction) -> Result<TransactionOutcome<Vec<Op>>>;

    /// Moves money from one account to another, if the first has enough.
    ///
    /// # Errors
    ///
    /// See [`Target::run`].
    fn transfer(&self, from: i64, to: i64, amount: i64) -> Result<TransactionOutcome<()>>;

    /// Reads the accounts' balances.
    ///
    /// # Errors
    ///
    /// See [`Target::run`].
    fn balances(&self) -> Result<TransactionOutcome<Vec<i64>>>;
}
