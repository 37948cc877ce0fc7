//! Manifest: the files that make up the database.
//!
//! ```text
//!  flush, compaction ──▶ Edit { add, remove, log, bound, swept, … }
//!                          │  checked against the current manifest
//!                          ▼
//!      Manifest { identity, bound, swept, log, notes, Levels } ──▶ MANIFEST.tmp, sync, rename, sync the directory
//! ```
//!
//! The manifest is the root of the database: a file that it does not name is not part of the
//! database. It holds each table's level, range, counts and commits, so compaction decides without
//! opening a file.
//!
//! Invariants:
//!
//! 1. An edit is atomic: the file is replaced as a whole.
//! 2. Every file that the manifest names is durable before the manifest is.
//! 3. From level 1 on, tables of a level have disjoint ranges. Tables of level 0 whose ranges
//!    overlap have disjoint ranges of commits. [`Levels::edit`] refuses edits that would break
//!    this, so that a bug in compaction is an error and not a wrong answer years later.
//! 4. The bound, the GC watermark, the last flushed commit, the log's position and the next file
//!    number never decrease.
//!
//! Not implemented on purpose: a log of edits. The manifest is small, and two syncs dominate the
//! cost of an edit; a log would save one of them. Flushes are seconds apart, and bounds are raised
//! in advance. The example `manifest` measures it.

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
/// First bytes of every manifest.
pub(crate) const MAGIC: &[u8; 8] = format::MAGIC;

/// Maximum length of the notes of the layer above, which each edit writes again.
pub const NOTES_BYTES_MAX: usize = 64 << 10;

/// The files of a database and their state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Identity of the database.
    pub identity: Identity,
    /// Timestamps below this bound may have been assigned.
    pub bound: Timestamp,
    /// GC watermark: snapshots below it may have lost versions, because compaction dropped them or
    /// a crash lost commits that they had seen.
    pub swept: Timestamp,
    /// Watermark up to which compaction may have dropped versions. Never above `swept`, which
    /// crashes raise too.
    pub forgotten: Timestamp,
    /// Whether a crash loses visible commits: they are visible before they are synced, and the
    /// database was not closed.
    pub lossy: bool,
    /// Last commit in the tables: they hold all commits up to it and none after it.
    pub flushed: Timestamp,
    /// Opaque notes of the layer above, stored with the bound. At most [`NOTES_BYTES_MAX`].
    pub notes: Bytes,
    /// Files from this number on are not part of the database.
    pub next_file: u64,
    /// Number of the oldest log segment that is still needed.
    pub first_segment: u64,
    /// Base LSN of that segment.
    pub first_lsn: u64,
    /// Tables by level.
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

    /// Reads a directory's manifest; `None` if there is none.
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

    /// Replaces a directory's manifest; it is durable on return.
    ///
    /// # Errors
    ///
    /// `Unavailable`; then the old manifest or the new one is on the disk.
    pub fn store(&self, disk: &dyn Disk) -> Result<()> {
        disk::replace(disk, FILE_NAME, &format::encode(self))
    }

    /// Applies an edit durably. After an error this manifest is unchanged.
    ///
    /// # Errors
    ///
    /// `Invalid` if the edit contradicts the manifest; then nothing was written. `Unavailable` if
    /// the disk fails; then the old manifest or the new one is on the disk, and the caller must not
    /// make further edits.
    pub fn apply(&mut self, disk: &dyn Disk, edit: &Edit) -> Result<()> {
        let edited = self.edited(edit)?;
        edited.store(disk)?;
        *self = edited;
        Ok(())
    }

    /// Returns the manifest with an edit applied.
    ///
    /// # Errors
    ///
    /// `Invalid` if the edit contradicts the manifest.
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
                return Err(Error::invalid("the edit moves the log's position back"));
            }
            (edited.first_segment, edited.first_lsn) = log;
        }
        if let Some(bound) = edit.bound {
            if bound < self.bound {
                return Err(Error::invalid("the edit lowers the bound of timestamps"));
            }
            edited.bound = bound;
        }
        if let Some(swept) = edit.swept {
            if swept < self.swept {
                return Err(Error::invalid("the edit lowers the GC watermark `swept`"));
            }
            edited.swept = swept;
        }
        if let Some(forgotten) = edit.forgotten {
            if forgotten < self.forgotten || forgotten > edited.swept {
                return Err(Error::invalid(
                    "the edit lowers `forgotten`, or raises it above `swept`",
                ));
            }
            edited.forgotten = forgotten;
        }
        if let Some(flushed) = edit.flushed {
            if flushed < self.flushed {
                return Err(Error::invalid("the edit lowers the last flushed commit"));
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
