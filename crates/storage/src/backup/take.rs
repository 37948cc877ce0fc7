//! Takes a backup, file by file.

use std::sync::Arc;
use std::time::Duration;

use carnet_base::{Error, ErrorKind, Result, WallTime};

use super::earlier::Earlier;
use super::label::{Label, LabelledFile};
use super::progress::Progress;
use super::{marker, verify};
use crate::disk::{DirectoryLock, Disk, During};
use crate::engine::checkpoint::Frozen;
use crate::inspect;
use crate::manifest::{self, Manifest, TableMeta};
use crate::sstable;

/// Choices of the caller: fields of the label, and the age from which tables are read again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Time of the backup.
    pub wall: WallTime,
    /// Version of the program.
    pub program: String,
    /// Informative notes of the layer above.
    pub notes: Vec<String>,
    /// Tables shared with an earlier backup are read again if they were not read for this long.
    /// Zero: all are read. Tables that compaction could not read always are.
    pub reread_after: Duration,
}

/// A finished backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// Name of its directory in the vault.
    pub name: String,
    /// Label of the backup.
    pub label: Label,
    /// Number of its files that are links to an earlier backup.
    pub shared_files: u64,
    /// Total size of those files.
    pub shared_bytes: u64,
}

/// A backup in progress. Dropping it leaves a directory without a label, which the next backup
/// removes.
///
/// First all tables are linked, which is quick on one file system, and then their bytes are read.
pub struct BackupJob {
    /// Keeps the tables until all of them are linked, or until the job ends.
    pub(super) frozen: Option<Frozen>,
    pub(super) from: Arc<dyn Disk>,
    pub(super) manifest: Manifest,
    /// Tables that are always read again, because compaction could not read them.
    pub(super) quarantined: Vec<u64>,
    pub(super) reread_after: Duration,
    pub(super) _vault: DirectoryLock,
    pub(super) _directory: DirectoryLock,
    pub(super) to: Arc<dyn Disk>,
    pub(super) earlier: Option<Earlier>,
    /// Label of a backup of this commit that exists already.
    pub(super) there: Option<Label>,
    /// Files of that backup which are still to be checked.
    pub(super) unchecked: Vec<LabelledFile>,
    /// Tables that are still to be linked.
    pub(super) pending: Vec<Arc<TableMeta>>,
    /// Tables that are still to be read.
    pub(super) linked: Vec<Linked>,
    pub(super) backup: Backup,
    pub(super) progress: Progress,
    pub(super) done: bool,
}

/// A table in the new backup's directory.
#[derive(Clone)]
pub(super) struct Linked {
    table: Arc<TableMeta>,
    /// Its line in the label of the earlier backup that it is shared with.
    shared: Option<LabelledFile>,
}

impl BackupJob {
    /// Copies one more file to the backup and verifies its blocks, or checks one more file of the
    /// backup that exists already; returns the backup when it is finished.
    ///
    /// # Errors
    ///
    /// `Corrupted`, naming the file and the offset, if a table is damaged; `Unavailable` if a disk
    /// fails. Errors do not stop the store.
    pub fn step(&mut self) -> Result<Option<Backup>> {
        if self.done {
            return Ok(Some(self.backup.clone()));
        }
        if let Some(there) = self.there.take() {
            return self.check(there);
        }
        // A failed table stays in its list, so the backup is not finished without it.
        if let Some(table) = self.pending.last().cloned() {
            let shared = self.link(&table)?;
            self.pending.pop();
            self.linked.push(Linked { table, shared });
            return Ok(None);
        }
        if let Some(linked) = self.linked.last().cloned() {
            self.read(&linked)?;
            self.linked.pop();
            self.progress.bytes += linked.table.bytes;
            return Ok(None);
        }
        self.finish().map(Some)
    }

    /// Returns `true` if the job needs the database no more: its directory may be unlocked.
    #[must_use]
    pub const fn is_linked(&self) -> bool {
        self.there.is_none() && self.pending.is_empty()
    }

    /// Gives the database up; call it once all tables [are linked](BackupJob::is_linked).
    pub fn release(&mut self) {
        self.frozen = None;
    }

    /// Returns the progress.
    #[must_use]
    pub const fn progress(&self) -> Progress {
        self.progress
    }

    /// Runs all remaining steps.
    ///
    /// # Errors
    ///
    /// Like [`BackupJob::step`].
    pub fn run(mut self, mut tell: impl FnMut(&Progress)) -> Result<Backup> {
        loop {
            if let Some(backup) = self.step()? {
                return Ok(backup);
            }
            tell(&self.progress);
        }
    }

    /// Checks the next file of the backup that exists; takes the backup anew if it is damaged.
    fn check(&mut self, there: Label) -> Result<Option<Backup>> {
        let Some(file) = self.unchecked.pop() else {
            marker::unmark(&*self.to)?;
            self.backup.label = there;
            self.done = true;
            return Ok(Some(self.backup.clone()));
        };
        let checked = self.check_file(&there, &file);
        match checked {
            Ok(()) => {
                self.progress.bytes += file.bytes;
                self.there = Some(there);
            }
            Err(error) if is_damage(&error) => {
                tracing::warn!(%error, "a backup is damaged, and is taken anew");
                marker::void(&*self.to)?;
                let bytes_total = self.pending.iter().map(|table| table.bytes).sum();
                self.progress = Progress { bytes: 0, bytes_total };
            }
            Err(error) => {
                self.unchecked.push(file);
                self.there = Some(there);
                return Err(error);
            }
        }
        Ok(None)
    }

