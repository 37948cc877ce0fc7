//! Service levels as cells of the catalog.
//!
//! ```text
//! table of levels   partition key   clustering key   payload
//!                   "levels"        level's name     Stored, JSON
//!                   "users"         user's name      StoredUser, JSON
//!                   ""              "next"           StoredNext, JSON
//! ```
//!
//! Every change writes the `next` row, so that changes conflict with each other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use carnet_base::{Bytes, Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use carnet_admission::levels::{
    ATTACHED_MAX, Effective, LEVELS_MAX, Levels, NAME_BYTES_MAX, ServiceLevel, check_name,
};
use carnet_admission::{LevelId, Workload};

use crate::catalog::{self, LEVELS};
use crate::tx::Tx;

const FORMAT: u32 = 1;
/// Maximum size of a payload in bytes.
const PAYLOAD_BYTES_MAX: usize = 1 << 10;

const LEVELS_PARTITION: &str = "levels";
const USERS_PARTITION: &str = "users";
const NEXT: &str = "next";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    format: u32,
    id: u64,
    timeout_ms: Option<u64>,
    workload_type: Option<StoredWorkload>,
    shares: u32,
    max_concurrency: Option<u64>,
    max_queue: Option<u64>,
    shed_after_ms: Option<u64>,
    memory_soft: Option<u64>,
    memory_hard: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredWorkload {
    Interactive,
    Batch,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredUser {
    format: u32,
    level: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredNext {
    format: u32,
    id: u64,
}

/// A row of the table of service levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Row {
    /// Row of a service level.
    Level {
        /// Id of the level.
        id: LevelId,
        /// Options of the level.
        options: ServiceLevel,
    },
    /// Row of a user: the name of the attached level.
    User(String),
    /// The next unused id.
    Next(u64),
}

impl Row {
    /// Encodes the row.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        match self {
            Self::Level { id, options } => json(&stored(*id, options)),
            Self::User(level) => json(&StoredUser { format: FORMAT, level: level.clone() }),
            Self::Next(id) => json(&StoredNext { format: FORMAT, id: *id }),
        }
    }

    /// Encodes the row, and reads it again: no row is stored that cannot be read.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the row would be read differently or not at all.
    fn to_readable(&self) -> Result<Bytes> {
        let bytes = self.encode();
        let again = match self {
            Self::Level { .. } => Self::decode_level(&bytes),
            Self::User(_) => Self::decode_user(&bytes),
            Self::Next(_) => Self::decode_next(&bytes),
        };
        catalog::readable("a row of the service levels", self, bytes, again)
    }

    /// Decodes the row of a level.
    ///
    /// # Errors
    ///
    /// `Corrupted`; `Unsupported` for a later format.
    pub fn decode_level(bytes: &[u8]) -> Result<Self> {
        let stored: Stored = read(bytes)?;
        let id = LevelId(stored.id);
        let options = options(&stored)?;
        options.check().map_err(|error| corrupted().with_source(error))?;
        Ok(Self::Level { id, options })
    }

    /// Decodes the row of a user.
    ///
    /// # Errors
    ///
    /// Same as [`Row::decode_level`].
    pub fn decode_user(bytes: &[u8]) -> Result<Self> {
        let StoredUser { level, .. } = read(bytes)?;
        check_name("service level", &level, NAME_BYTES_MAX)
            .map_err(|error| corrupted().with_source(error))?;
        Ok(Self::User(level))
    }

    /// Decodes the row of the next id.
    ///
    /// # Errors
    ///
    /// Same as [`Row::decode_level`].
    pub fn decode_next(bytes: &[u8]) -> Result<Self> {
        read(bytes).map(|StoredNext { id, .. }| Self::Next(id))
    }
}

