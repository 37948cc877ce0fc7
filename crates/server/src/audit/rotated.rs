//! A file that is replaced by a new one when it is long.
//!
//! ```text
//! audit.log  ─▶  audit.log.1  ─▶  audit.log.2  ─▶ …  ─▶  removed
//! ```

#![expect(clippy::disallowed_methods, reason = "a file that is no database's")]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file with a maximum length, and its predecessors.
pub(super) struct Rotated {
    path: PathBuf,
    /// Maximum length in bytes, unless one write is longer.
    len_max: u64,
    /// Maximum number of files.
    files_max: usize,
    /// `None` after a failure, until it can be opened again.
    file: Option<File>,
    len: u64,
}

impl Rotated {
    /// Opens the file behind its last line. Only its owner can read a new one.
    pub(super) fn open(path: &Path, len_max: u64, files_max: usize) -> io::Result<Self> {
        let path = path.to_owned();
        let mut rotated = Self { path, len_max, files_max, file: None, len: 0 };
        rotated.file()?;
        Ok(rotated)
    }

    /// Writes whole lines, to a new file if they do not fit.
    pub(super) fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.file.is_some() && self.len > 0 && self.len + lines.len() as u64 > self.len_max {
            self.file = None;
            self.shift()?;
        }
        let written = self.file()?.write_all(lines);
        match written {
            Ok(()) => self.len += lines.len() as u64,
            // The length is found again.
            Err(_) => self.file = None,
        }
        written
    }

    fn file(&mut self) -> io::Result<&mut File> {
        if self.file.is_none() {
            let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)?;
            self.len = file.metadata()?.len();
            self.file = Some(file);
        }
        self.file.as_mut().ok_or_else(|| io::Error::other("the file was opened"))
    }

    /// Renames each file to the next number, and removes the last file.
    fn shift(&self) -> io::Result<()> {
        let last = self.files_max.saturating_sub(1);
        if last == 0 {
            return ignore_missing(fs::remove_file(&self.path));
        }
        for number in (1..last).rev() {
            ignore_missing(fs::rename(self.numbered(number), self.numbered(number + 1)))?;
        }
        ignore_missing(fs::rename(&self.path, self.numbered(1)))
    }

    fn numbered(&self, number: usize) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

fn ignore_missing(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn files_have_a_length_and_a_number() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let read = |name: &str| fs::read_to_string(directory.path().join(name)).ok();
        let mut file = Rotated::open(&path, 8, 3).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        for number in 1..=9 {
            file.write(format!("{number}__\n").as_bytes()).unwrap();
        }
        assert_eq!(read("audit.log").as_deref(), Some("9__\n"));
        assert_eq!(read("audit.log.1").as_deref(), Some("7__\n8__\n"));
        assert_eq!(read("audit.log.2").as_deref(), Some("5__\n6__\n"));
        assert_eq!(read("audit.log.3"), None);
        file.write(b"a long line\n").unwrap();
        assert_eq!(read("audit.log").as_deref(), Some("a long line\n"));
        drop(file);
        let mut again = Rotated::open(&path, 20, 3).unwrap();
        again.write(b"more\n").unwrap();
        assert_eq!(read("audit.log").as_deref(), Some("a long line\nmore\n"), "it goes on behind");
    }

    #[test]
    fn file_that_was_moved_away_is_made_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let mut file = Rotated::open(&path, 4, 1).unwrap();
        file.write(b"one\n").unwrap();
        fs::remove_file(&path).unwrap();
        file.write(b"two\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two\n");
    }
}
