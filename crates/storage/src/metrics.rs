//! Counters of an engine.
//!
//! Every read counts, and so does every commit: a counter that all threads wrote to would be the
//! only memory that two readers contend for. So each thread has a stripe of counters, as far as
//! they reach, and whoever asks adds them up.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

/// Threads count in stripes of their own, as far as these reach: 6 KiB of them.
const STRIPES: usize = 16;

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// A snapshot of an engine's counters. Counters count from the engine's opening and never
        /// fall; gauges say so.
        ///
        /// Write amplification so far is `(log_bytes + flush_bytes) / log_bytes`.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Metrics {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        impl Metrics {
            /// Hands out every counter: its name, what it counts, `counter` or `gauge`, its value.
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

        /// The counters of some threads, in cache lines of their own.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub(crate) struct Stripe {
            $(pub(crate) $name: AtomicU64,)+
        }

        impl Counters {
            /// Adds up what all threads have counted.
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
    /// Records that got a place in the log.
    appends,
    /// Cells in those records, tombstones included.
    appended_cells,
    /// Appends that were held back because too many memtables wait for their flush.
    appends_overloaded,
    /// Times that put-unless-exists looked again because another writer came between.
    puts_repeated,
    /// Bytes written to the log, headers included.
    log_bytes,
    /// Writes to the log; `appends / log_writes` is the mean size of a group.
    log_writes,
    /// Syncs of the log.
    log_syncs,
    /// Segments of the log that were made out of files of segments that were needed no more.
    log_segments_recycled,
    /// Records replayed from the log when the engine was opened.
    recovered_records,
    /// Bytes cut off the log's torn end when the engine was opened.
    recovered_cut_bytes,
    /// Memtables that became SSTables.
    flushes,
    /// Bytes of those SSTables.
    flush_bytes,
    /// Gauge: full memtables that wait for their flush.
    memtables_waiting,
    /// Compactions that came to an end.
    compactions,
    /// Bytes of the SSTables that they wrote.
    compaction_bytes,
    /// Gauge: bytes that memtables take.
    memtable_bytes,
    /// Gauge: bytes that flushed memtables left for the next ones.
    memtable_spare_bytes,
    /// Gauge: SSTables.
    tables,
    /// Gauge: SSTables that compaction leaves alone because it could not read them.
    tables_quarantined,
    /// Gauge: bytes of all SSTables.
    table_bytes,
    /// Gauge: SSTables of level 0; reads look into all of them.
    level0_tables,
    /// Gauge: bytes of the SSTables of level 0, which compaction has yet to take further.
    level0_bytes,
    /// Gauge: bytes that open SSTables take beside the cache.
    table_memory_bytes,
    /// Gauge: memory for memtables, cache, reads and buffers together, as it was set.
    memory_budget_bytes,
    /// Gauge: reads that hold a permit to wait for the disk.
    reads_on_disk,
    /// Gauge: bytes that those reads are taken to hold.
    read_bytes,
    /// Gauge: reads that wait for a permit.
    reads_waiting,
    /// Point reads.
    gets,
    /// Pages of ranges.
    pages,
    /// Cells that pages passed over because they were deleted or newer than the snapshot.
    page_cells_hidden,
    /// Tables that a read passed over thanks to a bloom filter.
    bloom_negatives,
    /// Blocks read from disk because a read missed them.
    block_reads,
    /// Blocks found in the cache.
    block_hits,
    /// Index pages, with their filters, read from disk because a read missed them.
    index_reads,
    /// Index pages found in the cache.
    index_hits,
    /// Blocks read from disk ahead of a scan, several at once.
    block_reads_ahead,
    /// Blocks and index pages that the cache gave up for others.
    cache_evictions,
    /// Gauge: bytes of decoded blocks, index pages and filters in the cache.
    cache_bytes,
}

/// The counters themselves: those of the calling thread, to count in.
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
    fn what_all_threads_have_counted_is_added_up() {
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
