//! An open table, with point reads.
//!
//! ```text
//!              top index (in memory)
//!                   │ page
//!                   ▼
//!    cache ── index page + filter ──"not here"──► nothing          1 read if not cached
//!                   │ block
//!                   ▼
//!    cache ──     block                                            1 read if not cached
//! ```

use std::sync::Arc;

use bytes::Bytes;
use carnet_base::{Result, Timestamp};
use crossbeam_epoch::{self as epoch, Guard};

use super::block::{Block, Linked, SharedBlock};
use super::cache::{self, Cache, Kind};
use super::entry_ref::EntryRef;
use super::footer::{self, Footer};
use super::links::{Named, Seen, Wanted};
use super::options::ReadOptions;
use super::page;
use super::section::Place;
use super::source::Source;
use super::statistics::Statistics;
use super::tombstones::RangeTombstones;
use crate::disk::Disk;

/// Result of a point read: a key's newest version, or the range tombstone over it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Start timestamp of the transaction that wrote the version.
    pub start: Timestamp,
    /// Commit timestamp of that transaction.
    pub commit: Timestamp,
    /// Expiry, in seconds of wall time; from then on the version counts as deleted.
    pub expiry: Option<u64>,
    /// Row image or byte string; `None` if the key is deleted.
    pub payload: Option<Bytes>,
}

impl Found {
    pub(super) fn of(entry: &EntryRef<'_>) -> Self {
        Self {
            start: entry.start,
            commit: entry.commit,
            expiry: entry.expiry,
            payload: entry.payload.map(Bytes::copy_from_slice),
        }
    }

    fn deleted((commit, start): (Timestamp, Timestamp)) -> Self {
        Self { start, commit, expiry: None, payload: None }
    }
}

/// An open table.
///
/// Its top index, range tombstones and statistics are in memory ([`Table::memory_bytes`]); blocks
/// and index pages are in the shared cache or on disk.
pub struct Table {
    pub(super) source: Source,
    pub(super) footer: Footer,
    pub(super) top: Option<SharedBlock>,
    tombstones: RangeTombstones,
    statistics: Statistics,
    /// Commit of all versions, if it overrides those in the file.
    stamp: Option<Timestamp>,
    pub(super) cache: Arc<Cache>,
}

impl Table {
    /// Opens the table of a number whose file has `bytes` bytes, and verifies all sections except
    /// blocks and index pages.
    ///
    /// # Errors
    ///
    /// `Corrupted`, naming the file and the offset; `Unsupported` for another format version;
    /// `Unavailable` if the disk fails.
    pub fn open(disk: Arc<dyn Disk>, number: u64, bytes: u64, cache: Arc<Cache>) -> Result<Self> {
        let source = Source::open(disk, number, bytes)?;
        let end_bytes = footer::end_bytes(bytes);
        let place = Place { offset: bytes - u64::from(end_bytes), len: end_bytes };
        let end = source.bytes(place)?;
        let at = bytes.saturating_sub(u64::from(footer::FOOTER_BYTES));
        let footer = Footer::read(&end, number, bytes)
            .map_err(|error| source.damaged("footer", at, error))?;
        let Footer { index, tombstones, top, statistics, .. } = footer;
        let statistics = source.section("statistics", statistics, Statistics::read)?;
        let read_top = |section: &[u8]| page::decode_top(section, index, tombstones.offset);
        let top = source.section("top index", top, read_top)?;
        let tombstones =
            source.section("section of range tombstones", tombstones, RangeTombstones::read)?;
        Ok(Self { source, footer, top, tombstones, statistics, stamp: None, cache })
    }

    /// Returns the first damage that a read of the table found.
    #[must_use]
    pub fn damage(&self) -> Option<&str> {
        self.source.damage()
    }

    /// Returns the table with the commit of all versions set to `commit`: its file was written
    /// before the commit was assigned, with one version per key and without range tombstones.
    #[must_use]
    pub fn stamped(mut self, commit: Timestamp) -> Self {
        let Statistics { commit_min, commit_max, .. } = &mut self.statistics;
        if *commit_min != commit {
            (*commit_min, *commit_max) = (commit, commit);
            self.stamp = Some(commit);
        }
        self
    }

