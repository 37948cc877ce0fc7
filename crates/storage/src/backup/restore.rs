//! Restores a database from a backup.

use std::sync::Arc;

use bytes::Bytes;
use carnet_base::{Error, ErrorKind, Result, Timestamp};

use super::clear::clear;
use super::label::{Label, LabelledFile};
use super::progress::Progress;
use super::{cut, verify};
use crate::disk::{Disk, During, LOCK, copy};
use crate::inspect;
use crate::manifest::{self, Edit, Identity, Manifest, TableMeta};
use crate::marks::{CHECKPOINT, RESTORE};
use crate::options::TableOptionsOf;
use crate::sstable;

/// Options of a restore.
pub struct Restore<'a> {
    /// Omits commits after this timestamp; `None` restores the whole backup.
    pub as_of: Option<Timestamp>,
    /// Copies tables, where hard links would share their bytes and their owner with the backup.
    pub copies: bool,
    /// Layout of the tables that are rewritten.
    pub table_options: TableOptionsOf,
    /// Returns the bound and the notes of the new database, given those of the backup. Timestamps
    /// below the new bound are not valid in the new database.
    #[expect(clippy::type_complexity, reason = "a name for it would say no more")]
    pub begin: &'a dyn Fn(Timestamp, &Bytes) -> Result<(Timestamp, Bytes)>,
}

/// Result of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Label of the backup.
    pub label: Label,
    /// The database has every commit up to it and none after.
    pub commit: Timestamp,
    /// Number of tables that were rewritten without later versions.
    pub cut_tables: u64,
}

/// Restores a backup to an empty directory. Every byte of the backup is compared with its label,
/// and every block of the new database's tables is verified. The first opening assigns a new
/// identity. Files of an unfinished restore are removed first.
///
/// # Errors
///
/// `Invalid` if `from` is no backup, `to` is not empty, or `as_of` is after the backup; `TooOld` if
/// compaction may have dropped versions that `as_of` saw; `Corrupted` if a file differs from the
/// label or a block is damaged; `Unsupported`; `Unavailable` if a disk fails. Then `to` cannot be
/// opened; the restore can be repeated.
pub fn restore(
    from: &Arc<dyn Disk>,
    to: &Arc<dyn Disk>,
    order: &Restore<'_>,
    mut tell: impl FnMut(&Progress),
) -> Result<Restored> {
    let _directory = to.lock()?;
    // First of all: a directory whose restore failed must not be opened as an empty database.
    begin(&**to)?;
    let label = verify::load(&**from)?;
    let as_of = order.as_of.unwrap_or(label.commit);
    check_as_of(&label, as_of)?;
    let of_manifest = label.file(manifest::FILE_NAME).ok_or_else(|| {
        Error::corrupted(format!("the label in {} names no manifest", from.path("")))
    })?;
    verify::check(&**from, of_manifest)?;
    let source = inspect::load(&**from)?;
    let mut progress = Progress { bytes: of_manifest.bytes, bytes_total: label.bytes() };
    let (mut add, mut cut_tables) = (Vec::new(), 0);
    for table in source.levels.iter() {
        let name = sstable::file_name(table.number);
        let file = label.file(&name).ok_or_else(|| {
            Error::corrupted(format!("the label in {} does not name {name}", from.path("")))
        })?;
        if table.contents.commit_max <= as_of {
            bring(&**from, file, &**to, order.copies)?;
            let verified = inspect::verify_table(to, table, |_| {});
            verified.map_err(|error| damaged(&**from, error))?;
            add.push(TableMeta::clone(table));
        } else {
            verify::check(&**from, file)?;
            cut_tables += 1;
            let cut = cut::cut(from, table, as_of, to, order.table_options.clone())?;
            if let Some(cut) = &cut {
                inspect::verify_table(to, cut, |_| {})?;
            }
            add.extend(cut);
        }
        progress.bytes += file.bytes;
        tell(&progress);
    }
    let (bound, notes) = (order.begin)(source.bound, &source.notes)?;
    let edit = Edit {
        add,
        bound: Some(bound),
        flushed: Some(as_of.min(label.commit)),
        notes: Some(notes),
        ..Edit::default()
    };
    let base = Manifest { identity: Identity::random(), ..Manifest::empty() };
    let next_file = source.next_file;
    let manifest = Manifest { next_file, ..base.edited(&edit)? };
    finish(&**to, &manifest)?;
    Ok(Restored { label, commit: as_of, cut_tables })
}

fn check_as_of(label: &Label, as_of: Timestamp) -> Result<()> {
    if as_of > label.commit {
        return Err(Error::invalid(format!(
            "the backup reaches up to commit {}: {as_of} is after it, choose a later backup",
            label.commit
        )));
    }
    // At its own commit the backup is complete, whatever the watermark.
    if as_of < label.swept.min(label.commit) {
        return Err(Error::new(
            ErrorKind::TooOld,
            format!(
                "versions visible at {as_of} may be missing in this backup, which is \
                 complete from {} on; choose an earlier backup or a later timestamp",
                label.swept
            ),
        ));
    }
    Ok(())
}

/// Marks an empty directory for a restore, so that it cannot be opened before it is restored.
///
/// # Errors
///
/// `Invalid` if it is not empty; `Unavailable` if it is in use or the disk fails.
pub fn prepare(to: &dyn Disk) -> Result<()> {
    let _directory = to.lock()?;
    begin(to)
}

/// Marks an empty directory; clears a marked one.
fn begin(to: &dyn Disk) -> Result<()> {
    let names = to.list().during("list", to, "")?;
    if names.iter().any(|name| name == RESTORE) {
        return clear(to);
    }
    if let Some(name) = names.iter().find(|name| *name != LOCK) {
        return Err(Error::invalid(format!(
            "{} exists: a database is restored to an empty directory",
            to.path(name)
        )));
    }
    to.create(RESTORE).during("create", to, RESTORE)?;
    to.sync_dir().during("sync", to, "")
}

/// Attributes a damaged block to the backup: the file here has the checksum of the label.
fn damaged(from: &dyn Disk, error: Error) -> Error {
    let kind = error.kind();
    if kind != ErrorKind::Corrupted {
        return error;
    }
    let message = format!("the backup {} is damaged; use another backup", from.path(""));
    Error::new(kind, message).with_source(error)
}

/// Links or copies a file of the backup, and checks it.
fn bring(from: &dyn Disk, file: &LabelledFile, to: &dyn Disk, copies: bool) -> Result<()> {
    let brought = if copies { copy(from, &file.name, to) } else { from.link(&file.name, to) };
    brought.during("link or copy", to, &file.name)?;
    verify::check(to, file)
}

/// Turns the directory into a checkpoint, whose first opening starts a log.
fn finish(to: &dyn Disk, manifest: &Manifest) -> Result<()> {
    to.create(CHECKPOINT).during("create", to, CHECKPOINT)?;
    to.sync_dir().during("sync", to, "")?;
    manifest.store(to)?;
    to.remove(RESTORE).during("remove", to, RESTORE)?;
    to.sync_dir().during("sync", to, "")
}
