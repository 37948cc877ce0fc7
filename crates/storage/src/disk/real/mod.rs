//! Files of the operating system.
//!
//! Writes, syncs and operations on names run on the caller's thread. A read that may wait for the
//! device goes through a [`reader`], which has three backends.
//!
//! Names are resolved relative to the open directory, not by its path, so nothing is written into a
//! directory that replaces it. New files and directories are accessible to their user only (0600
//! and 0700).
#![expect(clippy::disallowed_methods, reason = "this module is the interface to files")]

mod file;
mod pool;
#[cfg(target_os = "linux")]
mod reactor;
mod reader;
mod request;
#[cfg(target_os = "linux")]
mod uring;
mod watched;

use std::fmt;
use std::fs::{self, DirBuilder, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use carnet_base::{Error, Result, Spawn, ThreadSpawn};
use rustix::fs::{
    AtFlags, CWD, Dir, Mode, OFlags, linkat, open, openat, renameat, statat, unlinkat,
};
use rustix::io::{Errno, retry_on_intr};

use self::file::RealFile;
pub use self::reader::Backend;
use self::reader::DiskReader;
use super::copy::copy;
use super::{DirectoryLock, Disk, During, File, Shortage};
use crate::io::Watch;

/// Name of the file that contains the id of the process that holds the lock.
pub(crate) const LOCK: &str = "LOCK";

/// A directory of the operating system.
pub struct RealDisk {
    /// Path as given, for messages.
    directory: PathBuf,
    /// Absolute path, independent of the working directory.
    place: PathBuf,
    /// Open as long as the disk exists, so that its inode is not reused for another directory.
    handle: fs::File,
    reader: Arc<DiskReader>,
}

impl RealDisk {
    /// Opens a directory with [`Backend::Auto`] and its own threads. Creates it and its parents if
    /// necessary.
    ///
    /// # Errors
    ///
    /// `Unavailable`, naming the directory.
    pub fn open(directory: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(directory, Backend::Auto, Arc::new(ThreadSpawn))
    }

    /// Opens a directory. Creates it and its parents if necessary. `spawn` starts the threads that
    /// wait for reads, at the first read that has to wait; they end when the disk, its files and
    /// its reads are dropped.
    ///
    /// # Errors
    ///
    /// `Unavailable`, naming the directory; also if `backend` is [`Backend::Uring`] and the system
    /// does not permit it.
    pub fn open_with(
        directory: impl AsRef<Path>,
        backend: Backend,
        spawn: Arc<dyn Spawn>,
    ) -> Result<Self> {
        let directory = directory.as_ref().to_path_buf();
        let opened = make(&directory)
            .and_then(|()| Ok((std::path::absolute(&directory)?, open_directory(&directory)?)));
        let (place, handle) = opened.map_err(|error| {
            let directory = directory.display();
            Error::unavailable(format!("cannot open the directory {directory}")).with_source(error)
        })?;
        let reader = Arc::new(DiskReader::new(backend, spawn)?);
        Ok(Self { directory, place, handle, reader })
    }

    /// Returns the backend of reads; never [`Backend::Auto`].
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.reader.backend()
    }

    /// Wraps an open file, for tests with files that cannot be opened here.
    #[cfg(test)]
    pub(super) fn wrap(&self, file: fs::File) -> Arc<dyn File> {
        Arc::new(RealFile::new(file, Arc::clone(&self.reader)))
    }

    fn open_plain(&self, name: &str, flags: OFlags) -> io::Result<fs::File> {
        let (flags, mode) = (flags | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR);
        Ok(retry_on_intr(|| openat(&self.handle, name, flags, mode))?.into())
    }

    fn open_file(&self, name: &str, flags: OFlags) -> io::Result<Arc<dyn File>> {
        let file = self.open_plain(name, flags)?;
        Ok(Arc::new(RealFile::new(file, Arc::clone(&self.reader))))
    }

    /// Locks the file [`LOCK`], which versions without the directory lock use, and writes the
    /// process id to it; `None` if the file cannot be created or opened for writing.
    fn lock_file(&self) -> io::Result<Option<fs::File>> {
        let mut file = match self.open_plain(LOCK, OFlags::RDWR | OFlags::CREATE) {
            Err(error) if only_reads(&error) => return Ok(None),
            Err(error) if Shortage::of(&error) == Some(Shortage::Space) => return Ok(None),
            opened => opened?,
        };
        file.try_lock()?;
        // The process id is only informative: the lock ends with the process, so a stale id does
        // not matter. On a full disk it is missing.
        file.set_len(0)?;
        let _ = writeln!(file, "{}", std::process::id());
        Ok(Some(file))
    }

    /// Returns the error that names the holder of the directory.
    fn held(&self) -> Error {
        let mut holder = String::new();
        // The holder may not have written its id yet, or the file does not exist; then none is
        // named.
        let _ = self
            .open_plain(LOCK, OFlags::RDONLY)
            .and_then(|file| file.take(20).read_to_string(&mut holder));
        held(&self.directory.display().to_string(), holder.trim())
    }
}

