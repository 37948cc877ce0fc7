//! Block cache: decoded blocks and index pages of all tables, with one budget in bytes.
//!
//! **Accounting.** A block counts with its memory when decoded, including its filter
//! (`Block::memory_bytes`). The budget is exceeded at most by the block being inserted, and by few
//! evicted blocks that wait for their readers (`sstable::block::shared`). A block larger than a
//! shard's budget is not cached.
//!
//! **Policy.** quick_cache uses a variant of S3-FIFO similar to Clock-PRO. New entries are inserted
//! into a small cold queue, and move to the hot queue when they are read again. Recently evicted
//! keys are remembered, and become hot at once when inserted again. A scan passes only through the
//! cold queue: `scan_does_not_evict_hot_blocks` scans ten times the budget and finds at least 80 %
//! of the hot blocks afterwards. The read that loads an index page counts as a second read, because
//! without the page every read of its blocks would cost another disk read. All index pages take
//! about a fiftieth of the memory of their blocks, so only a scan of fifty times the budget would
//! displace hot blocks by index pages.
//!
//! **Links.** Most cached blocks are found by links in their index (`sstable::links`) and not by a
//! lookup here. The cache counts at most two reads of a block between eviction decisions, so only
//! two of these lookups are reported to it.
//!
//! **Single-flight.** If several readers miss the same block, one reads it and the others wait. If
//! that reader is cancelled or fails, the next one reads.
//!
//! **Bypass.** A read that bypasses the cache does not affect recency, never inserts, and does not
//! wait for reads of others.
//!
//! Keys are file number and offset. File numbers are never reused, so blocks of a removed file are
//! only wasted memory; [`Cache::forget`] frees it.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use carnet_base::Result;
use quick_cache::sync::{self, GuardResult};
use quick_cache::{DefaultHashBuilder, Lifecycle, OptionsBuilder, Weighter};

use super::{Block, ReadOptions, SharedBlock};
use crate::metrics::{Counters, Metrics};

/// File number, and offset of the section.
pub(crate) type Key = (u64, u64);

/// Kind of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Data,
    Index,
}

/// Block cache of an engine's tables.
pub struct Cache {
    blocks: sync::Cache<Key, SharedBlock, Weight, DefaultHashBuilder, Evictions>,
    /// Budget in bytes.
    capacity: AtomicUsize,
    counters: Arc<Counters>,
}

/// Weighs a block by its memory.
#[derive(Clone)]
struct Weight;

impl Weighter<Key, SharedBlock> for Weight {
    fn weight(&self, _key: &Key, block: &SharedBlock) -> u64 {
        block.memory_bytes() as u64
    }
}

/// Counts the blocks that the cache evicts.
#[derive(Clone)]
struct Evictions(Arc<Counters>);

impl Lifecycle<Key, SharedBlock> for Evictions {
    type RequestState = Vec<SharedBlock>;

    /// No block is pinned; the call shows that the block is considered for eviction.
    fn is_pinned(&self, _key: &Key, block: &SharedBlock) -> bool {
        block.is_considered();
        false
    }

    fn on_evict(&self, evicted: &mut Vec<SharedBlock>, _key: Key, block: SharedBlock) {
        // Freed when the shard is unlocked.
        evicted.push(block);
        count(&self.0.cache_evictions);
    }
}

impl Cache {
    /// Makes a cache with a budget in bytes and its own counters.
    #[must_use]
    pub fn new(bytes: usize) -> Arc<Self> {
        Self::counted(bytes, Arc::default())
    }

