//! File access: all files are accessed through this module.
//!
//! A [`Disk`] is one flat directory with its [`File`]s. The engine uses no other file operations,
//! so [`sim::SimDisk`] can simulate a power failure at any point, lose any subset of unsynced data,
//! fail any operation, and replay all of it from a seed.
//!
//! The engine relies only on these guarantees: bytes and length of a file survive a power failure
//! once [`File::sync_data`] has returned; creations, renames and removals survive once
//! [`Disk::sync_dir`] has returned. Before, any state is possible: pages in any order, zeros, old
//! names. After a failed sync the state of its bytes is unknown, and another sync does not help:
//! the caller must give the file up.
//!
//! # Reads
//!
//! [`File::read`] does not block, except for callers that permit it (below). The call starts the
//! read, in two steps:
//!
//! ```text
//!  read ──► preadv2(RWF_NOWAIT) ──► all bytes are in the page cache: the future is ready
//!                 │ otherwise the kernel has started to read them
//!                 └──► io_uring, or a pool of threads, waits for it ──► the waker
//! ```
//!
//! The first step makes a read from the page cache one system call without a thread switch. It also
//! helps uncached reads, because the device starts before another thread is involved.
//!
//! io_uring is the default, because a task with many concurrent reads needs less CPU than with the
//! thread pool at equal speed. A thread that blocks anyway is fastest if it reads itself:
//! [`block_on_one`](carnet_base::block_on_one) does this with every backend, and the synchronous
//! API uses it for gets and pages. With [`Backend::Inline`] all reads block, so an executor must
//! not poll those futures. See docs/design/0014-io-scheduler.md#figures.
//!
//! # Writes
//!
//! Writes and syncs block their caller: the log has its flusher, tables have their workers.
//!
//! * A sync of a growing file is slow, because its length changes. `fallocate` alone does not help,
//!   because its extents must still be marked as written. Overwriting zeros, or a recycled file,
//!   does.
//! * A sync of the log waits for earlier writes on the device. So tables are written by a
//!   [`BulkWriter`]: with direct I/O (`O_DIRECT`) if the file system supports it, and synced every
//!   8 MiB. Direct I/O also avoids a copy to the page cache. The drawback: a new table is cached
//!   only in the block cache, as it is read.
//! * Compaction reads with direct I/O too ([`BulkReader`]), which avoids another copy. The
//!   drawback: the kernel does not read ahead, so compaction threads wait for the device, and there
//!   are more threads than processors ([`compaction_threads`](crate::Options::compaction_threads)).
//!
//! Not implemented on purpose, because it did not help:
//!
//! * `sync_file_range`: its guarantees hold on some file systems only.
//! * Evicting a large file's pages after writing it: point reads beside it were not faster.
//!   [`File::evict`] exists for files that will not be read, and for measurements.
//! * Read-ahead advice (`posix_fadvise`): the kernel detects sequential reads.

mod bulk;
mod copy;
mod paced;
mod promise;
mod read_only;
mod real;
pub mod sim;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::error;
use std::fmt;
use std::future::Future;
use std::io::{self, IoSlice};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use carnet_base::{Bytes, Error, Moment, Result};

pub use bulk::{BulkReader, BulkWriter};
use copy::copy;
pub(crate) use paced::PacedDisk;
pub(crate) use read_only::ReadOnlyDisk;
pub(crate) use real::LOCK;
pub use real::{Backend, RealDisk};

/// A directory of files.
pub trait Disk: Send + Sync + 'static {
    /// Locks the directory for this process until the lock is dropped. The lock is on the directory
    /// itself, not on a file in it.
    ///
    /// # Errors
    ///
    /// `Unavailable`, naming the directory and the process that holds it.
    fn lock(&self) -> Result<DirectoryLock>;

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
    /// possible. Use a [`BulkWriter`], which aligns offsets, lengths and memory as required.
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
    /// possible. Use a [`BulkReader`], which aligns offsets, lengths and memory as required.
    ///
    /// # Errors
    ///
    /// Like [`Disk::open`].
    fn open_bulk(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.open(name)
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

/// Observer of reads that reach the device.
pub trait Watch: Send + Sync {
    /// Returns the current time; called before a read reaches the device.
    fn begun(&self) -> Moment;

    /// Called when a read has ended, with its size in bytes and its start time.
    fn ended(&self, bytes: usize, begun: Moment);
}

/// A pending read. Dropping it cancels the read.
///
/// It does not block, may be polled on any thread, and is woken from a thread of the disk.
pub type ReadFuture = Pin<Box<dyn Future<Output = io::Result<Bytes>> + Send>>;

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Offset in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub len: usize,
}

