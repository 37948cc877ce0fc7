//! A damaged block in one table: its compactions end, everything else continues, and errors name
//! the file.
#![allow(clippy::cast_possible_truncation, reason = "a test")]

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use carnet_base::{CellKey, Error, ErrorKind, PartitionKey, Result, Stepped, TableId, block_on};
use carnet_storage::compaction::policy::Config;
use carnet_storage::disk::Disk;
use carnet_storage::disk::sim::SimDisk;
use carnet_storage::{CompactionStyle, Engine, Mutation, Options, inspect};

use crate::support;
use crate::support::{Forget, open, time};

const ROWS: u64 = 60;

fn options(style: CompactionStyle) -> Options {
    Options {
        compaction_style: style,
        table_options: support::blocks(500),
        cache_bytes: 1,
        compaction: Config { slow_runs: 3, slowest_runs: 6, ..support::small_compaction() },
        ..Options::default()
    }
}

fn key(table: u32, row: u64) -> CellKey {
    CellKey::new(TableId(table), &PartitionKey::new(row.to_be_bytes().to_vec()), "")
}

/// An engine whose rows are written in rounds, with one table per round.
struct Database {
    disk: SimDisk,
    engine: Engine,
    workers: Stepped,
    round: u64,
}

impl Database {
    fn new(style: CompactionStyle) -> Self {
        let disk = SimDisk::new(1);
        let (engine, workers) = open(&disk, options(style)).unwrap();
        Self { disk, engine, workers, round: 0 }
    }

    fn is_ready(&self) -> bool {
        let ready = pin!(self.engine.ready(100)).poll(&mut Context::from_waker(Waker::noop()));
        matches!(ready, Poll::Ready(Ok(())))
    }

    /// Writes all rows of a table, flushes them, and runs the workers until they are idle.
    fn write(&mut self, table: u32) -> Result<()> {
        self.round += 1;
        let start = time(2 * self.round - 1);
        let keys: Vec<_> = (0..ROWS).map(|row| key(table, row)).collect();
        let payload = [u8::try_from(self.round).unwrap(); 100];
        let puts = keys.iter().map(|key| Mutation::put_or_delete(key, Some(&payload)));
        let prepared = self.engine.prepare(start, puts)?;
        let commit = time(2 * self.round);
        drop(self.engine.append(prepared, || Ok::<_, Error>(commit))?);
        self.workers.settle();
        self.engine.flush()?;
        let quarantined = self.engine.metrics().tables_quarantined > 0;
        assert!(!quarantined || self.is_ready(), "writers are slowed, round {}", self.round);
        self.workers.settle();
        Ok(())
    }

    /// Damages a block of the largest table; returns the file's name.
    fn damage(&self) -> String {
        let tables = self.disk.list().unwrap().into_iter().filter(|name| name.starts_with("sst"));
        let largest = tables.max_by_key(|name| self.disk.contents(name).unwrap().len()).unwrap();
        self.disk.rot(&largest, 10);
        largest
    }

    fn reads(&self, table: u32) -> Vec<Result<Option<u8>>> {
        let read = |row| {
            let found = block_on(self.engine.get(&key(table, row), self.engine.published()))?;
            Ok(found.and_then(|version| Some(*version.payload?.first()?)))
        };
        (0..ROWS).map(read).collect()
    }
}

/// The first read that meets damage makes it known, before any compaction does.
#[test]
fn damage_that_a_read_finds_is_a_warning() {
    let mut database = Database::new(CompactionStyle::Leveled);
    database.write(1).unwrap();
    let damaged = database.damage();
    assert_eq!(database.engine.warnings(), [""; 0]);
    assert!(database.reads(1).iter().any(Result::is_err));
    let warnings = database.engine.warnings();
    assert!(warnings.len() == 1 && warnings[0].contains(&damaged), "{warnings:?}");
    let metrics = database.engine.metrics();
    assert_eq!((metrics.tables_damaged, metrics.tables_quarantined), (1, 0));
    database.engine.check_writable().unwrap();
}

#[test]
fn damaged_table_stops_only_its_compactions() {
    for style in [CompactionStyle::Leveled, CompactionStyle::Tiered] {
        let mut database = Database::new(style);
        let forget = Forget::nothing_yet(&database.engine);
        for _ in 0..6 {
            database.write(1).unwrap();
        }
        let damaged = database.damage();
        let before = database.engine.metrics();
        for _ in 0..30 {
            forget.below(database.engine.published());
            for table in [1, 2] {
                database.write(table).unwrap();
                assert!(database.is_ready(), "{style:?}: writers wait, round {}", database.round);
            }
        }
        database.engine.check_writable().unwrap();
        let metrics = database.engine.metrics();
        assert_eq!(metrics.tables_quarantined, 1, "{style:?}");
        assert!(metrics.compactions > before.compactions + 5, "{style:?}: others go on");
        assert!(metrics.level0_tables < 20, "{style:?}: {} in level 0", metrics.level0_tables);
        let warnings = database.engine.warnings();
        let names = |text: &str| text.contains(&damaged) && text.contains("at byte 0");
        assert!(matches!(&warnings[..], [text] if names(text)), "{warnings:?}");
        // Newer versions hide the damage of table 1; table 2 is undamaged.
        let newest = u8::try_from(database.round).unwrap();
        assert!(database.reads(2).into_iter().all(|read| read.unwrap() == Some(newest)));
        assert!(database.reads(1).into_iter().all(|read| read.unwrap() == Some(newest - 1)));
        let files = database.disk.list().unwrap();
        let tables = files.iter().filter(|name| name.starts_with("sst")).count() as u64;
        assert_eq!(tables, metrics.tables, "{style:?}: given-up compactions left files: {files:?}");
    }
}

#[test]
fn reads_verify_and_compaction_name_damage() {
    let mut database = Database::new(CompactionStyle::Leveled);
    database.write(1).unwrap();
    let damaged = database.damage();
    let mut errors: Vec<Error> =
        database.reads(1).into_iter().filter_map(std::result::Result::err).collect();
    assert!((1..ROWS as usize).contains(&errors.len()), "one block of several: {}", errors.len());
    errors.push(database.engine.compact().unwrap_err());
    errors.push(database.engine.compact().unwrap_err());
    let copy: Arc<dyn Disk> = Arc::new(database.disk.kill());
    errors.push(inspect::verify(&copy, |_| {}).unwrap_err());
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Corrupted);
        let text = error.to_string();
        assert!(text.contains(&damaged) && text.contains("at byte 0"), "{text}");
    }
    database.engine.check_writable().unwrap();
    database.write(2).unwrap();
    let copy = database.disk.kill();
    database.engine.close().unwrap();
    let (engine, _workers) = open(&copy, options(CompactionStyle::Leveled)).unwrap();
    assert_eq!(engine.metrics().tables_quarantined, 0, "the next process tries again");
}
