//! Manifest: the files of a database and their state.

use carnet_base::{Bytes, Error, Result, Timestamp};

use super::edit::Edit;
use super::identity::Identity;
use super::levels::Levels;
use super::line::Line;

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
    /// Whether there is no log: no segment from `first_segment` on has a record. The next log
    /// begins there.
    pub unlogged: bool,
    /// The incarnations that wrote it.
    pub line: Line,
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
            unlogged: false,
            line: Line::default(),
            levels: Levels::default(),
        }
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
        edited.line.is_backed_up |= edit.begins_backup;
        edited.lossy = edit.lossy.unwrap_or(self.lossy);
        edited.unlogged = edit.unlogged.unwrap_or(self.unlogged);
        Ok(edited)
    }
}
