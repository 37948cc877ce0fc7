//! The operating system's files.
//!
//! Writing, syncing and everything about names happens on the caller's thread. A read that may
//! wait for the device goes through a [`reader`], which has three ways to wait.
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
use std::fs::{self, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use carnet_base::{Error, Result, Spawn, ThreadSpawn};

use self::file::RealFile;
pub use self::reader::Backend;
use self::reader::Reader;
use super::{DirectoryLock, Disk, File, copy};

pub(crate) const LOCK: &str = "LOCK";

/// A directory of the operating system.
pub struct RealDisk {
    directory: PathBuf,
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
        make(&directory).map_err(|error| {
            let directory = directory.display();
            Error::unavailable(format!("cannot open the directory {directory}")).with_source(error)
        })?;
        let reader = Arc::new(Reader::new(backend, spawn)?);
        Ok(Self { directory, reader })
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

    fn open_file(&self, name: &str, options: &OpenOptions) -> io::Result<Arc<dyn File>> {
        let file = options.open(self.directory.join(name))?;
        Ok(Arc::new(RealFile::new(file, Arc::clone(&self.reader))))
    }

    /// Opens a file past the page cache.
    #[cfg(target_os = "linux")]
    fn open_direct(&self, name: &str, options: &mut OpenOptions) -> io::Result<Arc<dyn File>> {
        use std::os::unix::fs::OpenOptionsExt;
        let direct = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).map_err(io::Error::other)?;
        self.open_file(name, options.custom_flags(direct))
    }
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
    match fs::create_dir(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    fs::File::open(parent)?.sync_all()
}

impl Disk for RealDisk {
    fn lock(&self) -> Result<DirectoryLock> {
        let path = self.directory.join(LOCK);
        let failed = |error: io::Error| {
            Error::unavailable(format!("cannot lock {}", path.display())).with_source(error)
        };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::Error(error)) => return Err(failed(error)),
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // The holder may be about to write its number; then there is none to name.
                let _ = file.take(20).read_to_string(&mut holder);
                return Err(held(&self.directory.display().to_string(), holder.trim()));
            }
        }
        // The number is for people only: the lock is the operating system's and ends with the
        // process, so that a stale number holds nobody up.
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()))
            .map_err(failed)?;
        Ok(DirectoryLock::new(file))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        self.open_file(name, &options)
    }

    #[cfg(target_os = "linux")]
    fn create_bulk(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        match self.open_direct(name, &mut options) {
            // Not every file system has it.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => self.create(name),
            opened => opened,
        }
    }

    #[cfg(target_os = "linux")]
    fn open_bulk(&self, name: &str) -> io::Result<Arc<dyn File>> {
        match self.open_direct(name, OpenOptions::new().read(true)) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => self.open(name),
            opened => opened,
        }
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        match self.open_file(name, OpenOptions::new().read(true).write(true)) {
            // A backup may lie where nobody writes.
            Err(error) if only_reads(&error) => self.open_file(name, OpenOptions::new().read(true)),
            opened => opened,
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.directory.join(from), self.directory.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.directory.join(name))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            // A name that is not UTF-8 is none of ours.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn sync_dir(&self) -> io::Result<()> {
        fs::File::open(&self.directory)?.sync_all()
    }

    fn path(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    fn directory(&self) -> Option<&Path> {
        Some(&self.directory)
    }

    fn link(&self, name: &str, to: &dyn Disk) -> io::Result<()> {
        if let Some(directory) = to.directory() {
            match fs::hard_link(self.directory.join(name), directory.join(name)) {
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
