//! Copies a file between disks if a hard link is not possible.

use std::io;

use super::Disk;

/// Size of the copy buffer.
const PIECE_BYTES: usize = 256 << 10;

/// Copies a file to another disk under the same name, and syncs the copy.
pub(crate) fn copy(from: &dyn Disk, name: &str, to: &dyn Disk) -> io::Result<()> {
    match to.open(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
        Ok(_) => return Err(io::ErrorKind::AlreadyExists.into()),
    }
    let source = from.open(name)?;
    let target = to.create(name)?;
    let mut piece = vec![0; PIECE_BYTES];
    let mut offset = 0;
    loop {
        let read = source.read_at(&mut piece, offset)?;
        target.write_at(&piece[..read], offset)?;
        offset += read as u64;
        if read < piece.len() {
            return target.sync_data();
        }
    }
}
