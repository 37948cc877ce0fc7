//! The cache of decoded blocks and index pages: one budget in bytes for all tables.
//!
//! **What it counts.** Every block weighs what it takes in memory once decoded, its filter
//! included (`Block::memory_bytes`); the budget is never exceeded by more than the block being
//! inserted, and the few that were given up and wait for who looks at them
//! (`sstable::block::shared`). A block that is larger than a shard's part of the budget is not kept.
//!
//! **Policy.** quick_cache's Clock-PRO-like S3-FIFO: what is new enters a small cold queue and
//! moves to the hot one only if it is asked for again; keys that were evicted lately are
//! remembered, so that what comes back soon becomes hot at once. A scan passes through the cold
//! queue: `a_scan_leaves_the_hot_set_in` runs one through ten times the budget, and at least 80 %
//! of what was asked for before are still there. An index page counts as asked for again by the read
//! that brings it: it stays when the cold queue gives it up, because every block under it would cost a
//! second read without it. All index pages take about two hundredths of what their blocks do, decoded;
//! so a scan of fifty times the budget brings a budget of them, and then they displace what is hot.
//!
//! **Links.** What is in the cache is mostly found past it, by the link that the index holds
//! (`sstable::links`). The cache counts two look-ups of a block between two considerations of its
//! eviction and no more, so that only two have to be told.
//!
//! **Single flight.** Of several readers that miss the same block one reads it; the others wait
//! for it. If the reader gives up (its future is dropped) or fails, the next one reads.
//!
//! **Bypass.** A read that bypasses the cache looks without making anything more recent and never
//! inserts. It does not wait for another's read either.
//!
//! Entries are keyed by file number and offset. File numbers are never used again, so that what
//! remains of a removed file could only waste room; [`Cache::forget`] frees it.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use carnet_base::Result;
use quick_cache::sync::{self, GuardResult};
use quick_cache::{DefaultHashBuilder, Lifecycle, OptionsBuilder, Weighter};

use crate::metrics::{Counters, Metrics};
use crate::sstable::{Block, ReadOptions, SharedBlock};

/// Which file, and where in it.
pub(crate) type Key = (u64, u64);

/// What a section is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Data,
    Index,
}

/// The cache of an engine's tables.
pub struct Cache {
    blocks: sync::Cache<Key, SharedBlock, Weight, DefaultHashBuilder, Evictions>,
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

/// Counts evictions.
#[derive(Clone)]
struct Evictions(Arc<Counters>);

impl Lifecycle<Key, SharedBlock> for Evictions {
    type RequestState = Vec<SharedBlock>;

    /// Nothing is pinned; but where this is asked the block is considered for eviction.
    fn is_pinned(&self, _key: &Key, block: &SharedBlock) -> bool {
        block.is_considered();
        false
    }

    fn on_evict(&self, evicted: &mut Vec<SharedBlock>, _key: Key, block: SharedBlock) {
        // It is freed once the shard's lock is released.
        evicted.push(block);
        count(&self.0.cache_evictions);
    }
}

impl Cache {
    /// Makes a cache with a budget in bytes and counters of its own.
    #[must_use]
    pub fn new(bytes: usize) -> Arc<Self> {
        Self::counted(bytes, Arc::default())
    }

    /// Makes a cache with a budget in bytes.
    pub(crate) fn counted(bytes: usize, counters: Arc<Counters>) -> Arc<Self> {
        // Decoded blocks of 4 KiB take about 6.
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
            counters,
        })
    }

    /// Returns the bytes of all blocks that it holds.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.blocks.weight()
    }

    /// Returns its counters, and those of the tables that use it.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        Metrics { cache_bytes: self.bytes(), ..self.counters.snapshot() }
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns a block if it is there.
    pub(crate) fn get(&self, key: Key, kind: Kind, reads: ReadOptions) -> Option<SharedBlock> {
        let found = if reads.bypass_cache { self.blocks.peek(&key) } else { self.blocks.get(&key) };
        if found.is_some() {
            count(self.hits(kind));
        }
        found
    }

    /// Notes that a block was found by another way than by its key.
    pub(crate) fn hit(
        &self,
        key: impl FnOnce() -> Key,
        block: &Block,
        kind: Kind,
        reads: ReadOptions,
    ) {
        if !reads.bypass_cache && block.is_news() {
            self.blocks.get(&key());
        }
        count(self.hits(kind));
    }

    /// Returns a block that [`Cache::get`] did not find; reads it where nobody else does.
    ///
    /// # Errors
    ///
    /// As `read`.
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
                // It fails where the file was forgotten meanwhile: then nobody wants it again.
                let _ = guard.insert(block.clone());
                // A page that is larger than the cold queue has gone by now: what comes back is hot.
                if kind == Kind::Index && self.blocks.get(&key).is_none() {
                    self.blocks.insert(key, block.clone());
                }
                Ok(block)
            }
        }
    }

    /// Adds a block that was read for somebody who wants it soon, unless it is there.
    pub(crate) fn offer(&self, key: Key, block: &SharedBlock) {
        if let GuardResult::Guard(guard) =
            self.blocks.get_value_or_guard(&key, Some(std::time::Duration::ZERO))
        {
            let _ = guard.insert(block.clone());
        }
    }

    /// Drops every block of files that were removed.
    pub fn forget(&self, files: &[u64]) {
        // They are freed once the shards' locks are released.
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
