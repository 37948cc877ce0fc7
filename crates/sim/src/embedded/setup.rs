//! Settings drawn from a seed before a run begins. They are unusual on purpose, to make rare code
//! paths common.

use std::time::Duration;

use carnet_storage::compaction::policy::Config;
use carnet_storage::{
    CompactionStyle, Compression, Durability, FilterKind, Options, TableOptions, TableOptionsOf,
};
use carnet_txn::{IdleLimits, Isolation, Limits};

use crate::random::Random;

/// Settings of a run.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) isolation: Isolation,
    pub(super) clients: usize,
    /// Maximum time between two transactions of a client, in microseconds.
    pub(super) think_micros: u64,
    pub(super) transactions: usize,
    pub(super) faults: usize,
    pub(super) options: Options,
    pub(super) retention: Duration,
    /// Bytes of the conflict state; a small state makes transactions too old.
    pub(super) conflict_bytes: usize,
    /// Whether clients use the API of the `carnet` crate.
    pub(super) facade: bool,
    /// Memory for writes above which a transaction spills to a file.
    pub(super) spill_bytes: u64,
    /// Idle limits of transactions, if they end when idle.
    pub(super) idle: Option<IdleLimits>,
}

impl Setup {
    pub(super) fn draw(random: &mut Random) -> Self {
        let isolation = random.isolation();
        let durability = match random.below(10) {
            0 => Durability::None,
            1 => Durability::Interval(random.micros(100, 20_000)),
            2 => Durability::Memory,
            _ => Durability::Always,
        };
        let layout = TableOptions {
            block_bytes: random.pick(&[256, 1 << 10, 4 << 10]),
            index_page_bytes: random.pick(&[256, 4 << 10]),
            compression: random.pick(&[Compression::None, Compression::Lz4]),
            bloom_fp_chance: 0.01,
            filter: random.pick(&[FilterKind::Cells, FilterKind::Partitions]),
        };
        let options = Options {
            durability,
            memory_bytes: 16 << 20,
            flush_bytes: random.pick(&[4 << 10, 16 << 10, 64 << 10]),
            segment_bytes: random.pick(&[4 << 10, 64 << 10, 1 << 20]),
            log_ahead_bytes: random.pick(&[0, 4 << 10, 64 << 10]),
            memtables_waiting_max: random.count(1, 3),
            table_options: TableOptionsOf::all(layout),
            compaction_style: random.pick(&[CompactionStyle::Leveled, CompactionStyle::Tiered]),
            compaction: Config {
                level0_tables: random.count(2, 4),
                slow_runs: random.count(6, 12),
                base_bytes: random.pick(&[8 << 10, 64 << 10]),
                fanout: random.between(2, 4),
                table_bytes: random.pick(&[4 << 10, 16 << 10]),
                tier_runs: random.count(2, 4),
                part_bytes: 1 << 10,
                ..Config::default()
            },
            compaction_threads: 3,
            cache_bytes: random.pick(&[1 << 10, 1 << 20]),
            reads_max: random.pick(&[1, 4, 256]),
            ..Options::default()
        };
        Self {
            isolation,
            clients: random.count(4, 16),
            think_micros: random.pick(&[50, 500, 2_000]),
            transactions: random.count(1_000, 1_300),
            faults: random.count(5, 9),
            options,
            retention: Duration::from_micros(random.pick(&[0, 1_000, 20_000, 600_000_000])),
            conflict_bytes: random.pick(&[4 << 10, 64 << 20, 64 << 20]),
            facade: random.percent(30),
            spill_bytes: random.pick(&[1, 600, u64::MAX, u64::MAX, u64::MAX]),
            idle: random.idle(),
        }
    }

    /// Returns the size limits of transactions.
    pub(super) fn limits(&self) -> Limits {
        Limits { spill_bytes: self.spill_bytes, ..Limits::default() }
    }

    /// Returns `true` if a loss of power may lose acknowledged commits.
    pub(super) fn may_lose(&self) -> bool {
        self.options.durability != Durability::Always
    }

    /// Returns `true` if the end of a process may lose acknowledged commits: without a log, a kill
    /// does, and so does a close whose flush fails.
    pub(super) fn may_lose_at_end(&self, power_fails: bool) -> bool {
        power_fails || !self.options.durability.has_log()
    }
}
