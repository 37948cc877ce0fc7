//! Metrics of an engine.
//!
//! Every read and every commit is counted, so a shared counter would be the only memory for which
//! readers contend. Therefore threads are distributed over shards of counters, and a snapshot adds
//! the shards up.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

/// Tables of a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelTotals {
    /// Number of SSTables.
    pub tables: u64,
    /// Total size of the SSTables.
    pub bytes: u64,
}

/// Number of shards: 6 KiB of counters.
const STRIPES: usize = 16;

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Snapshot of an engine's metrics. Counters count from the engine's opening and never
        /// decrease; gauges are marked as such.
        ///
        /// Write amplification so far is `(log_bytes + flush_bytes) / log_bytes`.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Metrics {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        impl Metrics {
            /// Calls `take` with every metric: name, help text, `counter` or `gauge`, and value.
            pub fn each(&self, mut take: impl FnMut(&str, &str, &str, u64)) {
                $({
                    let help = concat!($($doc),+).trim();
                    let (kind, help) = match help.strip_prefix("Gauge: ") {
                        Some(help) => ("gauge", help),
                        None => ("counter", help),
                    };
                    take(stringify!($name), help, kind, self.$name);
                })+
            }
        }

        /// Counters of some threads, aligned to their own cache lines.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub(crate) struct Stripe {
            $(pub(crate) $name: AtomicU64,)+
        }

        impl Counters {
            /// Adds up the counters of all threads.
            pub(crate) fn snapshot(&self) -> Metrics {
                let mut sum = Metrics::default();
                for stripe in &self.0 {
                    $(sum.$name += stripe.$name.load(Ordering::Relaxed);)+
                }
                sum
            }
        }
    };
}

counters! {
    /// Gauge: 1 once the store has stopped writing because of an error, 0 before.
    stopped,
    /// Gauge: 1 while writes are refused because the disk is full, 0 otherwise.
    disk_full,
    /// Gauge: bytes that are free for this process in the file system of the directory; 0 if it is not
    /// known.
    disk_free_bytes,
    /// Gauge: bytes of the file system of the directory; 0 if it is not known.
    disk_size_bytes,
    /// Gauge: 1 while writes are refused because the process or the system has no free file
    /// descriptors or memory, 0 otherwise.
    writes_starved,
    /// Writes, flushes and compactions that found no space on the disk, and were retried.
    retries_space,
    /// Writes, flushes and compactions that found no free file descriptors, and were retried.
    retries_descriptors,
    /// Writes, flushes and compactions that found no memory in the system, and were retried.
    retries_memory,
    /// Writes, flushes and compactions that were interrupted, and were retried.
    retries_interrupted,
    /// Records appended to the log.
    appends,
    /// Cells in those records, tombstones included.
    appended_cells,
    /// Appends rejected because too many memtables wait for their flush.
    appends_overloaded,
    /// Bytes written to the log, headers included.
    log_bytes,
    /// Writes to the log; the number of records divided by it is the mean size of a group.
    log_writes,
    /// Syncs of the log.
    log_syncs,
    /// Log segments made from recycled files.
    log_segments_recycled,
    /// Records replayed from the log when the engine was opened.
    recovered_records,
    /// Bytes truncated from the log's torn tail when the engine was opened.
    recovered_cut_bytes,
    /// Memtables flushed to SSTables.
    flushes,
    /// Bytes of those SSTables.
    flush_bytes,
    /// Gauge: full memtables that wait for their flush.
    memtables_waiting,
    /// Number of compactions finished.
    compactions,
    /// Bytes of the SSTables that they wrote.
    compaction_bytes,
    /// Gauge: bytes of memtables.
    memtable_bytes,
    /// Gauge: bytes of flushed memtables kept for reuse.
    memtable_spare_bytes,
    /// Gauge: number of SSTables.
    tables,
    /// Gauge: SSTables that compaction does not use because it could not read them.
    tables_quarantined,
    /// Gauge: SSTables of which a read or a compaction found a damaged part.
    tables_damaged,
    /// Gauge: bytes of all SSTables.
    table_bytes,
    /// Gauge: SSTables of level 0; reads search all of them.
    level0_tables,
    /// Gauge: bytes of the SSTables of level 0.
    level0_bytes,
    /// Gauge: bytes of memory of open SSTables, without the cache.
    table_memory_bytes,
    /// Gauge: configured memory for memtables, cache, reads and buffers.
    memory_budget_bytes,
    /// Gauge: reads that hold a permit to wait for the disk.
    reads_on_disk,
    /// Gauge: bytes that those reads are assumed to hold.
    read_bytes,
    /// Gauge: reads that wait for a permit.
    reads_waiting,
    /// Number of point reads. A read that is not cached, on disk or absent found a version in a
    /// memtable.
    gets,
    /// Point reads that found a version in files without waiting for the disk.
    gets_cached,
    /// Point reads that waited for the disk.
    gets_on_disk,
    /// Point reads that found no version, without waiting for the disk.
    gets_absent,
    /// Pages read by range reads.
    pages,
    /// Cells that pages skipped because they were deleted or newer than the snapshot.
    page_cells_hidden,
    /// Deltas that reads merged with older versions.
    deltas_merged,
    /// Tables that a read skipped because of a Bloom filter.
    bloom_negatives,
    /// Blocks read from disk after a cache miss.
    block_reads,
    /// Blocks found in the cache.
    block_hits,
    /// Index pages, with their filters, read from disk after a cache miss.
    index_reads,
    /// Index pages found in the cache.
    index_hits,
    /// Blocks read from disk ahead of a scan, several at once.
    block_reads_ahead,
    /// Blocks and index pages evicted from the cache.
    cache_evictions,
    /// Gauge: bytes of decoded blocks, index pages and filters in the cache.
    cache_bytes,
}

/// All counters; dereferences to the calling thread's shard.
#[derive(Debug, Default)]
pub(crate) struct Counters([Stripe; STRIPES]);

impl Deref for Counters {
    type Target = Stripe;

    fn deref(&self) -> &Stripe {
        &self.0[carnet_base::stripe(STRIPES)]
    }
}

pub(crate) fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshot_sums_all_threads() {
        const THREADS: usize = STRIPES + 1;
        let counters = Counters::default();
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| (0..100).for_each(|_| add(&counters.gets, 2)));
            }
        });
        let Metrics { gets, pages, .. } = counters.snapshot();
        assert_eq!((gets, pages), (200 * THREADS as u64, 0));
    }
}