    /// Returns the number in the file's name.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.source.number()
    }

    /// Returns the length of the file.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.source.len()
    }

    /// Returns the statistics of the contents.
    #[must_use]
    pub const fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Returns the range tombstones, which also hide versions of older sources.
    #[must_use]
    pub const fn range_tombstones(&self) -> &RangeTombstones {
        &self.tombstones
    }

    /// Returns the memory of the table, without the cache.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let top = self.top.as_ref().map_or(0, |top| top.memory_bytes());
        let keys = self.statistics.first.len() + self.statistics.last.len();
        size_of::<Self>() + top + self.tombstones.memory_bytes() + keys
    }

    /// Returns `true` if a range of keys may have versions or range tombstones that committed at or
    /// before `read`; `None` means no upper bound. Reads nothing from disk.
    #[must_use]
    pub fn overlaps(&self, lower: &[u8], upper: Option<&[u8]>, read: Timestamp) -> bool {
        let Statistics { first, last, commit_min, .. } = &self.statistics;
        let cells = self.top.is_some()
            && lower <= &last[..]
            && upper.is_none_or(|upper| &first[..] < upper);
        *commit_min <= read && (cells || self.tombstones.overlaps(lower, upper))
    }

    /// Returns a key's newest version that committed at or before `read`, or a tombstone if a range
    /// tombstone hides it. A version takes precedence over a range tombstone of the same commit.
    ///
    /// # Errors
    ///
    /// `Corrupted`, naming the file and the offset; `Unavailable` if the disk fails.
    pub async fn get(
        &self,
        key: &[u8],
        read: Timestamp,
        reads: ReadOptions,
    ) -> Result<Option<Found>> {
        match self.get_cached(key, read, reads) {
            Ok(found) => Ok(found),
            Err(missing) => self.get_from(missing, key, read, reads).await,
        }
    }

    /// Like [`Table::get`], but reads nothing from disk.
    ///
    /// # Errors
    ///
    /// The section that is not in memory; [`Table::get_from`] reads it and goes on.
    pub fn get_cached(
        &self,
        key: &[u8],
        read: Timestamp,
        reads: ReadOptions,
    ) -> Result<Option<Found>, Missing> {
        let Some(page) = self.page_of(key, read) else {
            return Ok(self.conclude(key, read, None));
        };
        let pinned = &epoch::pin();
        let index =
            self.seen(page, reads, Wanted::Nothing, pinned).ok_or_else(|| Missing::of(page))?;
        let Some(block) = self.block_of(&index, key, read) else {
            return Ok(self.conclude(key, read, None));
        };
        let block =
            self.seen(block, reads, Wanted::Little, pinned).ok_or_else(|| Missing::of(block))?;
        Ok(self.conclude(key, read, find(&block, key, read)))
    }

    /// Goes on with a [`Table::get_cached`] where a section was not in memory.
    ///
    /// # Errors
    ///
    /// Like [`Table::get`].
    pub async fn get_from(
        &self,
        missing: Missing,
        key: &[u8],
        read: Timestamp,
        reads: ReadOptions,
    ) -> Result<Option<Found>> {
        let mut section = self.load_at(missing.place, missing.kind, reads).await?;
        if missing.kind == Kind::Index {
            let index = section;
            let Some(block) = self.block_of(&index, key, read) else {
                return Ok(self.conclude(key, read, None));
            };
            section = self.load(block, reads).await?;
        }
        Ok(self.conclude(key, read, find(&section, key, read)))
    }

    /// Returns the index page whose blocks may contain a version.
    fn page_of(&self, key: &[u8], read: Timestamp) -> Option<Named<'_>> {
        let Statistics { first, last, commit_min, .. } = &self.statistics;
        if key < &first[..] || key > &last[..] || read < *commit_min {
            return None;
        }
        let top = self.top.as_ref()?;
        Some(Named::page(top, slot_of(top, key, read)))
    }

    /// Returns the block that may contain a version, unless the filter excludes the key.
    fn block_of<'a>(&self, index: &'a Block, key: &[u8], read: Timestamp) -> Option<Named<'a>> {
        if !index.may_contain(key) {
            crate::metrics::add(&self.cache.counters().bloom_negatives, 1);
            return None;
        }
        Some(Named::block(index, slot_of(index, key, read)))
    }

    /// Combines a version with the range tombstones.
    fn conclude(&self, key: &[u8], read: Timestamp, found: Option<EntryRef<'_>>) -> Option<Found> {
        if self.tombstones.is_empty() {
            return found.as_ref().map(Found::of);
        }
        let cover = self.tombstones.covering(key, read);
        match (found, cover) {
            (Some(found), Some(cover)) if found.commit < cover.0 => Some(Found::deleted(cover)),
            (Some(found), _) => Some(Found::of(&found)),
            (None, cover) => cover.map(Found::deleted),
        }
    }

    /// Returns a section for reading, if it is in memory.
    fn seen<'g>(
        &self,
        named: Named<'_>,
        reads: ReadOptions,
        wanted: Wanted,
        pinned: &'g Guard,
    ) -> Option<Seen<'g>> {
        match named.linked(wanted, pinned) {
            Some(linked) => {
                self.cache.hit(|| self.key_of(named), linked.block(), named.kind(), reads);
                Some(Seen::Linked(linked))
            }
            None => self.kept(named, reads).map(Seen::Held),
        }
    }

    /// Returns a reference to a section, if it is in memory.
    pub(super) fn cached(
        &self,
        named: Named<'_>,
        reads: ReadOptions,
        wanted: Wanted,
    ) -> Option<SharedBlock> {
        match named.linked(wanted, &epoch::pin()).and_then(Linked::hold) {
            Some(section) => {
                self.cache.hit(|| self.key_of(named), &section, named.kind(), reads);
                Some(section)
            }
            None => self.kept(named, reads),
        }
    }

    /// Returns a section without a link, if it is in the cache.
    fn kept(&self, named: Named<'_>, reads: ReadOptions) -> Option<SharedBlock> {
        let section = self.cache.get(self.key_of(named), named.kind(), reads)?;
        named.link(&section);
        Some(section)
    }

    /// Returns a section's key in the cache.
    fn key_of(&self, named: Named<'_>) -> cache::Key {
        (self.source.number(), named.place().offset)
    }

    /// Returns a section from memory or from disk.
    ///
    /// # Errors
    ///
    /// `Corrupted`, naming the file and the offset; `Unavailable` if the disk fails.
    pub(super) async fn load(&self, named: Named<'_>, reads: ReadOptions) -> Result<SharedBlock> {
        let wanted = match named.kind() {
            Kind::Index => Wanted::Nothing,
            Kind::Data => Wanted::Little,
        };
        match self.cached(named, reads, wanted) {
            Some(section) => Ok(section),
            None => self.load_at(named.place(), named.kind(), reads).await,
        }
    }

    /// Reads a section that was not in memory.
    ///
    /// # Errors
    ///
    /// Like [`Table::load`].
    pub(super) async fn load_at(
        &self,
        at: Place,
        kind: Kind,
        reads: ReadOptions,
    ) -> Result<SharedBlock> {
        let read = async {
            let bytes = self.source.read(at).await?;
            self.decode(at.offset, &bytes, kind)
        };
        self.cache.load((self.source.number(), at.offset), kind, reads, read).await
    }

    /// Verifies and decodes a block or an index page.
    pub(super) fn decode(&self, offset: u64, bytes: &[u8], kind: Kind) -> Result<SharedBlock> {
        let data_end = self.footer.index;
        match kind {
            Kind::Data => {
                let block = self.source.decode("block", offset, bytes, page::decode_data)?;
                Ok(match self.stamp {
                    Some(commit) => block.stamped(commit),
                    None => block,
                })
            }
            Kind::Index => {
                let decode = |section: &[u8]| page::decode_page(section, data_end);
                self.source.decode("index page", offset, bytes, decode)
            }
        }
    }
}

/// A section that a search in memory did not find.
#[derive(Clone, Copy, Debug)]
pub struct Missing {
    place: Place,
    kind: Kind,
}

impl Missing {
    fn of(named: Named<'_>) -> Self {
        Self { place: named.place(), kind: named.kind() }
    }
}

/// Returns the index entry of the block that may contain a version.
pub(super) fn slot_of(index: &Block, key: &[u8], commit: Timestamp) -> usize {
    let at = index.seek(key, commit);
    // `seek` returns the first entry at or after the version: its own or the next one.
    match at < index.len() && index.is_at(at, key, commit) {
        true => at,
        false => at.saturating_sub(1),
    }
}

/// Returns a key's newest version at or before `read`.
fn find<'a>(block: &'a Block, key: &[u8], read: Timestamp) -> Option<EntryRef<'a>> {
    let at = block.seek(key, read);
    (at < block.len() && block.key(at) == key).then(|| block.get(at))
}
