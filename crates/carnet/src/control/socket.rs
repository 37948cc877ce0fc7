//! Where a database's socket lies, however long the way there is.
#![expect(clippy::disallowed_methods, reason = "a socket is no file of the database")]

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The socket's name in the database's directory.
pub(super) const NAME: &str = "CONTROL";
/// The directory in which it is made.
const NURSERY: &str = "CONTROL.tmp";
const NEW: &str = "socket";

/// The longest path that every system takes for a socket.
const PATH_BYTES_MAX: usize = 100;

/// A directory by a short name.
struct Short {
    path: PathBuf,
    /// What the short name means, for as long as this lives.
    _directory: Option<File>,
}

impl Short {
    fn of(directory: &Path) -> io::Result<Self> {
        let longest = directory.join(NURSERY).join(NEW);
        if longest.as_os_str().len() <= PATH_BYTES_MAX {
            return Ok(Self { path: directory.to_path_buf(), _directory: None });
        }
        let opened = File::open(directory)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()));
        if !path.exists() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "the path is too long for a socket: name the directory by one of at most {} \
                     bytes, from where it is",
                    PATH_BYTES_MAX - NURSERY.len() - NEW.len() - 2
                ),
            ));
        }
        Ok(Self { path, _directory: Some(opened) })
    }
}

/// Device and inode of a socket's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity(u64, u64);

impl Identity {
    fn of(path: &Path) -> io::Result<Self> {
        let there = fs::symlink_metadata(path)?;
        Ok(Self(there.dev(), there.ino()))
    }
}

/// Makes the socket; one that is there is replaced. The caller holds the directory's lock.
pub(super) fn listen(directory: &Path) -> io::Result<(UnixListener, Identity)> {
    let short = Short::of(directory)?;
    let nursery = short.path.join(NURSERY);
    remove_nursery(&nursery)?;
    DirBuilder::new().mode(0o700).create(&nursery)?;
    let new = nursery.join(NEW);
    let listener = UnixListener::bind(&new)?;
    fs::set_permissions(&new, Permissions::from_mode(0o600))?;
    let identity = Identity::of(&new)?;
    fs::rename(&new, short.path.join(NAME))?;
    fs::remove_dir(&nursery)?;
    Ok((listener, identity))
}

/// A process that was killed may have left one.
fn remove_nursery(nursery: &Path) -> io::Result<()> {
    let gone = |result: io::Result<()>| match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    };
    gone(fs::remove_file(nursery.join(NEW)))?;
    gone(fs::remove_dir(nursery))
}

/// Removes the socket. The caller still holds the directory's lock; where another directory took
/// its place, the socket there is another process's and stays.
pub(super) fn remove(directory: &Path, ours: Identity) -> io::Result<()> {
    let path = directory.join(NAME);
    if Identity::of(&path)? == ours { fs::remove_file(path) } else { Ok(()) }
}

/// Connects to whoever listens; `None` where nobody does.
pub(super) fn connect(directory: &Path) -> io::Result<Option<UnixStream>> {
    let short = Short::of(directory)?;
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
