//! Large files, written and read so that neither the page cache nor the log beside them suffers.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::{Disk, File, Place};

/// What places, lengths and memory are multiples of where the page cache is passed by.
const ALIGN_BYTES: usize = 4096;

/// Bytes go to the file in pieces of this size.
const PIECE_BYTES: usize = 1 << 20;

/// No more than this is unsynced at any time.
///
/// A sync of the log waits for whatever the device was given before it, and so does the end of
/// the file. See the figures in the essay of [`crate::disk`].
const UNSYNCED_BYTES_MAX: usize = 8 << 20;

/// Writes a file from its beginning to its end and syncs as it goes.
///
/// After an error the file is given up: what is in it is not known.
pub struct BulkWriter {
    file: Arc<dyn File>,
    piece: Piece,
    written: u64,
    unsynced: usize,
}

/// Aligned memory. It never moves.
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

/// What is written next.
struct Piece {
    memory: Memory,
    len: usize,
}

impl Piece {
    fn new() -> Self {
        Self { memory: Memory::new(PIECE_BYTES), len: 0 }
    }

    /// Takes as many bytes as there is room for, and returns the rest.
    fn fill<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (now, later) = bytes.split_at(bytes.len().min(PIECE_BYTES - self.len));
        self.memory.get_mut(self.len..self.len + now.len()).copy_from_slice(now);
        self.len += now.len();
        later
    }

    /// The bytes, and zeros up to the next aligned length.
    fn padded(&mut self) -> &[u8] {
        let padded = self.len.next_multiple_of(ALIGN_BYTES);
        self.memory.get_mut(self.len..padded).fill(0);
        self.memory.get(0..padded)
    }
}

impl BulkWriter {
    /// Makes a file, empty; one of that name is replaced.
    ///
    /// # Errors
    ///
    /// As [`Disk::create_bulk`].
    pub fn create(disk: &dyn Disk, name: &str) -> io::Result<Self> {
        let file = disk.create_bulk(name)?;
        Ok(Self { file, piece: Piece::new(), written: 0, unsynced: 0 })
    }

    /// Returns the place of the next byte.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.written + self.piece.len as u64
    }

    /// Adds bytes at the end.
    ///
    /// # Errors
    ///
    /// As [`File::write_at`] and [`File::sync_data`].
    pub fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        loop {
            bytes = self.piece.fill(bytes);
            if self.piece.len < PIECE_BYTES {
                return Ok(());
            }
            self.write_piece()?;
        }
    }

    /// Writes the rest, makes all of it durable, and returns the length in bytes.
    ///
    /// # Errors
    ///
    /// As [`File::write_at`], [`File::truncate`] and [`File::sync_data`].
    pub fn finish(mut self) -> io::Result<u64> {
        let len = self.offset();
        if self.piece.len > 0 {
            self.write_piece()?;
        }
        if self.written > len {
            self.file.truncate(len)?;
        }
        self.sync()?;
        Ok(len)
    }

    /// Syncs. A failure is no want of space, whatever its cause: what it has lost is not known.
    fn sync(&self) -> io::Result<()> {
        self.file.sync_data().map_err(io::Error::other)
    }

    fn write_piece(&mut self) -> io::Result<()> {
        let bytes = self.piece.padded();
        self.file.write_at(bytes, self.written)?;
        self.written += bytes.len() as u64;
        self.unsynced += bytes.len();
        self.piece.len = 0;
        if self.unsynced >= UNSYNCED_BYTES_MAX {
            self.sync()?;
            self.unsynced = 0;
        }
        Ok(())
    }
}

/// Reads stretches of a file, each in one piece.
pub struct BulkReader {
    file: Arc<dyn File>,
    memory: Memory,
    /// Where the last stretch lies in the memory.
    stretch: Range<usize>,
}

impl BulkReader {
    /// Opens a file.
    ///
    /// # Errors
    ///
    /// As [`Disk::open_bulk`].
    pub fn open(disk: &dyn Disk, name: &str) -> io::Result<Self> {
        let file = disk.open_bulk(name)?;
        Ok(Self { file, memory: Memory::new(0), stretch: 0..0 })
    }

    /// Reads a stretch, less of it only at the end of the file. It is there until the next one is read.
    ///
    /// # Errors
    ///
    /// As [`File::read_at`]; then there is none.
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

    /// Returns what was read last.
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
    fn any_pieces_make_the_same_file_and_never_much_of_it_is_unsynced() {
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
    fn every_error_reaches_the_caller() {
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
    fn any_stretch_of_a_file_is_read_as_it_lies_there() {
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
    fn a_stretch_that_could_not_be_read_is_not_there() {
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
