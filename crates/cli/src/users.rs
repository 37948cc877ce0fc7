//! The users file of `carnet serve`: checks its permissions, then parses its lines.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use carnet_server::Users;

/// Permission bits with which the group or others can write.
const OTHERS_WRITE: u32 = 0o022;
/// Permission bits with which the group or others can read.
const OTHERS_READ: u32 = 0o044;

/// The users file of a server. The server reads it again when it changes.
pub(crate) struct UsersFile {
    path: PathBuf,
    users: Arc<Users>,
    /// Text or error of the last read.
    last: Result<String, String>,
}

impl UsersFile {
    /// Log line of a reload that failed.
    pub(crate) const KEPT: &str = "the users file cannot be read again; its old users stay";

    /// Reads the users, and warns if others than the owner can read their hashes.
    ///
    /// # Errors
    ///
    /// The file cannot be read, names no users, or can be written by others than its owner: they
    /// could add a user.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = read(path, true)?;
        let users = Arc::new(parse(path, &text)?);
        Ok(Self { path: path.to_owned(), users, last: Ok(text) })
    }

    /// Returns the users. A reload replaces them.
    pub(crate) const fn users(&self) -> &Arc<Users> {
        &self.users
    }

    /// Reads the file again. Returns the new users if it has changed: the caller tells the executor
    /// before they log in.
    ///
    /// # Errors
    ///
    /// Those of [`UsersFile::read`], once for each change of the error.
    pub(crate) fn reload(&mut self) -> Result<Option<Users>> {
        let read = read(&self.path, false).and_then(|text| Ok((parse(&self.path, &text)?, text)));
        match read {
            Ok((users, text)) => {
                let is_new = self.last.as_ref() != Ok(&text);
                self.last = Ok(text);
                Ok(is_new.then_some(users))
            }
            Err(error) => {
                let shown = format!("{error:#}");
                let is_known = self.last.as_ref() == Err(&shown);
                self.last = Err(shown);
                if is_known { Ok(None) } else { Err(error) }
            }
        }
    }
}

fn parse(path: &Path, text: &str) -> Result<Users> {
    Users::parse(text).with_context(|| path.display().to_string())
}

/// Reads the text of a file that only its owner can write. Warns on request if others can read it.
#[expect(clippy::disallowed_methods, reason = "a file that is no database's")]
fn read(path: &Path, warns: bool) -> Result<String> {
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
    if warns && mode & OTHERS_READ != 0 {
        tracing::warn!(
            "the users file {shown} has mode {:03o}: others than its owner can read the hashes of \
             passwords; run chmod 600 on it",
            mode & 0o777
        );
    }
    let mut text = String::new();
    file.read_to_string(&mut text).with_context(unreadable)?;
    Ok(text)
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
            let read = UsersFile::read(&path);
            assert_eq!(read.is_err(), is_refused, "{mode:o}");
            if let Some(error) = read.err() {
                let error = error.to_string();
                assert!(error.contains("chmod 600") && error.contains("users"), "{error}");
            }
        }
    }

    #[test]
    fn each_change_of_the_file_is_told_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("users");
        let write = |users: &[&str]| {
            let hash = carnet_server::hash_password("x").unwrap();
            let lines: Vec<_> = users.iter().map(|user| format!("{user}:{hash}\n")).collect();
            fs::write(&path, lines.concat()).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        };
        write(&["ann"]);
        let mut file = UsersFile::read(&path).unwrap();
        assert!(file.reload().unwrap().is_none());
        write(&["bob"]);
        assert_eq!(file.reload().unwrap().unwrap().names(), ["bob"]);
        assert!(file.reload().unwrap().is_none());
        fs::write(&path, "bob\n").unwrap();
        let error = format!("{:#}", file.reload().err().unwrap());
        assert!(error.contains("line 1: expected name:hash"), "{error}");
        assert!(file.reload().unwrap().is_none(), "the same error is not reported again");
        write(&["carl"]);
        assert_eq!(file.reload().unwrap().unwrap().names(), ["carl"]);
    }
}
