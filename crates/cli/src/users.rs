//! The users file of `carnet serve`: checks its permissions, then parses its lines.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use carnet_server::Authenticator;

/// Permission bits with which the group or others can write.
const OTHERS_WRITE: u32 = 0o022;
/// Permission bits with which the group or others can read.
const OTHERS_READ: u32 = 0o044;

/// Reads the users, and warns if others than the owner can read their hashes.
///
/// # Errors
///
/// The file cannot be read, names no users, or can be written by others than its owner: they could
/// add a user.
#[expect(clippy::disallowed_methods, reason = "a file that is no database's")]
pub(crate) fn read(path: &Path) -> Result<Authenticator> {
    let shown = path.display();
    let unreadable = || format!("cannot read the users in {shown}");
    let mut file = File::open(path).with_context(unreadable)?;
    let mode = file.metadata().with_context(unreadable)?.mode();
    if mode & OTHERS_WRITE != 0 {
        bail!(
            "the users file {shown} has mode {:03o}: others than its owner can write it and so add \
             users; run chmod 600 on it",
            mode & 0o777
        );
    }
    if mode & OTHERS_READ != 0 {
        tracing::warn!(
            "the users file {shown} has mode {:03o}: others than its owner can read the hashes of \
             passwords; run chmod 600 on it",
            mode & 0o777
        );
    }
    let mut text = String::new();
    file.read_to_string(&mut text).with_context(unreadable)?;
    Authenticator::parse(&text).with_context(|| shown.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn users_file_that_others_write_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("users");
        fs::write(&path, format!("ann:{}\n", carnet_server::hash_password("x").unwrap())).unwrap();
        for (mode, is_refused) in
            [(0o600, false), (0o400, false), (0o644, false), (0o620, true), (0o602, true)]
        {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let read = read(&path);
            assert_eq!(read.is_err(), is_refused, "{mode:o}");
            if let Err(error) = read {
                let error = error.to_string();
                assert!(error.contains("chmod 600") && error.contains("users"), "{error}");
            }
        }
    }
}
