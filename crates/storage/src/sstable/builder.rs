//! Builder: writes a table, version by version, in order.
//!
//! ```text
//! push ──► run of the block ──full──► compress, seal ──► bulk writer ──► file
//!                                        │ separator, offset
//!                                        ▼
//!                                  index page (+ filter) ──full──► kept ──finish──► buffer
//! ```
//!
//! Index pages are kept in memory until all blocks are written, and then written together, so that
//! blocks are contiguous for scans and compaction. They take about a hundredth of the data.

use std::io;
use std::sync::Arc;

use carnet_base::{Error, Result, TableId, Timestamp};

use super::bloom::FilterBuilder;
use super::compress::{Attempts, Compressor};
use super::entry_ref::EntryRef;
use super::file_name::file_name;
use super::flat_key::{KEY_BYTES_MAX, partition_len, shared_len, table_of};
use super::footer::{self, Footer};
use super::memory_limits::{BLOCK_MEMORY_MAX, TOP_MEMORY_MAX};
use super::options::{Compression, FilterKind, TableOptions};
use super::page::IndexBuilder;
use super::run::RunBuilder;
use super::section::{self, Place};
use super::statistics::{Counting, Statistics};
use super::tombstones::{Fragmenter, RangeTombstone};
use crate::codec::PAYLOAD_BYTES_MAX;
use crate::disk::{BulkWriter, Disk, During, rename};

/// Maximum ratio of a decoded block's size to that of its run, unless it has one entry.
const DECODED_FACTOR: usize = 16;

/// A finished table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// Number of the file.
    pub number: u64,
    /// Length of the file.
    pub bytes: u64,
    /// Statistics of the contents.
    pub statistics: Statistics,
}

/// An index page that is not written yet.
struct Page {
    separator: Vec<u8>,
    commit: Timestamp,
    bytes: Vec<u8>,
}

/// Writer of one table.
pub struct Builder {
    out: Output,
    options_of: Box<dyn FnMut(TableId) -> TableOptions + Send>,
    options: TableOptions,
    block: RunBuilder,
    compressor: Compressor,
    attempts: Attempts,
    scratch: Vec<u8>,
    last: Vec<u8>,
    last_commit: Timestamp,
    /// Separator before the current block.
    separator: (Vec<u8>, Timestamp),
    index: IndexBuilder,
    /// Separator before the current index page.
    page_separator: (Vec<u8>, Timestamp),
    filter: FilterBuilder,
    pages: Vec<Page>,
    pages_bytes: usize,
    /// Size of the file without the current block and range tombstones.
    blocks_bytes: u64,
    tombstones: Fragmenter,
    counting: Counting,
    any: bool,
}

impl Builder {
    /// Starts a table under a temporary name. `options_of` is called once for each cell table whose
    /// cells are pushed.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the disk fails.
    pub fn begin(
        disk: Arc<dyn Disk>,
        number: u64,
        options_of: impl FnMut(TableId) -> TableOptions + Send + 'static,
    ) -> Result<Self> {
        Ok(Self {
            out: Output::begin(disk, number)?,
            options_of: Box::new(options_of),
            options: TableOptions::default(),
            block: RunBuilder::default(),
            compressor: Compressor::default(),
            attempts: Attempts::default(),
            scratch: Vec::new(),
            last: Vec::new(),
            last_commit: Timestamp::ZERO,
            separator: (Vec::new(), Timestamp::MAX),
            index: IndexBuilder::default(),
            page_separator: (Vec::new(), Timestamp::MAX),
            filter: FilterBuilder::default(),
            pages: Vec::new(),
            pages_bytes: 0,
            blocks_bytes: 0,
            tombstones: Fragmenter::default(),
            counting: Counting::default(),
            any: false,
        })
    }

