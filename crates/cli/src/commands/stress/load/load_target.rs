//! A database that a load drives.

use anyhow::Result;

use super::operation::Operation;

/// Result of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::commands::stress) enum Done {
    /// It succeeded; reads returned this number of rows, and a write wrote one.
    Rows(u64),
    /// The database had no capacity, or other transactions committed first.
    Refused,
    /// It failed, or has no answer.
    Failed,
}

/// A database that a load drives.
pub(in crate::commands::stress) trait LoadTarget: Sync {
    /// Runs an operation.
    ///
    /// # Errors
    ///
    /// Errors that end the run: the statement is refused as wrong.
    fn run(&self, operation: &Operation) -> Result<Done>;
}
