//! Large files, written so that neither the page cache nor the log beside them suffers.

use std::io;
use std::sync::Arc;

use super::{Disk, File};

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
struct Piece {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Piece {
    fn new() -> Self {
        let memory = vec![0; PIECE_BYTES + ALIGN_BYTES];
        let start = memory.as_ptr().align_offset(ALIGN_BYTES);
        Self { memory, start, len: 0 }
    }

    /// Takes as many bytes as there is room for, and returns the rest.
    fn fill<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (now, later) = bytes.split_at(bytes.len().min(PIECE_BYTES - self.len));
        let at = self.start + self.len;
        self.memory[at..at + now.len()].copy_from_slice(now);
        self.len += now.len();
        later
    }

    /// The bytes, and zeros up to the next aligned length.
    fn padded(&mut self) -> &[u8] {
        let padded = self.len.next_multiple_of(ALIGN_BYTES);
        self.memory[self.start + self.len..self.start + padded].fill(0);
        &self.memory[self.start..self.start + padded]
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
        self.file.sync_data()?;
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

#[cfg(test)]
mod tests {
    use super::*;
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
}
