//! Resolves paths to databases, also paths of files that do not exist yet.

use std::io;
use std::path::{Path, PathBuf, absolute};
use std::sync::Arc;

use carnet_base::ThreadSpawn;

use crate::disk::{Backend, Disk, RealDisk};
use crate::manifest;

/// Maximum number of symbolic links in a path, like on Linux; more are treated as a cycle.
const LINKS_MAX: u32 = 40;

/// Returns the directory of the database or the backup that contains the path; `None` if there is
/// none.
///
/// # Errors
///
/// Errors of the operating system for the path.
pub fn database_around(path: &Path) -> io::Result<Option<PathBuf>> {
    let path = resolved(path)?;
    let mut directories = path.ancestors().filter(|ancestor| ancestor.is_dir());
    Ok(directories.find(|directory| holds_manifest(directory)).map(Path::to_path_buf))
}

/// Returns `true` if the path is the directory or is in it.
///
/// # Errors
///
/// Errors of the operating system for the paths.
pub fn is_within(path: &Path, directory: &Path) -> io::Result<bool> {
    Ok(resolved(path)?.starts_with(resolved(directory)?))
}

/// Returns the path without symbolic links, as far as it exists.
fn resolved(path: &Path) -> io::Result<PathBuf> {
    resolve(&absolute(path)?, LINKS_MAX)
}

fn resolve(path: &Path, links_max: u32) -> io::Result<PathBuf> {
    match path.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        resolved => return resolved,
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        let message = format!("{} does not exist", path.display());
        return Err(io::Error::new(io::ErrorKind::NotFound, message));
    };
    // A symbolic link to a file that does not exist yet.
    match path.read_link() {
        Ok(target) if links_max > 0 => resolve(&parent.join(target), links_max - 1),
        _ => Ok(resolve(parent, links_max)?.join(name)),
    }
}

/// Returns `true` if a directory has a manifest of any version of this program. An unreadable
/// directory does not.
fn holds_manifest(directory: &Path) -> bool {
    let disk = RealDisk::open_with(directory, Backend::Inline, Arc::new(ThreadSpawn));
    let mut first = [0; manifest::MAGIC.len()];
    let mut read = |disk: RealDisk| disk.open(manifest::FILE_NAME)?.read_at(&mut first, 0);
    disk.is_ok_and(|disk| read(disk).is_ok()) && first == *manifest::MAGIC
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::manifest::Manifest;

    #[test]
    fn paths_in_a_database_are_recognized() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        let (data, other) = (path("data"), path("other"));
        Manifest::empty().store(&RealDisk::open(&data).unwrap()).unwrap();
        fs::create_dir_all(other.join("deep")).unwrap();
        fs::write(other.join("MANIFEST"), "of a jar").unwrap();
        symlink(&data, path("link")).unwrap();
        symlink(data.join("new"), path("dangling")).unwrap();
        symlink("circle", path("circle")).unwrap();
        let data = data.canonicalize().unwrap();
        for inside in ["data", "data/a.csv", "data/b/c", "other/../data/a", "link/a", "dangling"] {
            assert_eq!(database_around(&path(inside)).unwrap(), Some(data.clone()), "{inside}");
            assert!(is_within(&path(inside), &path("link")).unwrap(), "{inside}");
        }
        for outside in ["other/a.csv", "data.csv", "other/deep/x/y", "data/../a"] {
            assert_eq!(database_around(&path(outside)).unwrap(), None, "{outside}");
            assert!(!is_within(&path(outside), &data).unwrap(), "{outside}");
        }
        assert!(database_around(&path("nowhere/..")).is_err());
        assert!(database_around(&path("circle")).is_err());
    }
}
