//! Errors of reading or checking a history.

use std::{error, fmt};

/// An error in a history: a message with the problem and its place.
///
/// It is never a finding about the database: findings are [anomalies](crate::Anomaly).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadHistory(String);

/// The result of reading or checking a history.
pub type Result<T, E = BadHistory> = std::result::Result<T, E>;

impl BadHistory {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// Puts the place in front of the message.
    pub(crate) fn at(self, place: impl fmt::Display) -> Self {
        Self(format!("{place}: {}", self.0))
    }
}

impl fmt::Display for BadHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl error::Error for BadHistory {}
