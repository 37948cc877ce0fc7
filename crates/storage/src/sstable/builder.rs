//! Writes a table, version by version, in order.

use std::sync::Arc;

use carnet_base::{CellKey, Error, Result, Timestamp};

use super::block::{BLOCK_BYTES_MAX, BlockBuilder, is_before};
use super::bloom::BloomBuilder;
use super::file_name;
use super::footer::{Footer, Statistics};
use super::index::{Index, IndexEntry};
use super::section::Place;
use crate::disk::{Disk, During, File};

/// The file is written in pieces of about this many bytes.
const WRITE_BYTES: usize = 256 << 10;

/// A finished table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Built {
    pub(crate) number: u64,
    pub(crate) bytes: u64,
}

/// Writes one table.
pub(crate) struct Builder {
    disk: Arc<dyn Disk>,
    number: u64,
    temporary: String,
    file: Arc<dyn File>,
    block_bytes: usize,
    fp_chance: f64,
    block: BlockBuilder,
    /// The first version of the block under way.
    first: Option<(CellKey, Timestamp)>,
    index: Vec<IndexEntry>,
    bloom: BloomBuilder,
    statistics: Option<Statistics>,
    last: Option<(CellKey, Timestamp)>,
    buffer: Vec<u8>,
    /// Where the buffer's first byte goes.
    offset: u64,
}

impl Builder {
    /// Begins a table under a temporary name.
    pub(crate) fn begin(
        disk: Arc<dyn Disk>,
        number: u64,
        block_bytes: usize,
        fp_chance: f64,
    ) -> Result<Self> {
        let temporary = format!("{}.tmp", file_name(number));
        let file = disk.create(&temporary).during("create", &*disk, &temporary)?;
        Ok(Self {
            disk,
            number,
            temporary,
            file,
            block_bytes: block_bytes.clamp(1, BLOCK_BYTES_MAX),
            fp_chance,
            block: BlockBuilder::default(),
            first: None,
            index: Vec::new(),
            bloom: BloomBuilder::default(),
            statistics: None,
            last: None,
            buffer: Vec::new(),
            offset: 0,
        })
    }

    /// Adds the next version.
    ///
    /// # Errors
    ///
    /// `Unavailable` where the disk fails.
    ///
    /// # Panics
    ///
    /// Where the version does not come after the one before it.
    pub(crate) fn push(
        &mut self,
        key: &CellKey,
        (start, commit): (Timestamp, Timestamp),
        payload: Option<&[u8]>,
    ) -> Result<()> {
        if let Some((last, last_commit)) = &self.last {
            assert!(is_before(last, *last_commit, key, commit), "versions come in order");
        }
        self.bloom.add(key.table(), key.token());
        self.count(key, commit, payload.is_none());
        self.first.get_or_insert_with(|| (key.clone(), commit));
        self.block.push(key, (start, commit), payload);
        self.last = Some((key.clone(), commit));
        if self.block.len() >= self.block_bytes {
            self.finish_block()?;
        }
        Ok(())
    }

    fn count(&mut self, key: &CellKey, commit: Timestamp, tombstone: bool) {
        let statistics = self.statistics.get_or_insert_with(|| Statistics {
            cells: 0,
            tombstones: 0,
            commit_min: commit,
            commit_max: commit,
            first: key.clone(),
            last: key.clone(),
        });
        statistics.cells += 1;
        statistics.tombstones += u64::from(tombstone);
        statistics.commit_min = statistics.commit_min.min(commit);
        statistics.commit_max = statistics.commit_max.max(commit);
        statistics.last = key.clone();
    }

    fn finish_block(&mut self) -> Result<()> {
        let Some((first, commit)) = self.first.take() else { return Ok(()) };
        let offset = self.place();
        self.block.finish(&mut self.buffer, offset);
        self.index.push(IndexEntry { place: self.since(offset)?, first, commit });
        if self.buffer.len() >= WRITE_BYTES { self.write() } else { Ok(()) }
    }

    /// Finishes the table: afterwards its file is there under its own name, durably. `None` where
    /// nothing was pushed.
    ///
    /// # Errors
    ///
    /// `Unavailable` where the disk fails.
    pub(crate) fn finish(mut self) -> Result<Option<Built>> {
        self.finish_block()?;
        let disk = Arc::clone(&self.disk);
        let Some(statistics) = self.statistics.take() else {
            disk.remove(&self.temporary).during("remove", &*disk, &self.temporary)?;
            return Ok(None);
        };
        let at = self.place();
        Index::put(&self.index, &mut self.buffer, at);
        let index = self.since(at)?;
        let at = self.place();
        self.bloom.finish(self.fp_chance, &mut self.buffer, at);
        let filter = self.since(at)?;
        let at = self.place();
        statistics.put(&mut self.buffer, at);
        let statistics = self.since(at)?;
        let at = self.place();
        Footer { index, filter, statistics }.put(&mut self.buffer, at);
        self.write()?;
        self.file.sync_data().during("sync", &*disk, &self.temporary)?;
        let name = file_name(self.number);
        disk.rename(&self.temporary, &name).during("make", &*disk, &name)?;
        disk.sync_dir().during("sync the directory of", &*disk, &name)?;
        Ok(Some(Built { number: self.number, bytes: self.offset }))
    }

    /// Where the next byte goes in the file.
    fn place(&self) -> u64 {
        self.offset + self.buffer.len() as u64
    }

    fn since(&self, offset: u64) -> Result<Place> {
        let len = u32::try_from(self.place() - offset).map_err(|_| {
            Error::unsupported("tables with an index of more than 4 GiB: lower flush_bytes")
        })?;
        Ok(Place { offset, len })
    }

    fn write(&mut self) -> Result<()> {
        let name = &self.temporary;
        self.file.write_at(&self.buffer, self.offset).during("write", &*self.disk, name)?;
        self.offset += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}
