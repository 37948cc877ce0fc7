//! Large files, written so that the log beside them hardly notices.

use std::io;
use std::sync::Arc;

use super::File;

/// Bytes go to the file in pieces of this size.
const PIECE_BYTES: usize = 256 << 10;

/// No more than this is unsynced at any time.
///
/// A sync of the log waits for whatever the device was given before it. See the figures in the
/// essay of [`crate::disk`].
const UNSYNCED_BYTES_MAX: usize = 1 << 20;

/// Writes a file from its beginning to its end and syncs as it goes.
///
/// After an error the file is given up: what is in it is not known.
pub struct BulkWriter {
    file: Arc<dyn File>,
    piece: Vec<u8>,
    written: u64,
    unsynced: usize,
}

impl BulkWriter {
    /// Begins with an empty file.
    #[must_use]
    pub fn new(file: Arc<dyn File>) -> Self {
        Self { file, piece: Vec::with_capacity(PIECE_BYTES), written: 0, unsynced: 0 }
    }

    /// Returns the place of the next byte.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.written + self.piece.len() as u64
    }

    /// Adds bytes at the end.
    ///
    /// # Errors
    ///
    /// As [`File::write_at`] and [`File::sync_data`].
    pub fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(PIECE_BYTES - self.piece.len()));
            self.piece.extend_from_slice(now);
            bytes = later;
            if self.piece.len() == PIECE_BYTES {
                self.write_piece()?;
            }
        }
        Ok(())
    }

    /// Writes the rest, makes all of it durable, and returns the length in bytes.
    ///
    /// # Errors
    ///
    /// As [`File::write_at`] and [`File::sync_data`].
    pub fn finish(mut self) -> io::Result<u64> {
        self.write_piece()?;
        self.file.sync_data()?;
        Ok(self.written)
    }

    fn write_piece(&mut self) -> io::Result<()> {
        self.file.write_at(&self.piece, self.written)?;
        self.written += self.piece.len() as u64;
        self.unsynced += self.piece.len();
        self.piece.clear();
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
    use crate::disk::Disk;
    use crate::disk::sim::{Kind, SimDisk};

    #[test]
    fn any_pieces_make_the_same_file_and_never_much_of_it_is_unsynced() {
        let bytes: Vec<u8> = (0..(5_u32 << 20) + 77).map(|at| at.to_le_bytes()[1]).collect();
        for piece in [1000, PIECE_BYTES, 3 << 20] {
            let disk = SimDisk::new(1);
            let mut writer = BulkWriter::new(disk.create("a").unwrap());
            for piece in bytes.chunks(piece) {
                writer.write(piece).unwrap();
            }
            assert_eq!(writer.offset(), bytes.len() as u64);
            assert_eq!(writer.finish().unwrap(), bytes.len() as u64);
            assert_eq!(disk.contents("a").unwrap(), bytes);
            assert_eq!((disk.count(Kind::Write), disk.count(Kind::Sync)), (21, 6));
        }
    }

    #[test]
    fn every_error_reaches_the_caller() {
        for (kind, most) in [(Kind::Write, 5), (Kind::Sync, 2)] {
            for nth in 1..=most {
                let disk = SimDisk::new(nth);
                disk.fail_nth(kind, nth, io::ErrorKind::Other);
                let mut writer = BulkWriter::new(disk.create("a").unwrap());
                let written = writer.write(&[1; (1 << 20) + 1]).and_then(|()| writer.finish());
                assert!(written.is_err(), "{kind:?} {nth}");
            }
        }
    }
}
