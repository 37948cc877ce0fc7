//! Tests of edits and of the manifest's encoding.

use std::sync::Arc;

use bytes::{BufMut, Bytes};
use carnet_base::{ErrorKind, Rng, SeededRng, Timestamp};

use super::*;
use crate::disk::sim::SimDisk;

fn at(number: u64) -> Timestamp {
    Timestamp::new(number).unwrap()
}

/// A table with the keys `lower..upper` and commits from `10 × number` to 5 more.
fn table(number: u64, level: u8, lower: &'static str, upper: &'static str) -> TableMeta {
    let contents = Contents {
        cells: 10,
        tombstones: 2,
        overwritten: 1,
        bottom_garbage: 2,
        range_tombstones: 1,
        expiring: 1,
        expiry_min: 100,
        expiry_max: 100,
        commit_min: at(10 * number),
        commit_max: at(10 * number + 5),
    };
    TableMeta { number, level, bytes: 1000 + number, range: FlatRange::new(lower, upper), contents }
}

fn add(tables: impl Into<Vec<TableMeta>>) -> Edit {
    Edit { add: tables.into(), ..Edit::default() }
}

fn manifest() -> Manifest {
    let tables = [
        table(8, 0, "a", "z"),
        table(3, 0, "b", "f"),
        table(5, 1, "m", "q"),
        table(4, 1, "a", "c"),
        table(7, 6, "c", "x"),
    ];
    let edit = Edit {
        log: Some((4, 12_345)),
        bound: Some(at(77)),
        swept: Some(at(55)),
        forgotten: Some(at(44)),
        lossy: Some(true),
        flushed: Some(at(85)),
        notes: Some(Bytes::from_static(b"encodings")),
        ..add(tables)
    };
    let identity = Identity(*b"sixteen of bytes");
    let past = vec![Past { id: Identity(*b"an opening of it"), last: at(60) }];
    let line = Line { current: Identity(*b"the last opening"), is_backed_up: true, past };
    Manifest { identity, line, ..Manifest::empty() }.edited(&edit).unwrap()
}

fn unlogged() -> Manifest {
    manifest().edited(&Edit { unlogged: Some(true), ..Edit::default() }).unwrap()
}

fn numbers(manifest: &Manifest, level: usize) -> Vec<u64> {
    manifest.levels.level(level).iter().map(|table| table.number).collect()
}

#[test]
fn edit_keeps_tables_in_level_order() {
    let manifest = manifest();
    assert_eq!((numbers(&manifest, 0), numbers(&manifest, 1)), (vec![3, 8], vec![4, 5]));
    assert_eq!((manifest.next_file, manifest.bound), (9, at(77)));
    assert_eq!((manifest.first_segment, manifest.first_lsn), (4, 12_345));
    let range = FlatRange::new("c", "n");
    let overlapping = |level| -> Vec<u64> {
        manifest.levels.overlapping(level, &range).map(|table| table.number).collect()
    };
    assert_eq!((overlapping(0), overlapping(1), overlapping(6)), (vec![3, 8], vec![5], vec![7]));
}

#[test]
fn one_edit_moves_a_table() {
    let moved = Edit { remove: vec![5], ..add([table(5, 2, "m", "q")]) };
    let manifest = manifest().edited(&moved).unwrap();
    assert_eq!((numbers(&manifest, 1), numbers(&manifest, 2)), (vec![4], vec![5]));
}

