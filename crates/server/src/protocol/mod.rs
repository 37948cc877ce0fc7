//! The CQL native protocol, versions 4 and 5: bytes in, requests out; responses in, bytes out.
//!
//! Nothing in here does I/O, keeps time or knows what a statement means.
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
//! [`decoder::FrameDecoder`] turns the bytes of a connection into [`frame::Frame`]s, whatever is
//! wrapped around them; [`request`] reads a frame's body; [`response`] and [`error`] write one;
//! [`encoder::FrameEncoder`] wraps it up again.
//!
//! **Invariants.** A client's bytes decide nothing before they are checked:
//!
//! * No length is trusted. The body's length is compared with a limit, its bytes are charged to the
//!   server's [`MemoryBudget`](carnet_base::MemoryBudget) as they arrive; memory grows with bytes that
//!   have arrived, never with bytes that were announced; lists are sized by what the rest of the
//!   body could hold; an lz4 block cannot claim more than its input can expand to.
//! * Nothing recurses: requests hold no nested types.
//! * Values are slices of the body that they came in ([`bytes::Bytes`]), never copies.
//!
//! **Left out on purpose:** protocol versions below 4 (no current driver needs them), snappy (v5
//! has dropped it, and all drivers that know it know lz4), tracing, and the `SCYLLA_*` extensions,
//! which would promise shards that are not there.

pub mod compression;
pub mod decoder;
pub mod encoder;
pub mod error;
pub mod frame;
pub mod peek;
pub mod reader;
pub mod request;
pub mod response;
pub mod segment;
pub mod types;
pub mod writer;

use std::fmt;

/// A version of the protocol that is spoken here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Version {
    /// Version 4: Cassandra 2.2 and later, and every current driver.
    V4 = 4,
    /// Version 5: Cassandra 4.0 and later; segments with checksums.
    V5 = 5,
}

impl Version {
    /// The highest version: what a client that asks for an unknown one is told to use.
    pub const HIGHEST: Self = Self::V5;

    /// Returns the version of that number.
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

/// What a frame is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Opcode {
    /// A response: the request failed.
    Error = 0x00,
    /// A request: begin the connection.
    Startup = 0x01,
    /// A response: the connection may be used.
    Ready = 0x02,
    /// A response: say who you are first.
    Authenticate = 0x03,
    /// A request: which STARTUP options are there?
    Options = 0x05,
    /// A response: these are.
    Supported = 0x06,
    /// A request: run a statement's text.
    Query = 0x07,
    /// A response: what came of it.
    Result = 0x08,
    /// A request: keep a statement's text under an id.
    Prepare = 0x09,
    /// A request: run the statement of an id.
    Execute = 0x0a,
    /// A request: send me events.
    Register = 0x0b,
    /// A response without a request: an event.
    Event = 0x0c,
    /// A request: run several statements as one.
    Batch = 0x0d,
    /// A response: answer this too. Never sent, as PLAIN needs one step only.
    AuthChallenge = 0x0e,
    /// A request: this is who I am.
    AuthResponse = 0x0f,
    /// A response: you are who you say.
    AuthSuccess = 0x10,
}

impl Opcode {
    /// Every opcode that a client may send.
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

    /// Returns the request of that number.
    #[must_use]
    pub fn request(number: u8) -> Option<Self> {
        Self::REQUESTS.into_iter().find(|opcode| *opcode as u8 == number)
    }

    /// Returns the opcode's name as the protocol's specification spells it.
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

/// Why a client's bytes cannot be understood. The connection ends after the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// The frame has a version that is not spoken here; its header may mean something else.
    UnsupportedVersion(u8),
    /// The bytes break a rule; the sentence names it.
    Malformed(String),
}

impl ProtocolError {
    /// Makes a [`ProtocolError::Malformed`].
    pub(crate) fn malformed(message: impl Into<String>) -> Self {
        Self::Malformed(message.into())
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Drivers look for the first words to decide whether to try a lower version.
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
