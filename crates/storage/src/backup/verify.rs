//! Verifies a backup's files: all bytes against the label, and the blocks of its tables.

use std::sync::Arc;

use carnet_base::{Error, Result, WallTime};

use super::label::{Label, LabelledFile};
use super::progress::Progress;
use crate::disk::{Disk, During};
use crate::inspect;
use crate::manifest::TableMeta;
use crate::sstable;

/// Size of the read buffer.
const PIECE_BYTES: usize = 256 << 10;

/// Compares every file of a backup with its label, and returns the label.
/// [`inspect::verify`](crate::inspect::verify) verifies the contents of the files.
///
/// # Errors
///
/// `Invalid` if the directory is no backup; `Corrupted`, naming the first file that differs;
/// `Unsupported`, `Unavailable`.
pub fn verify(disk: &Arc<dyn Disk>, mut tell: impl FnMut(&Progress)) -> Result<Label> {
    let label = load(&**disk)?;
    let mut progress = Progress { bytes: 0, bytes_total: label.bytes() };
    for file in &label.files {
        check(&**disk, file)?;
        progress.bytes += file.bytes;
        tell(&progress);
    }
    Ok(label)
}

/// Reads the label of a directory that must be a backup.
pub(super) fn load(disk: &dyn Disk) -> Result<Label> {
    Label::load(disk)?.ok_or_else(|| {
        Error::invalid(format!(
            "{} is no backup, or one that was not finished: it has no label",
            disk.path("")
        ))
    })
}

/// Compares a file with its line in the label.
pub(super) fn check(disk: &dyn Disk, file: &LabelledFile) -> Result<()> {
    let (bytes, crc) = sum(disk, &file.name)?;
    if (bytes, crc) == (file.bytes, file.crc) {
        return Ok(());
    }
    Err(Error::corrupted(format!(
        "{} has {bytes} bytes with the CRC32C {crc:08x}; the label says {} and {:08x}: use another \
         backup",
        disk.path(&file.name),
        file.bytes,
        file.crc
    )))
}

/// Verifies every block of a table in a backup, and returns the table's line of the label, with
/// `now` as the time of its check.
///
/// A checksum of the file alone would also match a table that was damaged before.
pub(super) fn table(
    disk: &Arc<dyn Disk>,
    table: &TableMeta,
    now: WallTime,
) -> Result<LabelledFile> {
    let name = sstable::file_name(table.number);
    let (bytes, crc) = sum(&**disk, &name)?;
    inspect::verify_table(disk, table, |_| {})?;
    Ok(LabelledFile { name, bytes, crc, checked: now })
}

/// Returns the length and the CRC32C of a file.
pub(super) fn sum(disk: &dyn Disk, name: &str) -> Result<(u64, u32)> {
    let file = disk.open(name).during("open", disk, name)?;
    let mut piece = vec![0; PIECE_BYTES];
    let (mut bytes, mut crc) = (0, 0);
    loop {
        let read = file.read_at(&mut piece, bytes).during("read", disk, name)?;
        crc = crc32c::crc32c_append(crc, &piece[..read]);
        bytes += read as u64;
        if read < piece.len() {
            return Ok((bytes, crc));
        }
    }
}
