//! The one door to files.
//!
//! A [`Disk`] is one directory, flat, and its [`File`]s. The engine does nothing to files but
//! what stands here, so that [`sim::SimDisk`] can lose power at any point, keep any subset of
//! what was not synced, fail any operation, and replay all of it from a seed.
//!
//! What the engine may rely on is only this: bytes of a file that [`File::sync_data`] returned
//! for survive a loss of power, and so does the file's length; a name that was created, renamed
//! or removed survives once [`Disk::sync_dir`] has returned. Until then anything may be there:
//! pages in any order, zeros, old names. After a failed sync nothing is known about the bytes it
//! was asked for, and asking again proves nothing: the caller gives the file up.

mod real;
pub mod sim;

use std::any::Any;
use std::io;
use std::sync::Arc;

use carnet_base::{Error, Result};

pub use real::RealDisk;

/// A directory of files.
pub trait Disk: Send + Sync + 'static {
    /// Takes the directory for this process until the lock is dropped.
    ///
    /// # Errors
    ///
    /// `Unavailable`, naming the directory and the process that holds it.
    fn lock(&self) -> Result<DirectoryLock>;

    /// Makes a file, empty, and opens it for reading and writing. One of that name is replaced.
    ///
    /// # Errors
    ///
    /// As the operating system says.
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Opens a file for reading and writing.
    ///
    /// # Errors
    ///
    /// As the operating system says; `NotFound` where there is none.
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Gives a file another name; one that had it is replaced, at once.
    ///
    /// # Errors
    ///
    /// As the operating system says.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    ///
    /// As the operating system says.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Lists the names of all files, sorted.
    ///
    /// # Errors
    ///
    /// As the operating system says.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Makes every name that was created, renamed or removed so far durable.
    ///
    /// # Errors
    ///
    /// As the operating system says.
    fn sync_dir(&self) -> io::Result<()>;

    /// Says where a file is, for people.
    fn path(&self, name: &str) -> String;
}

/// An open file. Reads and writes name their place, so that threads share it.
pub trait File: Send + Sync + 'static {
    /// Fills `buffer` from a place; returns fewer bytes only at the end of the file.
    ///
    /// # Errors
    ///
    /// As the operating system says.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all of `bytes` at a place.
    ///
    /// # Errors
    ///
    /// As the operating system says. Any part may have been written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes all bytes written so far, and the length, durable.
    ///
    /// # Errors
    ///
    /// As the operating system says.
    fn sync_data(&self) -> io::Result<()>;

    /// Cuts the file, or lengthens it with zeros.
    ///
    /// # Errors
    ///
    /// As the operating system says.
    fn truncate(&self, len: u64) -> io::Result<()>;

    /// Returns the length in bytes.
    ///
    /// # Errors
    ///
    /// As the operating system says.
    fn len(&self) -> io::Result<u64>;

    /// Tells whether the file has no bytes.
    ///
    /// # Errors
    ///
    /// As the operating system says.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// Holds a directory until it is dropped.
pub struct DirectoryLock(
    #[expect(dead_code, reason = "it is held for its drop")] Box<dyn Any + Send + Sync>,
);

impl DirectoryLock {
    /// Wraps whatever releases the directory when it is dropped.
    #[must_use]
    pub fn new(guard: impl Any + Send + Sync) -> Self {
        Self(Box::new(guard))
    }
}

/// Says what was being done to which file when an operation failed.
pub(crate) trait During<T> {
    fn during(self, verb: &str, disk: &dyn Disk, name: &str) -> Result<T>;
}

impl<T> During<T> for io::Result<T> {
    fn during(self, verb: &str, disk: &dyn Disk, name: &str) -> Result<T> {
        self.map_err(|error| {
            let path = disk.path(name);
            let advice = match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    "; free some space and open the database again"
                }
                _ => "",
            };
            Error::unavailable(format!("cannot {verb} {path}{advice}")).with_source(error)
        })
    }
}

/// Reads all of a file. Its length is what the file system says, never what its bytes say.
pub(crate) fn read_all(disk: &dyn Disk, file: &dyn File, name: &str) -> Result<Vec<u8>> {
    let len = file.len().during("read", disk, name)?;
    let len = usize::try_from(len)
        .map_err(|_| Error::corrupted(format!("{} is too long: {len} bytes", disk.path(name))))?;
    let mut bytes = vec![0; len];
    let read = file.read_at(&mut bytes, 0).during("read", disk, name)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Replaces a small file as a whole: afterwards it is the old one or the new one, never a mixture.
pub(crate) fn replace(disk: &dyn Disk, name: &str, bytes: &[u8]) -> Result<()> {
    let temporary = format!("{name}.tmp");
    let file = disk.create(&temporary).during("create", disk, &temporary)?;
    file.write_at(bytes, 0).during("write", disk, &temporary)?;
    file.sync_data().during("sync", disk, &temporary)?;
    disk.rename(&temporary, name).during("replace", disk, name)?;
    disk.sync_dir().during("sync the directory of", disk, name)
}
