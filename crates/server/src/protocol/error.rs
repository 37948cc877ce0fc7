//! The ERROR response: a code, a sentence, and what the code adds to them.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;

use super::Version;
use super::types::Consistency;
use super::writer::Writer;

/// The codes that are sent here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum ErrorCode {
    /// A fault of the server.
    Server = 0x0000,
    /// The client broke the protocol.
    Protocol = 0x000a,
    /// The client is not who it says.
    Authentication = 0x0100,
    /// What is needed cannot be reached.
    Unavailable = 0x1000,
    /// There is no room for the work; nothing was done.
    Overloaded = 0x1001,
    /// A write was not done in time.
    WriteTimeout = 0x1100,
    /// A read was not done in time.
    ReadTimeout = 0x1200,
    /// A read failed.
    ReadFailure = 0x1300,
    /// A user's function failed.
    FunctionFailure = 0x1400,
    /// A write failed.
    WriteFailure = 0x1500,
    /// Whether a conditional write was done is not known (v5).
    CasWriteUnknown = 0x1700,
    /// The text is no CQL.
    Syntax = 0x2000,
    /// The user may not do that.
    Unauthorized = 0x2100,
    /// The statement is wrong.
    Invalid = 0x2200,
    /// The statement does not fit the configuration.
    Config = 0x2300,
    /// What is to be created is there.
    AlreadyExists = 0x2400,
    /// There is no prepared statement of that id: prepare it again.
    Unprepared = 0x2500,
}

impl ErrorCode {
    /// Every code, in ascending order.
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

/// How many replicas answered, of how many needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replies {
    /// The level that the client asked for.
    pub consistency: Consistency,
    /// How many answered.
    pub received: i32,
    /// How many were needed.
    pub required: i32,
}

/// The kind of a write that did not end well, by its name in the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteType {
    /// One statement.
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

/// What follows the sentence of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorDetail {
    /// Nothing, for the codes that have nothing to add.
    Plain(ErrorCode),
    /// Of [`ErrorCode::Unavailable`]; "received" is how many are alive.
    Unavailable(Replies),
    /// Of [`ErrorCode::WriteTimeout`].
    WriteTimeout {
        /// How many answered.
        replies: Replies,
        /// What was written.
        write_type: WriteType,
    },
    /// Of [`ErrorCode::ReadTimeout`].
    ReadTimeout {
        /// How many answered.
        replies: Replies,
        /// Whether one of them had the data.
        data_present: bool,
    },
    /// Of [`ErrorCode::ReadFailure`].
    ReadFailure {
        /// How many answered.
        replies: Replies,
        /// Who failed, and why.
        failures: Vec<(IpAddr, u16)>,
        /// Whether one of them had the data.
        data_present: bool,
    },
    /// Of [`ErrorCode::FunctionFailure`].
    FunctionFailure {
        /// The function's keyspace.
        keyspace: String,
        /// The function.
        function: String,
        /// The types of its arguments.
        argument_types: Vec<String>,
    },
    /// Of [`ErrorCode::WriteFailure`].
    WriteFailure {
        /// How many answered.
        replies: Replies,
        /// Who failed, and why.
        failures: Vec<(IpAddr, u16)>,
        /// What was written.
        write_type: WriteType,
    },
    /// The outcome of a transaction is not known: [`ErrorCode::CasWriteUnknown`] in v5, and in v4,
    /// which has no such code, a [`ErrorCode::WriteTimeout`] of a conditional write. Drivers retry
    /// neither on their own.
    CasWriteUnknown(Replies),
    /// Of [`ErrorCode::AlreadyExists`].
    AlreadyExists {
        /// The keyspace that is there, or that holds the table.
        keyspace: String,
        /// The table that is there, empty for a keyspace.
        table: String,
    },
    /// Of [`ErrorCode::Unprepared`].
    Unprepared {
        /// The unknown id.
        id: Bytes,
    },
}

/// An ERROR response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorResponse {
    /// The code, with what it adds.
    pub detail: ErrorDetail,
    /// A sentence for a person.
    pub message: String,
    /// After how long another try makes sense; the custom payload tells it to drivers.
    pub retry_after: Option<Duration>,
}

/// The name of [`ErrorResponse::retry_after`] in the custom payload. Its value is a decimal number.
pub const RETRY_AFTER: &str = "retry_after_ms";

impl ErrorResponse {
    /// Makes an error whose code adds nothing.
    pub fn plain(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { detail: ErrorDetail::Plain(code), message: message.into(), retry_after: None }
    }

    /// Makes an [`ErrorCode::Overloaded`] that asks the client to wait.
    pub fn overloaded(retry_after: Duration, message: impl Into<String>) -> Self {
        let retry_after = Some(retry_after);
        Self { retry_after, ..Self::plain(ErrorCode::Overloaded, message) }
    }

    /// Writes the custom payload, a `[bytes map]`, where there is one.
    pub(super) fn put_payload(&self, out: &mut Writer) {
        if let Some(retry_after) = self.retry_after {
            out.short(1);
            out.string(RETRY_AFTER);
            out.bytes(Some(retry_after.as_millis().max(1).to_string().as_bytes()));
        }
    }

    /// Returns the code that the error has in a version.
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
                // Here the number needed comes first.
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

/// v4 counts the replicas that failed; v5 names them.
fn put_failures(out: &mut Writer, version: Version, failures: &[(IpAddr, u16)]) {
    out.int_len(failures.len(), "the failures");
    if version >= Version::V5 {
        for (address, reason) in failures {
            out.address(*address);
            out.short(*reason);
        }
    }
}
