//! Read-only disk: keeps writes in memory.
//!
//! Opening a database writes: it truncates the torn tail of the log, starts the next segment, and
//! updates the manifest. That is impossible on a full disk or a read-only mount, and unnecessary
//! for a reader. [`ReadOnlyDisk`] runs the ordinary opening and keeps its changes in memory:
//!
//! ```text
//!   open ──▶ nodes: name → in memory, or removed ──▶ no entry: the disk below, read-only
//! ```
//!
//! # Invariants
//!
//! * The disk below is not changed, except for the lock.
//! * A name has one node, so all handles see the writes of any handle.
//! * The first write to a file of the disk below copies the file into memory.

use std::collections::BTreeMap;
use std::future::ready;
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use carnet_base::{Bytes, Result};

use super::copy::copy;
use super::{DirectoryLock, Disk, File, Place, ReadFuture};
use crate::io::Watch;
use crate::lock::lock;

/// A disk that keeps changes in memory, above a disk that is only read.
pub(crate) struct ReadOnlyDisk {
    below: Arc<dyn Disk>,
    /// `None` if the file was removed.
    nodes: Mutex<BTreeMap<String, Option<Arc<Node>>>>,
}

impl ReadOnlyDisk {
    pub(crate) fn new(below: Arc<dyn Disk>) -> Self {
        Self { below, nodes: Mutex::default() }
    }

    fn node(&self, name: &str) -> io::Result<Arc<Node>> {
        let mut nodes = lock(&self.nodes);
        match nodes.get(name) {
            Some(Some(node)) => Ok(Arc::clone(node)),
            Some(None) => Err(io::ErrorKind::NotFound.into()),
            None => {
                let node = Arc::new(Node::below(self.below.open(name)?));
                nodes.insert(name.to_owned(), Some(Arc::clone(&node)));
                Ok(node)
            }
        }
    }
}

impl Disk for ReadOnlyDisk {
    fn lock(&self) -> Result<DirectoryLock> {
        self.below.lock()
    }

    fn check_directory(&self) -> Result<()> {
        self.below.check_directory()
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let node = Arc::new(Node::in_memory(Vec::new()));
        lock(&self.nodes).insert(name.to_owned(), Some(Arc::clone(&node)));
        Ok(node)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.node(name)?)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let node = self.node(from)?;
        let mut nodes = lock(&self.nodes);
        nodes.insert(from.to_owned(), None);
        nodes.insert(to.to_owned(), Some(node));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.node(name)?;
        lock(&self.nodes).insert(name.to_owned(), None);
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = self.below.list()?;
        let nodes = lock(&self.nodes);
        names.retain(|name| !nodes.contains_key(name));
        names.extend(nodes.iter().filter(|(_, node)| node.is_some()).map(|(name, _)| name.clone()));
        names.sort_unstable();
        Ok(names)
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
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
        copy(self, name, to)
    }
}

/// A file, which is in memory after its first write.
struct Node {
    below: Option<Arc<dyn File>>,
    memory: OnceLock<Mutex<Vec<u8>>>,
}

impl Node {
    fn below(file: Arc<dyn File>) -> Self {
        Self { below: Some(file), memory: OnceLock::new() }
    }

    fn in_memory(bytes: Vec<u8>) -> Self {
        Self { below: None, memory: OnceLock::from(Mutex::new(bytes)) }
    }

    /// Returns the file's bytes in memory; copies them if necessary.
    fn written(&self) -> io::Result<&Mutex<Vec<u8>>> {
        if let Some(memory) = self.memory.get() {
            return Ok(memory);
        }
        let mut bytes = Vec::new();
        if let Some(file) = &self.below {
            bytes.resize(place(file.len()?)?, 0);
            let read = file.read_at(&mut bytes, 0)?;
            bytes.truncate(read);
        }
        Ok(self.memory.get_or_init(|| Mutex::new(bytes)))
    }

    /// Returns the file below, unless its bytes were copied.
    fn unwritten(&self) -> Option<&Arc<dyn File>> {
        self.below.as_ref().filter(|_| self.memory.get().is_none())
    }