#[test]
fn contradicting_edit_is_refused_and_changes_nothing() {
    let remove = |remove: &[u64]| Edit { remove: remove.to_vec(), ..Edit::default() };
    let with = |change: fn(&mut TableMeta)| {
        let mut table = table(20, 1, "r", "s");
        change(&mut table);
        add([table])
    };
    let cases = [
        ("removes what is not there", remove(&[3, 99])),
        ("removes twice", remove(&[3, 3])),
        ("adds what is there", add([table(5, 2, "m", "q")])),
        ("adds twice", add([table(20, 2, "a", "b"), table(20, 3, "a", "b")])),
        ("overlaps in level 1", add([table(20, 1, "b", "m")])),
        ("overlaps by its first key", add([table(20, 1, "p", "r")])),
        ("overlaps within itself", add([table(20, 2, "a", "c"), table(21, 2, "b", "d")])),
        (
            "commits overlap in level 0",
            with(|table| {
                (table.level, table.contents.commit_min) = (0, at(84));
                table.range = FlatRange::new("y", "zz");
            }),
        ),
        ("no such level", with(|table| table.level = 7)),
        ("empty range", with(|table| table.range.upper = table.range.lower.clone())),
        ("commits upside down", with(|table| table.contents.commit_max = at(1))),
        ("holds nothing", with(|table| table.contents = Contents::default())),
        ("more tombstones than cells", with(|table| table.contents.tombstones = 11)),
        ("file number zero", with(|table| table.number = 0)),
        ("file numbers used up", with(|table| table.number = u64::MAX)),
        ("the bound goes back", Edit { bound: Some(at(76)), ..Edit::default() }),
        ("the GC watermark goes back", Edit { swept: Some(at(54)), ..Edit::default() }),
        ("the forgotten watermark goes back", Edit { forgotten: Some(at(43)), ..Edit::default() }),
        ("forgotten above swept", Edit { forgotten: Some(at(56)), ..Edit::default() }),
        ("the last flushed commit goes back", Edit { flushed: Some(at(84)), ..Edit::default() }),
        ("the notes are too long", Edit { notes: Some(vec![0; 65_537].into()), ..Edit::default() }),
        ("the segment goes back", Edit { log: Some((3, 12_345)), ..Edit::default() }),
        ("the LSN goes back", Edit { log: Some((5, 12_344)), ..Edit::default() }),
    ];
    let disk = SimDisk::new(1);
    for (what, edit) in cases {
        let mut manifest = manifest();
        let error = manifest.apply(&disk, &edit).expect_err(what);
        assert_eq!(error.kind(), ErrorKind::Invalid, "{what}: {error}");
        assert_eq!(manifest, self::manifest(), "{what}");
        assert_eq!(Manifest::load(&disk).unwrap(), None, "{what}: nothing is written");
    }
}

#[test]
fn adjacent_tables_may_have_any_commits() {
    manifest().edited(&add([table(20, 1, "c", "m")])).unwrap();
    let mut beside = table(20, 0, "zz", "zzz");
    beside.contents.commit_min = at(84);
    manifest().edited(&add([beside])).unwrap();
}

#[test]
fn edit_is_atomic_when_the_disk_fails() {
    let edit = Edit { remove: vec![3, 8], ..add([table(9, 1, "c", "m")]) };
    let expected = manifest().edited(&edit).unwrap();
    let mut outcomes = [0, 0];
    for seed in 0..200 {
        let mut rng = SeededRng::new(seed);
        let disk = SimDisk::new(seed);
        let mut manifest = manifest();
        manifest.store(&disk).unwrap();
        disk.fail_at(disk.operations() + rng.below(6), std::io::ErrorKind::StorageFull);
        let applied = manifest.apply(&disk, &edit);
        assert_eq!(manifest, if applied.is_ok() { expected.clone() } else { self::manifest() });
        let stored = Manifest::load(&disk.crash(&mut rng)).unwrap().unwrap();
        assert!(stored == expected || (applied.is_err() && stored == self::manifest()), "{seed}");
        outcomes[usize::from(applied.is_ok())] += 1;
    }
    assert!(outcomes[0] > 100 && outcomes[1] > 10, "{outcomes:?}");
}

#[test]
fn manifest_round_trips() {
    for manifest in [manifest(), unlogged()] {
        let bytes = Bytes::from(format::encode(&manifest));
        assert_eq!(format::decode(&bytes, "M").unwrap(), manifest);
    }
}

/// Files of every format version, kept forever. `CARNET_UPDATE=1 cargo test -p carnet-storage
/// golden` rewrites that of the current version; do that only before a release of it.
#[test]
fn golden_manifests_still_decode() {
    let path = |version| format!("{}/testdata/manifest-v{version}", env!("CARGO_MANIFEST_DIR"));
    let of = |version| {
        let bytes = std::fs::read(path(version)).unwrap();
        format::decode(&bytes.into(), "M").unwrap()
    };
    if std::env::var("CARNET_UPDATE").is_ok() {
        std::fs::write(path(9), format::encode(&manifest())).unwrap();
        std::fs::write(path(10), format::encode(&unlogged())).unwrap();
    }
    // Databases with a log are still written in version 9.
    assert_eq!(of(10), unlogged());
    assert_eq!(std::fs::read(path(10)).unwrap(), format::encode(&unlogged()));
    assert_eq!(of(9), manifest());
    assert_eq!(std::fs::read(path(9)).unwrap(), format::encode(&manifest()));
    // Version 8 does not know incarnations.
    let manifest = || Manifest { line: Line::default(), ..manifest() };
    assert_eq!(of(8), manifest());
    // Version 7 does not count the garbage of the last level: assume the tombstones.
    assert_eq!(of(7), manifest());
    // Programs of version 6 do not know elements of collections.
    assert_eq!(of(6), manifest());
    // Programs of version 5 do not know deltas.
    assert_eq!(of(5), manifest());
    // Version 4 has no `forgotten`: assume that all of `swept` was dropped.
    assert_eq!(of(4), Manifest { forgotten: manifest().swept, ..manifest() });
    // Version 3 has no `flushed`: the last commit of the tables is the best estimate.
    assert_eq!(of(3), Manifest { notes: Bytes::new(), ..of(4) });
    // Version 2 has no `swept`: assume the bound.
    let (identity, swept) = (Identity::UNKNOWN, manifest().bound);
    assert_eq!(of(2), Manifest { identity, swept, forgotten: swept, lossy: false, ..of(3) });
}

