//! Metrics of an engine.

use std::time::Duration;

use carnet_base::DurationCounts;
use rustix::fs::{StatVfs, statvfs};

use super::core::Engine;
use super::view::OpenTable;
use crate::disk::Shortage;
use crate::io::{Class, ClassTotals};
use crate::metrics::{LevelTotals, Metrics};
use crate::usage::TableUse;

impl Engine {
    /// Returns the current metrics of the engine.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let view = self.core.view();
        let (reads, bytes, waiting) = self.core.permits.in_use();
        let (gets, pages) = self.core.usage.reads();
        let space = self.core.disk.directory().and_then(|path| statvfs(path).ok());
        let in_bytes = |blocks: u64, of: &StatVfs| blocks.saturating_mul(of.f_frsize);
        Metrics {
            disk_free_bytes: space.as_ref().map_or(0, |space| in_bytes(space.f_bavail, space)),
            disk_size_bytes: space.as_ref().map_or(0, |space| in_bytes(space.f_blocks, space)),
            tables_quarantined: self.core.compactions.quarantine.tables().len() as u64,
            tables_damaged: view.tables().filter(|open| open.table.damage().is_some()).count()
                as u64,
            disk_full: u64::from(self.refuses_for(|shortage| shortage == Shortage::Space)),
            writes_starved: u64::from(self.refuses_for(|shortage| shortage != Shortage::Space)),
            stopped: u64::from(self.core.publication.has_stopped()),
            memory_budget_bytes: self.core.options.memory_bytes as u64,
            reads_on_disk: reads as u64,
            read_bytes: bytes as u64,
            reads_waiting: waiting as u64,
            memtables_waiting: view.sealed.len() as u64,
            tables: view.tables().count() as u64,
            table_bytes: view.tables().map(|open| open.meta.bytes).sum(),
            level0_tables: view.levels[0].len() as u64,
            level0_bytes: view.levels[0].iter().map(|open| open.meta.bytes).sum(),
            table_memory_bytes: view.tables().map(|open| open.table.memory_bytes() as u64).sum(),
            memtable_bytes: view.memtables().map(|memtable| memtable.memory_bytes() as u64).sum(),
            memtable_spare_bytes: self.core.flushes.chunks.bytes() as u64,
            cache_bytes: self.core.cache.bytes(),
            gets,
            pages,
            ..self.core.counters.snapshot()
        }
    }

    /// Returns the tables of each level, from level 0 on.
    #[must_use]
    pub fn level_totals(&self) -> Vec<LevelTotals> {
        let view = self.core.view();
        let totals = |level: &Vec<OpenTable>| LevelTotals {
            tables: level.len() as u64,
            bytes: level.iter().map(|open| open.meta.bytes).sum(),
        };
        view.levels.iter().map(totals).collect()
    }

    /// Returns the reads and writes of each table since the engine was opened, by the table's id;
    /// last, without an id, the sum of all tables beyond [`TABLES_MAX`](crate::usage::TABLES_MAX).
    #[must_use]
    pub fn table_use(&self) -> Vec<TableUse> {
        self.core.usage.snapshot()
    }

    /// Returns the time for which [`Engine::table_use`] has counted.
    #[must_use]
    pub fn counted_for(&self) -> Duration {
        self.core.usage.counted_for(self.core.clock.now())
    }

    /// Returns the durations of the log's syncs since the engine was opened.
    #[must_use]
    pub fn log_sync_durations(&self) -> DurationCounts {
        self.core.log.sync_durations.counts()
    }

    fn refuses_for(&self, is_meant: impl Fn(Shortage) -> bool) -> bool {
        self.core.shortages.refuses_for(is_meant)
    }

    /// Returns the totals of each I/O class since the engine was opened, in the order of
    /// [`Class::NAMES`](crate::io::Class::NAMES); `None` without an [I/O scheduler](crate::io).
    #[must_use]
    pub fn io_totals(&self) -> Option<[ClassTotals; Class::KINDS]> {
        self.core.io.totals()
    }
}
