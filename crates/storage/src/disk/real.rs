//! The operating system's files.
#![expect(clippy::disallowed_methods, reason = "this is the door")]

use std::fs::{self, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use carnet_base::{Error, Result};

use super::{DirectoryLock, Disk, File};

const LOCK: &str = "LOCK";

/// A directory of the operating system.
#[derive(Debug)]
pub struct RealDisk {
    directory: PathBuf,
}

impl RealDisk {
    /// Opens a directory, making it and its parents where they are not there.
    ///
    /// # Errors
    ///
    /// `Unavailable` where that fails, naming the directory.
    pub fn open(directory: impl AsRef<Path>) -> Result<Self> {
        let directory = directory.as_ref().to_path_buf();
        make(&directory).map_err(|error| {
            let directory = directory.display();
            Error::unavailable(format!("cannot open the directory {directory}")).with_source(error)
        })?;
        Ok(Self { directory })
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
        Ok(Arc::new(RealFile(options.open(self.directory.join(name))?)))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let file = OpenOptions::new().read(true).write(true).open(self.directory.join(name))?;
        Ok(Arc::new(RealFile(file)))
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

struct RealFile(fs::File);

impl File for RealFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.0.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}
