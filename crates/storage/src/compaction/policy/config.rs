//! How compaction is tuned.

/// The knobs of both policies. Sizes are of files, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Level 0 is compacted from this many tables on. More: fewer bytes are written twice; reads
    /// look into more tables. Default: 4.
    pub level0_tables: usize,
    /// From this many runs that a read may have to look into, writers are slowed. Default: 12.
    pub slow_runs: usize,
    /// At this many they are slowed most: to a tenth of what compaction takes away from level 0.
    /// Default: 36.
    pub slowest_runs: usize,
    /// How much memory a memtable takes; its file is mostly shorter. Writers are slowed, too, from where
    /// the files of level 0 are as long as `slow_runs` of these or as half of the level that they go to,
    /// whichever is more, and most at `slowest_runs / slow_runs` times that, however few tables they
    /// were merged into. Default: 64 MiB; an engine sets it to its own, whatever it was.
    pub memtable_bytes: u64,
    /// From this many bytes that wait for compaction, writers are slowed. Default: 16 GiB.
    pub slow_pending_bytes: u64,
    /// At this many they are slowed most. Default: 64 GiB.
    pub slowest_pending_bytes: u64,
    /// About what a compaction of level 0 brings down at once: the smallest sensible size of the
    /// level that it goes to. Default: 256 MiB, four memtables.
    pub base_bytes: u64,
    /// How much larger each level is than the one before it. More: fewer levels to look into,
    /// less garbage; each byte is written more often. At least 2. Default: 10.
    pub fanout: u64,
    /// A table of level 1 and behind ends at about this length. Default: 64 MiB.
    pub table_bytes: u64,
    /// A compaction of so many times this is divided into as many parts, at most: each opens every
    /// input. Default: 16 MiB.
    pub part_bytes: u64,
    /// A table whose cells are to this part in a hundred garbage is compacted for that alone.
    /// Default: 30.
    pub garbage_percent: u64,
    /// Tiered: this many runs of similar size are merged into one. At least 2. Default: 4.
    pub tier_runs: usize,
    /// Tiered: everything is merged once the newer runs together are longer than the oldest one
    /// by this part in a hundred; about the space that garbage may take. Default: 150.
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
    /// How much of the level behind it a table may overlap.
    pub(super) const fn grandparent_bytes(&self) -> u64 {
        self.table_bytes.saturating_mul(10)
    }
}