    /// Makes a cache with a budget in bytes.
    pub(crate) fn counted(bytes: usize, counters: Arc<Counters>) -> Arc<Self> {
        // A block of 4 KiB takes about 6 KiB when decoded.
        const BLOCK_BYTES: usize = 6 << 10;
        let options = OptionsBuilder::new()
            .weight_capacity(bytes as u64)
            .estimated_items_capacity((bytes / BLOCK_BYTES).max(1))
            .build()
            .expect("both capacities are set");
        let evictions = Evictions(Arc::clone(&counters));
        let hasher = DefaultHashBuilder::default();
        Arc::new(Self {
            blocks: sync::Cache::with_options(options, Weight, hasher, evictions),
            capacity: AtomicUsize::new(bytes),
            counters,
        })
    }

    /// Changes the budget in bytes, and evicts the blocks that no longer fit.
    pub(crate) fn resize(&self, bytes: usize) {
        if self.capacity.swap(bytes, Ordering::Relaxed) != bytes {
            self.blocks.set_capacity(bytes as u64);
        }
    }

    /// Returns the budget in bytes.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.capacity.load(Ordering::Relaxed)
    }

    /// Returns the size of all cached blocks.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.blocks.weight()
    }

    /// Returns the metrics of the cache and of the tables that use it.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        Metrics { cache_bytes: self.bytes(), ..self.counters.snapshot() }
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns a block if it is cached.
    pub(crate) fn get(&self, key: Key, kind: Kind, reads: ReadOptions) -> Option<SharedBlock> {
        let found = if reads.bypass_cache { self.blocks.peek(&key) } else { self.blocks.get(&key) };
        if found.is_some() {
            count(self.hits(kind));
        }
        found
    }

    /// Records a read of a cached block that was found without a lookup here.
    pub(crate) fn hit(
        &self,
        key: impl FnOnce() -> Key,
        block: &Block,
        kind: Kind,
        reads: ReadOptions,
    ) {
        if !reads.bypass_cache && block.should_report() {
            self.blocks.get(&key());
        }
        count(self.hits(kind));
    }

    /// Returns a block that [`Cache::get`] did not find; reads it, unless another reader does.
    ///
    /// # Errors
    ///
    /// Errors of `read`.
    pub(crate) async fn load(
        &self,
        key: Key,
        kind: Kind,
        reads: ReadOptions,
        read: impl Future<Output = Result<SharedBlock>>,
    ) -> Result<SharedBlock> {
        if reads.bypass_cache {
            count(self.reads(kind));
            return read.await;
        }
        match self.blocks.get_value_or_guard_async(&key).await {
            Ok(block) => {
                count(self.hits(kind));
                Ok(block)
            }
            Err(guard) => {
                count(self.reads(kind));
                let block = read.await?;
                // Fails if the file was removed meanwhile; then the block is not needed any more.
                let _ = guard.insert(block.clone());
                // A page larger than the cold queue was evicted at once; inserted again, it becomes
                // hot.
                if kind == Kind::Index && self.blocks.get(&key).is_none() {
                    self.blocks.insert(key, block.clone());
                }
                Ok(block)
            }
        }
    }

    /// Adds a block that was read ahead, unless it is cached or being read.
    pub(crate) fn offer(&self, key: Key, block: &SharedBlock) {
        if let GuardResult::Guard(guard) =
            self.blocks.get_value_or_guard(&key, Some(std::time::Duration::ZERO))
        {
            let _ = guard.insert(block.clone());
        }
    }

    /// Drops all blocks of removed files.
    pub fn forget(&self, files: &[u64]) {
        // Freed when the shards are unlocked.
        let gone = RefCell::new(Vec::new());
        self.blocks.retain(|(file, _), block| {
            let stays = !files.contains(file);
            if !stays {
                gone.borrow_mut().push(block.clone());
            }
            stays
        });
    }

    fn hits(&self, kind: Kind) -> &AtomicU64 {
        match kind {
            Kind::Data => &self.counters.block_hits,
            Kind::Index => &self.counters.index_hits,
        }
    }

    fn reads(&self, kind: Kind) -> &AtomicU64 {
        match kind {
            Kind::Data => &self.counters.block_reads,
            Kind::Index => &self.counters.index_reads,
        }
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
