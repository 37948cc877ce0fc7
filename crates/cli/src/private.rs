//! New files: those with secrets, which only their owner can read, and public ones.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Creates a file that only its owner can read, and syncs it.
///
/// # Errors
///
/// `AlreadyExists` if the path exists; otherwise any error of the operating system.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_new(path, bytes, 0o600)
}

/// Creates a file that every user can read, and syncs it.
///
/// # Errors
///
/// Those of [`write_private`].
pub(crate) fn write_public(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_new(path, bytes, 0o644)
}

#[expect(clippy::disallowed_methods, reason = "a file that is no database's")]
fn write_new(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn private_files_are_new_and_0600() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("settings");
        write_private(&path, b"secret").unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let again = write_private(&path, b"other").unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), b"secret");
    }
}