    fn piece(&self, offset: u64, len: usize) -> io::Result<Bytes> {
        let bytes = lock(self.written()?);
        let from = place(offset)?.min(bytes.len());
        let to = from.saturating_add(len).min(bytes.len());
        Ok(Bytes::copy_from_slice(&bytes[from..to]))
    }
}

fn place(offset: u64) -> io::Result<usize> {
    usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge.into())
}

impl File for Node {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if let Some(file) = self.unwritten() {
            return file.read_at(buffer, offset);
        }
        let bytes = self.piece(offset, buffer.len())?;
        buffer[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn read(self: Arc<Self>, offset: u64, len: usize) -> ReadFuture {
        match self.unwritten() {
            Some(file) => Arc::clone(file).read(offset, len),
            None => Box::pin(ready(self.piece(offset, len))),
        }
    }

    fn read_many(self: Arc<Self>, places: &[Place]) -> Vec<ReadFuture> {
        match self.unwritten() {
            Some(file) => Arc::clone(file).read_many(places),
            None => places.iter().map(|at| Arc::clone(&self).read(at.offset, at.len)).collect(),
        }
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut all = lock(self.written()?);
        let from = place(offset)?;
        let to = from.checked_add(bytes.len()).ok_or(io::ErrorKind::FileTooLarge)?;
        if all.len() < to {
            all.resize(to, 0);
        }
        all[from..to].copy_from_slice(bytes);
        Ok(())
    }

    fn write_vectored_at(&self, pieces: &mut [IoSlice<'_>], offset: u64) -> io::Result<()> {
        let mut at = offset;
        for piece in pieces {
            self.write_at(piece, at)?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    /// Writes no zeros, because syncs cost nothing here.
    fn preallocate(&self, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn evict(&self) -> io::Result<()> {
        self.unwritten().map_or(Ok(()), |file| file.evict())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        lock(self.written()?).resize(place(len)?, 0);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        match self.unwritten() {
            Some(file) => file.len(),
            None => Ok(lock(self.written()?).len() as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sim::SimDisk;
    use super::*;

    fn read(disk: &dyn Disk, name: &str) -> Vec<u8> {
        let file = disk.open(name).unwrap();
        let mut bytes = vec![0; 99];
        let read = file.read_at(&mut bytes, 0).unwrap();
        bytes.truncate(read);
        bytes
    }

    #[test]
    fn changes_do_not_reach_the_disk_below() {
        let below = SimDisk::new(1);
        for name in ["kept", "moved", "gone"] {
            below.create(name).unwrap().write_at(name.as_bytes(), 0).unwrap();
        }
        let disk = ReadOnlyDisk::new(Arc::new(below.clone()));
        let before = disk.open("kept").unwrap();
        disk.open("kept").unwrap().write_at(b"___!", 2).unwrap();
        assert_eq!(before.len().unwrap(), 6, "an earlier handle sees the write");
        disk.open("kept").unwrap().truncate(5).unwrap();
        disk.rename("moved", "gone").unwrap();
        disk.create("new").unwrap().write_at(b"x", 2).unwrap();
        assert_eq!(disk.list().unwrap(), ["gone", "kept", "new"]);
        assert_eq!(disk.open("moved").err().unwrap().kind(), io::ErrorKind::NotFound);
        assert_eq!(read(&disk, "kept"), b"ke___");
        assert_eq!(read(&disk, "gone"), b"moved");
        assert_eq!(read(&disk, "new"), b"\0\0x");
        disk.remove("new").unwrap();
        assert!(disk.remove("new").is_err());

        assert_eq!(below.list().unwrap(), ["gone", "kept", "moved"]);
        for name in ["kept", "moved", "gone"] {
            assert_eq!(read(&below, name), name.as_bytes(), "the disk below is as it was");
        }
        let other = SimDisk::new(2);
        disk.link("kept", &other).unwrap();
        assert_eq!(read(&other, "kept"), b"ke___");
    }
}
