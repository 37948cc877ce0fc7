//! Checkpoints: a second directory that can be opened as the database of one moment.
//!
//! Everything is flushed, so that the database is its tables, and its log is empty; then
//!
//! ```text
//!  CHECKPOINT, sync ──► tables: links ──► sync ──► MANIFEST ──► leftovers go
//!      │                                              │
//!      └ without a manifest nobody can open this      └ now it is the checkpoint
//! ```
//!
//! Tables never change, so that a link is a copy that takes neither time nor room, until compaction
//! has replaced the table here. Writers, flushes and compactions go on meanwhile; only the
//! removal of files is put off until all are linked.
//!
//! A directory that holds an earlier checkpoint of the same database is brought up to date: its
//! tables that are still part of the database stay as they are, and until the manifest is
//! replaced, in one step, it remains the earlier checkpoint. The file `CHECKPOINT` says that
//! this may be done, and that there is no log: the first opening begins one and removes the file,
//! because from then on the directory is a database with a life of its own.
//!
//! A checkpoint has the *identity* of its database, by which another one's is told, and refused.
//! The first opening gives it one of its own: from then on the two go different ways.

use std::io;
use std::sync::Arc;

use carnet_base::{Error, Result, Timestamp};

use super::{Core, Engine};
use crate::disk::{Disk, During};
use crate::manifest::{self, Identity, Manifest, TableMeta};
use crate::metrics::Counters;
use crate::sstable;
use crate::sync::lock;
use crate::wal::{Lsn, Writer, recovery, segment};

/// The file that says that a directory is a checkpoint that nobody has opened.
pub(crate) const MARKER: &str = "CHECKPOINT";

/// So many bytes at a table's end are compared before it is taken for the same: footer and
/// statistics lie there.
const TAIL_BYTES: usize = 4096;

/// Tables that the manifest does not name any more, and whose files are to stay a while.
#[derive(Default)]
pub(super) struct Removals {
    held: usize,
    deferred: Vec<u64>,
}

/// The tables of one moment. They stay until it is dropped.
pub(crate) struct Frozen {
    core: Arc<Core>,
    /// What names them.
    pub(crate) manifest: Manifest,
}

impl Frozen {
    /// Returns the disk on which the tables lie.
    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.core.disk
    }
}

impl Core {
    /// Takes tables to be removed; returns those that may be removed now.
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
    /// Keeps the tables that there are now.
    pub(crate) fn freeze(&self) -> Frozen {
        let core = Arc::clone(&self.core);
        // Before the manifest is looked at: what it names stays from now on.
        lock(&core.removals).held += 1;
        let manifest = lock(&core.manifest).clone();
        Frozen { core, manifest }
    }

    /// Makes a directory a copy of the database that can be opened by itself, with everything that
    /// was appended before this call, and returns its last commit. It works on the calling
    /// thread and blocks it; writers go on.
    ///
    /// The directory is empty, or holds an earlier checkpoint of this database that nobody has
    /// opened; that one stays valid until the new one replaces it. Where it lies on the same file
    /// system it shares its tables with the database, otherwise they are copied.
    ///
    /// # Errors
    ///
    /// `Invalid` where the directory holds anything else of a database, or another one's checkpoint; `Unavailable` where it is
    /// in use or a disk fails. Then it holds what it held before, or an unfinished checkpoint,
    /// which cannot be opened; either can be tried again. An error of the other disk does not stop
    /// the store.
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
            // They harm nobody, and go with the next checkpoint or opening.
            tracing::warn!(%error, "files of an earlier checkpoint are left behind");
        }
        Ok(manifest.flushed)
    }
}

/// Turns a checkpoint that nobody has opened into a database: begins its log, durably.
pub(super) fn take_over(disk: &Arc<dyn Disk>, counters: &Arc<Counters>) -> Result<()> {
    match disk.open(MARKER) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened.during("open", &**disk, MARKER)?,
    };
    let Some(mut manifest) = Manifest::load(&**disk)? else {
        return Err(Error::corrupted(format!(
            "{} holds a checkpoint that was not finished: make it again",
            disk.path("")
        )));
    };
    refuse_log(&**disk, MARKER, &manifest)?;
    let base = Lsn(manifest.first_lsn);
    Writer::begin(Arc::clone(disk), Arc::clone(counters), manifest.first_segment, base, 0, None)?;
    manifest.identity = Identity::random();
    // Snapshots of the database that it was made of may have seen later commits, and what a backup
    // had forgotten it does not say.
    (manifest.swept, manifest.lossy) = (manifest.bound, false);
    manifest.forgotten = manifest.bound.min(manifest.flushed);
    manifest.store(&**disk)?;
    disk.remove(MARKER).during("remove", &**disk, MARKER)?;
    disk.sync_dir().during("sync", &**disk, "")
}

/// Refuses a directory with a log although the file `marker` in it says that it has none.
///
/// # Errors
///
/// `Corrupted` naming both files; `Unavailable` where the disk fails.
pub(crate) fn refuse_log(disk: &dyn Disk, marker: &str, manifest: &Manifest) -> Result<()> {
    let Some(segment) = recovery::begun_segment(disk, manifest.first_segment)? else {
        return Ok(());
    };
    Err(Error::corrupted(format!(
        "{} says that this directory holds no log, but {segment} is there: remove {marker} if this \
         is a database that was in use, or restore the directory from a backup",
        disk.path(marker)
    )))
}

/// Marks the directory, and returns the manifest of the checkpoint that it holds.
fn begin(to: &dyn Disk, ours: Identity) -> Result<Option<Manifest>> {
    let names = to.list().during("list", to, "")?;
    if names.iter().any(|name| name == MARKER) {
        let earlier = Manifest::load(to)?;
        if earlier.as_ref().is_some_and(|earlier| earlier.identity != ours) {
            return Err(of_another(to));
        }
        return Ok(earlier);
    }
    if let Some(name) = names.iter().find(|name| is_ours(name)) {
        return Err(Error::invalid(format!(
            "{} is part of a database, and not of a checkpoint that nobody has opened: choose an \
             empty directory",
            to.path(name)
        )));
    }
    to.create(MARKER).during("create", to, MARKER)?;
    to.sync_dir().during("sync", to, "")?;
    Ok(None)
}

fn of_another(to: &dyn Disk) -> Error {
    Error::invalid(format!(
        "{} is a checkpoint of another database: choose an empty directory",
        to.path("")
    ))
}

/// Tells whether a name is that of a database's file.
pub(crate) fn is_ours(name: &str) -> bool {
    let name = name.strip_suffix(".tmp").unwrap_or(name);
    name == manifest::FILE_NAME
        || sstable::number_in(name).is_some()
        || segment::number_in(name).is_some()
}

/// Brings a table to the checkpoint, unless it is there.
fn bring(
    from: &dyn Disk,
    to: &dyn Disk,
    table: &Arc<TableMeta>,
    earlier: Option<&Manifest>,
) -> Result<()> {
    let name = sstable::file_name(table.number);
    // What an earlier attempt has left behind may be a part of a copy; what a manifest names is
    // whole.
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

/// Tells whether a table here and one there, of the same number, are one.
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

/// Removes what the manifest does not name.
fn sweep(to: &dyn Disk, manifest: &Manifest) -> Result<()> {
    for name in to.list().during("list", to, "")? {
        if sstable::number_in(&name).is_some_and(|number| manifest.levels.find(number).is_none()) {
            to.remove(&name).during("remove", to, &name)?;
        }
    }
    Ok(())
}
