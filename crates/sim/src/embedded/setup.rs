//! What a seed draws before a run begins: settings as nobody would choose them, so that rare
//! paths become common ones.

use std::time::Duration;

use carnet_storage::compaction::policy::Config;
use carnet_storage::{
    CompactionStyle, Compression, Durability, FilterKind, Options, TableOptions, TableOptionsOf,
};
use carnet_txn::{IdleLimits, Isolation, Limits};

use crate::dice::Dice;

/// How a run is set up.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) isolation: Isolation,
    pub(super) clients: usize,
    /// The longest time between two transactions of a client, in microseconds.
    pub(super) think_micros: u64,
    pub(super) transactions: usize,
    pub(super) faults: usize,
    pub(super) options: Options,
    pub(super) retention: Duration,
    /// Bytes of the conflict state; few make transactions too old.
    pub(super) conflict_bytes: usize,
    /// Whether clients go through the façade.
    pub(super) facade: bool,
    /// Beyond so many bytes a transaction's writes go to a file of its own.
    pub(super) spill_bytes: u64,
    /// For how long a transaction may be left alone, where that ends it.
    pub(super) idle: Option<IdleLimits>,
}

impl Setup {
    pub(super) fn draw(dice: &mut Dice) -> Self {
        let isolation = match dice.below(10) {
            0 => Isolation::Snapshot,
            1 => Isolation::Serializable,
            _ => Isolation::StrictSerializable,
        };
        let durability = match dice.below(10) {
            0 => Durability::None,
            1 => Durability::Interval(dice.micros(100, 20_000)),
            _ => Durability::Always,
        };
        let layout = TableOptions {
            block_bytes: dice.pick(&[256, 1 << 10, 4 << 10]),
            index_page_bytes: dice.pick(&[256, 4 << 10]),
            compression: dice.pick(&[Compression::None, Compression::Lz4]),
            bloom_fp_chance: 0.01,
            filter: dice.pick(&[FilterKind::Cells, FilterKind::Partitions]),
        };
        let options = Options {
            durability,
            memory_bytes: 16 << 20,
            flush_bytes: dice.pick(&[4 << 10, 16 << 10, 64 << 10]),
            segment_bytes: dice.pick(&[4 << 10, 64 << 10, 1 << 20]),
            log_ahead_bytes: dice.pick(&[0, 4 << 10, 64 << 10]),
            memtables_waiting_max: dice.count(1, 3),
            table_options: TableOptionsOf::all(layout),
            compaction_style: dice.pick(&[CompactionStyle::Leveled, CompactionStyle::Tiered]),
            compaction: Config {
                level0_tables: dice.count(2, 4),
                slow_runs: dice.count(6, 12),
                base_bytes: dice.pick(&[8 << 10, 64 << 10]),
                fanout: dice.between(2, 4),
                table_bytes: dice.pick(&[4 << 10, 16 << 10]),
                tier_runs: dice.count(2, 4),
                part_bytes: 1 << 10,
                ..Config::default()
            },
            compaction_threads: 3,
            cache_bytes: dice.pick(&[1 << 10, 1 << 20]),
            reads_max: dice.pick(&[1, 4, 256]),
            ..Options::default()
        };
        Self {
            isolation,
            clients: dice.count(4, 16),
            think_micros: dice.pick(&[50, 500, 2_000]),
            transactions: dice.count(1_000, 1_300),
            faults: dice.count(5, 9),
            options,
            retention: Duration::from_micros(dice.pick(&[0, 1_000, 20_000, 600_000_000])),
            conflict_bytes: dice.pick(&[4 << 10, 64 << 20, 64 << 20]),
            facade: dice.percent(30),
            spill_bytes: dice.pick(&[1, 600, u64::MAX, u64::MAX, u64::MAX]),
            idle: dice.idle(),
        }
    }

    /// How large a transaction can be.
    pub(super) fn limits(&self) -> Limits {
        Limits { spill_bytes: self.spill_bytes, ..Limits::default() }
    }

    /// Tells whether a loss of power may take acknowledged commits.
    pub(super) fn may_lose(&self) -> bool {
        self.options.durability != Durability::Always
    }
}
