//! Errors of file operations, with the operation and the file.

use std::error;
use std::fmt;
use std::io;

use carnet_base::{Error, Result};

use super::directory::Disk;

pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Returns `true` if a write failed because the file system is read-only, or the file is open for
/// reading only.
fn only_reads(error: &io::Error) -> bool {
    let is_bad_file = error.raw_os_error() == Some(rustix::io::Errno::BADF.raw_os_error());
    is_bad_file || error.kind() == io::ErrorKind::ReadOnlyFilesystem
}

/// Adds the operation and the file to an error.
pub(crate) trait During<T> {
    fn during(self, verb: &str, disk: &dyn Disk, name: &str) -> Result<T>;
}

impl<T> During<T> for io::Result<T> {
    fn during(self, verb: &str, disk: &dyn Disk, name: &str) -> Result<T> {
        self.map_err(|error| {
            let path = disk.path(name);
            let is_full = is_full(&error);
            let advice = match error.kind() {
                _ if is_full => "; free some space",
                _ if only_reads(&error) => "; open the database for reading only",
                _ => "",
            };
            let failed = Error::unavailable(format!("cannot {verb} {path}{advice}"));
            // After other operations the state of the file is unknown.
            if is_full && matches!(verb, "create" | "write") {
                failed.with_source(NoSpace(error))
            } else {
                failed.with_source(error)
            }
        })
    }
}

/// Error of a create or a write on a full disk, which can be retried.
#[derive(Debug)]
struct NoSpace(io::Error);

impl fmt::Display for NoSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl error::Error for NoSpace {}

/// Returns `true` if a create or a write failed because the disk is full, so that it can be
/// retried.
pub(crate) fn found_no_space(error: &Error) -> bool {
    let mut cause = error::Error::source(error);
    while let Some(error) = cause {
        if error.is::<NoSpace>() {
            return true;
        }
        cause = error.source();
    }
    false
}
