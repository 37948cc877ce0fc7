//! The ERROR response: a code, a message, and details that depend on the code.

use bytes::Bytes;
use std::net::IpAddr;

use super::Version;
use super::types::Consistency;
use super::writer::Writer;

/// Error codes that the server sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum ErrorCode {
    /// An internal error of the server.
    Server = 0x0000,
    /// The client violated the protocol.
    Protocol = 0x000a,
    /// The log-in failed.
    Authentication = 0x0100,
    /// The store cannot be reached.
    Unavailable = 0x1000,
    /// The server has no capacity; nothing was done.
    Overloaded = 0x1001,
    /// A write timed out.
    WriteTimeout = 0x1100,
    /// A read timed out.
    ReadTimeout = 0x1200,
    /// A read failed.
    ReadFailure = 0x1300,
    /// A function failed.
    FunctionFailure = 0x1400,
    /// A write failed.
    WriteFailure = 0x1500,
    /// The outcome of a conditional write is unknown (v5).
    CasWriteUnknown = 0x1700,
    /// The text is not CQL.
    Syntax = 0x2000,
    /// The user has no permission.
    Unauthorized = 0x2100,
    /// The statement is invalid.
    Invalid = 0x2200,
    /// The statement does not fit the configuration.
    Config = 0x2300,
    /// The object to create exists.
    AlreadyExists = 0x2400,
    /// No prepared statement has this id: prepare it again.
    Unprepared = 0x2500,
}

impl ErrorCode {
    /// All codes, in ascending order.
    pub const ALL: [Self; 17] = [
        Self::Server,
        Self::Protocol,
        Self::Authentication,
        Self::Unavailable,
        Self::Overloaded,
        Self::WriteTimeout,
        Self::ReadTimeout,
        Self::ReadFailure,
        Self::FunctionFailure,
        Self::WriteFailure,
        Self::CasWriteUnknown,
        Self::Syntax,
        Self::Unauthorized,
        Self::Invalid,
        Self::Config,
        Self::AlreadyExists,
        Self::Unprepared,
    ];

    /// Returns the code's name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Protocol => "protocol",
            Self::Authentication => "authentication",
            Self::Unavailable => "unavailable",
            Self::Overloaded => "overloaded",
            Self::WriteTimeout => "write_timeout",
            Self::ReadTimeout => "read_timeout",
            Self::ReadFailure => "read_failure",
            Self::FunctionFailure => "function_failure",
            Self::WriteFailure => "write_failure",
            Self::CasWriteUnknown => "cas_write_unknown",
            Self::Syntax => "syntax",
            Self::Unauthorized => "unauthorized",
            Self::Invalid => "invalid",
            Self::Config => "config",
            Self::AlreadyExists => "already_exists",
            Self::Unprepared => "unprepared",
        }
    }
}

/// Number of replicas that answered, and of those required.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replies {
    /// Consistency level that the client requested.
    pub consistency: Consistency,
    /// Number of replicas that answered.
    pub received: i32,
    /// Number of required replicas.
    pub required: i32,
}

/// Kind of a failed write, by its name in the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteType {
    /// A single statement.
    Simple,
    /// A logged batch.
    Batch,
    /// A conditional statement; the outcome is unknown.
    Cas,
}

impl WriteType {
    const fn name(self) -> &'static str {
        match self {
            Self::Simple => "SIMPLE",
            Self::Batch => "BATCH",
            Self::Cas => "CAS",
        }
    }
}

/// Details that follow the message of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorDetail {
    /// No details, for codes that have none.
    Plain(ErrorCode),
    /// Details of [`ErrorCode::Unavailable`]; "received" is the number of live replicas.
    Unavailable(Replies),
    /// Details of [`ErrorCode::WriteTimeout`].
    WriteTimeout {
        /// Replicas that answered.
        replies: Replies,
        /// Kind of the write.
        write_type: WriteType,
    },
    /// Details of [`ErrorCode::ReadTimeout`].
    ReadTimeout {
        /// Replicas that answered.
        replies: Replies,
        /// Whether one of them had the data.
        data_present: bool,
    },
    /// Details of [`ErrorCode::ReadFailure`].
    ReadFailure {
        /// Replicas that answered.
        replies: Replies,
        /// Failed replicas with their failure codes.
        failures: Vec<(IpAddr, u16)>,
        /// Whether one of them had the data.
        data_present: bool,
    },
    /// Details of [`ErrorCode::FunctionFailure`].
    FunctionFailure {
        /// Keyspace of the function.
        keyspace: String,
        /// Name of the function.
        function: String,
        /// Types of its arguments.
        argument_types: Vec<String>,
    },
    /// Details of [`ErrorCode::WriteFailure`].
    WriteFailure {
        /// Replicas that answered.
        replies: Replies,
        /// Failed replicas with their failure codes.
        failures: Vec<(IpAddr, u16)>,
        /// Kind of the write.
        write_type: WriteType,
    },
    /// The outcome of a transaction is unknown: [`ErrorCode::CasWriteUnknown`] in v5, and in v4,
    /// which has no such code, a [`ErrorCode::WriteTimeout`] of a conditional write. Drivers retry
    /// neither by themselves.
    CasWriteUnknown(Replies),
    /// Details of [`ErrorCode::AlreadyExists`].
    AlreadyExists {
        /// Keyspace that exists, or that contains the table.
        keyspace: String,
        /// Table that exists; empty for a keyspace.
        table: String,
    },
    /// Details of [`ErrorCode::Unprepared`].
    Unprepared {
        /// The unknown statement id.
        id: Bytes,
    },
}

