//! Compares the engine's own accounting of memory with the allocator's. The test needs a
//! process to itself: the allocator counts the bytes of all threads.
#![expect(clippy::unwrap_used, reason = "helpers outside of #[test] functions unwrap as well")]

#[allow(dead_code, reason = "most helpers are for the runner `all`")]
#[path = "all/support/mod.rs"]
mod support;

use std::alloc::System;
use std::sync::Arc;

use carnet_base::{CellKey, Error, KeyRange, PartitionKey, TableId, Timestamp, block_on};
use carnet_storage::disk::sim::SimDisk;
use carnet_storage::disk::{Disk, RealDisk};
use carnet_storage::{Durability, Engine, Mutation, Options, PageLimit};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use support::{open, open_on, time};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn key(partition: &'static str, row: u64) -> CellKey {
    CellKey::new(TableId(1), &PartitionKey::new(partition), row.to_be_bytes())
}

fn put(engine: &Engine, key: &CellKey, payload: &[u8], number: u64) {
    let put = [Mutation::put_or_delete(key, Some(payload))];
    let prepared = engine.prepare(time(2 * number + 1), put).unwrap();
    drop(engine.append(prepared, || Ok::<_, Error>(time(2 * number + 2))).unwrap());
}

/// Returns the allocated bytes minus the freed bytes during `work`.
fn kept(work: impl FnOnce()) -> isize {
    let region = Region::new(ALLOCATOR);
    work();
    let change = region.change();
    change.bytes_allocated.cast_signed() - change.bytes_deallocated.cast_signed()
}

/// A memtable reports the memory that it allocates, for small and large cells.
fn a_memtable_takes_what_it_says() {
    for (payload_bytes, records) in [(0, 20_000), (100, 20_000), (20_000, 500), (300_000, 30)] {
        // A simulated disk would keep the log in memory.
        let directory = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(directory.path()).unwrap());
        let options = Options { durability: Durability::None, ..Options::default() };
        let (engine, workers) = open_on(&|| Arc::clone(&disk), options).unwrap();
        let payload = vec![7; payload_bytes];
        let append = |numbers: std::ops::Range<u64>| {
            for number in numbers {
                put(&engine, &key("p", number), &payload, number);
                workers.step(0);
            }
        };
        append(0..10);
        let before = engine.metrics().memtable_bytes;
        let taken = kept(|| append(10..records));
        let said = isize::try_from(engine.metrics().memtable_bytes - before).unwrap();
        assert!(
            (taken - said).abs() < 10_000,
            "{payload_bytes}: {said} bytes are said, {taken} taken"
        );
    }
}

/// The memory of a page depends on its limit, not on the size of the partition.
fn a_page_takes_the_same_of_any_partition() {
    let page_of = |rows: u64, reverse: bool| {
        let disk = SimDisk::new(1);
        let options = Options { cache_bytes: 1, ..Options::default() };
        let (engine, workers) = open(&disk, options).unwrap();
        for row in 0..rows {
            put(&engine, &key("p", row), &[7; 300], row);
            workers.step(0);
        }
        engine.flush().unwrap();
        let range = KeyRange::partition(TableId(1), &PartitionKey::new("p"));
        let limit = PageLimit { cells: 100, bytes: 1 << 20 };
        let read = || block_on(engine.range(&range, Timestamp::MAX, reverse, limit)).unwrap();
        assert_eq!(read().cells.len(), 100);
        // Total of all allocations, an upper bound of the memory in use.
        let region = Region::new(ALLOCATOR);
        drop(read());
        region.change().bytes_allocated
    };
    for reverse in [false, true] {
        let [small, large] = [4_000, 40_000].map(|rows| page_of(rows, reverse));
        println!("a page takes {small} bytes of 4,000 rows, {large} of 40,000, reverse {reverse}");
        assert!(large < small + small / 4, "{large} bytes of a large one, {small} of a small one");
        assert!(large < 500_000, "{large} bytes for 100 rows of 300 bytes");
    }
}

/// A single test, because the allocator counts for the whole process.
#[test]
fn reported_memory_matches_the_allocator() {
    a_memtable_takes_what_it_says();
    a_page_takes_the_same_of_any_partition();
}
