//! A file that is replaced by a new one when it is long.
//!
//! ```text
//! audit.log  ─▶  audit.log.1  ─▶  audit.log.2  ─▶ …  ─▶  removed
//! ```

#![expect(clippy::disallowed_methods, reason = "a file that is no database's")]

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use tracing::error;

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
        if !self.is_in_place() {
            self.file = None;
        }
        if self.file.is_some() && self.len > 0 && self.len + lines.len() as u64 > self.len_max {
            match self.shift() {
                Ok(()) => self.file = None,
                // The file grows on, rather than to lose lines.
                Err(error) => error!(%error, "the audit log cannot begin a new file"),
            }
        }
        let written = self.file()?.write_all(lines);
        match written {
            Ok(()) => self.len += lines.len() as u64,
            // The length is found again.
            Err(_) => self.file = None,
        }
        written
    }

    /// Returns `true` if the open file is still the one at the path: another program may have moved it.
    fn is_in_place(&self) -> bool {
        let Some(file) = &self.file else { return true };
        let same =
            |file: &Metadata, path: &Metadata| (file.dev(), file.ino()) == (path.dev(), path.ino());
        match (file.metadata(), fs::metadata(&self.path)) {
            (Ok(file), Ok(path)) => same(&file, &path),
            _ => false,
        }
    }

    fn file(&mut self) -> io::Result<&mut File> {
        if self.file.is_none() {
            let mut file =
                OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)?;
            self.len = file.metadata()?.len();
            if self.len > 0 && !ends_with_a_line(&self.path, self.len)? {
                // A write that failed or was killed.
                file.write_all(b"\n")?;
                self.len += 1;
            }
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

fn ends_with_a_line(path: &Path, len: u64) -> io::Result<bool> {
    let mut last = [0];
    File::open(path)?.read_exact_at(&mut last, len - 1)?;
    Ok(last == *b"\n")
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
        let mut file = Rotated::open(&path, 1 << 20, 2).unwrap();
        file.write(b"one\n").unwrap();
        fs::rename(&path, directory.path().join("moved")).unwrap();
        file.write(b"two\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two\n");
    }

    #[test]
    fn half_a_line_is_ended_before_the_next() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        fs::write(&path, "one\n{\"half").unwrap();
        let mut file = Rotated::open(&path, 1 << 20, 2).unwrap();
        file.write(b"two\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\n{\"half\ntwo\n");
    }
}
