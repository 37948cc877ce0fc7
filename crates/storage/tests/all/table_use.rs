//! Counters of each table after known sequences of reads and writes, and the space of tables that
//! share files.
#![allow(clippy::cast_possible_truncation, reason = "a test")]

use carnet_base::{CellKey, Error, KeyRange, PageLimit, PartitionKey, TableId, block_on};
use carnet_storage::disk::sim::SimDisk;
use carnet_storage::usage::{SAMPLE, TableUse};
use carnet_storage::{Appended, Durability, Engine, Metrics, Mutation, Options};

use crate::support::{open, time};

fn key(table: u32, row: u32) -> CellKey {
    CellKey::new(TableId(table), &PartitionKey::new(row.to_be_bytes().to_vec()), "c")
}

/// Writes a payload to rows of a table in one commit; `None` deletes them. Flushes it.
fn write(engine: &Engine, rows: &[(u32, u32)], payload: Option<&[u8]>) {
    let appended = append(engine, rows, payload);
    engine.flush().unwrap();
    block_on(appended).unwrap();
}

fn append(engine: &Engine, rows: &[(u32, u32)], payload: Option<&[u8]>) -> Appended {
    let keys: Vec<CellKey> = rows.iter().map(|(table, row)| key(*table, *row)).collect();
    let start = engine.published().get() + 1;
    let puts = keys.iter().map(|key| Mutation::put_or_delete(key, payload));
    let prepared = engine.prepare(time(start), puts).unwrap();
    engine.append(prepared, || Ok::<_, Error>(time(start + 1))).unwrap()
}

fn of(engine: &Engine, table: u32) -> TableUse {
    let all = engine.table_use();
    all.into_iter().find(|usage| usage.table == Some(TableId(table))).unwrap_or_default()
}

#[test]
fn reads_and_writes_are_counted_by_table() {
    // No thread syncs the log.
    let options = Options { durability: Durability::None, ..Options::default() };
    let (engine, _workers) = open(&SimDisk::new(1), options).unwrap();
    write(&engine, &[(2, 1), (2, 2), (4, 1)], Some(b"four"));
    write(&engine, &[(2, 2)], None);
    let key_bytes = key(2, 1).as_bytes().len() as u64;
    let (two, four) = (of(&engine, 2), of(&engine, 4));
    assert_eq!((two.commits, two.cells_written, two.cells_deleted), (2, 3, 1));
    assert_eq!(two.bytes_written, 3 * key_bytes + 2 * 4);
    assert_eq!((four.commits, four.cells_written, four.cells_deleted), (1, 1, 0));

    let read = engine.published();
    for row in [1, 2, 3] {
        block_on(engine.get(&key(2, row), read)).unwrap();
    }
    let two = of(&engine, 2);
    assert_eq!((two.gets, two.gets_deleted, two.gets_absent), (3, 1, 1));
    assert_eq!((two.cells_read(), two.tombstones_read(), two.partitions_read()), (1, 1, 1));
    assert_eq!(two.get_nanos.samples(), 1, "the first read of a thread is in the sample");

    let range = KeyRange::table(TableId(2));
    let page = block_on(engine.range(&range, read, false, PageLimit::cells(10))).unwrap();
    assert_eq!((page.cells.len(), page.deleted), (1, 1));
    let two = of(&engine, 2);
    assert_eq!((two.pages, two.page_cells, two.page_tombstones), (1, 1, 1));
    assert_eq!(two.tombstones_per_read.max(), 1);
    assert_eq!(of(&engine, 4).gets, 0, "another table's reads");
    let metrics = engine.metrics();
    assert_eq!((metrics.gets, metrics.pages), (3, 1));
    let sources = |metrics: Metrics| {
        (metrics.gets, metrics.gets_cached, metrics.gets_on_disk, metrics.gets_absent)
    };
    // `write` flushes: the second flush read the blocks of the first one into the cache, or a read did.
    assert_eq!(metrics.gets_cached + metrics.gets_on_disk + metrics.gets_absent, 3);
    assert_eq!(metrics.gets_absent, 1, "row 3");
    block_on(append(&engine, &[(2, 9)], Some(b"nine"))).unwrap();
    block_on(engine.get(&key(2, 9), engine.published())).unwrap();
    let after = Metrics { gets: metrics.gets + 1, ..metrics };
    assert_eq!(sources(engine.metrics()), sources(after), "the memtable has the row");
}

#[test]
fn disk_reads_and_samples_are_counted() {
    let disk = SimDisk::new(1);
    let rows: Vec<(u32, u32)> = (0..500).map(|row| (2, row)).collect();
    let (engine, _workers) = open(&disk, Options::default()).unwrap();
    write(&engine, &rows, Some(&[7; 100]));
    engine.close().unwrap();
    // Nothing is in the cache of the next process.
    let (engine, _workers) = open(&disk, Options::default()).unwrap();
    let read = engine.published();
    for _ in 0..2 {
        for (table, row) in &rows {
            block_on(engine.get(&key(*table, *row), read)).unwrap();
        }
    }
    let usage = of(&engine, 2);
    assert_eq!(usage.gets, 1000);
    assert!(usage.gets_on_disk > 0 && usage.gets_on_disk < 500, "{}", usage.gets_on_disk);
    let metrics = engine.metrics();
    assert_eq!(metrics.gets_on_disk, usage.gets_on_disk);
    assert_eq!(metrics.gets_cached, 1000 - usage.gets_on_disk);
    assert!(usage.hit_rate() > 0.5 && usage.hit_rate() < 1.0);
    assert_eq!(usage.get_nanos.samples(), 1000_u64.div_ceil(SAMPLE));
}

/// Three tables in one file: their spaces add up to it, by their data.
#[test]
fn space_of_shared_files_is_divided() {
    let (engine, _workers) = open(&SimDisk::new(1), Options::default()).unwrap();
    let rows = |table: u32, count: u32| (0..count).map(move |row| (table, row));
    let all: Vec<(u32, u32)> = rows(2, 3000).chain(rows(4, 1000)).chain(rows(6, 3)).collect();
    // Bytes that do not compress.
    let payload: Vec<u8> =
        (0..200_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    write(&engine, &all, Some(&payload));
    let space = |table| block_on(engine.space_of(TableId(table))).unwrap();
    let (two, four, six) = (space(2), space(4), space(6));
    assert_eq!((two.files, four.files, six.files, space(8).files), (1, 1, 1, 0));
    let whole = engine.metrics().table_bytes;
    let sum = two.bytes + four.bytes + six.bytes;
    assert!(sum <= whole && sum > whole * 95 / 100, "{sum} of {whole}");
    let ratio = two.bytes as f64 / four.bytes as f64;
    assert!((2.7..3.3).contains(&ratio), "{two:?} {four:?}");
    assert!(six.bytes > 0 && six.bytes < four.bytes / 50, "{six:?}");
    assert!((2900..3100).contains(&two.versions), "{two:?}");
}
