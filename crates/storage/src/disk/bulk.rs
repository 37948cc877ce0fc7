//! Bulk I/O: writes and reads large files without flooding the page cache or delaying syncs of the
//! log.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::{Disk, File, Place};

/// Alignment of offsets, lengths and memory for direct I/O.
const ALIGN_BYTES: usize = 4096;

/// Size of a write.
const PIECE_BYTES: usize = 1 << 20;

/// Maximum number of unsynced bytes.
///
/// A sync of the log waits for earlier writes on the device, and so does the end of the file; see
/// [`crate::disk`].
const UNSYNCED_BYTES_MAX: usize = 8 << 20;

/// Writes a file sequentially and syncs it in steps.
///
/// After an error the file's contents are undefined.
pub struct BulkWriter {
    file: Arc<dyn File>,
    piece: Piece,
    written: u64,
    unsynced: usize,
}

/// Aligned memory, which never moves.
struct Memory {
    bytes: Vec<u8>,
    start: usize,
}

impl Memory {
    fn new(len: usize) -> Self {
        let bytes = vec![0; len + ALIGN_BYTES];
        let start = bytes.as_ptr().align_offset(ALIGN_BYTES);
        Self { bytes, start }
    }

    fn len(&self) -> usize {
        self.bytes.len() - ALIGN_BYTES
    }

    fn get(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[self.start + range.start..self.start + range.end]
    }

    fn get_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        &mut self.bytes[self.start + range.start..self.start + range.end]
    }
}

/// Buffer of the next write.
struct Piece {
    memory: Memory,
    len: usize,
}

impl Piece {
    fn new() -> Self {
        Self { memory: Memory::new(PIECE_BYTES), len: 0 }
    }

    /// Copies as many bytes as fit, and returns the rest.
    fn fill<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (now, later) = bytes.split_at(bytes.len().min(PIECE_BYTES - self.len));
        self.memory.get_mut(self.len..self.len + now.len()).copy_from_slice(now);
        self.len += now.len();
        later
    }

    /// Returns the bytes, padded with zeros to an aligned length.
    fn padded(&mut self) -> &[u8] {
        let padded = self.len.next_multiple_of(ALIGN_BYTES);
        self.memory.get_mut(self.len..padded).fill(0);
        self.memory.get(0..padded)
    }
}

impl BulkWriter {
    /// Creates an empty file; replaces an existing one.
    ///
    /// # Errors
    ///
    /// Like [`Disk::create_bulk`].
    pub fn create(disk: &dyn Disk, name: &str) -> io::Result<Self> {
        let file = disk.create_bulk(name)?;
        Ok(Self { file, piece: Piece::new(), written: 0, unsynced: 0 })
    }

    /// Returns the offset of the next byte.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.written + self.piece.len as u64
    }

    /// Appends bytes.
    ///
    /// # Errors
    ///
    /// Like [`File::write_at`] and [`File::sync_data`].
    pub fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        loop {
            bytes = self.piece.fill(bytes);
            if self.piece.len < PIECE_BYTES {
                return Ok(());
            }
            self.write_piece()?;
        }
    }

    /// Writes the rest, makes the file durable, and returns its length in bytes.
    ///
    /// # Errors
    ///
    /// Like [`File::write_at`], [`File::truncate`] and [`File::sync_data`].
    pub fn finish(mut self) -> io::Result<u64> {
        let len = self.write_rest()?;
        self.file.sync_data()?;
        Ok(len)
    }

    /// Writes the rest of a file that a crash may lose, and returns its length in bytes.
    ///
    /// # Errors
    ///
    /// Like [`File::write_at`] and [`File::truncate`].
    pub fn finish_unsynced(mut self) -> io::Result<u64> {
        self.write_rest()
    }

    fn write_rest(&mut self) -> io::Result<u64> {
        let len = self.offset();
        if self.piece.len > 0 {
            self.write_piece()?;
        }
        if self.written > len {
            self.file.truncate(len)?;
        }
        Ok(len)
    }

    fn write_piece(&mut self) -> io::Result<()> {
        let bytes = self.piece.padded();
        self.file.write_at(bytes, self.written)?;
        self.written += bytes.len() as u64;
        self.unsynced += bytes.len();
        self.piece.len = 0;
        if self.unsynced >= UNSYNCED_BYTES_MAX {
            self.file.sync_data()?;
            self.unsynced = 0;
        }
        Ok(())
    }
}

/// Reads parts of a file, each with one read.
pub struct BulkReader {
    file: Arc<dyn File>,
    memory: Memory,
    /// Position of the last part in the memory.
    stretch: Range<usize>,
}

