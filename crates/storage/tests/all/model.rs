//! Compares the engine with a map: after any writes, flushes and restarts, every snapshot reads
//! like the map, by points and ranges, in both directions, with any page limits.
#![allow(clippy::cast_possible_truncation, reason = "a test")]

use std::sync::Arc;

use carnet_base::{KeyRange, Rng, SeededRng, Timestamp};
use carnet_storage::disk::RealDisk;
use carnet_storage::disk::sim::SimDisk;
use carnet_storage::{Durability, Engine, Options};

use crate::support;
use crate::support::{Mix, Model, append, compare_at, open, open_on, random_range, scan, time};

fn small(durability: Durability) -> Options {
    Options {
        durability,
        flush_bytes: 40_000,
        memtables_waiting_max: 100,
        table_options: support::blocks(600),
        cache_bytes: 20_000,
        compaction: support::small_compaction(),
        ..Options::default()
    }
}

fn compare_ranges(engine: &Engine, model: &Model, mix: &Mix, rng: &mut SeededRng) {
    for _ in 0..10 {
        let range = random_range(mix, rng);
        let read = time(rng.below(engine.published().get() + 1));
        let expected: Vec<_> =
            model.at(read).into_iter().filter(|(key, _)| range.contains(key)).collect();
        for reverse in [false, true] {
            let mut found = scan(engine, &range, read, reverse, rng).unwrap();
            if reverse {
                found.reverse();
            }
            let found: Vec<_> = found
                .into_iter()
                .map(|(key, v)| (key, (v.commit.unwrap(), v.payload.unwrap())))
                .collect();
            assert_eq!(found, expected, "{range:?} at {read}, reverse {reverse}");
        }
    }
}

fn story(seed: u64, mix: &Mix) {
    let mut rng = SeededRng::new(seed);
    let disk = SimDisk::new(seed);
    let durability = [Durability::Always, Durability::None][(seed % 2) as usize];
    let mut model = Model::default();
    for _ in 0..4 {
        let (engine, workers) = open(&disk, small(durability)).unwrap();
        for _ in 0..rng.below(60) {
            drop(append(&engine, &mut model, mix, &mut rng).unwrap());
            if rng.chance(300) {
                workers.settle();
            }
        }
        if rng.chance(500) {
            engine.flush().unwrap();
        }
        workers.settle();
        assert_eq!(engine.published(), model.last_commit());
        compare_at(&engine, &model, engine.published(), &mut rng).unwrap();
        compare_ranges(&engine, &model, mix, &mut rng);
        engine.close().unwrap();
    }
}

#[test]
fn every_snapshot_matches_the_map() {
    let wide = Mix { tables: 1, partitions: 1, clusterings: 300, payload_bytes: 100 };
    let many = Mix { tables: 3, partitions: 200, clusterings: 1, payload_bytes: 200 };
    let hot = Mix { tables: 1, partitions: 2, clusterings: 2, payload_bytes: 300 };
    for seed in 0..24 {
        let mix = [&support::SMALL, &wide, &many, &hot][(seed % 4) as usize];
        println!("seed {seed}: replay with story({seed}, …)");
        story(seed, mix);
    }
}

#[test]
fn real_disk_matches_the_simulated_one() {
    let directory = tempfile::tempdir().unwrap();
    let disk = || Arc::new(RealDisk::open(directory.path().join("a/b")).unwrap()) as _;
    let mut rng = SeededRng::new(3);
    let mut model = Model::default();
    for _ in 0..3 {
        let (engine, workers) = open_on(&disk, small(Durability::Always)).unwrap();
        for _ in 0..50 {
            drop(append(&engine, &mut model, &support::SMALL, &mut rng).unwrap());
        }
        workers.settle();
        engine.flush().unwrap();
        drop(append(&engine, &mut model, &support::SMALL, &mut rng).unwrap());
        engine.close().unwrap();
    }
    let (engine, _workers) = open_on(&disk, small(Durability::Always)).unwrap();
    assert_eq!(engine.published(), model.last_commit());
    compare_at(&engine, &model, engine.published(), &mut rng).unwrap();
    assert!(engine.metrics().tables > 0);
}

#[test]
fn page_of_deleted_cells_ends_and_resumes() {
    let disk = SimDisk::new(1);
    let (engine, _workers) = open(&disk, small(Durability::None)).unwrap();
    let key = |n: u32| {
        let partition = carnet_base::PartitionKey::new("p");
        carnet_base::CellKey::new(carnet_base::TableId(1), &partition, n.to_be_bytes())
    };
    let keys: Vec<_> = (0..=10_000).map(key).collect();
    let payload = |n: usize| (n == 10_000).then_some(&b"here"[..]);
    let mutations = keys
        .iter()
        .enumerate()
        .map(|(n, key)| carnet_storage::Mutation::put_or_delete(key, payload(n)));
    let prepared = engine.prepare(time(1), mutations).unwrap();
    drop(engine.append(prepared, || Ok::<_, ()>(time(2))).unwrap());
    let limit = carnet_storage::PageLimit { cells: 10, bytes: 1000 };
    let mut range = KeyRange::table(carnet_base::TableId(1));
    for _ in 0..2 {
        let page = engine.range(&range, Timestamp::MAX, false, limit);
        let page = carnet_base::block_on(page).unwrap();
        assert!(page.cells.is_empty(), "the work of a page is bounded");
        range = page.resume.unwrap();
    }
    let last = carnet_base::block_on(engine.range(&range, Timestamp::MAX, false, limit)).unwrap();
    assert_eq!((last.cells.len(), last.resume), (1, None));
}
