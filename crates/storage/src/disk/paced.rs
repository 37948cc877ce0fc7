//! A disk whose I/O is scheduled as background work.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;

use carnet_base::Result;

use super::{DirectoryLock, Disk, File, Place, ReadFuture};
use crate::io::{Class, Direction, Turns, Watch};

/// A disk that schedules I/O of a class: that of bulk files, or of all files.
pub(crate) struct PacedDisk {
    below: Arc<dyn Disk>,
    turns: Arc<Turns>,
    class: Class,
    /// Whether files that are not opened for bulk I/O are scheduled too.
    all: bool,
}

impl PacedDisk {
    /// Schedules bulk files only.
    pub(crate) fn bulk(below: Arc<dyn Disk>, turns: Arc<Turns>, class: Class) -> Self {
        Self { below, turns, class, all: false }
    }

    /// Schedules all files.
    pub(crate) fn all(below: Arc<dyn Disk>, turns: Arc<Turns>, class: Class) -> Self {
        Self { below, turns, class, all: true }
    }

    fn paced(&self, below: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(PacedFile { below, turns: Arc::clone(&self.turns), class: self.class })
    }

    fn paced_if_all(&self, below: Arc<dyn File>) -> Arc<dyn File> {
        if self.all { self.paced(below) } else { below }
    }
}

impl Disk for PacedDisk {
    fn lock(&self) -> Result<DirectoryLock> {
        self.below.lock()
    }

    fn check_directory(&self) -> Result<()> {
        self.below.check_directory()
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.below.create(name).map(|file| self.paced_if_all(file))
    }

    fn create_bulk(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.below.create_bulk(name).map(|file| self.paced(file))
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        self.below.exists(name)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.below.open(name).map(|file| self.paced_if_all(file))
    }

    fn open_bulk(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.below.open_bulk(name).map(|file| self.paced(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.below.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.below.remove(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.below.list()
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.below.sync_dir()
    }

    fn path(&self, name: &str) -> String {
        self.below.path(name)
    }

    fn directory(&self) -> Option<&Path> {
        self.below.directory()
    }

    fn watch_reads(&self, watch: Arc<dyn Watch>) {
        self.below.watch_reads(watch);
    }

    fn link(&self, name: &str, to: &dyn Disk) -> io::Result<()> {
        self.below.link(name, to)
    }
}

/// A file whose I/O is split into pieces, each with a turn of the scheduler.
struct PacedFile {
    below: Arc<dyn File>,
    turns: Arc<Turns>,
    class: Class,
}

impl File for PacedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            let rest = &mut buffer[done..];
            let bytes = self.turns.piece_bytes(rest.len());
            let read = {
                let _turn = self.turns.take(self.class, Direction::Read, bytes);
                self.below.read_at(&mut rest[..bytes], offset + done as u64)?
            };
            done += read;
            if read < bytes {
                break;
            }
        }
        Ok(done)
    }

    fn read(self: Arc<Self>, offset: u64, len: usize) -> ReadFuture {
        Arc::clone(&self.below).read(offset, len)
    }

    fn read_many(self: Arc<Self>, places: &[Place]) -> Vec<ReadFuture> {
        Arc::clone(&self.below).read_many(places)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            let rest = &bytes[done..];
            let piece = &rest[..self.turns.piece_bytes(rest.len())];
            let _turn = self.turns.take(self.class, Direction::Write, piece.len());
            self.below.write_at(piece, offset + done as u64)?;
            done += piece.len();
        }
        Ok(())
    }

    fn write_vectored_at(&self, pieces: &mut [IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.below.write_vectored_at(pieces, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.below.sync_data()
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        self.below.preallocate(len)
    }

    fn evict(&self) -> io::Result<()> {
        self.below.evict()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.below.truncate(len)
    }

    fn len(&self) -> io::Result<u64> {
        self.below.len()
    }
}
