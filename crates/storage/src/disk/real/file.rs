//! An open file of the operating system.

use std::fs;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::reader::{DiskReader, fill};
use crate::disk::{File, Place, ReadFuture};

/// Buffer of zeros; its size is that of a write.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

pub(super) struct RealFile {
    /// Shared with pending reads, which need it open.
    file: Arc<fs::File>,
    reader: Arc<DiskReader>,
}

impl RealFile {
    pub(super) fn new(file: fs::File, reader: Arc<DiskReader>) -> Self {
        Self { file: Arc::new(file), reader }
    }
}

impl RealFile {
    /// Switches the file to buffered I/O; returns whether it used direct I/O before.
    ///
    /// A file system may open a file for direct I/O but require larger blocks, or write a part of a
    /// block when the disk is nearly full and refuse the rest.
    #[cfg(target_os = "linux")]
    fn end_direct(&self) -> bool {
        use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
        let Ok(flags) = fcntl_getfl(&*self.file) else { return false };
        flags.contains(OFlags::DIRECT)
            && fcntl_setfl(&*self.file, flags.difference(OFlags::DIRECT)).is_ok()
    }

    #[cfg(not(target_os = "linux"))]
    fn end_direct(&self) -> bool {
        false
    }
}

impl File for RealFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match fill(&self.file, buffer, offset) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput && self.end_direct() => {
                fill(&self.file, buffer, offset)
            }
            filled => filled,
        }
    }

    fn read(self: Arc<Self>, offset: u64, len: usize) -> ReadFuture {
        self.reader.read(&self.file, Place { offset, len })
    }

    fn read_many(self: Arc<Self>, places: &[Place]) -> Vec<ReadFuture> {
        self.reader.read_many(&self.file, places)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self.file.write_all_at(bytes, offset) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput && self.end_direct() => {
                self.file.write_all_at(bytes, offset)
            }
            written => written,
        }
    }

    fn write_vectored_at(&self, mut pieces: &mut [IoSlice<'_>], mut offset: u64) -> io::Result<()> {
        IoSlice::advance_slices(&mut pieces, 0);
        while !pieces.is_empty() {
            // The kernel limits the number of pieces per call.
            match rustix::io::pwritev(&*self.file, pieces, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    IoSlice::advance_slices(&mut pieces, written);
                    offset += written as u64;
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    #[cfg(target_os = "linux")]
    fn write_durably_at(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        use rustix::io::{Errno, ReadWriteFlags, pwritev2};
        // Syncs the written range only: a recycled file may have megabytes of dirty pages that are
        // about to be overwritten.
        while !bytes.is_empty() {
            match pwritev2(&*self.file, &[IoSlice::new(bytes)], offset, ReadWriteFlags::DSYNC) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    bytes = &bytes[written..];
                    offset += written as u64;
                }
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                    self.write_at(bytes, offset)?;
                    return self.sync_data();
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        let mut offset = self.len()?;
        if offset >= len {
            return Ok(());
        }
        allocate(&self.file, offset, len - offset)?;
        while offset < len {
            let zeros =
                usize::try_from(len - offset).map_or(ZEROS.len(), |rest| rest.min(ZEROS.len()));
            self.write_at(&ZEROS[..zeros], offset)?;
            offset += zeros as u64;
        }
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    #[cfg(target_os = "linux")]
    fn evict(&self) -> io::Result<()> {
        Ok(rustix::fs::fadvise(&*self.file, 0, None, rustix::fs::Advice::DontNeed)?)
    }

    #[cfg(not(target_os = "linux"))]
    fn evict(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Allocates the space in one call if the file system supports it, so that a full disk is detected
/// now and the file is contiguous.
#[cfg(target_os = "linux")]
fn allocate(file: &fs::File, offset: u64, len: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;
    match fallocate(file, FallocateFlags::KEEP_SIZE, offset, len) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn allocate(_: &fs::File, _: u64, _: u64) -> io::Result<()> {
    Ok(())
}
