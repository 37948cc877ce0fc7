//! Drops a database's files from the operating system's page cache periodically, so that blocks
//! outside the engine's own cache are read from the device.
//!
//! `posix_fadvise(DONTNEED)` drops clean pages that no process has mapped. So each file is synced
//! first, because a compaction may have written it just before. If an engine maps its file (LMDB),
//! the mapping is emptied first (`madvise`), which loses nothing: pages of a shared file mapping
//! are refilled from the file.
//!
//! A page stays cached between its read and the next round, so that a few reads are served from
//! memory beyond the budget: fewer than 2 % at 10,000 reads a second, a period of 100 ms and 60,000
//! blocks.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Result, anyhow};
use rustix::fs::{Advice, fadvise};

/// Interval between two rounds, which is the maximum time that a page stays cached.
const PERIOD: Duration = Duration::from_millis(100);

/// A thread that drops pages until it is stopped.
pub(crate) struct Dropper {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<()>>,
}

impl Dropper {
    /// Drops the pages of the files in a directory, and repeats this periodically.
    pub(crate) fn start(dir: &Path) -> Result<Self> {
        drop_pages(dir)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, dir) = (Arc::clone(&stop), dir.to_owned());
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                thread::sleep(PERIOD);
                drop_pages(&dir)?;
            }
            Ok(())
        });
        Ok(Self { stop, thread })
    }

    /// Stops the thread.
    ///
    /// # Errors
    ///
    /// An error if pages could not be dropped.
    pub(crate) fn stop(self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the thread that drops pages panicked"))?
    }
}

fn drop_pages(dir: &Path) -> Result<()> {
    empty_mappings(dir)?;
    for path in files(dir)? {
        // A compaction may have removed the file meanwhile.
        if let Ok(file) = File::open(path) {
            file.sync_data()?;
            fadvise(&file, 0, None, Advice::DontNeed)?;
        }
    }
    Ok(())
}

fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(self::files(&path)?);
        } else {
            files.push(path);
        }
    }
    Ok(files)
}

/// Empties the mappings of files in a directory. `/proc/self/maps` lists one mapping per line:
/// `begin-end permissions offset device inode path`.
#[expect(unsafe_code, reason = "it acts on addresses")]
fn empty_mappings(dir: &Path) -> Result<()> {
    let dir = dir.to_string_lossy();
    for line in fs::read_to_string("/proc/self/maps")?.lines() {
        let mut fields = line.split_ascii_whitespace();
        let (Some(span), Some(permissions)) = (fields.next(), fields.next()) else { continue };
        let path = fields.nth(3).unwrap_or_default();
        // Shared mappings only: a private one would lose its writes.
        if !path.starts_with(&*dir) || !permissions.ends_with('s') {
            continue;
        }
        let Some((begin, end)) = span.split_once('-') else { continue };
        let (begin, end) = (usize::from_str_radix(begin, 16)?, usize::from_str_radix(end, 16)?);
        // SAFETY: the span is a shared mapping of a file, made by an engine that this process
        // keeps open while it is measured. Emptying it changes no byte that is read through it:
        // the next access fills the page from the page cache or the file.
        unsafe {
            rustix::mm::madvise(
                std::ptr::with_exposed_provenance_mut(begin),
                end - begin,
                rustix::mm::Advice::LinuxDontNeed,
            )?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::IoSliceMut;

    use rustix::io::{Errno, ReadWriteFlags, preadv2};

    use super::*;
    use crate::data::Rows;
    use crate::engine::{Compression, Durability, Kind, Setup, Shape};
    use crate::engines;
    use crate::workloads::{load, warm};

    /// Returns `true` if a byte can be read without waiting for the device.
    fn is_in_memory(path: &Path, offset: u64) -> bool {
        let file = File::open(path).unwrap();
        let mut byte = [0];
        let mut buffers = [IoSliceMut::new(&mut byte)];
        match preadv2(&file, &mut buffers, offset, ReadWriteFlags::NOWAIT) {
            Ok(read) => read == 1,
            Err(Errno::AGAIN) => false,
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn dropped_pages_keep_their_bytes() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = dir.path().join("sub/file");
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(&path, vec![1; 8 << 20]).unwrap(); // dirty pages
        assert!(is_in_memory(&path, 4 << 20));
        Dropper::start(dir.path()).unwrap().stop().unwrap();
        assert!(!is_in_memory(&path, 4 << 20));
        assert_eq!(fs::read(&path).unwrap(), vec![1; 8 << 20]);
    }

    #[test]
    fn pages_of_mapped_database_are_dropped() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let setup = Setup {
            dir: dir.path().to_owned(),
            durability: Durability::None,
            shape: Shape::Ordered,
            compression: Compression::None,
            memtable_bytes: 1 << 20,
            cache_bytes: 1 << 20,
            cache_binds: true,
            checks_conflicts: false,
        };
        let store = engines::open(Kind::Lmdb, &setup).unwrap();
        load(&*store, Rows::new(1), 20_000).unwrap();
        let path = dir.path().join("data.mdb");
        assert!(is_in_memory(&path, 1 << 20));
        Dropper::start(dir.path()).unwrap().stop().unwrap();
        assert!(!is_in_memory(&path, 1 << 20));
        warm(&*store, Rows::new(1), 20_000).unwrap(); // and every row is still what it was
    }
}
