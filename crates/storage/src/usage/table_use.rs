//! Counters of one table.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use carnet_base::TableId;

use super::histogram::{Distribution, Histogram};
use super::limits::SAMPLE;

/// Number of shards of a table's counters: 2 KiB.
const STRIPES: usize = 16;

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Reads and writes of a table since the engine was opened.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct TableUse {
            /// The table; `None` for all tables without separate counters.
            pub table: Option<TableId>,
            $($(#[doc = $doc])+ pub $name: u64,)+
            /// Latencies of point reads in nanoseconds, a sample.
            pub get_nanos: Distribution,
            /// Latencies of pages of range reads in nanoseconds, a sample.
            pub page_nanos: Distribution,
            /// Times from the reservation of a commit to its publication in nanoseconds, a sample.
            pub commit_nanos: Distribution,
            /// Cells that a point read or a page returned, a sample.
            pub rows_per_read: Distribution,
            /// Tombstones that a point read or a page met, a sample.
            pub tombstones_per_read: Distribution,
        }

        /// Counters of some threads, aligned to their own cache lines.
        #[derive(Default)]
        #[repr(align(128))]
        pub(super) struct Stripe {
            $(pub(super) $name: AtomicU64,)+
        }

        impl Counts {
            /// Returns the sums of all threads.
            pub(super) fn snapshot(&self, table: Option<TableId>) -> TableUse {
                let mut sum = TableUse {
                    table,
                    get_nanos: self.get_nanos.snapshot(),
                    page_nanos: self.page_nanos.snapshot(),
                    commit_nanos: self.commit_nanos.snapshot(),
                    rows_per_read: self.rows_per_read.snapshot(),
                    tombstones_per_read: self.tombstones_per_read.snapshot(),
                    ..TableUse::default()
                };
                for stripe in &self.stripes {
                    $(sum.$name += stripe.$name.load(Ordering::Relaxed);)+
                }
                sum
            }
        }
    };
}

counters! {
    /// Number of point reads.
    gets,
    /// Point reads that found no version.
    gets_absent,
    /// Point reads that found a tombstone.
    gets_deleted,
    /// Point reads that waited for the disk.
    gets_on_disk,
    /// Pages of range reads.
    pages,
    /// Cells that these pages returned.
    page_cells,
    /// Tombstones that these pages met.
    page_tombstones,
    /// Partitions in sampled pages; one of [`SAMPLE`] pages is sampled.
    page_partitions_sampled,
    /// Pages that waited for the disk.
    pages_on_disk,
    /// Commits that wrote to the table.
    commits,
    /// Cells that they wrote, tombstones included.
    cells_written,
    /// Of these, tombstones.
    cells_deleted,
    /// Ranges that they deleted.
    ranges_deleted,
    /// Bytes of keys and payloads of these cells.
    bytes_written,
}

impl TableUse {
    /// Returns the number of cells that reads returned.
    #[must_use]
    pub const fn cells_read(&self) -> u64 {
        (self.gets + self.page_cells).saturating_sub(self.gets_absent + self.gets_deleted)
    }

    /// Returns the number of tombstones that reads met.
    #[must_use]
    pub const fn tombstones_read(&self) -> u64 {
        self.gets_deleted + self.page_tombstones
    }

    /// Returns the estimated number of partitions that reads found rows of; those of pages are
    /// estimated from a sample.
    #[must_use]
    pub const fn partitions_read(&self) -> u64 {
        let gets = self.gets.saturating_sub(self.gets_absent + self.gets_deleted);
        gets.saturating_add(self.page_partitions_sampled.saturating_mul(SAMPLE))
    }

    /// Returns the part of reads that found everything in memory, between 0 and 1; 1 without reads.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a rate is rounded")]
    pub fn hit_rate(&self) -> f64 {
        let reads = (self.gets + self.pages).max(1) as f64;
        1.0 - (self.gets_on_disk + self.pages_on_disk) as f64 / reads
    }
}

/// All counters and histograms of a table.
pub(crate) struct Counts {
    stripes: [Stripe; STRIPES],
    get_nanos: Histogram,
    page_nanos: Histogram,
    commit_nanos: Histogram,
    rows_per_read: Histogram,
    tombstones_per_read: Histogram,
}

impl Counts {
    pub(super) fn new() -> Self {
        Self {
            stripes: Default::default(),
            get_nanos: Histogram::new(),
            page_nanos: Histogram::new(),
            commit_nanos: Histogram::new(),
            rows_per_read: Histogram::new(),
            tombstones_per_read: Histogram::new(),
        }
    }

    /// Returns the shard of the calling thread.
    pub(super) fn stripe(&self) -> &Stripe {
        &self.stripes[carnet_base::stripe(STRIPES)]
    }

    pub(super) fn reads(&self) -> (u64, u64) {
        self.stripes.iter().fold((0, 0), |(gets, pages), stripe| {
            let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            (gets + load(&stripe.gets), pages + load(&stripe.pages))
        })
    }

    /// Records a sampled point read.
    pub(super) fn sample_get(&self, took: Duration, rows: u64, tombstones: u64) {
        self.get_nanos.record(nanos(took));
        self.rows_per_read.record(rows);
        self.tombstones_per_read.record(tombstones);
    }

    /// Records a sampled page.
    pub(super) fn sample_page(&self, took: Duration, rows: u64, tombstones: u64) {
        self.page_nanos.record(nanos(took));
        self.rows_per_read.record(rows);
        self.tombstones_per_read.record(tombstones);
    }

    /// Records a sampled commit.
    pub(super) fn sample_commit(&self, took: Duration) {
        self.commit_nanos.record(nanos(took));
    }
}

fn nanos(took: Duration) -> u64 {
    u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)
}
