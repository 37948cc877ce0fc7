//! Files of a database, to empty the operating system's page cache.

use std::fs::{self, File};
use std::path::Path;

use carnet_base::{Error, Result};
use rustix::fs::{Advice, fadvise};

/// The files of a database without writers.
pub(super) struct Files(Vec<File>);

impl Files {
    /// Opens all files in a directory.
    #[expect(clippy::disallowed_methods, reason = "the operating system is told, nothing is read")]
    pub(super) fn open(dir: &Path) -> Result<Self> {
        let files = fs::read_dir(dir).and_then(|entries| {
            entries.map(|entry| File::open(entry?.path())).collect::<std::io::Result<Vec<_>>>()
        });
        files.map(Self).map_err(|error| {
            Error::unavailable("cannot open the database's files").with_source(error)
        })
    }

    /// Drops the files from the operating system's page cache.
    pub(super) fn leave_memory(&self) -> Result<()> {
        for file in &self.0 {
            fadvise(file, 0, None, Advice::DontNeed).map_err(|error| {
                Error::unavailable("cannot empty the page cache").with_source(error)
            })?;
        }
        Ok(())
    }
}
