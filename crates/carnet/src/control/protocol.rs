//! JSON lines of the control protocol: requests and replies.

use std::path::PathBuf;
use std::time::Duration;

use carnet_base::{Encoding, Error, ErrorKind, Result, Timestamp};
use serde::{Deserialize, Serialize};

/// Version of the protocol, the first field of each request.
const VERSION: u32 = 1;

/// Maximum length of a line, including its end. A path has at most 4096 bytes.
pub(super) const LINE_BYTES_MAX: usize = 64 << 10;

/// Request to the process that has a database open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum ControlRequest {
    /// Take a backup.
    Backup {
        /// Directory of backups, as an absolute path.
        dest: PathBuf,
        /// Number of newest backups to keep; older ones are removed afterwards.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keep: Option<usize>,
        /// Trust files shared with an earlier backup that were read within this number of days;
        /// with `keep`, all are read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reread_after_days: Option<u32>,
    },
    /// Run a full compaction.
    Compact {},
    /// Switch to another encoding of the commit table.
    Migrate {
        /// Version number of the encoding.
        to: u8,
    },
}

/// Result of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Done {
    /// Result of [`ControlRequest::Backup`].
    Backup {
        /// Name of the backup's directory in the directory of backups.
        name: String,
        /// Newest commit of the backup.
        commit: u64,
        /// Number of files.
        files: u64,
        /// Total size of the files in bytes.
        bytes: u64,
        /// Number of files shared with earlier backups.
        shared_files: u64,
        /// Size of the shared files in bytes.
        shared_bytes: u64,
        /// Number of older backups that were removed.
        removed: u64,
    },
    /// Result of [`ControlRequest::Compact`].
    Compact {
        /// Number of tables before.
        tables_before: u64,
        /// Size of the tables before, in bytes.
        bytes_before: u64,
        /// Number of tables after.
        tables_after: u64,
        /// Size of the tables after, in bytes.
        bytes_after: u64,
    },
    /// Result of [`ControlRequest::Migrate`].
    Migrate {
        /// First start timestamp in the new encoding; `None` if the table used it already.
        first: Option<u64>,
    },
}

/// Progress of a request in bytes.
pub(super) type Progress = carnet_storage::backup::Progress;

/// One line of a reply.
#[derive(Debug)]
pub(super) enum ControlReply {
    Progress(Progress),
    Done(Done),
    Failed(Error),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope {
    version: u32,
    request: serde_json::Value,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Progress { bytes: u64, bytes_total: u64 },
    Done(Done),
    Failed(Failure),
}

#[derive(Serialize, Deserialize)]
struct Failure {
    kind: String,
    message: String,
}

impl ControlRequest {
    /// Returns the encoding with a version number.
    pub(crate) fn encoding(to: u8) -> Result<Encoding> {
        Encoding::of_version(to).ok_or_else(|| {
            Error::unsupported(format!("encoding v{to} of the commit table; there are v1 to v3"))
        })
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        let request = serde_json::to_value(self)
            .map_err(|error| Error::invalid("a path is not UTF-8").with_source(error))?;
        line(&Envelope { version: VERSION, request })
    }

    pub(super) fn decode(line: &[u8]) -> Result<Self> {
        let wrong = |error| Error::invalid("the request is malformed").with_source(error);
        let Envelope { version, request } = serde_json::from_slice(line).map_err(wrong)?;
        if version != VERSION {
            return Err(Error::unsupported(format!(
                "protocol version {version}; the process that has the database open supports version \
                 {VERSION}: use the `carnet` program of its version"
            )));
        }
        serde_json::from_value(request).map_err(wrong)
    }
}

impl ControlReply {
    pub(super) fn encode(self) -> Result<Vec<u8>> {
        line(&match self {
            Self::Progress(Progress { bytes, bytes_total }) => {
                Line::Progress { bytes, bytes_total }
            }
            Self::Done(done) => Line::Done(done),
            Self::Failed(error) => Line::Failed(Failure {
                kind: name_of(error.kind()).to_owned(),
                message: error.to_string(),
            }),
        })
    }

    pub(super) fn decode(line: &[u8]) -> Result<Self> {
        let line = serde_json::from_slice(line).map_err(|error| {
            Error::unsupported("the reply of the process that has the database open")
                .with_source(error)
        })?;
        Ok(match line {
            Line::Progress { bytes, bytes_total } => {
                Self::Progress(Progress { bytes, bytes_total })
            }
            Line::Done(done) => Self::Done(done),
            Line::Failed(Failure { kind, message }) => {
                Self::Failed(Error::new(kind_of(&kind), message))
            }
        })
    }
}

fn line(value: &impl Serialize) -> Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)
        .map_err(|error| Error::invalid("the line cannot be encoded").with_source(error))?;
    line.push(b'\n');
    if line.len() > LINE_BYTES_MAX {
        return Err(Error::invalid("the line is too long"));
    }
    Ok(line)
}

const KINDS: [(&str, ErrorKind); 8] = [
    ("conflict", ErrorKind::Conflict),
    ("too_old", ErrorKind::TooOld),
    ("timeout", ErrorKind::Timeout),
    ("invalid", ErrorKind::Invalid),
    ("already_exists", ErrorKind::AlreadyExists),
    ("unsupported", ErrorKind::Unsupported),
    ("aborted", ErrorKind::Aborted),
    ("corrupted", ErrorKind::Corrupted),
];

/// Retry delay of a refused request.
const RETRY_AFTER: Duration = Duration::from_secs(1);

fn name_of(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Overloaded { .. } => "overloaded",
        kind => KINDS.iter().find(|(_, other)| *other == kind).map_or("unavailable", |(n, _)| n),
    }
}

fn kind_of(name: &str) -> ErrorKind {
    match name {
        "overloaded" => ErrorKind::Overloaded { retry_after: RETRY_AFTER },
        name => KINDS
            .iter()
            .find(|(other, _)| *other == name)
            .map_or(ErrorKind::Unavailable, |(_, kind)| *kind),
    }
}

impl Done {
    pub(crate) fn migrated(first: Option<Timestamp>) -> Self {
        Self::Migrate { first: first.map(Timestamp::get) }
    }
}
