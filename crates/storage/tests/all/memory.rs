//! Memory limits: disk reads hold permits within the limits, in order, and release them in all
//! cases; reads from memory need none.
#![allow(clippy::cast_possible_truncation, reason = "a test")]

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use carnet_base::{
    CellKey, Error, KeyRange, PartitionKey, Stepped, TableId, Timestamp, Version, block_on,
};
use carnet_storage::disk::sim::{Kind, SimDisk};
use carnet_storage::{Engine, Mutation, Options, PageLimit, ReadOptions};

use crate::support;
use crate::support::{open, time};

fn key(number: u64) -> CellKey {
    CellKey::new(TableId(1), &PartitionKey::new(number.to_be_bytes().to_vec()), "")
}

fn put(engine: &Engine, number: u64) {
    let (key, payload) = (key(number), [7; 900]);
    let put = [Mutation::put_or_delete(&key, Some(&payload))];
    let prepared = engine.prepare(time(2 * number + 1), put).unwrap();
    drop(engine.append(prepared, || Ok::<_, Error>(time(2 * number + 2))).unwrap());
}

/// Twenty cells in separate blocks, none in memory.
fn cold(reads_max: usize) -> (SimDisk, Engine, Stepped) {
    let options = Options {
        table_options: support::blocks(500),
        cache_bytes: 1,
        reads_max,
        ..Options::default()
    };
    let disk = SimDisk::new(1);
    let (engine, workers) = open(&disk, options).unwrap();
    (0..20).for_each(|number| put(&engine, number));
    engine.flush().unwrap();
    (disk, engine, workers)
}

type Reading<'a, T> = Pin<Box<dyn Future<Output = carnet_base::Result<T>> + 'a>>;

fn get(engine: &Engine, number: u64) -> Reading<'_, Option<Version>> {
    Box::pin(async move { engine.get(&key(number), Timestamp::MAX).await })
}

fn poll<T>(reading: &mut Reading<'_, T>) -> Poll<carnet_base::Result<T>> {
    reading.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

fn in_use(engine: &Engine) -> (u64, u64) {
    let metrics = engine.metrics();
    assert_eq!(metrics.read_bytes > 0, metrics.reads_on_disk > 0);
    (metrics.reads_on_disk, metrics.reads_waiting)
}

#[test]
fn disk_reads_are_limited() {
    let (disk, engine, _workers) = cold(2);
    disk.hold();
    let mut gets: Vec<_> = (0..6).map(|number| get(&engine, number)).collect();
    assert!(gets.iter_mut().all(|get| poll(get).is_pending()));
    assert_eq!(in_use(&engine), (2, 4));
    assert!((1..=2).contains(&disk.held_operations()), "reads of one page are one");
    // A read from memory completes at its first poll.
    put(&engine, 30);
    assert!(matches!(poll(&mut get(&engine, 30)), Poll::Ready(Ok(Some(_)))));
    // A read with a permit and a waiting one are dropped.
    drop(gets.remove(0));
    drop(gets.remove(2));
    assert_eq!(in_use(&engine), (2, 2), "the next one was called");
    disk.resume();
    while !gets.is_empty() {
        gets.retain_mut(|get| match poll(get) {
            Poll::Ready(found) => {
                assert!(found.unwrap().is_some());
                false
            }
            Poll::Pending => true,
        });
        assert!(in_use(&engine).0 <= 2);
    }
    assert_eq!(in_use(&engine), (0, 0));
}

#[test]
fn page_holds_one_permit() {
    let (disk, engine, _workers) = cold(1);
    let range = KeyRange::table(TableId(1));
    let limit = PageLimit { cells: 100, bytes: usize::MAX };
    disk.stall_reads(1000, 3);
    let mut page: Reading<'_, _> = Box::pin(engine.range(&range, Timestamp::MAX, false, limit));
    let mut other = get(&engine, 3);
    assert!(poll(&mut page).is_pending() && poll(&mut other).is_pending());
    let cells = loop {
        assert_eq!(in_use(&engine), (1, 1));
        match poll(&mut page) {
            Poll::Ready(page) => break page.unwrap().cells,
            Poll::Pending => assert!(poll(&mut other).is_pending()),
        }
    };
    assert_eq!(cells.len(), 20);
    assert!(block_on(other).unwrap().is_some());
    assert_eq!(in_use(&engine), (0, 0));
}

#[test]
fn multi_get_works_with_one_permit() {
    let (_disk, engine, _workers) = cold(1);
    let keys: Vec<_> = (0..20).map(key).collect();
    let reads = ReadOptions::default();
    let found = block_on(engine.multi_get(&keys, Timestamp::MAX, reads, usize::MAX)).unwrap();
    assert!(found.len() == 20 && found.iter().all(Option::is_some));
    assert_eq!(in_use(&engine), (0, 0));
}

#[test]
fn multi_get_ends_at_its_limit_in_bytes() {
    let (_disk, engine, _workers) = cold(4);
    let keys: Vec<_> = (0..100).map(|number| key(number % 20)).collect();
    let read = |bytes_max| {
        let reads = ReadOptions { bypass_cache: true };
        let found = block_on(engine.multi_get(&keys, Timestamp::MAX, reads, bytes_max)).unwrap();
        let one = found[0].as_ref().map_or(0, Version::payload_bytes);
        (found.len(), one)
    };
    let (all, one) = read(usize::MAX);
    assert_eq!(all, 100);
    let (begun, _) = read(20 * one);
    assert!((20..20 + 32).contains(&begun), "{begun}: those in flight end");
    assert!((1..=32).contains(&read(0).0), "at least one");
    for number in 20..60 {
        put(&engine, number);
    }
    let keys: Vec<_> = (20..60).map(key).collect();
    let reads = ReadOptions::default();
    let found = block_on(engine.multi_get(&keys, Timestamp::MAX, reads, 5 * one)).unwrap();
    assert_eq!(found.len(), 5, "nothing waits in memory");
}

#[test]
fn failed_read_releases_its_permit() {
    let (disk, engine, _workers) = cold(1);
    disk.fail_nth(Kind::Read, disk.count(Kind::Read) + 1, std::io::ErrorKind::Other);
    assert!(block_on(get(&engine, 1)).is_err());
    assert_eq!(in_use(&engine), (0, 0));
    assert!(block_on(get(&engine, 1)).unwrap().is_some());
}

#[test]
fn memtables_and_cache_respect_the_budget() {
    let memory_bytes = 1 << 20;
    let disk = SimDisk::new(1);
    let (engine, _workers) = open(&disk, Options { memory_bytes, ..Options::default() }).unwrap();
    let flush_bytes = memory_bytes as u64 / 8;
    let mut number = 0;
    while engine.metrics().memtables_waiting == 0 {
        put(&engine, number);
        number += 1;
        assert!(engine.metrics().memtable_bytes < 2 * flush_bytes, "it is sealed when it is full");
    }
    assert!(engine.metrics().memtable_bytes >= flush_bytes, "and not before");
    for number in number..600 {
        put(&engine, number);
        if number % 50 == 0 {
            engine.flush().unwrap();
        }
    }
    engine.flush().unwrap();
    for number in 0..600 {
        assert!(block_on(get(&engine, number)).unwrap().is_some());
    }
    let metrics = engine.metrics();
    // Beside an active memtable and its growth, half of the budget is left for the cache.
    assert!(metrics.cache_evictions > 0 && metrics.cache_bytes <= memory_bytes as u64 / 2);
    assert_eq!(metrics.memory_budget_bytes, memory_bytes as u64);
}