/// An open file. Reads and writes have explicit offsets, so threads can share it.
pub trait File: Send + Sync + 'static {
    /// Fills `buffer` from an offset; returns fewer bytes only at the end of the file.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Reads without blocking, unless the caller [waits for this read
    /// only](carnet_base::waits_for_one). Returns fewer bytes only at the end of the file.
    ///
    /// The read is started *by this call*, not by the first poll, so a caller can start many reads
    /// and then await them. A read from the page cache is complete at the first poll.
    ///
    /// The buffer is allocated before the file is accessed, so `len` must be validated.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    fn read(self: Arc<Self>, offset: u64, len: usize) -> ReadFuture;

    /// Starts many reads at once, which costs less than single ones.
    ///
    /// # Errors
    ///
    /// Each read like [`File::read`].
    fn read_many(self: Arc<Self>, places: &[Place]) -> Vec<ReadFuture>;

    /// Writes all of `bytes` at an offset.
    ///
    /// # Errors
    ///
    /// Errors of the operating system. Any part may have been written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Writes all pieces at an offset, one after the other. The slices in `pieces` are undefined
    /// afterwards.
    ///
    /// # Errors
    ///
    /// Errors of the operating system. Any part may have been written.
    fn write_vectored_at(&self, pieces: &mut [IoSlice<'_>], offset: u64) -> io::Result<()>;

    /// Makes all written bytes, and the length, durable.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    fn sync_data(&self) -> io::Result<()>;

    /// Writes all of `bytes` at an offset and makes them durable, with the length that is necessary
    /// to read them. Other bytes of the file may stay unsynced.
    ///
    /// # Errors
    ///
    /// Errors of the operating system. Any part may have been written, and the durable
    /// part is unknown.
    fn write_durably_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_at(bytes, offset)?;
        self.sync_data()
    }

    /// Extends the file to `len` with written zeros, so that later writes below `len` change only
    /// data and sync faster. A longer file is unchanged. Not durable before [`File::sync_data`].
    ///
    /// # Errors
    ///
    /// Errors of the operating system; `StorageFull` if there is not enough space.
    fn preallocate(&self, len: u64) -> io::Result<()>;

    /// Evicts the file's synced pages from the page cache. Affects only performance and memory.
    ///
    /// # Errors
    ///
    /// Errors of the operating system; they may be ignored.
    fn evict(&self) -> io::Result<()>;

    /// Truncates the file, or extends it with zeros.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    fn truncate(&self, len: u64) -> io::Result<()>;

    /// Returns the length in bytes.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    fn len(&self) -> io::Result<u64>;

    /// Returns `true` if the file has no bytes.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// Lock of a directory, held until it is dropped.
pub struct DirectoryLock(
    #[expect(dead_code, reason = "only its drop matters")] Box<dyn Any + Send + Sync>,
);

impl DirectoryLock {
    /// Wraps a value that unlocks the directory when dropped.
    #[must_use]
    pub fn new(guard: impl Any + Send + Sync) -> Self {
        Self(Box::new(guard))
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Returns `true` if a write failed because the file system is read-only, or the file is open for
/// reading only.
fn only_reads(error: &io::Error) -> bool {
    let is_bad_file = error.raw_os_error() == Some(rustix::io::Errno::BADF.raw_os_error());
    is_bad_file || error.kind() == io::ErrorKind::ReadOnlyFilesystem
}

/// Adds the operation and the file to an error.
pub(crate) trait During<T> {
    fn during(self, verb: &str, disk: &dyn Disk, name: &str) -> Result<T>;
}

impl<T> During<T> for io::Result<T> {
    fn during(self, verb: &str, disk: &dyn Disk, name: &str) -> Result<T> {
        self.map_err(|error| {
            let path = disk.path(name);
            let is_full = is_full(&error);
            let advice = match error.kind() {
                _ if is_full => "; free some space",
                _ if only_reads(&error) => "; open the database for reading only",
                _ => "",
            };
            let failed = Error::unavailable(format!("cannot {verb} {path}{advice}"));
            // After other operations the state of the file is unknown.
            if is_full && matches!(verb, "create" | "write") {
                failed.with_source(NoSpace(error))
            } else {
                failed.with_source(error)
            }
        })
    }
}

/// Error of a create or a write on a full disk, which can be retried.
#[derive(Debug)]
struct NoSpace(io::Error);

impl fmt::Display for NoSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl error::Error for NoSpace {}

/// Returns `true` if a create or a write failed because the disk is full, so that it can be
/// retried.
pub(crate) fn found_no_space(error: &Error) -> bool {
    let mut cause = error::Error::source(error);
    while let Some(error) = cause {
        if error.is::<NoSpace>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Reads a whole file. The file system determines its length, not its contents.
pub(crate) fn read_all(disk: &dyn Disk, file: &dyn File, name: &str) -> Result<Vec<u8>> {
    let len = file.len().during("read", disk, name)?;
    let len = usize::try_from(len)
        .map_err(|_| Error::corrupted(format!("{} is too long: {len} bytes", disk.path(name))))?;
    let mut bytes = vec![0; len];
    let read = file.read_at(&mut bytes, 0).during("read", disk, name)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Replaces a small file atomically.
pub(crate) fn replace(disk: &dyn Disk, name: &str, bytes: &[u8]) -> Result<()> {
    disk.check_directory()?;
    let temporary = format!("{name}.tmp");
    let file = disk.create(&temporary).during("create", disk, &temporary)?;
    file.write_at(bytes, 0).during("write", disk, &temporary)?;
    file.sync_data().during("sync", disk, &temporary)?;
    disk.rename(&temporary, name).during("replace", disk, name)?;
    disk.sync_dir().during("sync the directory of", disk, name)
}
