//! Vault: the directory that contains backups.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use carnet_base::{Error, Result, ThreadSpawn};

use crate::disk::{Backend, DirectoryLock, Disk, LOCK, RealDisk};
use crate::marks::UNFINISHED;

/// A directory with one subdirectory per backup.
pub trait Vault: Send + Sync + 'static {
    /// Locks the vault for this process until the lock is dropped.
    ///
    /// # Errors
    ///
    /// `Unavailable`, naming the process that holds it.
    fn lock(&self) -> Result<DirectoryLock>;

    /// Returns the names of its subdirectories.
    ///
    /// # Errors
    ///
    /// `Unavailable`.
    fn list(&self) -> Result<Vec<String>>;

    /// Opens a subdirectory; creates it durably if necessary.
    ///
    /// # Errors
    ///
    /// `Unavailable`.
    fn open(&self, name: &str) -> Result<Arc<dyn Disk>>;

    /// Removes an empty subdirectory; its lock file and its marker do not count.
    ///
    /// # Errors
    ///
    /// `Unavailable`.
    fn remove(&self, name: &str) -> Result<()>;
}

/// A vault in the file system.
#[derive(Debug)]
pub struct RealVault {
    root: PathBuf,
    disk: RealDisk,
}

impl RealVault {
    /// Opens a vault; creates it if necessary.
    ///
    /// # Errors
    ///
    /// `Unavailable` if it cannot be created.
    pub fn open(root: impl AsRef<Path>) -> Result<Self> {
        let root = root.as_ref().to_path_buf();
        let disk = directory(root.clone())?;
        Ok(Self { root, disk })
    }

    fn failed(&self, verb: &str, name: &str, error: io::Error) -> Error {
        let path = self.root.join(name);
        Error::unavailable(format!("cannot {verb} {}", path.display())).with_source(error)
    }
}

/// Opens a directory whose files are only copied and checked.
fn directory(path: PathBuf) -> Result<RealDisk> {
    RealDisk::open_with(path, Backend::Inline, Arc::new(ThreadSpawn))
}

impl Vault for RealVault {
    fn lock(&self) -> Result<DirectoryLock> {
        self.disk.lock()
    }

    fn list(&self) -> Result<Vec<String>> {
        let names = || -> io::Result<Vec<String>> {
            let mut names = Vec::new();
            for entry in fs::read_dir(&self.root)? {
                let entry = entry?;
                if let (true, Ok(name)) =
                    (entry.file_type()?.is_dir(), entry.file_name().into_string())
                {
                    names.push(name);
                }
            }
            names.sort_unstable();
            Ok(names)
        };
        names().map_err(|error| self.failed("list", "", error))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Disk>> {
        Ok(Arc::new(directory(self.root.join(name))?))
    }

    fn remove(&self, name: &str) -> Result<()> {
        let disk = directory(self.root.join(name))?;
        for own in [LOCK, UNFINISHED] {
            match disk.remove(own) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(self.failed("empty", name, error));
                }
                _ => {}
            }
        }
        fs::remove_dir(self.root.join(name)).map_err(|error| self.failed("remove", name, error))
    }
}