fn stored(id: LevelId, options: &ServiceLevel) -> Stored {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    Stored {
        format: FORMAT,
        id: id.0,
        timeout_ms: options.timeout.map(millis),
        workload_type: options.workload_type.and_then(|workload| match workload {
            Workload::Interactive => Some(StoredWorkload::Interactive),
            Workload::Unspecified => None,
            Workload::Batch => Some(StoredWorkload::Batch),
        }),
        shares: options.shares,
        max_concurrency: options.max_concurrency.map(count),
        max_queue: options.max_queue.map(count),
        shed_after_ms: options.shed_after.map(millis),
        memory_soft: options.memory_soft,
        memory_hard: options.memory_hard,
    }
}

fn options(stored: &Stored) -> Result<ServiceLevel> {
    let count = |count: Option<u64>| {
        count.map(|count| usize::try_from(count).map_err(|_| corrupted())).transpose()
    };
    Ok(ServiceLevel {
        timeout: stored.timeout_ms.map(Duration::from_millis),
        workload_type: stored.workload_type.as_ref().map(|workload| match workload {
            StoredWorkload::Interactive => Workload::Interactive,
            StoredWorkload::Batch => Workload::Batch,
        }),
        shares: stored.shares,
        max_concurrency: count(stored.max_concurrency)?,
        max_queue: count(stored.max_queue)?,
        shed_after: stored.shed_after_ms.map(Duration::from_millis),
        memory_soft: stored.memory_soft,
        memory_hard: stored.memory_hard,
    })
}

fn json(stored: &impl Serialize) -> Bytes {
    serde_json::to_vec(stored).expect("structures of numbers and texts are JSON").into()
}

fn corrupted() -> Error {
    Error::corrupted("a service level in the catalog cannot be decoded")
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    if bytes.len() > PAYLOAD_BYTES_MAX {
        return Err(corrupted());
    }
    let unreadable = |error| corrupted().with_source(error);
    let Format { format } = serde_json::from_slice(bytes).map_err(unreadable)?;
    if format != FORMAT {
        return Err(Error::unsupported(format!(
            "a service level in the catalog has format {format}, written by a later version of Carnet"
        )));
    }
    serde_json::from_slice(bytes).map_err(unreadable)
}

/// Reads all levels at a transaction's snapshot.
///
/// # Errors
///
/// Same as [`Tx::get_cell`]; `Corrupted` for malformed rows.
pub(crate) async fn load(tx: &Tx) -> Result<Levels> {
    let mut levels = Levels::default();
    if let Some(next) = tx.get_cell(&catalog::system_cell(LEVELS, "", NEXT)).await?
        && let Row::Next(next) = Row::decode_next(&next.payload)?
    {
        levels.restore_next_id(next);
    }
    let rows = catalog::all_cells(tx, LEVELS, LEVELS_PARTITION).await?;
    for (name, payload) in rows {
        if let Row::Level { id, options } = Row::decode_level(&payload)? {
            levels.restore(id, &name, options)?;
        }
    }
    let rows = catalog::all_cells(tx, LEVELS, USERS_PARTITION).await?;
    if rows.len() > ATTACHED_MAX || levels.iter().count() > LEVELS_MAX {
        return Err(corrupted());
    }
    for (user, payload) in rows {
        if let Row::User(level) = Row::decode_user(&payload)? {
            levels.restore_attached(user, level)?;
        }
    }
    Ok(levels)
}

/// Writes the difference between two sets of levels.
///
/// # Errors
///
/// `Unsupported` if a row could not be read again; same as [`Tx::put_cell`].
pub(crate) fn write(tx: &Tx, old: &Levels, new: &Levels) -> Result<()> {
    catalog::put_changes(
        tx,
        (&by_name(old), &by_name(new)),
        |name| catalog::system_cell(LEVELS, LEVELS_PARTITION, name),
        |kept| Row::Level { id: kept.level.id, options: kept.options }.to_readable(),
    )?;
    catalog::put_changes(
        tx,
        (&old.attachments().collect(), &new.attachments().collect()),
        |user| catalog::system_cell(LEVELS, USERS_PARTITION, user),
        |level| Row::User(level.to_string()).to_readable(),
    )?;
    tx.put_cell(catalog::system_cell(LEVELS, "", NEXT), Row::Next(new.next_id()).to_readable()?)
}

