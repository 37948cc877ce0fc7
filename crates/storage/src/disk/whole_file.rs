//! Reads and replaces whole files.

use carnet_base::{Error, Result};

use super::directory::Disk;
use super::failure::During;
use super::file::File;
use super::shortage::{rename, retried};

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

/// Replaces a small file atomically. After an error that passes, the old file is there.
pub(crate) fn replace(disk: &dyn Disk, name: &str, bytes: &[u8]) -> Result<()> {
    disk.check_directory()?;
    let temporary = format!("{name}.tmp");
    let file = disk.create(&temporary).during("create", disk, &temporary)?;
    file.write_at(bytes, 0).during("write", disk, &temporary)?;
    file.sync_data().during("sync", disk, &temporary)?;
    rename(disk, &temporary, name).during("replace", disk, name)?;
    // The new file is visible. An error that leaves its durability unknown must not look as if the
    // old file were still there.
    retried(|| disk.sync_dir()).during("sync the directory of", disk, name)
}
