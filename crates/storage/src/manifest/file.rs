//! File of the manifest: reads and replaces it.

use carnet_base::Result;

use super::edit::Edit;
use super::format;
use super::root::Manifest;
use crate::disk::{self, Disk, During};

pub(crate) const FILE_NAME: &str = "MANIFEST";

/// First bytes of every manifest.
pub(crate) const MAGIC: &[u8; 8] = format::MAGIC;

impl Manifest {
    /// Reads a directory's manifest; `None` if there is none.
    ///
    /// # Errors
    ///
    /// `Corrupted`, `Unavailable`, or `Unsupported` for another version of the format.
    pub fn load(disk: &dyn Disk) -> Result<Option<Self>> {
        let file = match disk.open(FILE_NAME) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            opened => opened.during("open", disk, FILE_NAME)?,
        };
        let bytes = disk::read_all(disk, &*file, FILE_NAME)?;
        format::decode(&bytes.into(), &disk.path(FILE_NAME)).map(Some)
    }

    /// Replaces a directory's manifest; it is durable on return.
    ///
    /// # Errors
    ///
    /// `Unavailable`; then the old manifest or the new one is on the disk.
    pub fn store(&self, disk: &dyn Disk) -> Result<()> {
        disk::replace(disk, FILE_NAME, &format::encode(self))
    }

    /// Applies an edit durably. After an error this manifest is unchanged.
    ///
    /// # Errors
    ///
    /// `Invalid` if the edit contradicts the manifest; then nothing was written. `Unavailable` if
    /// the disk fails; then the old manifest or the new one is on the disk, and the caller must not
    /// make further edits.
    pub fn apply(&mut self, disk: &dyn Disk, edit: &Edit) -> Result<()> {
        let edited = self.edited(edit)?;
        edited.store(disk)?;
        *self = edited;
        Ok(())
    }
}
