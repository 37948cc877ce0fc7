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
//!
//! # Reads
//!
//! [`File::read`] blocks nobody but who says that it may (below). It is begun by the call, in two steps:
//!
//! ```text
//!  read ──► preadv2(RWF_NOWAIT) ──► all of it is in the page cache: the future is ready
//!                 │ some of it is not; the kernel has begun to fetch that
//!                 └──► io_uring, or a pool of threads, waits for it ──► the waker
//! ```
//!
//! The first step is why a read from the page cache costs one system call and no thread, 0.8 µs
//! where the ring alone took 3.2 µs and the pool alone 5.0 µs (measured once with the step taken
//! out). It also serves cold reads: the device is at work before another thread has heard of
//! them. Reads of 4 KiB, thousands a second, and CPU of the process per read in µs:
//!
//! | | [`Backend::Inline`] | [`Backend::Pool`] | [`Backend::Uring`] |
//! | --- | --- | --- | --- |
//! | page cache, one after the other | 946 · 1.1 | 1032 · 1.0 | 1032 · 1.0 |
//! | device, one after the other | 10.7 · 35 | 9.1 · 48 | 9.2 · 51 |
//! | device, 16 futures of one thread | (11.9 · 31) | 41 · 26 | 51 · 11 |
//! | device, 64 futures of one thread | (12.4 · 33) | 60 · 13 | 61 · 9 |
//! | device, 16 threads with one read each | 62 · 9 | 50 · 14 | 52 · 23 |
//! | device, 64 threads with one read each | 99 · 8 | 81 · 18 | 89 · 15 |
//!
//! So io_uring is the default for its CPU: a task that has many reads on their way pays half of
//! what the pool takes, at equal speed. A thread that blocks anyway is served best where it reads
//! itself: whoever runs [`block_on_one`](carnet_base::block_on_one) does, whatever the backend; gets
//! and pages of the synchronous API are among them. With [`Backend::Inline`] all do, and then an
//! executor must not poll those futures. Run `cargo run --release -p carnet-storage --example disk`; these are medians of
//! five rounds on two virtual cores that other work shared (load 7), so that differences below a
//! quarter mean nothing.
//!
//! # Writes
//!
//! Writes and syncs block their caller: the log has its flusher, tables their workers.
//!
//! * A file that grows is slow to sync, since its length changes: 4 KiB appended and synced take
//!   245 µs (p99 788) on a growing file, 242 after `fallocate` alone (its extents must still be
//!   marked as written), 162 (p99 263) where [`File::preallocate`] has written zeros, and the
//!   same on a recycled file.
//! * A log's sync waits for what the device was given before it. Beside 256 MiB that are written
//!   and then synced, it has a p99 of 24 to 54 ms (medians of five rounds, three runs); with
//!   8 MiB unsynced 12 to 24 ms; with 1 MiB 8 to 13 ms, and past the page cache 7 to 17 ms, which
//!   on that loaded machine is what it has beside nothing at all (7 to 9 ms).
//! * So tables are written by a [`BulkWriter`]: past the page cache where the file system can
//!   (`O_DIRECT`), and synced every 8 MiB. Copying them into pages that the kernel has to find
//!   first took 30 % of compaction's time and a third of the flush's. Two writers with compaction
//!   behind them (`carnet-bench sustained --seconds 20`, twice each in turn, other builds beside
//!   it) used 2.1 µs of CPU a key instead of 2.5 and wrote 366,000 keys a second instead of
//!   273,000. The price: a new table is nowhere cached but in the engine's own cache, as it is read.
//! * Compaction reads past the page cache, too ([`BulkReader`]). Copying what it read took 6 % of all CPU
//!   that transactions by eight threads used with 64 MiB memtables, a fifth of what compaction did. 12
//!   million keys, medians of three in turn, thousands of keys a second: 1,105 (1,054 before) by one
//!   thread, 1,078 (1,060) by two, 1,181 (1,084) by eight, with 1.5 µs of CPU a key instead of 1.6, 1.7
//!   instead of 1.8 and 1.6 instead of 1.75. The price: nobody reads ahead of a compaction, whose
//!   threads wait for the device for half of their time. So there are three of them on two processors
//!   ([`compaction_threads`](crate::Options::compaction_threads)): in a minute of sustained writes 40.4
//!   million keys, 28.7 and 27.8 with two. Pieces of 512 KiB instead of 256 did not help; not reading
//!   each index page by itself brought 5 and 12 %.
//!
//! Deliberately absent, since they did not pay in the same runs:
//!
//! * `sync_file_range`: 0.8 to 1.4 GiB/s in steps of 1 MiB, a p99 of 8 to 12 ms, for a promise
//!   that holds on some file systems only.
//! * Dropping a large file's pages after it is written: point reads from the page cache beside
//!   any of these take 2.5 µs (p99 7 to 10), the same as beside nothing. [`File::evict`] exists
//!   for files that nobody will read, and for measurements.
//! * Advice to read ahead: 512 MiB read cold from end to end in 16 KiB pieces come at 1335 MiB/s
//!   without, 1443 with `POSIX_FADV_SEQUENTIAL`, 1327 with `WILLNEED`, 1412 with 16 futures ahead;
//!   the kernel sees what is going on.

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
    /// Takes the directory for this process until the lock is dropped. The lock is on the directory
    /// itself: no file has to stay there for it to hold.
    ///
    /// # Errors
    ///
    /// `Unavailable`, naming the directory and the process that holds it.
    fn lock(&self) -> Result<DirectoryLock>;

    /// Checks that the directory is still the one at its path: the lock says nothing of a
    /// directory that takes its place.
    ///
    /// # Errors
    ///
    /// `Unavailable` where the directory was removed, moved or replaced.
    fn check_directory(&self) -> Result<()> {
        Ok(())
    }

    /// Makes a file, empty, and opens it for reading and writing. One of that name is replaced.
    ///
    /// # Errors
    ///
    /// As the operating system says.
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Makes a file, as [`Disk::create`], that is only written and in large pieces: past the page
    /// cache, where that can be. Use a [`BulkWriter`], which keeps places, lengths and memory
    /// aligned as that needs them.
    ///
    /// # Errors
    ///
    /// As the operating system says.
    fn create_bulk(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.create(name)
    }

    /// Opens a file for reading and writing; where it may only be read, for reading.
    ///
    /// # Errors
    ///
    /// As the operating system says; `NotFound` where there is none.
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Opens a file, as [`Disk::open`], that is only read and in large pieces: past the page cache,
    /// where that can be. Use a [`BulkReader`], which keeps places, lengths and memory aligned as that
    /// needs them.
    ///
    /// # Errors
    ///
    /// As [`Disk::open`].
    fn open_bulk(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.open(name)
    }

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

    /// Returns the operating system's directory, where there is one.
    fn directory(&self) -> Option<&Path> {
        None
    }

    /// Names what learns of the reads by [`File::read`] that reach the device, in place of what learned of
    /// them before. Disks that do not know which do so ignore it.
    fn watch_reads(&self, watch: Arc<dyn Watch>) {
        drop(watch);
    }

    /// Puts a file that is not written any more into another disk, under the same name: as a
    /// second name of the same bytes where both are directories of one file system, otherwise as
    /// a copy, which is synced. The bytes are there as durably as they are here once
    /// [`Disk::sync_dir`] of the other disk has returned.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` where the other disk has a file of that name; otherwise as the operating
    /// system says, and then part of a copy may be there.
    fn link(&self, name: &str, to: &dyn Disk) -> io::Result<()>;
}