fn open_directory(directory: &Path) -> io::Result<fs::File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(retry_on_intr(|| open(directory, flags, Mode::empty()))?.into())
}

impl fmt::Debug for RealDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RealDisk({}, {:?})", self.directory.display(), self.backend())
    }
}

/// Creates a directory durably, each missing parent first.
fn make(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    let parent = match directory.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    make(parent)?;
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    fs::File::open(parent)?.sync_all()
}

impl Disk for RealDisk {
    fn lock(&self) -> Result<DirectoryLock> {
        let failed = |error: io::Error| {
            let directory = self.directory.display();
            Error::unavailable(format!("cannot lock the directory {directory}")).with_source(error)
        };
        // A separate open, because duplicated descriptors share a lock.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let directory = self.open_plain(".", flags).map_err(failed)?;
        match directory.try_lock() {
            Ok(()) => {}
            Err(TryLockError::Error(error)) => return Err(failed(error)),
            Err(TryLockError::WouldBlock) => return Err(self.held()),
        }
        match self.lock_file() {
            Ok(file) => Ok(DirectoryLock::new((directory, file))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(self.held()),
            Err(error) => Err(failed(error)),
        }
    }

    fn lock_named(&self, name: &str, waits: bool) -> io::Result<Option<DirectoryLock>> {
        loop {
            let file = self.open_plain(name, OFlags::RDWR | OFlags::CREATE)?;
            let locked =
                if waits { file.lock().map_err(TryLockError::Error) } else { file.try_lock() };
            match locked {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Interrupted => {
                    continue;
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
            // An earlier holder may have removed the file: then its name is another file's.
            let ours = file.metadata()?;
            match statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(named) if named.st_ino == ours.ino() => {
                    return Ok(Some(DirectoryLock::new(file)));
                }
                Ok(_) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn check_directory(&self) -> Result<()> {
        let ours = self.handle.metadata();
        let there = fs::metadata(&self.place);
        match (ours, there) {
            (Ok(ours), Ok(there)) if (ours.dev(), ours.ino()) == (there.dev(), there.ino()) => {
                Ok(())
            }
            (Ok(_), Ok(_)) => Err(displaced(&self.directory.display().to_string())),
            (Err(error), _) | (_, Err(error)) if Shortage::of(&error).is_some() => {
                Err(error).during("find", self, "")
            }
            (Err(error), _) | (_, Err(error)) => {
                Err(displaced(&self.directory.display().to_string()).with_source(error))
            }
        }
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.open_file(name, OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC)
    }

    #[cfg(target_os = "linux")]
    fn create_bulk(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::DIRECT;
        match self.open_file(name, flags) {
            // Not every file system supports direct I/O.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => self.create(name),
            opened => opened,
        }
    }

    #[cfg(target_os = "linux")]
    fn open_bulk(&self, name: &str) -> io::Result<Arc<dyn File>> {
        match self.open_file(name, OFlags::RDONLY | OFlags::DIRECT) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => self.open(name),
            opened => opened,
        }
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        match self.open_file(name, OFlags::RDWR) {
            // A backup may be on a read-only medium.
            Err(error) if only_reads(&error) => self.open_file(name, OFlags::RDONLY),
            opened => opened,
        }
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        match statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&self.handle, from, &self.handle, to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.handle, name, AtFlags::empty())?)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.handle)? {
            // A name that is not UTF-8 is not a file of the database.
            match entry?.file_name().to_str() {
                Ok("." | "..") | Err(_) => {}
                Ok(name) => names.push(name.to_owned()),
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.handle.sync_all()
    }

    fn path(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    fn directory(&self) -> Option<&Path> {
        Some(&self.directory)
    }

    fn watch_reads(&self, watch: Arc<dyn Watch>) {
        self.reader.watch(watch);
    }

    fn link(&self, name: &str, to: &dyn Disk) -> io::Result<()> {
        if let Some(directory) = to.directory() {
            let other = directory.join(name);
            match linkat(&self.handle, name, CWD, other, AtFlags::empty()).map_err(io::Error::from)
            {
                Ok(()) => return Ok(()),
                // Another file system, one without hard links, or too many links.
                Err(error) if copies_instead(&error) => {}
                Err(error) => return Err(error),
            }
        }
        copy(self, name, to)
    }
}

fn only_reads(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem)
}

fn copies_instead(error: &io::Error) -> bool {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, TooManyLinks, Unsupported};
    matches!(error.kind(), CrossesDevices | PermissionDenied | TooManyLinks | Unsupported)
}

/// Returns the error that names the holder of a directory.
pub(super) fn held(directory: &str, holder: &str) -> Error {
    let holder = match holder {
        "" => "another process".to_owned(),
        number => format!("process {number}"),
    };
    Error::unavailable(format!(
        "the directory {directory} is in use by {holder}: close it there, connect to that process \
         if it is a server, or open another directory"
    ))
}

/// Returns the error for a directory that is not the opened one any more.
pub(super) fn displaced(directory: &str) -> Error {
    Error::unavailable(format!(
        "the directory {directory} was removed, moved or replaced while it was open; later \
         processes would not find new writes; put the directory back and open it again"
    ))
}