    /// Adds the next version.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the disk fails; `Invalid` if the key is empty, or the key or the payload is
    /// too long.
    ///
    /// # Panics
    ///
    /// If the version does not sort after the previous one.
    pub fn push(&mut self, entry: &EntryRef<'_>) -> Result<()> {
        check_sizes(entry)?;
        let EntryRef { key, commit, .. } = *entry;
        let shared = shared_len(&self.last, key);
        let same_key = self.any && shared == key.len() && key.len() == self.last.len();
        let in_order = match (self.last.get(shared), key.get(shared)) {
            _ if !self.any => true,
            (Some(last), Some(next)) => last < next,
            (None, Some(_)) => true,
            (Some(_), None) => false,
            (None, None) => commit < self.last_commit,
        };
        assert!(in_order, "versions come in order");
        // Both keys share the frame with the partition's length if they are of the same partition.
        let same_partition = self.any && shared >= partition_len(key);
        if !self.any {
            self.set_options(key);
            self.begin_block(key, commit, same_key, 0);
        } else if shared < 4 && table_of(key) != table_of(&self.last) {
            self.finish_block()?;
            self.finish_page()?;
            self.set_options(key);
            self.begin_block(key, commit, same_key, shared);
        } else if self.is_full(entry, shared) {
            self.finish_block()?;
            self.begin_block(key, commit, same_key, shared);
        }
        self.remember(key, same_key, same_partition);
        self.counting.add(entry, !same_partition);
        self.block.push(entry, if self.block.is_empty() { 0 } else { shared });
        self.last.truncate(shared);
        self.last.extend_from_slice(&key[shared..]);
        self.last_commit = commit;
        self.any = true;
        Ok(())
    }

    /// Adds a range tombstone; empty ones are ignored. They must come in the order of their lower
    /// bounds, before, between or after versions.
    ///
    /// # Errors
    ///
    /// `Unsupported` if all range tombstones take more than
    /// [`RangeTombstones::BYTES_MAX`](super::RangeTombstones::BYTES_MAX); `Invalid` if a key is too
    /// long.
    ///
    /// # Panics
    ///
    /// If it is out of order.
    pub fn push_range_tombstone(&mut self, tombstone: &RangeTombstone) -> Result<()> {
        if tombstone.lower.len().max(tombstone.upper.len()) > KEY_BYTES_MAX + 1 {
            return Err(Error::invalid("a range tombstone's key is too long"));
        }
        self.tombstones.push(tombstone)
    }

    fn set_options(&mut self, key: &[u8]) {
        self.options = (self.options_of)(TableId(table_of(key))).clamped();
        self.filter.set_chance(self.options.bloom_fp_chance);
        self.attempts = Attempts::default();
    }

    /// Returns the approximate length of the file if it were finished now.
    #[must_use]
    pub fn estimated_bytes(&self) -> u64 {
        self.blocks_bytes + (self.block.len() + self.tombstones.bytes()) as u64
    }

    /// Returns the memory of the range tombstones, now and when the table is open.
    #[must_use]
    pub fn range_tombstone_bytes(&self) -> usize {
        self.tombstones.bytes()
    }

    fn is_full(&self, entry: &EntryRef<'_>, shared: usize) -> bool {
        // Each of the seven other columns takes a byte or two.
        let more = 8 + entry.key.len() - shared + entry.payload.map_or(0, <[u8]>::len);
        let decoded = self.block.decoded_bytes() + entry.key.len() + more + 48;
        let decoded_max = (self.options.block_bytes * DECODED_FACTOR).min(BLOCK_MEMORY_MAX);
        self.block.len() + more > self.options.block_bytes || decoded > decoded_max
    }

    /// Computes the separator between the last key and the first key of the next block.
    fn begin_block(&mut self, key: &[u8], commit: Timestamp, same_key: bool, shared: usize) {
        let (separator, at) = &mut self.separator;
        // The first separator of the table is its whole first key.
        let len = if same_key || !self.any { key.len() } else { shared + 1 };
        separator.clear();
        separator.extend_from_slice(&key[..len]);
        *at = match same_key {
            true => self.last_commit.previous().unwrap_or(commit),
            false => Timestamp::MAX,
        };
        if self.index.is_empty() {
            self.page_separator.clone_from(&self.separator);
        }
    }

    /// Adds a key to the filter of the current index page.
    fn remember(&mut self, key: &[u8], same_key: bool, same_partition: bool) {
        let kind = self.options.filter;
        let known = match kind {
            FilterKind::Partitions => same_partition,
            FilterKind::Cells => same_key,
        };
        // A partition that continues from the previous page is new in this page's filter.
        if !known || self.filter.is_empty() {
            self.filter.add(kind, key);
        }
    }

