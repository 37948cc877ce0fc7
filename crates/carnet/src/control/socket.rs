//! Creates and finds the control socket of a database, also under paths longer than a socket
//! address.
#![expect(clippy::disallowed_methods, reason = "a socket is no file of the database")]

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// File name of the socket in the database's directory.
pub(super) const NAME: &str = "CONTROL";
/// Temporary directory in which the socket is created.
const TEMPORARY: &str = "CONTROL.tmp";
const NEW: &str = "socket";

/// Maximum length of a socket path that every system accepts.
const PATH_BYTES_MAX: usize = 100;

/// A directory under a path short enough for a socket address.
struct Short {
    path: PathBuf,
    /// Keeps the `/proc/self/fd` path valid.
    _directory: Option<File>,
}

impl Short {
    fn new(directory: &Path) -> io::Result<Self> {
        let longest = directory.join(TEMPORARY).join(NEW);
        if longest.as_os_str().len() <= PATH_BYTES_MAX {
            return Ok(Self { path: directory.to_path_buf(), _directory: None });
        }
        let opened = File::open(directory)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()));
        if !path.exists() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "the path is too long for a socket; give a relative path of at most {} \
                     bytes to the directory",
                    PATH_BYTES_MAX - TEMPORARY.len() - NEW.len() - 2
                ),
            ));
        }
        Ok(Self { path, _directory: Some(opened) })
    }
}

/// Returns the user id of a directory's owner, if it can be read.
pub(super) fn owner(directory: &Path) -> Option<u32> {
    fs::metadata(directory).ok().map(|metadata| metadata.uid())
}

/// Device and inode of the socket file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity(u64, u64);

impl Identity {
    fn from_path(path: &Path) -> io::Result<Self> {
        let there = fs::symlink_metadata(path)?;
        Ok(Self(there.dev(), there.ino()))
    }
}

/// Creates the socket, replacing an existing one. The caller holds the directory's lock.
pub(super) fn listen(directory: &Path) -> io::Result<(UnixListener, Identity)> {
    let short = Short::new(directory)?;
    let temporary = short.path.join(TEMPORARY);
    remove_temporary(&temporary)?;
    DirBuilder::new().mode(0o700).create(&temporary)?;
    let new = temporary.join(NEW);
    let listener = UnixListener::bind(&new)?;
    fs::set_permissions(&new, Permissions::from_mode(0o600))?;
    let identity = Identity::from_path(&new)?;
    fs::rename(&new, short.path.join(NAME))?;
    fs::remove_dir(&temporary)?;
    Ok((listener, identity))
}

/// Removes the temporary directory that a killed process may have left.
fn remove_temporary(temporary: &Path) -> io::Result<()> {
    let gone = |result: io::Result<()>| match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    };
    gone(fs::remove_file(temporary.join(NEW)))?;
    gone(fs::remove_dir(temporary))
}

/// Removes the socket. The caller still holds the directory's lock. If another directory has taken
/// its path, the socket there belongs to another process and stays.
pub(super) fn remove(directory: &Path, ours: Identity) -> io::Result<()> {
    let path = directory.join(NAME);
    if Identity::from_path(&path)? == ours { fs::remove_file(path) } else { Ok(()) }
}

/// Connects to the listening process; `None` if there is none.
pub(super) fn connect(directory: &Path) -> io::Result<Option<UnixStream>> {
    let short = Short::new(directory)?;
    match UnixStream::connect(short.path.join(NAME)) {
        Ok(stream) => Ok(Some(stream)),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