impl BulkReader {
    /// Opens a file.
    ///
    /// # Errors
    ///
    /// Like [`Disk::open_bulk`].
    pub fn open(disk: &dyn Disk, name: &str) -> io::Result<Self> {
        let file = disk.open_bulk(name)?;
        Ok(Self { file, memory: Memory::new(0), stretch: 0..0 })
    }

    /// Reads a part of the file, which replaces the last one; shorter only at the end of the file.
    ///
    /// # Errors
    ///
    /// Like [`File::read_at`]; then no bytes are available.
    pub fn read(&mut self, place: Place) -> io::Result<()> {
        self.stretch = 0..0;
        let from = place.offset - place.offset % ALIGN_BYTES as u64;
        let before = usize::try_from(place.offset - from).expect("it is less than the alignment");
        let len = (before + place.len).next_multiple_of(ALIGN_BYTES);
        if self.memory.len() < len {
            self.memory = Memory::new(len);
        }
        let read = self.file.read_at(self.memory.get_mut(0..len), from)?;
        self.stretch = before.min(read)..(before + place.len).min(read);
        Ok(())
    }

    /// Returns the part that was read last.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.memory.get(self.stretch.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::RealDisk;
    use crate::disk::sim::{Kind, SimDisk};

    #[test]
    fn bulk_writer_limits_unsynced_bytes() {
        let bytes: Vec<u8> = (0..(19_u32 << 20) + 77).map(|at| at.to_le_bytes()[1]).collect();
        for piece in [1000, PIECE_BYTES, 3 << 20] {
            let disk = SimDisk::new(1);
            let mut writer = BulkWriter::create(&disk, "a").unwrap();
            for piece in bytes.chunks(piece) {
                writer.write(piece).unwrap();
            }
            assert_eq!(writer.offset(), bytes.len() as u64);
            assert_eq!(writer.finish().unwrap(), bytes.len() as u64);
            assert_eq!(disk.contents("a").unwrap(), bytes);
            assert_eq!((disk.count(Kind::Write), disk.count(Kind::Sync)), (21, 3));
        }
    }

    #[test]
    fn bulk_writer_returns_every_error() {
        for (kind, most) in [(Kind::Create, 1), (Kind::Write, 10), (Kind::Sync, 2)] {
            for nth in 1..=most {
                let disk = SimDisk::new(nth);
                disk.fail_nth(kind, nth, io::ErrorKind::Other);
                let written = BulkWriter::create(&disk, "a").and_then(|mut writer| {
                    writer.write(&vec![1; (8 << 20) + 1])?;
                    writer.finish()
                });
                assert!(written.is_err(), "{kind:?} {nth}");
            }
        }
    }

    #[test]
    fn bulk_reader_reads_any_range() {
        let directory = tempfile::tempdir().unwrap();
        let real = RealDisk::open(directory.path()).unwrap();
        let simulated = SimDisk::new(1);
        let bytes: Vec<u8> =
            (0..50_001_u32).map(u32::to_le_bytes).map(|at| at[0] ^ at[1]).collect();
        for disk in [&real as &dyn Disk, &simulated] {
            let mut writer = BulkWriter::create(disk, "a").unwrap();
            writer.write(&bytes).unwrap();
            writer.finish().unwrap();
            let mut reader = BulkReader::open(disk, "a").unwrap();
            assert_eq!(reader.bytes(), b"");
            for (offset, len) in [
                (0, 1),
                (4095, 2),
                (4096, 4096),
                (5, 50_000),
                (7, 300),
                (49_000, 1001),
                (49_000, 5000),
                (50_001, 10),
                (70_000, 10),
                (0, 0),
                (0, 50_001),
            ] {
                reader.read(Place { offset: offset as u64, len }).unwrap();
                let from = bytes.len().min(offset);
                let to = bytes.len().min(offset + len);
                assert_eq!(reader.bytes(), &bytes[from..to], "{offset} {len}");
            }
        }
    }

    #[test]
    fn failed_bulk_read_returns_no_bytes() {
        let disk = SimDisk::new(1);
        disk.create("a").unwrap().write_at(&[1; 100], 0).unwrap();
        disk.fail_nth(Kind::Open, 1, io::ErrorKind::Other);
        assert!(BulkReader::open(&disk, "a").is_err());
        let mut reader = BulkReader::open(&disk, "a").unwrap();
        reader.read(Place { offset: 3, len: 10 }).unwrap();
        assert_eq!(reader.bytes(), [1; 10]);
        disk.fail_nth(Kind::Read, 2, io::ErrorKind::Other);
        assert!(reader.read(Place { offset: 3, len: 10 }).is_err());
        assert_eq!(reader.bytes(), b"");
    }
}
