//! Cached point reads and cursor steps allocate only the payload. The test needs a process to
//! itself: the allocator counts the allocations of all threads.

use std::alloc::System;
use std::hint::black_box;
use std::sync::Arc;

use bytes::Bytes;
use carnet_base::{Timestamp, block_on};
use carnet_storage::disk::Disk;
use carnet_storage::disk::sim::SimDisk;
use carnet_storage::sstable::cache::Cache;
use carnet_storage::sstable::{
    Builder, EntryRef, ReadOptions, Table, TableCursor, TableOptions, Walk,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn key(n: u64) -> Vec<u8> {
    [&[0, 0, 0, 1][..], &n.to_be_bytes(), &[0, 0], &n.to_be_bytes()].concat()
}

#[test]
fn cached_reads_allocate_only_the_payload() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1));
    let mut builder = Builder::begin(Arc::clone(&disk), 1, |_| TableOptions::default()).unwrap();
    let start = Timestamp::ZERO;
    for n in 0..10_000 {
        let commit = Timestamp::new(1).unwrap();
        let payload = (n % 2 == 0).then_some(&b"payload"[..]);
        builder.push(&EntryRef { key: &key(n), commit, start, expiry: None, payload }).unwrap();
    }
    let built = builder.finish().unwrap().unwrap();
    let table = Table::open(disk, 1, built.bytes, Cache::new(1 << 26)).unwrap();
    let table = Arc::new(table);
    let walk = Walk { read: Timestamp::MAX, ..Walk::default() };
    let mut cursor = TableCursor::new(Arc::clone(&table), walk.clone());
    block_on(cursor.advance()).unwrap();
    while cursor.peek_key().is_some() {
        block_on(cursor.advance()).unwrap();
    }
    let (even, odd, absent) = (key(5_000), key(5_001), [&key(5_000)[..], b"x"].concat());
    let count = |work: &mut dyn FnMut()| {
        let region = Region::new(ALLOCATOR);
        work();
        region.change().allocations
    };
    let reads = ReadOptions::default();
    let get = |key: &[u8]| black_box(table.get_cached(key, Timestamp::MAX, reads)).is_ok();
    assert_eq!(count(&mut || assert!(get(&even))), 1);
    assert_eq!(count(&mut || assert!(get(&odd))), 0);
    assert_eq!(count(&mut || assert!(get(&absent))), 0);
    for reverse in [false, true] {
        let upper = Some(Bytes::from(key(9_000)));
        let walk = Walk { reverse, upper, ..walk.clone() };
        let mut cursor = TableCursor::new(Arc::clone(&table), walk);
        let mut rows = 0;
        let allocations = count(&mut || {
            while cursor.try_advance() && cursor.peek_key().is_some() {
                black_box(cursor.version());
                rows += 1;
            }
        });
        assert_eq!((rows, allocations), (9_000, 0));
    }
}
