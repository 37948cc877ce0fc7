//! The operating system's files.
//!
//! Writing, syncing and everything about names happens on the caller's thread. A read that may
//! wait for the device goes through a [`reader`], which has three ways to wait.
//!
//! Names are resolved from the open directory, not from its path: where another directory takes
//! its place, nothing is written into that one. Files and directories that are made here belong to
//! their user alone (0600 and 0700).
#![expect(clippy::disallowed_methods, reason = "this is the door")]

mod file;
mod pool;
#[cfg(target_os = "linux")]
mod reactor;
mod reader;
mod request;
#[cfg(target_os = "linux")]
mod uring;

use std::fmt;
use std::fs::{self, DirBuilder, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use carnet_base::{Error, Result, Spawn, ThreadSpawn};
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, linkat, open, openat, renameat, unlinkat};
use rustix::io::retry_on_intr;

use self::file::RealFile;
pub use self::reader::Backend;
use self::reader::Reader;
use super::{DirectoryLock, Disk, File, Watch, copy, is_full};

/// The file that names the process which holds the directory.
pub(crate) const LOCK: &str = "LOCK";

/// A directory of the operating system.
pub struct RealDisk {
    /// The path as it was given, for messages.
    directory: PathBuf,
    /// The path from the root, whatever the process makes its working directory.
    place: PathBuf,
    /// Open for as long as the disk is, so that the system gives its inode to no other directory.
    handle: fs::File,
    reader: Arc<Reader>,
}

impl RealDisk {
    /// Opens a directory, making it and its parents where they are not there, with
    /// [`Backend::Auto`] and threads of its own.
    ///
    /// # Errors
    ///
    /// `Unavailable` where that fails, naming the directory.
    pub fn open(directory: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(directory, Backend::Auto, Arc::new(ThreadSpawn))
    }

    /// Opens a directory, making it and its parents where they are not there. What waits for
    /// reads is spawned by `spawn`, when the first read has to wait, and ends by itself once the
    /// disk, its files and its reads are gone.
    ///
    /// # Errors
    ///
    /// `Unavailable` where that fails, naming the directory; and where `backend` is
    /// [`Backend::Uring`] but the system does not let this process use it.
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
        let reader = Arc::new(Reader::new(backend, spawn)?);
        Ok(Self { directory, place, handle, reader })
    }

    /// Returns how reads wait for the device; never [`Backend::Auto`].
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.reader.backend()
    }

    /// Wraps any open file, for tests of what cannot be opened here.
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

    /// Locks the file [`LOCK`], which programs of before the directory's own lock rely on, and
    /// names this process in it; `None` where the file cannot be made or opened for writing.
    fn lock_file(&self) -> io::Result<Option<fs::File>> {
        let mut file = match self.open_plain(LOCK, OFlags::RDWR | OFlags::CREATE) {
            Err(error) if only_reads(&error) || is_full(&error) => return Ok(None),
            opened => opened?,
        };
        file.try_lock()?;
        // The number is for people only: the lock is the operating system's and ends with the
        // process, so that a stale number holds up no other process; on a full disk there is none.
        file.set_len(0)?;
        let _ = writeln!(file, "{}", std::process::id());
        Ok(Some(file))
    }

    /// Says who holds the directory.
    fn held(&self) -> Error {
        let mut holder = String::new();
        // The holder may be about to write its number, or the file is gone: then none is named.
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

/// Makes a directory and makes its name durable, each missing parent first.
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
        // A descriptor of its own: descriptors that are copies of one share its lock.
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

    fn check_directory(&self) -> Result<()> {
        let ours = self.handle.metadata();
        let there = fs::metadata(&self.place);
        match (ours, there) {
            (Ok(ours), Ok(there)) if (ours.dev(), ours.ino()) == (there.dev(), there.ino()) => {
                Ok(())
            }
            (Ok(_), Ok(_)) => Err(displaced(&self.directory.display().to_string())),
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
            // Not every file system has it.
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
            // A backup may lie on a medium that cannot be written.
            Err(error) if only_reads(&error) => self.open_file(name, OFlags::RDONLY),
            opened => opened,
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
            // A name that is not UTF-8 is none of ours.
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
                // Another file system, one that has no links, or a file that has too many.
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

/// Says who holds a directory and what to do about it.
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

/// Says that a directory is not the one any more that was opened.
pub(super) fn displaced(directory: &str) -> Error {
    Error::unavailable(format!(
        "the directory {directory} was removed, moved or replaced while it was open: what is \
         written now would be found by no later process; put the directory back and open it again"
    ))
}
