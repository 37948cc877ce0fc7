//! The reasons why a connection between two processes is refused.

use std::fmt;
use std::io;

use super::version::VERSION;

/// Reason why a handshake failed.
#[derive(Debug)]
pub(super) enum Refusal {
    Io(io::Error),
    Slow,
    NotCarnet([u8; 8]),
    Version {
        theirs: u16,
    },
    /// One process wants a secret and the other has none.
    Modes {
        is_ours_secret: bool,
    },
    WrongSecret,
    Another,
    Tls(String),
    Full,
    NoAddress,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "the connection broke: {error}"),
            Self::Slow => f.write_str("it did not answer in time"),
            // A TLS record: a handshake or an alert.
            Self::NotCarnet([0x15 | 0x16, 3, ..]) => {
                f.write_str("it speaks TLS, and this process does not: set it on both sides")
            }
            Self::NotCarnet(_) => f.write_str("it does not speak Carnet's protocol"),
            Self::Version { theirs } => write!(
                f,
                "it speaks version {theirs} of the protocol between processes, this one \
                 version {VERSION}"
            ),
            Self::Modes { is_ours_secret: true } => {
                f.write_str("it has no shared secret, and this process has one")
            }
            Self::Modes { is_ours_secret: false } => {
                f.write_str("it has a shared secret, and this process has none")
            }
            Self::WrongSecret => f.write_str("its shared secret differs from this process's"),
            Self::Another => f.write_str("another process is at that address now"),
            Self::Tls(why) => write!(f, "TLS failed: {why}"),
            Self::NoAddress => f.write_str(
                "the address does not have the form \
                                            host:port/incarnation",
            ),
            Self::Full => f.write_str("there are too many connections"),
        }
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