/// Learns of reads that reach the device.
pub trait Watch: Send + Sync {
    /// Returns the time, before a read reaches the device.
    fn begun(&self) -> Moment;

    /// Takes a read that has ended: its size in bytes, and when it began.
    fn ended(&self, bytes: usize, begun: Moment);
}

/// A read on its way. Dropping it gives the read up.
///
/// It pends without blocking a thread, may be polled anywhere, and is woken from a thread of the
/// disk.
pub type ReadFuture = Pin<Box<dyn Future<Output = io::Result<Bytes>> + Send>>;

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where it begins, in bytes.
    pub offset: u64,
    /// How many bytes it has.
    pub len: usize,
}

/// An open file. Reads and writes name their place, so that threads share it.
pub trait File: Send + Sync + 'static {
    /// Fills `buffer` from a place; returns fewer bytes only at the end of the file.
    ///
    /// # Errors
    ///
    /// As the operating system says.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Reads without blocking the caller, unless that one
    /// [waits for this alone](carnet_base::waits_for_one); brings fewer bytes only at the end of the
    /// file.
    ///
    /// The read is begun *by this call*, not by the first poll: a caller that wants many starts
    /// them all and then awaits them. What the page cache holds is there at the first poll.
    ///
    /// The buffer is made before anything is known of the file, so that `len` is never a number
    /// that nobody has checked.
    ///
    /// # Errors
    ///
    /// As the operating system says.
    fn read(self: Arc<Self>, offset: u64, len: usize) -> ReadFuture;

    /// Begins many reads at once, which costs less than one after the other.
    ///
    /// # Errors
    ///
    /// Each for itself, as [`File::read`].
    fn read_many(self: Arc<Self>, places: &[Place]) -> Vec<ReadFuture>;

    /// Writes all of `bytes` at a place.
    ///
    /// # Errors
    ///
    /// As the operating system says. Any part may have been written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Writes all pieces, one after the other, at a place. The pieces are used up: what they
    /// hold afterwards says nothing.
    ///
    /// # Errors
    ///
    /// As the operating system says. Any part may have been written.
    fn write_vectored_at(&self, pieces: &mut [IoSlice<'_>], offset: u64) -> io::Result<()>;

    /// Makes all bytes written so far, and the length, durable.
    ///
    /// # Errors
    ///
    /// As the operating system says.
    fn sync_data(&self) -> io::Result<()>;

    /// Writes all of `bytes` at a place and makes them durable, together with the length that reading
    /// them needs. Other bytes of the file may stay unsynced.
    ///
    /// # Errors
    ///
    /// As the operating system says. Any part may have been written, and nothing is known of what is
    /// durable.
    fn write_durably_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_at(bytes, offset)?;
        self.sync_data()
    }

    /// Lengthens the file to `len` with zeros that are written out, so that later writes below
    /// `len` change bytes only and their sync is cheaper. A longer file stays as it is. Nothing
    /// of it is durable before [`File::sync_data`].
    ///
    /// # Errors
    ///
    /// As the operating system says; `StorageFull` where there is no room for all of it.
    fn preallocate(&self, len: u64) -> io::Result<()>;

    /// Lets the page cache go of the file's pages, of those that are synced. It changes nothing
    /// but speed and memory.
    ///
    /// # Errors
    ///
    /// As the operating system says; they may be ignored.
    fn evict(&self) -> io::Result<()>;

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

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Returns `true` if a write failed because nothing may be written there, or because the file could be
/// opened for reading only.
fn only_reads(error: &io::Error) -> bool {
    let is_bad_file = error.raw_os_error() == Some(rustix::io::Errno::BADF.raw_os_error());
    is_bad_file || error.kind() == io::ErrorKind::ReadOnlyFilesystem
}

/// Says what was being done to which file when an operation failed.
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
            // After any other operation it is not known what happened.
            if is_full && matches!(verb, "create" | "write") {
                failed.with_source(NoSpace(error))
            } else {
                failed.with_source(error)
            }
        })
    }
}

/// A file could not be created or written for want of space; a retry is safe.
#[derive(Debug)]
struct NoSpace(io::Error);

impl fmt::Display for NoSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl error::Error for NoSpace {}

/// Returns `true` if an operation failed because it found no space to create or write a file, so
/// that it can be tried again.
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
    disk.check_directory()?;
    let temporary = format!("{name}.tmp");
    let file = disk.create(&temporary).during("create", disk, &temporary)?;
    file.write_at(bytes, 0).during("write", disk, &temporary)?;
    file.sync_data().during("sync", disk, &temporary)?;
    disk.rename(&temporary, name).during("replace", disk, name)?;
    disk.sync_dir().during("sync the directory of", disk, name)
}
