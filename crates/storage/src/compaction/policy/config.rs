//! Options of compaction.

/// Options of both policies. Sizes are file sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Number of tables in level 0 from which it is compacted. A larger value writes fewer bytes
    /// twice, but reads search more tables. Default: 4.
    pub level0_tables: usize,
    /// Number of sorted runs that a read may search from which writers are throttled. Default: 12.
    pub slow_runs: usize,
    /// Number of runs at which writers are throttled most: to a tenth of the rate at which
    /// compaction reduces level 0. Default: 36.
    pub slowest_runs: usize,
    /// Size of a memtable; its file is usually smaller. Writers are also throttled by the size of
    /// level 0: from `slow_runs` memtables or half of the base level, whichever is more, and most
    /// at `slowest_runs / slow_runs` times that, regardless of the number of tables. Default: 64
    /// MiB; an engine overrides it with its own memtable size.
    pub memtable_bytes: u64,
    /// Pending compaction bytes from which writers are throttled. Default: 16 GiB.
    pub slow_pending_bytes: u64,
    /// Pending compaction bytes at which writers are throttled most. Default: 64 GiB.
    pub slowest_pending_bytes: u64,
    /// Approximate size of a compaction of level 0, and so the minimum target size of the base
    /// level. Default: 256 MiB, four memtables.
    pub base_bytes: u64,
    /// Size ratio of adjacent levels. A larger value means fewer levels to search and less garbage,
    /// but each byte is written more often. At least 2. Default: 10.
    pub fanout: u64,
    /// Approximate size of a table in level 1 and deeper. Default: 64 MiB.
    pub table_bytes: u64,
    /// Minimum size of a part of a divided compaction; each part opens every input. Default: 16
    /// MiB.
    pub part_bytes: u64,
    /// Percentage of garbage cells from which a table is compacted for that reason alone. Default:
    /// 30.
    pub garbage_percent: u64,
    /// Tiered: number of runs of similar size that are merged into one. At least 2. Default: 4.
    pub tier_runs: usize,
    /// Tiered: all runs are merged when the newer runs together exceed this percentage of the size
    /// of the oldest one; approximately the space that garbage may take. Default: 150.
    pub space_percent: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            level0_tables: 4,
            slow_runs: 12,
            slowest_runs: 36,
            memtable_bytes: 64 << 20,
            slow_pending_bytes: 16 << 30,
            slowest_pending_bytes: 64 << 30,
            base_bytes: 256 << 20,
            fanout: 10,
            table_bytes: 64 << 20,
            part_bytes: 16 << 20,
            garbage_percent: 30,
            tier_runs: 4,
            space_percent: 150,
        }
    }
}

impl Config {
    /// Maximum size of the grandparents that a table may overlap.
    pub(super) const fn grandparent_bytes(&self) -> u64 {
        self.table_bytes.saturating_mul(10)
    }
}
