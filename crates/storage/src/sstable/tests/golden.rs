//! Files of each format version, kept forever: later programs must read them.
//!
//! `CARNET_UPDATE=1 cargo test -p carnet-storage golden` rewrites those of the current version. Do
//! that only before the version is released; afterwards each changed byte requires a new version.

use super::*;

/// A table with every kind of entry; with each compression in the second file.
fn golden_model() -> Model {
    let mut model = random_model(&mut SeededRng::new(2_026), 150);
    for (table, token) in [(1, -5), (2, 0), (3, 5)] {
        for n in 0..40_u64 {
            let key = flat(table, token, b"wide", &n.to_be_bytes());
            let kept = (time(1000 + n), None, Some(b"a value that repeats itself ".repeat(2)));
            model.versions.insert((key, Reverse(time(1003 + 2 * n))), kept);
        }
    }
    model
}

fn options_of(compressed: bool) -> impl FnMut(TableId) -> TableOptions + Send + 'static {
    move |table| TableOptions {
        block_bytes: 512,
        index_page_bytes: 128,
        compression: match (compressed, table.0) {
            (true, 1) => Compression::Lz4,
            (true, 2) => Compression::Zstd(3),
            _ => Compression::None,
        },
        bloom_fp_chance: 0.01,
        filter: if table.0 == 3 { FilterKind::Cells } else { FilterKind::Partitions },
    }
}

/// Offset of the partition key in a flat key.
const PARTITION_AT: usize = 14;

fn path(name: &str) -> String {
    format!("{}/testdata/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn is_built(name: &str, compressed: bool) {
    let path = path(name);
    let model = golden_model();
    let sim = SimDisk::new(1);
    model.build(&(Arc::new(sim.clone()) as _), 1, options_of(compressed)).unwrap();
    let built = sim.contents(&file_name(1)).unwrap();
    if std::env::var("CARNET_UPDATE").is_ok() {
        std::fs::write(&path, &built).unwrap();
    }
    let kept = std::fs::read(&path).unwrap();
    // Another version of a compressor may produce other bytes; uncompressed files may not change.
    assert!(compressed || kept == built, "{name} is built with other bytes than it was");
}

fn is_read(name: &str, version: u32) {
    let model = golden_model();
    let kept = std::fs::read(path(name)).unwrap();
    let disk = SimDisk::new(2);
    disk.plant(&file_name(1), kept.clone());
    let table = Table::open(Arc::new(disk), 1, kept.len() as u64, Cache::new(0)).unwrap();
    let table = Arc::new(table);
    assert_eq!(describe(&table).unwrap().version, version);
    verify(&table, |_| ()).unwrap();
    for read in [0, 50, 200, 1010, 2000] {
        for reverse in [false, true] {
            let walk = Walk { read: time(read), reverse, ..Walk::default() };
            assert_eq!(walked(&table, &walk), model.walk(&walk), "{name} at {read}");
        }
        for (key, _) in model.versions.keys() {
            let found = block_on(table.get(key, time(read), ReadOptions::default())).unwrap();
            assert_eq!(found, model.get(key, time(read)));
        }
    }
    // Its filters also exclude absent keys: other partitions with the same tokens.
    let negatives = || table.cache.metrics().bloom_negatives;
    let before = negatives();
    let mut asked = 0;
    for (key, _) in model.versions.keys().filter(|(key, _)| key.len() > PARTITION_AT) {
        let mut other = key.clone();
        asked += 1;
        other[PARTITION_AT] ^= 0x55;
        block_on(table.get(&other, Timestamp::MAX, ReadOptions::default())).unwrap();
    }
    assert!(negatives() - before > asked / 2, "{name}: {} of {asked}", negatives() - before);
}

#[test]
fn golden_tables_are_built_unchanged() {
    is_built("table-v3.sst", false);
    is_built("table-v3-compressed.sst", true);
}

#[test]
fn golden_tables_still_decode() {
    is_read("table-v2.sst", 2);
    is_read("table-v2-compressed.sst", 2);
    is_read("table-v3.sst", 3);
    is_read("table-v3-compressed.sst", 3);
}
