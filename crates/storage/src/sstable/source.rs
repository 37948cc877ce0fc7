//! File of a table: reads, verifies and decodes sections; errors name the file and the offset.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use carnet_base::{Error, ErrorKind, Result};

use super::damage::Wrong;
use super::file_name::file_name;
use super::section::{self, Place};
use crate::disk::{self, BulkReader, Disk, During, File};

/// An open file of a table.
pub(super) struct Source {
    disk: Arc<dyn Disk>,
    file: Arc<dyn File>,
    name: String,
    number: u64,
    len: u64,
    /// The first damage that a read found.
    damage: OnceLock<String>,
}

impl Source {
    /// Opens the file of a table, which must have `bytes` bytes.
    ///
    /// # Errors
    ///
    /// `Corrupted` if it is missing or has another length; `Unavailable` if the disk fails.
    pub(super) fn open(disk: Arc<dyn Disk>, number: u64, bytes: u64) -> Result<Self> {
        let name = file_name(number);
        let file = match disk.open(&name) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::corrupted(format!(
                    "{} is missing: restore it, or the whole directory from a backup",
                    disk.path(&name)
                )));
            }
            opened => opened.during("open", &*disk, &name)?,
        };
        let len = file.len().during("open", &*disk, &name)?;
        if len != bytes {
            return Err(Error::corrupted(format!(
                "{} has {len} bytes where the manifest says {bytes}",
                disk.path(&name)
            )));
        }
        Ok(Self { disk, file, name, number, len, damage: OnceLock::new() })
    }

    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    /// Reads a part of the file, blocking.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the disk fails.
    pub(super) fn bytes(&self, place: Place) -> Result<Vec<u8>> {
        let Place { offset, len } = place;
        let mut bytes = vec![0; len as usize];
        let read = self.file.read_at(&mut bytes, offset).during("read", &*self.disk, &self.name)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Reads adjacent blocks, blocking, bypassing the page cache if possible. Returns fewer bytes
    /// if the file was truncated.
    ///
    /// # Errors
    ///
    /// `Corrupted` if there are none; `Unavailable` if the disk fails.
    pub(super) fn piece(&self, reader: &mut Option<BulkReader>, place: Place) -> Result<()> {
        let reader = match reader {
            Some(reader) => reader,
            None => {
                let opened = BulkReader::open(&*self.disk, &self.name);
                reader.insert(opened.during("open", &*self.disk, &self.name)?)
            }
        };
        let place = disk::Place { offset: place.offset, len: place.len as usize };
        reader.read(place).during("read", &*self.disk, &self.name)?;
        if reader.bytes().is_empty() {
            return Err(self.damaged(
                "block",
                place.offset,
                Error::corrupted("the file ends before it"),
            ));
        }
        Ok(())
    }

    /// Reads a part of the file.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the disk fails.
    pub(super) async fn read(&self, place: Place) -> Result<Bytes> {
        let reading = Arc::clone(&self.file).read(place.offset, place.len as usize);
        reading.await.during("read", &*self.disk, &self.name)
    }

    /// Verifies and decodes a section.
    ///
    /// # Errors
    ///
    /// `Corrupted`, naming the file and the offset.
    pub(super) fn decode<T>(
        &self,
        what: &str,
        offset: u64,
        bytes: &[u8],
        decode: impl FnOnce(&[u8]) -> Result<T, Wrong>,
    ) -> Result<T> {
        section::open(bytes, self.number, offset)
            .and_then(decode)
            .map_err(|wrong| self.damaged(what, offset, Error::corrupted(wrong)))
    }

    /// Reads a section, blocking, and decodes it. Its position was checked against the file's
    /// length.
    ///
    /// # Errors
    ///
    /// `Corrupted`, naming the file and the offset; `Unavailable` if the disk fails.
    pub(super) fn section<T>(
        &self,
        what: &str,
        place: Place,
        decode: impl FnOnce(&[u8]) -> Result<T, Wrong>,
    ) -> Result<T> {
        let bytes = self.bytes(place)?;
        self.decode(what, place.offset, &bytes, decode)
    }

    /// Returns the first damage that a read of the file found.
    pub(super) fn damage(&self) -> Option<&str> {
        self.damage.get().map(String::as_str)
    }

    /// Adds the section, the offset and the file to an error of damage, which is noted; the file
    /// only to other errors.
    pub(super) fn damaged(&self, what: &str, offset: u64, error: Error) -> Error {
        let path = self.disk.path(&self.name);
        match error.kind() {
            ErrorKind::Corrupted => {
                let error = Error::corrupted(format!(
                    "{path}: the {what} at byte {offset} is damaged; keep a copy of the directory \
                     and restore a backup"
                ))
                .with_source(error);
                self.damage.get_or_init(|| error.to_string());
                error
            }
            kind => Error::new(kind, format!("{path}: {error}")),
        }
    }
}