/// An ERROR response to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorResponse {
    /// Code with its details.
    pub detail: ErrorDetail,
    /// Message for people.
    pub message: String,
    /// Custom payload: texts for programs, by their names.
    pub payload: Vec<(&'static str, String)>,
}

impl ErrorResponse {
    /// Creates an error whose code has no details.
    pub fn plain(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { detail: ErrorDetail::Plain(code), message: message.into(), payload: Vec::new() }
    }

    /// Writes the custom payload, a `[bytes map]`, if there is one.
    pub(super) fn put_payload(&self, out: &mut Writer) {
        if self.payload.is_empty() {
            return;
        }
        out.short_len(self.payload.len(), "the custom payload");
        for (name, value) in &self.payload {
            out.string(name);
            out.bytes(Some(value.as_bytes()));
        }
    }

    /// Returns the error's code in a protocol version.
    #[must_use]
    pub const fn code(&self, version: Version) -> ErrorCode {
        match (&self.detail, version) {
            (ErrorDetail::Plain(code), _) => *code,
            (ErrorDetail::Unavailable(_), _) => ErrorCode::Unavailable,
            (ErrorDetail::ReadTimeout { .. }, _) => ErrorCode::ReadTimeout,
            (ErrorDetail::ReadFailure { .. }, _) => ErrorCode::ReadFailure,
            (ErrorDetail::FunctionFailure { .. }, _) => ErrorCode::FunctionFailure,
            (ErrorDetail::WriteFailure { .. }, _) => ErrorCode::WriteFailure,
            (ErrorDetail::CasWriteUnknown(_), Version::V5) => ErrorCode::CasWriteUnknown,
            (ErrorDetail::WriteTimeout { .. }, _)
            | (ErrorDetail::CasWriteUnknown(_), Version::V4) => ErrorCode::WriteTimeout,
            (ErrorDetail::AlreadyExists { .. }, _) => ErrorCode::AlreadyExists,
            (ErrorDetail::Unprepared { .. }, _) => ErrorCode::Unprepared,
        }
    }

    pub(super) fn put(&self, out: &mut Writer, version: Version) {
        out.int(i32::from(self.code(version) as u16));
        out.message(&self.message);
        match &self.detail {
            ErrorDetail::Plain(_) => {}
            ErrorDetail::Unavailable(replies) => {
                // Here the required number comes first.
                out.short(replies.consistency as u16);
                out.int(replies.required);
                out.int(replies.received);
            }
            ErrorDetail::WriteTimeout { replies, write_type } => {
                put_write_timeout(out, version, *replies, *write_type);
            }
            ErrorDetail::CasWriteUnknown(replies) => match version {
                Version::V4 => put_write_timeout(out, version, *replies, WriteType::Cas),
                Version::V5 => put_replies(out, *replies),
            },
            ErrorDetail::ReadTimeout { replies, data_present } => {
                put_replies(out, *replies);
                out.byte(u8::from(*data_present));
            }
            ErrorDetail::ReadFailure { replies, failures, data_present } => {
                put_replies(out, *replies);
                put_failures(out, version, failures);
                out.byte(u8::from(*data_present));
            }
            ErrorDetail::FunctionFailure { keyspace, function, argument_types } => {
                out.string(keyspace);
                out.string(function);
                out.string_list(argument_types);
            }
            ErrorDetail::WriteFailure { replies, failures, write_type } => {
                put_replies(out, *replies);
                put_failures(out, version, failures);
                out.string(write_type.name());
            }
            ErrorDetail::AlreadyExists { keyspace, table } => {
                out.string(keyspace);
                out.string(table);
            }
            ErrorDetail::Unprepared { id } => out.short_bytes(id),
        }
    }
}

fn put_replies(out: &mut Writer, replies: Replies) {
    out.short(replies.consistency as u16);
    out.int(replies.received);
    out.int(replies.required);
}

fn put_write_timeout(out: &mut Writer, version: Version, replies: Replies, write_type: WriteType) {
    put_replies(out, replies);
    out.string(write_type.name());
    if version >= Version::V5 && write_type == WriteType::Cas {
        out.short(0); // how often the write was contended
    }
}

/// v4 has the number of failed replicas; v5 names them.
fn put_failures(out: &mut Writer, version: Version, failures: &[(IpAddr, u16)]) {
    out.int_len(failures.len(), "the failures");
    if version >= Version::V5 {
        for (address, reason) in failures {
            out.address(*address);
            out.short(*reason);
        }
    }
}
