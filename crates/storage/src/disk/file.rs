//! Open files.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;

use carnet_base::Bytes;

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