    fn check_file(&self, there: &Label, file: &LabelledFile) -> Result<()> {
        if !self.to.exists(&file.name).during("open", &*self.to, &file.name)? {
            return Err(Error::corrupted(format!("{} is missing", self.to.path(&file.name))));
        }
        if !there.verified || there.incarnation.is_none() {
            return Err(Error::corrupted("an earlier version took it: it may be of another line"));
        }
        verify::check(&*self.to, file)
    }

    /// Links a table from the earlier backup, and returns its line there, or from the database.
    fn link(&self, table: &TableMeta) -> Result<Option<LabelledFile>> {
        if let Some(earlier) = &self.earlier
            && let Some(file) = earlier.give(table, &*self.from, &*self.to)?
        {
            return Ok(Some(file));
        }
        self.link_own(table)?;
        Ok(None)
    }

    fn link_own(&self, table: &TableMeta) -> Result<()> {
        let name = sstable::file_name(table.number);
        self.from.link(&name, &*self.to).during("link or copy", &*self.to, &name)
    }

    /// Reads a linked table, unless an earlier backup has read it lately, and adds its line.
    fn read(&mut self, linked: &Linked) -> Result<()> {
        let Linked { table, shared } = linked;
        if let Some(file) = shared {
            if let Some(file) = self.intact(table, file)? {
                self.backup.shared_files += 1;
                self.backup.shared_bytes += file.bytes;
                self.backup.label.files.push(file);
                return Ok(());
            }
            self.to.remove(&file.name).during("remove", &*self.to, &file.name)?;
            self.link_own(table)?;
            if let Some(last) = self.linked.last_mut() {
                last.shared = None;
            }
        }
        let now = self.backup.label.wall;
        let file = verify::table(&self.to, table, now).map_err(|error| self.blame(table, error))?;
        self.backup.label.files.push(file);
        Ok(())
    }

    /// Returns the line of a table that is shared with the earlier backup; `None` if the table is
    /// damaged there.
    fn intact(&self, table: &TableMeta, file: &LabelledFile) -> Result<Option<LabelledFile>> {
        let Some(earlier) = &self.earlier else { return Ok(None) };
        let now = self.backup.label.wall;
        let was_verified = earlier.label.verified;
        if was_verified && self.is_trusted(table, file) {
            return Ok(Some(file.clone()));
        }
        let read = if was_verified {
            verify::check(&*self.to, file)
        } else {
            verify::table(&self.to, table, file.checked).and_then(|found| match found == *file {
                true => Ok(()),
                false => Err(Error::corrupted(format!("{} differs from its label", file.name))),
            })
        };
        match read {
            Ok(()) => Ok(Some(LabelledFile { checked: now, ..file.clone() })),
            Err(error) if is_damage(&error) => {
                tracing::warn!(%error, "an earlier backup is damaged");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns `true` if a table that an earlier backup has read is not read again yet.
    fn is_trusted(&self, table: &TableMeta, file: &LabelledFile) -> bool {
        let age = self.backup.label.wall.0.checked_sub(file.checked.0);
        let age = age.and_then(|age| u64::try_from(age).ok()).map(Duration::from_micros);
        age.is_some_and(|age| age < self.reread_after) && !self.quarantined.contains(&table.number)
    }

    /// Names the database's own file if it is damaged too, and not only its copy.
    fn blame(&self, table: &TableMeta, error: Error) -> Error {
        if error.kind() != ErrorKind::Corrupted {
            return error;
        }
        let source = inspect::verify_table(&self.from, table, |_| {});
        Error::corrupted("the backup failed; earlier ones are kept")
            .with_source(source.err().filter(is_damage).unwrap_or(error))
    }

    /// Writes the manifest and its line of the label.
    fn write_manifest(&mut self) -> Result<()> {
        let (manifest, name) = (&self.manifest, manifest::FILE_NAME.to_owned());
        manifest.store(&*self.to)?;
        let (bytes, crc) = verify::sum(&*self.to, &name)?;
        if inspect::load(&*self.to)? != *manifest {
            let path = self.to.path(&name);
            return Err(Error::corrupted(format!("{path} differs from what was written to it")));
        }
        let checked = self.backup.label.wall;
        self.backup.label.files.insert(0, LabelledFile { name, bytes, crc, checked });
        Ok(())
    }

    /// Makes the files durable, then writes the label, and then removes the marker.
    fn finish(&mut self) -> Result<Backup> {
        self.to.sync_dir().during("sync", &*self.to, "")?;
        self.write_manifest()?;
        self.backup.label.store(&*self.to)?;
        marker::unmark(&*self.to)?;
        self.done = true;
        Ok(self.backup.clone())
    }
}

fn is_damage(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Corrupted)
}
