//! Checkpoints: a second directory that can be opened as the database at one point in time.
//!
//! All memtables are flushed, so the database consists of its tables and the log is empty; then
//!
//! ```text
//!  CHECKPOINT, sync ──► tables: links ──► sync ──► MANIFEST ──► remove old files
//!      │                                              │
//!      └ without a manifest it cannot be opened       └ now it is the checkpoint
//! ```
//!
//! Tables never change, so a hard link is a copy that takes no time and no space until compaction
//! has replaced the table here. Writers, flushes and compactions continue; only the removal of
//! files is deferred until all are linked.
//!
//! A directory with an earlier checkpoint of the same database is updated: its tables that are
//! still part of the database are kept, and it remains the earlier checkpoint until the manifest is
//! replaced atomically. The file `CHECKPOINT` permits this, and states that there is no log. The
//! first opening states `unlogged` in the manifest and removes the file, because from then on the directory is an
//! independent database.
//!
//! A checkpoint has the *identity* of its database, so that a checkpoint of another database is
//! detected and refused. The first opening assigns a new identity.

use std::io;
use std::sync::Arc;

use carnet_base::{Error, Result, Timestamp};

use super::core::{Core, Engine};
use crate::disk::{Disk, During};
use crate::manifest::{self, Edit, Identity, Line, Manifest, TableMeta};
use crate::marks::{CHECKPOINT, refuse_log};
use crate::sstable;
use crate::sync::lock;
use crate::wal::segment;

/// Number of bytes at a table's end that are compared to identify it; they contain footer and
/// statistics.
const TAIL_BYTES: usize = 4096;

/// The tables at one point in time, whose files are kept until this is dropped.
pub(crate) struct Frozen {
    core: Arc<Core>,
    /// Manifest with these tables.
    pub(crate) manifest: Manifest,
}

impl Frozen {
    /// Returns the disk with the tables.
    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.core.disk
    }

    /// Returns the numbers of the tables that compaction cannot read.
    pub(crate) fn quarantined(&self) -> Vec<u64> {
        self.core.compactions.quarantine.tables()
    }
}

impl Core {
    /// Adds tables to be removed; returns the tables that may be removed now.
    pub(super) fn defer_removals(&self, numbers: &[u64]) -> Vec<u64> {
        let mut removals = lock(&self.removals);
        removals.deferred.extend_from_slice(numbers);
        if removals.held > 0 { Vec::new() } else { std::mem::take(&mut removals.deferred) }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        lock(&self.core.removals).held -= 1;
        self.core.remove_tables(&[]);
    }
}

impl Engine {
    /// Returns the current tables, whose files are kept until the result is dropped.
    pub(crate) fn freeze(&self) -> Frozen {
        let core = Arc::clone(&self.core);
        // Set before the manifest is read, so that no file in it is removed.
        lock(&core.removals).held += 1;
        let manifest = lock(&core.manifest).clone();
        Frozen { core, manifest }
    }

    /// Like [`Engine::freeze`], but first records that a backup is taken in this incarnation.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the disk fails.
    pub(crate) fn freeze_for_backup(&self) -> Result<Frozen> {
        let mut manifest = lock(&self.core.manifest);
        if !manifest.line.is_backed_up {
            let edit = Edit { begins_backup: true, ..Edit::default() };
            self.core.edit(&mut manifest, &edit)?;
        }
        drop(manifest);
        Ok(self.freeze())
    }

    /// Makes a directory an independent copy of the database with everything that was appended
    /// before this call, and returns its last commit. Blocks the calling thread; writers continue.
    ///
    /// The directory must be empty, or hold an earlier checkpoint of this database that has not
    /// been opened. That checkpoint remains valid until the new one replaces it. On the same file
    /// system the tables are shared by hard links, otherwise copied.
    ///
    /// # Errors
    ///
    /// `Invalid` if the directory holds other files of a database or a checkpoint of another
    /// database; `Unavailable` if it is in use or a disk fails. Then it holds its previous contents
    /// or an unfinished checkpoint, which cannot be opened; the call may be repeated. An error of
    /// the other disk does not stop the store.
    pub fn checkpoint(&self, to: &dyn Disk) -> Result<Timestamp> {
        self.flush()?;
        let frozen = self.freeze();
        let manifest = &frozen.manifest;
        let _directory = to.lock()?;
        let earlier = begin(to, manifest.identity)?;
        for table in manifest.levels.iter() {
            bring(&**frozen.disk(), to, table, earlier.as_ref())?;
        }
        to.sync_dir().during("sync", to, "")?;
        manifest.store(to)?;
        if let Err(error) = sweep(to, manifest) {
            // Harmless: the next checkpoint or opening removes them.
            tracing::warn!(%error, "files of an earlier checkpoint are left behind");
        }
        Ok(manifest.flushed)
    }
}