    fn finish_block(&mut self) -> Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let Self { out, block, compressor, attempts, scratch, options, .. } = self;
        scratch.clear();
        block.finish(scratch);
        let mut compressed = Ok(());
        let place = out.section(|buffer| {
            let put = |compression| compressor.put(compression, scratch, buffer);
            compressed = attempts.store(options.compression, put);
        })?;
        compressed?;
        self.index.push(&self.separator.0, self.separator.1, place);
        let page_bytes = self.index.len() + self.filter.bytes();
        let decoded_max =
            (self.options.index_page_bytes * DECODED_FACTOR).min(BLOCK_MEMORY_MAX / 2);
        let full = page_bytes >= self.options.index_page_bytes;
        if full || self.index.decoded_bytes() >= decoded_max {
            self.finish_page()?;
        }
        // Computed once per block and not in `estimated_bytes`, which is called for every key.
        let index_bytes = self.pages_bytes + self.index.len() + self.filter.bytes();
        self.blocks_bytes = self.out.place() + index_bytes as u64;
        Ok(())
    }

    fn finish_page(&mut self) -> Result<()> {
        if self.index.is_empty() {
            return Ok(());
        }
        let Self { compressor, options, .. } = self;
        let mut bytes = Vec::new();
        self.filter.finish(options.filter, &mut bytes);
        self.index.finish(compressor, options.compression, &mut bytes)?;
        self.pages_bytes += bytes.len() + section::CRC_BYTES;
        let (separator, commit) = std::mem::take(&mut self.page_separator);
        self.pages.push(Page { separator, commit, bytes });
        Ok(())
    }

    /// Finishes the table; its file is durable under its final name on return. Returns `None` if
    /// nothing was pushed.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the disk fails.
    pub fn finish(self) -> Result<Option<Built>> {
        self.finish_as(Output::finish)
    }

    /// Like [`Builder::finish`], for a file that a crash may lose, until [`make_durable`].
    ///
    /// # Errors
    ///
    /// `Unavailable` if the disk fails.
    pub fn finish_unsynced(self) -> Result<Option<Built>> {
        self.finish_as(Output::finish_unsynced)
    }

    fn finish_as(
        mut self,
        finish: impl FnOnce(Output, &Footer) -> Result<(u64, u64)>,
    ) -> Result<Option<Built>> {
        self.finish_block()?;
        self.finish_page()?;
        if !self.any && self.tombstones.is_empty() {
            self.out.abandon()?;
            return Ok(None);
        }
        let Self { mut out, mut compressor, pages, tombstones, mut counting, .. } = self;
        let index = out.place();
        let mut top = IndexBuilder::default();
        for page in pages {
            let place = out.section(|buffer| buffer.extend_from_slice(&page.bytes))?;
            top.push(&page.separator, page.commit, place);
        }
        if top.decoded_bytes() > TOP_MEMORY_MAX {
            return Err(Error::unsupported(format_args!(
                "tables whose top index takes more than {TOP_MEMORY_MAX} bytes: cut them earlier"
            )));
        }
        let mut top_bytes = Vec::new();
        if !top.is_empty() {
            top.finish(&mut compressor, Compression::None, &mut top_bytes)?;
        }
        let tombstones = tombstones.finish()?;
        tombstones.count(&mut counting);
        let statistics = counting.finish(&self.last);
        let footer = Footer {
            version: footer::VERSION,
            index,
            tombstones: out.section(|buffer| tombstones.put(buffer))?,
            top: out.section(|buffer| buffer.extend_from_slice(&top_bytes))?,
            statistics: out.section(|buffer| statistics.put(buffer))?,
        };
        let (number, bytes) = finish(out, &footer)?;
        Ok(Some(Built { number, bytes, statistics }))
    }
}

