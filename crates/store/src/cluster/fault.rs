//! Faults of calls to a cluster: certainly not done, or unknown.

use std::{error, fmt};

use carnet_base::{Error, ErrorKind};

/// The result of a call to a cluster.
pub type Faulty<T> = Result<T, Fault>;

/// Reason why a call to a cluster has no result.
#[derive(Debug)]
pub enum Fault {
    /// Certainly not done, now or later.
    Failed(Error),
    /// Done, partly done, not done, or done later: a timeout or a broken connection.
    Unknown(Error),
}

impl Fault {
    /// Creates a [`Fault::Unknown`] for a call that timed out.
    #[must_use]
    pub fn timed_out(what: impl fmt::Display) -> Self {
        let message = format!("{what} timed out: it is not known whether it was applied");
        Self::Unknown(Error::new(ErrorKind::Unavailable, message))
    }

    /// Creates a [`Fault::Failed`].
    #[must_use]
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed(Error::unavailable(message))
    }

    /// Returns `true` if the call may have been done.
    #[must_use]
    pub const fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown(_))
    }

    /// Returns the error of either kind, for calls that only read.
    #[must_use]
    pub fn into_error(self) -> Error {
        match self {
            Self::Failed(error) | Self::Unknown(error) => error,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) | Self::Unknown(error) => error.fmt(f),
        }
    }
}

impl error::Error for Fault {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Failed(error) | Self::Unknown(error) => error::Error::source(error),
        }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        fault.into_error()
    }
}
