//! Lines of JSON: requests to the owner of a database, and its answers.

use std::path::PathBuf;
use std::time::Duration;

use carnet_base::{Encoding, Error, ErrorKind, Result, Timestamp};
use serde::{Deserialize, Serialize};

/// The version that each request begins with.
const VERSION: u32 = 1;

/// The longest line, its end included. A path is at most 4096 bytes.
pub(super) const LINE_BYTES_MAX: usize = 64 << 10;

/// What the owner of a database is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Request {
    /// Take a backup.
    Backup {
        /// The directory of backups, as an absolute path.
        dest: PathBuf,
        /// Remove all but so many of the newest ones afterwards.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keep: Option<usize>,
    },
    /// Rewrite all files into as few as there can be.
    Compact {},
    /// Let another encoding of the commit table begin.
    Migrate {
        /// Its number.
        to: u8,
    },
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Done {
    /// A backup was taken.
    Backup {
        /// Its directory in the directory of backups.
        name: String,
        /// Every commit up to it is in it.
        commit: u64,
        /// How many files it has.
        files: u64,
        /// Their bytes.
        bytes: u64,
        /// How many of them an earlier backup had already.
        shared_files: u64,
        /// The bytes of those.
        shared_bytes: u64,
        /// How many older backups were removed.
        removed: u64,
    },
    /// Files were compacted.
    Compact {
        /// Tables before.
        tables_before: u64,
        /// Their bytes.
        bytes_before: u64,
        /// Tables after.
        tables_after: u64,
        /// Their bytes.
        bytes_after: u64,
    },
    /// Another encoding has begun, or had already.
    Migrate {
        /// The first start that is written in it; `None` where it was the last one before.
        first: Option<u64>,
    },
}

/// How far it has come, in bytes.
pub(super) type Progress = carnet_storage::backup::Progress;

/// A line of the owner.
#[derive(Debug)]
pub(super) enum Answer {
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

impl Request {
    /// The encoding that a migration leads to.
    pub(crate) fn encoding(to: u8) -> Result<Encoding> {
        Encoding::of_version(to).ok_or_else(|| {
            Error::unsupported(format!("encoding v{to} of the commit table; there are v1 to v3"))
        })
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        let request = serde_json::to_value(self)
            .map_err(|error| Error::invalid("a path that is no UTF-8").with_source(error))?;
        line(&Envelope { version: VERSION, request })
    }

    pub(super) fn decode(line: &[u8]) -> Result<Self> {
        let wrong = |error| Error::invalid("a request that makes no sense").with_source(error);
        let Envelope { version, request } = serde_json::from_slice(line).map_err(wrong)?;
        if version != VERSION {
            return Err(Error::unsupported(format!(
                "version {version} of requests; the process that has the database takes version \
                 {VERSION}: use the program of its version"
            )));
        }
        serde_json::from_value(request).map_err(wrong)
    }
}

impl Answer {
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
            Error::unsupported("what the process that has the database answers").with_source(error)
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
        .map_err(|error| Error::invalid("it cannot be written down").with_source(error))?;
    line.push(b'\n');
    if line.len() > LINE_BYTES_MAX {
        return Err(Error::invalid("it takes more than a line may have"));
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

/// After so long whoever was refused for want of room may come back.
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
