//! Which files are the database.
//!
//! ```text
//!  flush, compaction ──▶ Edit { add, remove, log, bound, swept, … }
//!                          │  checked against what is there
//!                          ▼
//!      Manifest { identity, bound, swept, log, notes, Levels } ──▶ MANIFEST.tmp, sync, rename, sync the directory
//! ```
//!
//! The manifest is the root of everything: a file that it does not name is not part of the
//! database, whatever it holds. All that the database's shape consists of is in it, down to each
//! table's range, counts and commits, so that compaction decides without opening a file.
//!
//! Invariants:
//!
//! 1. An edit happens at once or not at all. The file is replaced as a whole.
//! 2. Every file that the manifest names is durable before the manifest is.
//! 3. Tables of a level from 1 on have disjoint ranges; tables of level 0 whose ranges overlap
//!    have disjoint spans of commits. [`Levels::edit`] refuses what would break this, so that a
//!    mistake of compaction is an error and not a wrong answer years later.
//! 4. The bound, the sweep mark, the last flushed commit, the log's place and the next file number
//!    never go back.
//!
//! Deliberately absent: a log of edits. With 5,000 tables (40-byte keys, 0.9 MB, some 300 GB of
//! data) an edit costs 0.5 ms more than with ten: 0.27 ms to make and check it, the rest to encode
//! and write it. What it costs beside that are its two syncs, 10 ms on a disk that was busy with
//! others' syncs of 4 ms each; a log would save one of them. Flushes are seconds apart, and
//! bounds are raised in advance (example `manifest`).

mod edit;
mod format;
mod identity;
mod levels;
mod range;
mod table;
#[cfg(test)]
mod tests;

use carnet_base::{Bytes, Error, Result, Timestamp};

use crate::disk::{self, Disk, During};

pub use edit::Edit;
pub use identity::Identity;
pub use levels::{LEVELS, Levels};
pub use range::{FlatRange, after, table_of};
pub use table::{Contents, TableMeta, Tally};

pub(crate) const FILE_NAME: &str = "MANIFEST";
/// The first bytes of every manifest.
pub(crate) const MAGIC: &[u8; 8] = format::MAGIC;

/// The notes of the layer above are written anew with each edit.
pub const NOTES_BYTES_MAX: usize = 64 << 10;

/// The state of a database's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Which database this is.
    pub identity: Identity,
    /// Timestamps below it may have been handed out.
    pub bound: Timestamp,
    /// What snapshots below it saw may be gone: compaction dropped it, or a crash lost commits that
    /// they had seen.
    pub swept: Timestamp,
    /// How far what compaction dropped may reach: never above `swept`, which crashes raise as well.
    pub forgotten: Timestamp,
    /// Whether a crash loses commits that were visible: they are not synced before, and whoever
    /// wrote them has not closed the database.
    pub lossy: bool,
    /// The last commit that is in the tables: it and every earlier one, and no later one.
    pub flushed: Timestamp,
    /// What the layer above keeps, together with the bound. At most [`NOTES_BYTES_MAX`].
    pub notes: Bytes,
    /// Files from this number on are not part of the database.
    pub next_file: u64,
    /// The oldest segment of the log that is still needed.
    pub first_segment: u64,
    /// The base LSN of that segment.
    pub first_lsn: u64,
    /// The tables.
    pub levels: Levels,
}

impl Manifest {
    /// Makes the manifest of an empty database, without an identity.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            identity: Identity::UNKNOWN,
            bound: Timestamp::ZERO,
            swept: Timestamp::ZERO,
            forgotten: Timestamp::ZERO,
            lossy: false,
            flushed: Timestamp::ZERO,
            notes: Bytes::new(),
            next_file: 1,
            first_segment: 1,
            first_lsn: 0,
            levels: Levels::default(),
        }
    }

    /// Reads a directory's manifest; `None` where there is none.
    ///
    /// # Errors
    ///
    /// `Corrupted`, `Unavailable`, or `Unsupported` for another version of the format.
    pub fn load(disk: &dyn Disk) -> Result<Option<Self>> {
        let file = match disk.open(FILE_NAME) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            opened => opened.during("open", disk, FILE_NAME)?,
        };
        let bytes = disk::read_all(disk, &*file, FILE_NAME)?;
        format::decode(&bytes.into(), &disk.path(FILE_NAME)).map(Some)
    }

    /// Replaces a directory's manifest; durable before it returns.
    ///
    /// # Errors
    ///
    /// `Unavailable`; then the old one or the new one is in force.
    pub fn store(&self, disk: &dyn Disk) -> Result<()> {
        disk::replace(disk, FILE_NAME, &format::encode(self))
    }

    /// Makes an edit, durably. After an error this manifest is as it was.
    ///
    /// # Errors
    ///
    /// `Invalid` where the edit contradicts the manifest; nothing was written then. `Unavailable`
    /// where the disk fails; then the old manifest or the new one is in force, and the caller
    /// makes no further edits.
    pub fn apply(&mut self, disk: &dyn Disk, edit: &Edit) -> Result<()> {
        let edited = self.edited(edit)?;
        edited.store(disk)?;
        *self = edited;
        Ok(())
    }

    /// Returns what the manifest is after an edit.
    ///
    /// # Errors
    ///
    /// `Invalid` where the edit contradicts the manifest.
    pub fn edited(&self, edit: &Edit) -> Result<Self> {
        let mut edited = self.clone();
        edited.levels.edit(edit)?;
        if let Some(greatest) = edit.add.iter().map(|table| table.number).max() {
            let next = greatest.checked_add(1);
            let next = next.ok_or_else(|| Error::invalid("file numbers are used up"))?;
            edited.next_file = self.next_file.max(next);
        }
        if let Some(log) = edit.log {
            if log < (self.first_segment, self.first_lsn) || log.1 < self.first_lsn {
                return Err(Error::invalid("the log's place is to go back"));
            }
            (edited.first_segment, edited.first_lsn) = log;
        }
        if let Some(bound) = edit.bound {
            if bound < self.bound {
                return Err(Error::invalid("the bound of timestamps is to go back"));
            }
            edited.bound = bound;
        }
        if let Some(swept) = edit.swept {
            if swept < self.swept {
                return Err(Error::invalid("the sweep mark is to go back"));
            }
            edited.swept = swept;
        }
        if let Some(forgotten) = edit.forgotten {
            if forgotten < self.forgotten || forgotten > edited.swept {
                return Err(Error::invalid("what is forgotten is to come back, or is not swept"));
            }
            edited.forgotten = forgotten;
        }
        if let Some(flushed) = edit.flushed {
            if flushed < self.flushed {
                return Err(Error::invalid("the last flushed commit is to go back"));
            }
            edited.flushed = flushed;
        }
        if let Some(notes) = &edit.notes {
            if notes.len() > NOTES_BYTES_MAX {
                return Err(Error::invalid("the notes beside the bound are too long"));
            }
            edited.notes = notes.clone();
        }
        edited.lossy = edit.lossy.unwrap_or(self.lossy);
        Ok(edited)
    }
}