/// Turns an unopened checkpoint into a database without a log, durably.
pub(super) fn take_over(disk: &Arc<dyn Disk>) -> Result<()> {
    match disk.open(CHECKPOINT) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened.during("open", &**disk, CHECKPOINT)?,
    };
    let Some(mut manifest) = Manifest::load(&**disk)? else {
        return Err(Error::corrupted(format!(
            "{} holds a checkpoint that was not finished: make it again",
            disk.path("")
        )));
    };
    refuse_log(&**disk, CHECKPOINT, &manifest)?;
    manifest.unlogged = true;
    (manifest.identity, manifest.line) = (Identity::random(), Line::default());
    // Snapshots of the original database may have seen later commits, and a backup does not record
    // `forgotten`.
    (manifest.swept, manifest.lossy) = (manifest.bound, false);
    manifest.forgotten = manifest.bound.min(manifest.flushed);
    manifest.store(&**disk)?;
    disk.remove(CHECKPOINT).during("remove", &**disk, CHECKPOINT)?;
    disk.sync_dir().during("sync", &**disk, "")
}

/// Marks the directory, and returns the manifest of the checkpoint in it.
fn begin(to: &dyn Disk, ours: Identity) -> Result<Option<Manifest>> {
    let names = to.list().during("list", to, "")?;
    if names.iter().any(|name| name == CHECKPOINT) {
        let earlier = Manifest::load(to)?;
        if earlier.as_ref().is_some_and(|earlier| earlier.identity != ours) {
            return Err(of_another(to));
        }
        return Ok(earlier);
    }
    if let Some(name) = names.iter().find(|name| is_ours(name)) {
        return Err(Error::invalid(format!(
            "{} is part of a database and not of an unopened checkpoint: choose an \
             empty directory",
            to.path(name)
        )));
    }
    to.create(CHECKPOINT).during("create", to, CHECKPOINT)?;
    to.sync_dir().during("sync", to, "")?;
    Ok(None)
}

fn of_another(to: &dyn Disk) -> Error {
    Error::invalid(format!(
        "{} is a checkpoint of another database: choose an empty directory",
        to.path("")
    ))
}

/// Returns `true` for the name of a database's file.
pub(crate) fn is_ours(name: &str) -> bool {
    let name = name.strip_suffix(".tmp").unwrap_or(name);
    name == manifest::FILE_NAME
        || sstable::number_in(name).is_some()
        || segment::number_in(name).is_some()
}

/// Links or copies a table to the checkpoint, unless it exists there.
fn bring(
    from: &dyn Disk,
    to: &dyn Disk,
    table: &Arc<TableMeta>,
    earlier: Option<&Manifest>,
) -> Result<()> {
    let name = sstable::file_name(table.number);
    // A file of an earlier attempt may be incomplete; a file in a manifest is complete.
    let known = earlier.and_then(|earlier| earlier.levels.find(table.number));
    if let Some(known) = known {
        return if same_table(from, table, to, known)? { Ok(()) } else { Err(of_another(to)) };
    }
    match to.remove(&name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        removed => removed.during("remove", to, &name)?,
    }
    from.link(&name, to).during("link or copy", to, &name)
}

/// Returns `true` if two tables of the same number have the same contents.
pub(crate) fn same_table(
    from: &dyn Disk,
    table: &TableMeta,
    to: &dyn Disk,
    known: &TableMeta,
) -> Result<bool> {
    let name = sstable::file_name(table.number);
    let here = TableMeta { level: table.level, ..known.clone() };
    Ok(here == *table && tail(from, &name, table.bytes)? == tail(to, &name, table.bytes)?)
}

fn tail(disk: &dyn Disk, name: &str, bytes: u64) -> Result<Vec<u8>> {
    let file = disk.open(name).during("open", disk, name)?;
    let mut tail = vec![0; TAIL_BYTES];
    let from = bytes.saturating_sub(TAIL_BYTES as u64);
    let read = file.read_at(&mut tail, from).during("read", disk, name)?;
    tail.truncate(read);
    Ok(tail)
}

/// Removes tables that the manifest does not contain.
fn sweep(to: &dyn Disk, manifest: &Manifest) -> Result<()> {
    for name in to.list().during("list", to, "")? {
        if sstable::number_in(&name).is_some_and(|number| manifest.levels.find(number).is_none()) {
            to.remove(&name).during("remove", to, &name)?;
        }
    }
    Ok(())
}
