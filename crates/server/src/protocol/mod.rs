//! The CQL native protocol, versions 4 and 5: decodes bytes to requests, encodes responses to
//! bytes.
//!
//! This module does no I/O, reads no clock and ignores the meaning of statements.
//!
//! ```text
//!             v4                         v5, after the answer to STARTUP
//!   ┌────────┬───────────────┐    ┌────────┬───────┬───────────────────┬───────┐
//!   │ header │ body          │    │ header │ CRC24 │ frame, frame, …   │ CRC32 │   a segment
//!   │ 9 B    │ maybe lz4     │    │ 3, 5 B │ 3 B   │ ≤ 128 KiB, or lz4 │ 4 B   │
//!   └────────┴───────────────┘    └────────┴───────┴───────────────────┴───────┘
//!     a frame, see [`frame`]          see [`segment`]; a longer frame is split
//! ```
//!
//! [`decoder::FrameDecoder`] converts the bytes of a connection to [`frame::Frame`]s, with or
//! without segments; [`request`] decodes a frame's body, of a statement only its [`head`] before its admission; [`response`] and [`error`] write one;
//! [`encoder::FrameEncoder`] adds header and segments.
//!
//! **Invariants.** A client's bytes have no effect before they are checked:
//!
//! * No length is trusted. The body's length is compared with a limit, and its bytes are charged to
//!   the server's [`MemoryBudget`](carnet_base::MemoryBudget) as they arrive. Memory grows with
//!   bytes that have arrived, never with announced ones. Lists are sized by the capacity of the
//!   remaining body; an lz4 block cannot announce more than its input can expand to.
//! * Nothing recurses: requests contain no nested types.
//! * Values are slices of their body ([`bytes::Bytes`]), never copies.
//!
//! **Deliberately absent:** protocol versions below 4 (no current driver needs them), snappy (v5
//! removed it, and all drivers that support it support lz4), and the `SCYLLA_*` extensions, which
//! would promise shards that do not exist.

mod class_name;
pub mod compression;
mod decoded_size;
pub mod decoder;
pub mod encoder;
pub mod error;
pub mod event;
pub mod frame;
pub mod head;
pub mod marker_values;
pub mod reader;
pub mod request;
pub mod response;
pub mod segment;
pub mod statement;
pub mod types;
pub mod writer;

use std::fmt;

/// Supported version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Version {
    /// Version 4: Cassandra 2.2 and later, and every current driver.
    V4 = 4,
    /// Version 5: Cassandra 4.0 and later; segments with checksums.
    V5 = 5,
}

impl Version {
    /// Highest version, which a client of an unsupported version is told to use.
    pub const HIGHEST: Self = Self::V5;

    /// Returns the version with a number.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            4 => Some(Self::V4),
            5 => Some(Self::V5),
            _ => None,
        }
    }

    /// Returns the version's number.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }
}

/// Opcode of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Opcode {
    /// Response: the request failed.
    Error = 0x00,
    /// Request: begin the connection.
    Startup = 0x01,
    /// Response: the connection is ready.
    Ready = 0x02,
    /// Response: the client must log in first.
    Authenticate = 0x03,
    /// Request for the supported STARTUP options.
    Options = 0x05,
    /// Response with the supported STARTUP options.
    Supported = 0x06,
    /// Request: run a statement's text.
    Query = 0x07,
    /// Response with the result of a statement.
    Result = 0x08,
    /// Request: prepare a statement's text.
    Prepare = 0x09,
    /// Request: run a prepared statement.
    Execute = 0x0a,
    /// Request: send events.
    Register = 0x0b,
    /// Event, a response without a request.
    Event = 0x0c,
    /// Request: run several statements as one.
    Batch = 0x0d,
    /// Response: continue the log-in. Never sent, because PLAIN has one step only.
    AuthChallenge = 0x0e,
    /// Request with the client's credentials.
    AuthResponse = 0x0f,
    /// Response: the log-in succeeded.
    AuthSuccess = 0x10,
}

impl Opcode {
    /// All opcodes that a client may send.
    pub const REQUESTS: [Self; 8] = [
        Self::Startup,
        Self::Options,
        Self::Query,
        Self::Prepare,
        Self::Execute,
        Self::Register,
        Self::Batch,
        Self::AuthResponse,
    ];

    /// Returns the request opcode with a number.
    #[must_use]
    pub fn request(number: u8) -> Option<Self> {
        Self::REQUESTS.into_iter().find(|opcode| *opcode as u8 == number)
    }

    /// Returns the opcode's name in the protocol's specification.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "ERROR",
            Self::Startup => "STARTUP",
            Self::Ready => "READY",
            Self::Authenticate => "AUTHENTICATE",
            Self::Options => "OPTIONS",
            Self::Supported => "SUPPORTED",
            Self::Query => "QUERY",
            Self::Result => "RESULT",
            Self::Prepare => "PREPARE",
            Self::Execute => "EXECUTE",
            Self::Register => "REGISTER",
            Self::Event => "EVENT",
            Self::Batch => "BATCH",
            Self::AuthChallenge => "AUTH_CHALLENGE",
            Self::AuthResponse => "AUTH_RESPONSE",
            Self::AuthSuccess => "AUTH_SUCCESS",
        }
    }
}

/// Error in a client's bytes. The connection ends after the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// The frame has an unsupported version; its header may have another layout.
    UnsupportedVersion(u8),
    /// The bytes violate a rule, which the message names.
    Malformed(String),
}

impl ProtocolError {
    /// Creates a [`ProtocolError::Malformed`] error.
    pub(crate) fn malformed(message: impl Into<String>) -> Self {
        Self::Malformed(message.into())
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Drivers decide by the first words whether to try a lower version.
            Self::UnsupportedVersion(number) => write!(
                f,
                "Invalid or unsupported protocol version ({number}); \
                 supported versions are (4/v4, 5/v5)"
            ),
            Self::Malformed(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for ProtocolError {}