fn by_name(levels: &Levels) -> BTreeMap<&str, &Arc<Effective>> {
    levels.iter().map(|level| (&*level.level.name, level)).collect()
}

#[cfg(test)]
mod tests {
    use carnet_base::{Rng, SeededRng};

    use super::*;

    #[test]
    fn rows_round_trip() {
        let options = ServiceLevel {
            timeout: Some(Duration::from_millis(1500)),
            workload_type: Some(Workload::Batch),
            shares: 77,
            max_concurrency: Some(3),
            max_queue: Some(0),
            shed_after: Some(Duration::ZERO),
            memory_soft: Some(1),
            memory_hard: Some(u64::MAX),
        };
        for options in [options, ServiceLevel::default()] {
            let row = Row::Level { id: LevelId(9), options };
            assert_eq!(Row::decode_level(&row.encode()).unwrap(), row);
        }
        let user = Row::User("gold".into());
        assert_eq!(Row::decode_user(&user.encode()).unwrap(), user);
        assert_eq!(Row::decode_next(&Row::Next(4).encode()).unwrap(), Row::Next(4));
    }

    #[test]
    fn row_that_would_be_read_otherwise_is_not_stored() {
        let level = |timeout| {
            let options = ServiceLevel { timeout: Some(timeout), ..ServiceLevel::default() };
            Row::Level { id: LevelId(9), options }
        };
        assert!(level(Duration::from_millis(1)).to_readable().is_ok());
        for row in [level(Duration::from_micros(1_500)), Row::User(String::new())] {
            let error = row.to_readable().unwrap_err();
            assert!(error.to_string().contains("would be read as another one"), "{error}");
        }
    }

    #[test]
    fn unknown_formats_and_values_are_refused() {
        let later = br#"{"format":2,"id":2,"shares":1,"burst":7}"#;
        let error = Row::decode_level(later).unwrap_err();
        assert!(error.to_string().contains("later version"), "{error}");
        assert!(Row::decode_level(br#"{"format":1,"id":2,"shares":0}"#).is_err());
        assert!(Row::decode_level(br#"{"format":1,"id":2,"shares":1,"burst":7}"#).is_err());
        let long = format!(r#"{{"format":1,"level":"{}"}}"#, "x".repeat(PAYLOAD_BYTES_MAX));
        assert!(Row::decode_user(long.as_bytes()).is_err());
    }

    #[test]
    fn no_row_is_written_that_cannot_be_read() {
        let db = crate::Db::builder().in_memory();
        let tx = carnet_base::block_on(db.transaction().begin_async()).unwrap();
        let written = |levels: &Levels| write(&tx, &Levels::default(), levels);
        let mut levels = Levels::default();
        levels.restore_attached("ann".into(), "gold".into()).unwrap();
        written(&levels).unwrap();
        levels.restore_attached("bob".into(), "x".repeat(NAME_BYTES_MAX + 1)).unwrap();
        assert!(written(&levels).unwrap_err().to_string().contains("cannot be stored"));
        let mut levels = Levels::default();
        let options = ServiceLevel { shares: 0, ..ServiceLevel::default() };
        levels.restore(LevelId(9), "gold", options).unwrap();
        assert!(written(&levels).unwrap_err().to_string().contains("cannot be stored"));
    }

    /// Seeded variant of `fuzz/fuzz_targets/levels.rs`.
    #[test]
    fn mutated_rows_fail_or_round_trip() {
        let seed = 33;
        let mut rng = SeededRng::new(seed);
        let whole = Row::Level { id: LevelId(2), options: ServiceLevel::default() }.encode();
        for round in 0..20_000 {
            let mut bytes = whole.to_vec();
            for _ in 0..rng.below(4) {
                let at = usize::try_from(rng.below(bytes.len() as u64)).unwrap();
                bytes[at] = b"{}[]\",:0918nul \xff"[usize::try_from(rng.below(16)).unwrap()];
            }
            if let Ok(row) = Row::decode_level(&bytes) {
                let again = Row::decode_level(&row.encode());
                assert_eq!(again.unwrap(), row, "seed {seed}, round {round}");
            }
        }
    }
}
