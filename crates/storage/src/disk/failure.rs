//! Errors of file operations, with the operation and the file.

use std::error;
use std::fmt;
use std::io;

use carnet_base::{Error, Result};

use rustix::io::Errno;

use super::directory::Disk;
use super::shortage::Shortage;

/// Returns `true` if a write failed because the file system is read-only, or the file is open for
/// reading only.
fn only_reads(error: &io::Error) -> bool {
    is(error, Errno::BADF) || error.kind() == io::ErrorKind::ReadOnlyFilesystem
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

/// Returns what to do about an error, as the end of a sentence.
fn advice(error: &io::Error) -> &'static str {
    match Shortage::of(error) {
        Some(shortage) => shortage.advice(),
        None if only_reads(error) => "; open the database for reading only",
        None if is(error, Errno::IO) => "; look for errors of the device in the system's log",
        None => "",
    }
}

/// Adds the operation and the file to an error.
pub(crate) trait During<T> {
    fn during(self, verb: &str, disk: &dyn Disk, name: &str) -> Result<T>;
}

impl<T> During<T> for io::Result<T> {
    fn during(self, verb: &str, disk: &dyn Disk, name: &str) -> Result<T> {
        self.map_err(|error| {
            let (path, advice) = (disk.path(name), advice(&error));
            let failed = Error::unavailable(format!("cannot {verb} {path}{advice}"));
            match Shortage::of(&error) {
                Some(shortage) => failed.with_source(Passing { error, shortage }),
                None => failed.with_source(error),
            }
        })
    }
}

/// Error that passes: the operation can be retried.
#[derive(Debug)]
struct Passing {
    error: io::Error,
    shortage: Shortage,
}

impl fmt::Display for Passing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl error::Error for Passing {}

/// Returns the shortage that made an operation fail; `None` if the error does not pass.
pub(crate) fn shortage(error: &Error) -> Option<Shortage> {
    let mut cause = error::Error::source(error);
    while let Some(error) = cause {
        if let Some(passing) = error.downcast_ref::<Passing>() {
            return Some(passing.shortage);
        }
        cause = error.source();
    }
    None
}
