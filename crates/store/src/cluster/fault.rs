//! A call that did not succeed: certainly not done, or nobody knows.

use std::{error, fmt};

use carnet_base::{Error, ErrorKind};

/// The result of a call to a cluster.
pub type Faulty<T> = Result<T, Fault>;

/// Why a call to a cluster has no result.
#[derive(Debug)]
pub enum Fault {
    /// Certainly not done, now or later.
    Failed(Error),
    /// Done, done in part, not done, or done later: a time-out, or a connection that broke.
    Unknown(Error),
}

impl Fault {
    /// Makes a [`Fault::Unknown`] of a call that took too long.
    #[must_use]
    pub fn timed_out(what: impl fmt::Display) -> Self {
        let message = format!("{what} timed out: whether it was done is not known");
        Self::Unknown(Error::new(ErrorKind::Unavailable, message))
    }

    /// Makes a [`Fault::Failed`].
    #[must_use]
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed(Error::unavailable(message))
    }

    /// Tells whether the call may have been done.
    #[must_use]
    pub const fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown(_))
    }

    /// Returns the error, whichever of the two it is: for calls that only read.
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
