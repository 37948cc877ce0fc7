//! Cells whose newest version is a delta; the model of `model.rs` and `crash.rs` has such cells too.

use std::pin::pin;
use std::task::{Context, Waker};

use carnet_base::{CellKey, Error, KeyRange, PartitionKey, TableId, Timestamp, Version, block_on};
use carnet_storage::disk::sim::SimDisk;
use carnet_storage::{Engine, Mutation, Options, PageLimit, ReadOptions};

use crate::support::{Forget, open, time};

fn put(engine: &Engine, key: &CellKey, commit: u64, payload: &str) {
    let put = [Mutation::put_or_delete(key, Some(payload.as_bytes()))];
    let prepared = engine.prepare(time(commit - 1), put).unwrap();
    drop(engine.append(prepared, || Ok::<_, Error>(time(commit))).unwrap());
    engine.flush().unwrap();
}

fn payload(found: Option<Version>) -> String {
    String::from_utf8(found.unwrap().payload.unwrap().to_vec()).unwrap()
}

/// The value below a delta is gone from the newest view once a compaction has merged both.
#[test]
fn chain_is_read_from_one_view() {
    let key = CellKey::new(TableId(1), &PartitionKey::new("p"), "c");
    let mut pended = 0;
    for polls in 1..12 {
        let disk = SimDisk::new(polls);
        let (engine, _workers) = open(&disk, Options::default()).unwrap();
        let forget = Forget::nothing_yet(&engine);
        put(&engine, &key, 10, "v");
        put(&engine, &key, 20, "+a");
        disk.stall_reads(1000, 1);
        let reads = ReadOptions { bypass_cache: true };
        let mut get = pin!(engine.get_with(&key, Timestamp::MAX, reads));
        let mut context = Context::from_waker(Waker::noop());
        if (0..polls).any(|_| get.as_mut().poll(&mut context).is_ready()) {
            break;
        }
        pended += 1;
        forget.below(engine.published());
        engine.compact().unwrap();
        assert_eq!(payload(block_on(get).unwrap()), "v+a", "compacted after {polls} polls");
        assert_eq!(payload(block_on(engine.get(&key, time(20))).unwrap()), "v+a");
        assert_eq!(engine.metrics().deltas_merged, 1, "the table holds the value");
    }
    assert!(pended > 2, "it waited {pended} times for the disk");
}

/// A page of short deltas over long values, in both directions.
#[test]
fn merged_page_ends_at_its_limit_in_bytes() {
    let disk = SimDisk::new(1);
    let (engine, _workers) = open(&disk, Options::default()).unwrap();
    let partition = PartitionKey::new("p");
    let value = "v".repeat(1000);
    for (place, commit) in (0..20_u8).zip((10..).step_by(10)) {
        let key = CellKey::new(TableId(1), &partition, [place]);
        put(&engine, &key, commit, &value);
        put(&engine, &key, commit + 5, "+a");
    }
    let limit = PageLimit { cells: 100, bytes: 4_500 };
    for reverse in [false, true] {
        let mut rest = Some(KeyRange::table(TableId(1)));
        let mut found = Vec::new();
        while let Some(range) = rest {
            let page = block_on(engine.range(&range, Timestamp::MAX, reverse, limit)).unwrap();
            assert!(page.cells.len() <= 5, "{} cells", page.cells.len());
            found.extend(page.cells.iter().map(|cell| {
                assert_eq!(cell.payload.len(), 1002);
                cell.key.clustering()[0]
            }));
            rest = page.resume;
        }
        if reverse {
            found.reverse();
        }
        assert_eq!(found, (0..20).collect::<Vec<u8>>());
    }
}
