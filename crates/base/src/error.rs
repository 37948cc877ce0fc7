//! Errors whose kind tells the caller what to do.

use std::time::Duration;
use std::{error, fmt, result};

use crate::cell_hash::CellHash;
use crate::ids::Timestamp;

/// The result of a Carnet operation.
pub type Result<T, E = Error> = result::Result<T, E>;

/// Kind of an error: tells the caller what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Another transaction committed first. Nothing was written: run the transaction again.
    Conflict,
    /// Whether the transaction committed is not known. Ask `outcome(start)` before trying again.
    Unknown {
        /// Start timestamp of the transaction.
        start: Timestamp,
    },
    /// The snapshot is older than the retained versions. Begin a new transaction.
    TooOld,
    /// There is no capacity for the work now. Nothing was done: retry after the given time.
    Overloaded {
        /// Time to wait before a retry.
        retry_after: Duration,
    },
    /// The deadline passed. Nothing was written.
    Timeout,
    /// The call itself is wrong, at every try: change it.
    Invalid,
    /// The object to be created exists already.
    AlreadyExists,
    /// Correct, but not built yet.
    Unsupported,
    /// The caller gave the transaction up.
    Aborted,
    /// The store cannot be reached or cannot be written now: look at the cause, then try again.
    Unavailable,
    /// Stored bytes differ from the written ones. Stop, and examine the file that the message
    /// names.
    Corrupted,
}

impl ErrorKind {
    /// Returns `true` if running the same transaction again is safe and can succeed.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        matches!(self, Self::Conflict | Self::TooOld | Self::Overloaded { .. })
    }
}

/// An error: its [kind](ErrorKind), a message that says what failed, on what, and what to do, and a
/// cause.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    /// Hash of the lost cell, or 0.
    lost_cell: u64,
    /// Bytes of the lost cell's key.
    lost_key: Option<Box<[u8]>>,
    source: Option<Box<dyn error::Error + Send + Sync>>,
}

impl Error {
    /// Creates an error with a message for people.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), lost_cell: 0, lost_key: None, source: None }
    }

    /// Sets the cell of a conflict, which another transaction wrote first.
    #[must_use]
    pub const fn with_lost_cell(mut self, cell: CellHash) -> Self {
        self.lost_cell = cell.0;
        self
    }

    /// Sets the bytes of the key of a conflict's cell.
    #[must_use]
    pub fn with_lost_key(mut self, key: Option<&[u8]>) -> Self {
        self.lost_key = key.map(Box::from);
        self
    }

    /// Adds the error that caused this one.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Creates an [`ErrorKind::Invalid`].
    #[must_use]
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// Creates an [`ErrorKind::Unsupported`] with the message "not supported yet: `what`".
    #[must_use]
    pub fn unsupported(what: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Unsupported, format!("not supported yet: {what}"))
    }

    /// Creates an [`ErrorKind::Corrupted`].
    #[must_use]
    pub fn corrupted(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupted, message)
    }

    /// Creates an [`ErrorKind::Unavailable`].
    #[must_use]
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    /// Creates an [`ErrorKind::Conflict`].
    #[must_use]
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Conflict, message)
    }

    /// Creates an [`ErrorKind::Aborted`]: code inside a transaction returns it to roll the
    /// transaction back.
    #[must_use]
    pub fn aborted(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Aborted, message)
    }

    /// Returns the kind.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the cell of a conflict that another transaction wrote first, if it is known.
    #[must_use]
    pub const fn lost_cell(&self) -> Option<CellHash> {
        match self.lost_cell {
            0 => None,
            hash => Some(CellHash(hash)),
        }
    }

    /// Returns the bytes of the key of a conflict's cell, if the transaction wrote it, and its commit was
    /// decided in this process.
    #[must_use]
    pub fn lost_key(&self) -> Option<&[u8]> {
        self.lost_key.as_deref()
    }

    /// Returns the message without its causes.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        let mut cause = error::Error::source(self);
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            // An `Error` has printed its own causes already.
            cause = if error.is::<Self>() { None } else { error.source() };
        }
        Ok(())
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_names_every_cause_once() {
        let disk = std::io::Error::other("no space left");
        let inner = Error::unavailable("cannot write wal-7.log").with_source(disk);
        let outer = Error::unavailable("the store stopped").with_source(inner);
        assert_eq!(outer.to_string(), "the store stopped: cannot write wal-7.log: no space left");
    }
}
