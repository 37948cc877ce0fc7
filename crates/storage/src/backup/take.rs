//! Takes a backup, file by file.

use std::sync::Arc;

use carnet_base::{Error, ErrorKind, Result, WallTime};

use super::earlier::Earlier;
use super::label::{Label, LabelledFile};
use super::progress::Progress;
use super::{marker, verify};
use crate::disk::{DirectoryLock, Disk, During};
use crate::engine::checkpoint::Frozen;
use crate::inspect;
use crate::manifest::{self, TableMeta};
use crate::sstable;

/// Fields of a label that the caller provides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Time of the backup.
    pub wall: WallTime,
    /// Version of the program.
    pub program: String,
    /// Informative notes of the layer above.
    pub notes: Vec<String>,
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
pub struct BackupJob {
    pub(super) frozen: Frozen,
    pub(super) _vault: DirectoryLock,
    pub(super) _directory: DirectoryLock,
    pub(super) to: Arc<dyn Disk>,
    pub(super) earlier: Option<Earlier>,
    /// Label of a backup of this commit that exists already.
    pub(super) there: Option<Label>,
    /// Files of that backup which are still to be checked.
    pub(super) unchecked: Vec<LabelledFile>,
    pub(super) pending: Vec<Arc<TableMeta>>,
    pub(super) backup: Backup,
    pub(super) progress: Progress,
    pub(super) done: bool,
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
        match self.pending.last().cloned() {
            Some(table) => {
                // A failed table stays pending, so the backup is not finished without it.
                self.bring(&table)?;
                self.pending.pop();
                self.progress.bytes += table.bytes;
                Ok(None)
            }
            None => self.finish().map(Some),
        }
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

    fn bring(&mut self, table: &TableMeta) -> Result<()> {
        if let Some(file) = self.share(table)? {
            self.backup.shared_files += 1;
            self.backup.shared_bytes += file.bytes;
            self.backup.label.files.push(file);
            return Ok(());
        }
        let name = sstable::file_name(table.number);
        let from = self.frozen.disk();
        from.link(&name, &*self.to).during("link or copy", &*self.to, &name)?;
        let now = self.backup.label.wall;
        let file = verify::table(&self.to, table, now).map_err(|error| self.blame(table, error))?;
        self.backup.label.files.push(file);
        Ok(())
    }

    /// Links a table from the earlier backup, if it is intact there.
    fn share(&self, table: &TableMeta) -> Result<Option<LabelledFile>> {
        let Some(earlier) = &self.earlier else { return Ok(None) };
        let Some(file) = earlier.give(table, &**self.frozen.disk(), &*self.to)? else {
            return Ok(None);
        };
        if earlier.label.verified {
            return Ok(Some(file));
        }
        match verify::table(&self.to, table, file.checked) {
            Ok(found) if found == file => return Ok(Some(file)),
            Err(error) if error.kind() != ErrorKind::Corrupted => return Err(error),
            Ok(_) => tracing::warn!(file.name, "an earlier backup is damaged"),
            Err(error) => tracing::warn!(%error, "an earlier backup is damaged"),
        }
        self.to.remove(&file.name).during("remove", &*self.to, &file.name)?;
        Ok(None)
    }

    /// Names the database's own file if it is damaged too, and not only its copy.
    fn blame(&self, table: &TableMeta, error: Error) -> Error {
        if error.kind() != ErrorKind::Corrupted {
            return error;
        }
        let source = inspect::verify_table(self.frozen.disk(), table, |_| {});
        Error::corrupted("the backup failed; earlier ones are kept")
            .with_source(source.err().unwrap_or(error))
    }

    /// Writes the manifest and its line of the label.
    fn write_manifest(&mut self) -> Result<()> {
        let (manifest, name) = (&self.frozen.manifest, manifest::FILE_NAME.to_owned());
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
