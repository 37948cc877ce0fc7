//! The protocol's error codes.

use carnet_base::{Error, ErrorKind};

/// Reason why a request failed, with the protocol's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// 0: no answer in time; the request may have taken effect.
    Timeout,
    /// 10: unsupported request.
    NotSupported,
    /// 11: temporarily unavailable; the request did not take effect.
    TemporarilyUnavailable,
    /// 12: malformed request.
    MalformedRequest,
    /// 13: internal error; the request may have taken effect.
    Crash,
    /// 14: aborted; the request did not take effect.
    Abort,
    /// 20: the key does not exist.
    KeyDoesNotExist,
    /// 22: the key does not hold the expected value.
    PreconditionFailed,
    /// 30: conflicts with other transactions; the request did not take effect.
    TxnConflict,
}

impl Code {
    /// Returns the protocol's number.
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

    /// Returns `true` if the code promises that the request did not take effect, and never will.
    #[must_use]
    pub const fn is_definite(self) -> bool {
        !matches!(self, Self::Timeout | Self::Crash)
    }

    /// Returns the code for an error of the tree.
    pub(crate) const fn from_error(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::Conflict => Self::TxnConflict,
            ErrorKind::Aborted => Self::Abort,
            ErrorKind::Invalid => Self::MalformedRequest,
            // The tree returns this kind only if nothing was written or may still be written.
            ErrorKind::Unavailable => Self::TemporarilyUnavailable,
            ErrorKind::Unknown { .. } => Self::Timeout,
            // Other kinds of errors, including future ones, promise nothing.
            _ => Self::Crash,
        }
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::Timestamp;

    use super::*;

    #[test]
    fn only_certain_failures_have_definite_codes() {
        let unknown = ErrorKind::Unknown { start: Timestamp::new(1).unwrap() };
        for kind in [unknown, ErrorKind::Corrupted, ErrorKind::Timeout, ErrorKind::TooOld] {
            assert!(!Code::from_error(&Error::new(kind, "")).is_definite(), "{kind:?}");
        }
        for kind in [ErrorKind::Conflict, ErrorKind::Unavailable, ErrorKind::Aborted] {
            assert!(Code::from_error(&Error::new(kind, "")).is_definite(), "{kind:?}");
        }
    }
}
