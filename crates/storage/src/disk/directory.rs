//! Directories of files.

use std::any::Any;
use std::io;
use std::path::Path;
use std::sync::Arc;

use carnet_base::Result;

use super::file::File;
use crate::io::Watch;

/// A directory of files.
pub trait Disk: Send + Sync + 'static {
    /// Locks the directory for this process until the lock is dropped. The lock is on the directory
    /// itself, not on a file in it.
    ///
    /// # Errors
    ///
    /// `Unavailable`, naming the directory and the process that holds it.
    fn lock(&self) -> Result<DirectoryLock>;

    /// Locks a file until the lock is dropped, and creates it if it does not exist. Waits while
    /// another holder has it; with `waits` off, returns `None` then. Several processes may use the
    /// directory like this; other operations ignore the lock. A holder may remove the file.
    ///
    /// # Errors
    ///
    /// Errors of the operating system; `Unsupported` if the disk has no such locks.
    fn lock_named(&self, name: &str, waits: bool) -> io::Result<Option<DirectoryLock>> {
        let _ = (name, waits);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Checks that the directory still exists at its path, because the lock does not cover a
    /// directory that replaces it.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the directory was removed, moved or replaced.
    fn check_directory(&self) -> Result<()> {
        Ok(())
    }

    /// Creates an empty file and opens it for reading and writing. An existing file is replaced.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Like [`Disk::create`], for a file that is only written, in large pieces: uses direct I/O if
    /// possible. Use a [`BulkWriter`](super::BulkWriter), which aligns offsets, lengths and memory as required.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    fn create_bulk(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.create(name)
    }

    /// Opens a file for reading and writing, or for reading if writing is not permitted.
    ///
    /// # Errors
    ///
    /// Errors of the operating system; `NotFound` if the file does not exist.
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Like [`Disk::open`], for a file that is only read, in large pieces: uses direct I/O if
    /// possible. Use a [`BulkReader`](super::BulkReader), which aligns offsets, lengths and memory as required.
    ///
    /// # Errors
    ///
    /// Like [`Disk::open`].
    fn open_bulk(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.open(name)
    }

    /// Returns `true` if a file exists.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    fn exists(&self, name: &str) -> io::Result<bool> {
        match self.open(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            opened => opened.map(|_| true),
        }
    }

    /// Renames a file; an existing file of the new name is replaced atomically.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Returns the names of all files, sorted.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Makes all creations, renames and removals so far durable.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    fn sync_dir(&self) -> io::Result<()>;

    /// Returns the path of a file, for messages.
    fn path(&self, name: &str) -> String;

    /// Returns the directory in the operating system, if any.
    fn directory(&self) -> Option<&Path> {
        None
    }

    /// Sets the observer of [`File::read`] calls that reach the device; it replaces an earlier one.
    /// Disks that cannot tell which reads do so ignore it.
    fn watch_reads(&self, watch: Arc<dyn Watch>) {
        drop(watch);
    }

    /// Links a file that is not written any more into another disk, under the same name: as a hard
    /// link if both are directories of one file system, otherwise as a synced copy. Its bytes are
    /// as durable as here once [`Disk::sync_dir`] of the other disk has returned.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` if the other disk has a file of that name; otherwise errors of the operating
    /// system, and then a partial copy may exist.
    fn link(&self, name: &str, to: &dyn Disk) -> io::Result<()>;
}

/// Lock of a directory, or of a file in it, held until it is dropped.
pub struct DirectoryLock(
    #[expect(dead_code, reason = "only its drop matters")] Box<dyn Any + Send + Sync>,
);

impl DirectoryLock {
    /// Wraps a value that unlocks the directory or the file when dropped.
    #[must_use]
    pub fn new(guard: impl Any + Send + Sync) -> Self {
        Self(Box::new(guard))
    }
}
