//! An open table.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use carnet_base::{CellKey, Error, ErrorKind, KeyRange, Result, Timestamp, Version};
use quick_cache::Weighter;
use quick_cache::sync;

use super::block::Block;
use super::bloom::Bloom;
use super::footer::{FOOTER_BYTES, Footer, Statistics};
use super::index::Index;
use super::section::Place;
use super::{Built, file_name};
use crate::disk::{Disk, During, File};
use crate::metrics::{Counters, add};

/// Decoded blocks of all tables, by table and block.
pub(crate) type Cache = sync::Cache<(u64, usize), Arc<Block>, BlockWeight>;

/// Weighs a block by its memory.
#[derive(Clone, Debug)]
pub(crate) struct BlockWeight;

impl Weighter<(u64, usize), Arc<Block>> for BlockWeight {
    fn weight(&self, _key: &(u64, usize), block: &Arc<Block>) -> u64 {
        block.memory_bytes() as u64
    }
}

/// Makes a cache of so many bytes.
pub(crate) fn new_cache(bytes: usize, block_bytes: usize) -> Arc<Cache> {
    let blocks = bytes / block_bytes.max(1);
    Arc::new(sync::Cache::with_weighter(blocks.max(1), bytes as u64, BlockWeight))
}

/// An open table: its index and filter are in memory, its blocks in the shared cache or on disk.
pub(crate) struct Table {
    built: Built,
    disk: Arc<dyn Disk>,
    file: Arc<dyn File>,
    index: Index,
    bloom: Bloom,
    statistics: Statistics,
    cache: Arc<Cache>,
    counters: Arc<Counters>,
}

impl Table {
    /// Opens a table and checks everything but its blocks.
    ///
    /// # Errors
    ///
    /// `Corrupted`, naming the file and the place; `Unavailable` where the disk fails.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        built: Built,
        cache: Arc<Cache>,
        counters: Arc<Counters>,
    ) -> Result<Self> {
        let name = file_name(built.number);
        let file = match disk.open(&name) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::corrupted(format!(
                    "{} is missing: restore it, or the whole directory from a backup",
                    disk.path(&name)
                )));
            }
            opened => opened.during("open", &*disk, &name)?,
        };
        let len = file.len().during("open", &*disk, &name)?;
        if len != built.bytes || len < u64::from(FOOTER_BYTES) {
            return Err(Error::corrupted(format!(
                "{} has {len} bytes where the manifest says {}",
                disk.path(&name),
                built.bytes
            )));
        }
        let source = Source { disk: &*disk, file: &*file, name: &name };
        let footer = Place { offset: len - u64::from(FOOTER_BYTES), len: FOOTER_BYTES };
        let footer = source.section("footer", footer, |bytes, _| Footer::read(bytes, len))?;
        let index = source.section("index", footer.index, Index::read)?;
        let bloom = source.section("filter", footer.filter, Bloom::read)?;
        let statistics = source.section("statistics", footer.statistics, Statistics::read)?;
        Ok(Self { built, index, bloom, statistics, cache, counters, file, disk })
    }

    pub(crate) const fn built(&self) -> Built {
        self.built
    }

    pub(crate) const fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    pub(super) const fn index(&self) -> &Index {
        &self.index
    }

    /// Returns a cell's newest version that committed at or before `read`.
    ///
    /// # Errors
    ///
    /// `Corrupted`, naming the file and the place; `Unavailable` where the disk fails.
    pub(crate) fn get(&self, key: &CellKey, read: Timestamp) -> Result<Option<Version>> {
        if *key < self.statistics.first
            || *key > self.statistics.last
            || read < self.statistics.commit_min
        {
            return Ok(None);
        }
        if !self.bloom.may_contain(key.table(), key.token()) {
            self.counters.bloom_negatives.fetch_add(1, Ordering::Relaxed);
            return Ok(None);
        }
        let number = self.index.seek(key, read);
        let block = self.block(number)?;
        if let Some(entry) = block.entries().get(block.seek(key, read)) {
            return Ok((entry.key == *key).then(|| entry.version()));
        }
        // All of the block comes before the version; the next block's first entry may be it.
        match self.index.get(number + 1) {
            Some(next) if next.first == *key => {
                let next = self.block(number + 1)?;
                Ok(next.entries().first().map(super::block::Entry::version))
            }
            _ => Ok(None),
        }
    }

    /// Tells whether a range can have cells here.
    pub(crate) fn overlaps(&self, range: &KeyRange, read: Timestamp) -> bool {
        use std::ops::Bound::{Excluded, Included};
        let Some((lower, upper)) = range.map_bounds() else { return false };
        let Statistics { first, last, .. } = &self.statistics;
        let begins_after = matches!(&lower, Included(lower) | Excluded(lower) if lower > last);
        let ends_before = matches!(&upper, Included(upper) | Excluded(upper) if upper < first);
        let partition_absent = range
            .single_partition()
            .is_some_and(|partition| !self.bloom.may_contain(range.table, partition.token()));
        !begins_after && !ends_before && !partition_absent && read >= self.statistics.commit_min
    }

    /// Returns a block, from the cache or from disk.
    ///
    /// # Errors
    ///
    /// `Corrupted`, naming the file and the place; `Unavailable` where the disk fails.
    pub(crate) fn block(&self, number: usize) -> Result<Arc<Block>> {
        let key = (self.built.number, number);
        if let Some(block) = self.cache.get(&key) {
            add(&self.counters.block_hits, 1);
            return Ok(block);
        }
        let entry = self.index.get(number).expect("callers take block numbers from the index");
        let name = file_name(self.built.number);
        let source = Source { disk: &*self.disk, file: &*self.file, name: &name };
        let block = source.section("block", entry.place, |bytes, offset| {
            let block = Block::read(bytes, offset)?;
            let first = block.entries().first();
            if first.is_none_or(|first| first.key != entry.first || first.commit != entry.commit) {
                return Err(Error::corrupted("the block is not the one that the index names"));
            }
            Ok(Arc::new(block))
        })?;
        add(&self.counters.block_reads, 1);
        self.cache.insert(key, Arc::clone(&block));
        Ok(block)
    }
}

/// A file to read sections from.
struct Source<'a> {
    disk: &'a dyn Disk,
    file: &'a dyn File,
    name: &'a str,
}

impl Source<'_> {
    /// Reads a section whose place was checked against the file's length, and decodes it.
    fn section<T>(
        &self,
        what: &str,
        place: Place,
        decode: impl FnOnce(&Bytes, u64) -> Result<T>,
    ) -> Result<T> {
        let mut bytes = vec![0; place.len as usize];
        let read =
            self.file.read_at(&mut bytes, place.offset).during("read", self.disk, self.name)?;
        bytes.truncate(read);
        decode(&Bytes::from(bytes), place.offset).map_err(|error| match error.kind() {
            ErrorKind::Corrupted => Error::corrupted(format!(
                "{}: the {what} at byte {} is damaged; keep a copy of the directory and restore a \
                 backup",
                self.disk.path(self.name),
                place.offset
            ))
            .with_source(error),
            kind => Error::new(kind, format!("{}: {error}", self.disk.path(self.name))),
        })
    }
}
