//! The protocol's error codes.

use carnet_base::{Error, ErrorKind};

/// Why a request was not done, as the protocol numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// 0: no answer in time; it may have happened.
    Timeout,
    /// 10: there is no such request.
    NotSupported,
    /// 11: not now; it did not happen.
    TemporarilyUnavailable,
    /// 12: the request is wrong.
    MalformedRequest,
    /// 13: something broke; it may have happened.
    Crash,
    /// 14: given up; it did not happen.
    Abort,
    /// 20: there is no such key.
    KeyDoesNotExist,
    /// 22: the key does not hold what was expected.
    PreconditionFailed,
    /// 30: other transactions were always faster; it did not happen.
    TxnConflict,
}

impl Code {
    /// Returns the number.
    #[must_use]
    pub const fn number(self) -> u64 {
        match self {
            Self::Timeout => 0,
            Self::NotSupported => 10,
            Self::TemporarilyUnavailable => 11,
            Self::MalformedRequest => 12,
            Self::Crash => 13,
            Self::Abort => 14,
            Self::KeyDoesNotExist => 20,
            Self::PreconditionFailed => 22,
            Self::TxnConflict => 30,
        }
    }

    /// Tells whether it promises that the request did not take effect, and never will.
    #[must_use]
    pub const fn is_definite(self) -> bool {
        !matches!(self, Self::Timeout | Self::Crash)
    }

    /// Returns the code for an error of the tree.
    pub(crate) const fn of(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::Conflict => Self::TxnConflict,
            ErrorKind::Aborted => Self::Abort,
            ErrorKind::Invalid => Self::MalformedRequest,
            // The tree says so only where nothing was written, nor may be.
            ErrorKind::Unavailable => Self::TemporarilyUnavailable,
            ErrorKind::Unknown { .. } => Self::Timeout,
            // Whatever else there may come to be: nothing is promised.
            _ => Self::Crash,
        }
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::Timestamp;

    use super::*;

    #[test]
    fn only_what_certainly_did_not_happen_has_a_definite_code() {
        let unknown = ErrorKind::Unknown { start: Timestamp::new(1).unwrap() };
        for kind in [unknown, ErrorKind::Corrupted, ErrorKind::Timeout, ErrorKind::TooOld] {
            assert!(!Code::of(&Error::new(kind, "")).is_definite(), "{kind:?}");
        }
        for kind in [ErrorKind::Conflict, ErrorKind::Unavailable, ErrorKind::Aborted] {
            assert!(Code::of(&Error::new(kind, "")).is_definite(), "{kind:?}");
        }
    }
}