fn check_sizes(entry: &EntryRef<'_>) -> Result<()> {
    if entry.key.is_empty() {
        return Err(Error::invalid("a key is empty: a flat key has at least its frame"));
    }
    let limits = [
        ("key", entry.key.len(), KEY_BYTES_MAX),
        ("value", entry.payload.map_or(0, <[u8]>::len), PAYLOAD_BYTES_MAX),
    ];
    for (what, len, max) in limits {
        if len > max {
            return Err(Error::invalid(format!(
                "a {what} of {len} bytes is too long: at most {max} bytes are stored"
            )));
        }
    }
    Ok(())
}

/// A temporary file, removed on drop unless it was finished: durable under its final name.
struct Temporary {
    disk: Arc<dyn Disk>,
    name: String,
    is_finished: bool,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.is_finished {
            // A file that cannot be removed now is removed by the next opening.
            let _ = self.disk.remove(&self.name);
        }
    }
}

/// The output file.
struct Output {
    writer: BulkWriter,
    number: u64,
    temporary: Temporary,
    /// Buffer of the current section.
    section: Vec<u8>,
}

impl Output {
    fn begin(disk: Arc<dyn Disk>, number: u64) -> Result<Self> {
        let name = format!("{}.tmp", file_name(number));
        let writer = BulkWriter::create(&*disk, &name).during("create", &*disk, &name)?;
        let temporary = Temporary { disk, name, is_finished: false };
        Ok(Self { writer, number, temporary, section: Vec::new() })
    }

    /// Returns the current length of the file.
    fn place(&self) -> u64 {
        self.writer.offset()
    }

    /// Appends a section and its checksum.
    fn section(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> Result<Place> {
        let offset = self.place();
        self.section.clear();
        put(&mut self.section);
        section::seal(&mut self.section, 0, self.number, offset);
        let len = u32::try_from(self.section.len()).map_err(|_| {
            Error::unsupported("tables with an index of more than 4 GiB: cut them earlier")
        })?;
        self.write()?;
        Ok(Place { offset, len })
    }

    fn write(&mut self) -> Result<()> {
        let Temporary { disk, name, .. } = &self.temporary;
        self.writer.write(&self.section).during("write", &**disk, name)
    }

    fn abandon(mut self) -> Result<()> {
        self.temporary.is_finished = true;
        let Temporary { disk, name, .. } = &self.temporary;
        disk.remove(name).during("remove", &**disk, name)
    }

    /// Writes the footer, and renames the file durably to its final name.
    fn finish(self, footer: &Footer) -> Result<(u64, u64)> {
        let disk = Arc::clone(&self.temporary.disk);
        let (mut temporary, number, bytes) = self.write_all(footer, BulkWriter::finish)?;
        disk.sync_dir().during("sync the directory of", &*disk, &temporary.name)?;
        temporary.is_finished = true;
        Ok((number, bytes))
    }

    /// Writes the footer, and renames the file to its final name.
    fn finish_unsynced(self, footer: &Footer) -> Result<(u64, u64)> {
        let (mut temporary, number, bytes) = self.write_all(footer, BulkWriter::finish_unsynced)?;
        temporary.is_finished = true;
        Ok((number, bytes))
    }

    fn write_all(
        mut self,
        footer: &Footer,
        finish: impl FnOnce(BulkWriter) -> io::Result<u64>,
    ) -> Result<(Temporary, u64, u64)> {
        let at = self.place();
        self.section.clear();
        footer.put(&mut self.section, self.number, at);
        self.write()?;
        let Self { writer, number, mut temporary, .. } = self;
        let disk = Arc::clone(&temporary.disk);
        let bytes = finish(writer).during("write", &*disk, &temporary.name)?;
        let name = file_name(number);
        rename(&*disk, &temporary.name, &name).during("make", &*disk, &name)?;
        temporary.name.clone_from(&name);
        Ok((temporary, number, bytes))
    }
}

/// Makes a table of [`Builder::finish_unsynced`] durable.
///
/// # Errors
///
/// `Unavailable` if the disk fails.
pub fn make_durable(disk: &dyn Disk, number: u64) -> Result<()> {
    let name = file_name(number);
    let synced = disk.open(&name).and_then(|file| file.sync_data());
    synced.during("sync", disk, &name)?;
    disk.sync_dir().during("sync the directory of", disk, &name)
}