#[test]
fn errors_name_file_and_offset() {
    let damaged = |bytes: Vec<u8>| {
        let error = format::decode(&bytes.into(), "db/MANIFEST").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupted);
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        (error.to_string(), cause.unwrap_or_default())
    };
    let sealed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = format::encode(&manifest());
        bytes.truncate(bytes.len() - 4);
        change(&mut bytes);
        damaged(seal(bytes).to_vec())
    };
    let whole = format::encode(&manifest());
    let len = whole.len();
    let first_table = 8 + 4 + 16 + 8 + 8 + 8 + 1 + 8 + (4 + 9) + 8 + 8 + 8 + 4;
    let cases = [
        (damaged(b"nothing".to_vec()), 0, "does not begin"),
        (damaged(whole[..len - 1].to_vec()), len - 5, "checksum"),
        (sealed(&|bytes| bytes[52] = 2), 53, "neither yes nor no"),
        (sealed(&|bytes| bytes[44] = 56), 52, "above"),
        (sealed(&|bytes| bytes.truncate(first_table + 30)), first_table + 25, "end too early"),
        (sealed(&|bytes| bytes.push(0)), len - 4, "bytes after"),
        (sealed(&|bytes| bytes[first_table + 8] = 7), len - 4, "level"),
    ];
    for ((error, cause), offset, why) in cases {
        let place = format!("db/MANIFEST is damaged at byte {offset};");
        assert!(error.starts_with(&place), "{error}: {cause}, not at {offset}");
        assert!(cause.contains(why), "{cause}: not {why}");
    }
}

#[test]
fn every_flipped_bit_and_truncation_is_detected() {
    let bytes = format::encode(&manifest());
    for bit in 0..bytes.len() * 8 {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(format::decode(&bytes.into(), "M").is_err(), "bit {bit}");
    }
    for len in 0..bytes.len() {
        let error = format::decode(&bytes[..len].to_vec().into(), "M").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupted, "cut at {len}");
    }
}

fn seal(mut bytes: Vec<u8>) -> Bytes {
    let crc = crc32c::crc32c(&bytes);
    bytes.put_u32_le(crc);
    bytes.into()
}

#[test]
fn mutated_manifests_never_panic_nor_break_order() {
    let mut decoded = 0;
    for seed in 0..20_000 {
        let mut rng = SeededRng::new(seed);
        let mut bytes = format::encode(&manifest());
        bytes.truncate(bytes.len() - 4);
        for _ in 0..=rng.below(3) {
            let at = usize::try_from(rng.below(bytes.len() as u64)).unwrap();
            bytes[at] = rng.next_u64().to_le_bytes()[0];
        }
        if rng.chance(300) {
            bytes.truncate(usize::try_from(rng.below(bytes.len() as u64)).unwrap());
        }
        if let Ok(manifest) = format::decode(&seal(bytes), "M") {
            decoded += 1;
            for level in 1..LEVELS {
                let tables = manifest.levels.level(level);
                let disjoint = |pair: &[Arc<TableMeta>]| is_before(&pair[0], &pair[1]);
                assert!(tables.windows(2).all(disjoint), "seed {seed}");
            }
        }
    }
    assert!(decoded > 1000, "{decoded}");
}

fn is_before(left: &TableMeta, right: &TableMeta) -> bool {
    left.range.upper <= right.range.lower
}

#[test]
fn random_bytes_never_panic() {
    let mut rng = SeededRng::new(2);
    for _ in 0..10_000 {
        let mut bytes = b"CARNTMAN\x02\0\0\0".to_vec();
        bytes[8] += u8::try_from(rng.below(4)).unwrap();
        for _ in 0..rng.below(200) {
            bytes.push(rng.next_u64().to_le_bytes()[0]);
        }
        let _ = format::decode(&seal(bytes), "M");
    }
}

#[test]
fn other_format_versions_are_refused() {
    for (version, advice) in [(1, "never released"), (11, "newer")] {
        let mut bytes = format::encode(&manifest());
        bytes[8] = version;
        bytes.truncate(bytes.len() - 4);
        let error = format::decode(&seal(bytes), "db/MANIFEST").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains(&format!("version {version}")), "{error}");
        assert!(error.to_string().contains(advice), "{error}");
    }
}
