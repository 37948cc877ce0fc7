//! File operations of a directory of nodes. Tests simulate a loss of power between any two of them.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use carnet_base::Bytes;

/// An exclusive lock on a name, across processes.
pub(crate) type Lock = Box<dyn Send + Sync>;

pub(crate) trait Files: Send + Sync + 'static {
    /// Reads a file; `None` if it does not exist.
    fn read(&self, name: &str) -> io::Result<Option<Bytes>>;
    /// Creates or replaces a file with these bytes, and syncs it.
    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()>;
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    fn remove(&self, name: &str) -> io::Result<()>;
    fn list(&self) -> io::Result<Vec<String>>;
    /// Syncs the directory, so that all names are durable.
    fn sync(&self) -> io::Result<()>;
    /// Acquires a lock; blocks while it is held.
    fn lock(&self, name: &str) -> io::Result<Lock>;
    /// Acquires a lock; `None` if it is held.
    fn try_lock(&self, name: &str) -> io::Result<Option<Lock>>;
}

/// A directory of the operating system.
#[derive(Debug)]
pub(crate) struct RealFiles(PathBuf);

impl RealFiles {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        make(path)?;
        Ok(Self(path.to_owned()))
    }

    #[expect(clippy::disallowed_methods, reason = "this module does the file I/O")]
    fn lock_file(&self, name: &str) -> io::Result<File> {
        OpenOptions::new().create(true).truncate(false).write(true).open(self.0.join(name))
    }
}

/// Creates a directory and its parents, and syncs the names.
#[expect(clippy::disallowed_methods, reason = "this module does the file I/O")]
fn make(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    make(parent)?;
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    File::open(parent)?.sync_all()
}

#[expect(clippy::disallowed_methods, reason = "this module does the file I/O")]
impl Files for RealFiles {
    fn read(&self, name: &str) -> io::Result<Option<Bytes>> {
        let mut bytes = Vec::new();
        match File::open(self.0.join(name)) {
            Ok(mut file) => file.read_to_end(&mut bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(Some(Bytes::from(bytes)))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut file = File::create(self.0.join(name))?;
        file.write_all(bytes)?;
        file.sync_data()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.0.join(from), self.0.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.0.join(name))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.0)? {
            // Files whose names are not UTF-8 do not belong to the tree.
            names.extend(entry?.file_name().into_string().ok());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.0)?.sync_all()
    }

    fn lock(&self, name: &str) -> io::Result<Lock> {
        let file = self.lock_file(name)?;
        file.lock()?;
        Ok(Box::new(file))
    }

    fn try_lock(&self, name: &str) -> io::Result<Option<Lock>> {
        let file = self.lock_file(name)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}
