//! Tables against a sorted list, and decoders against bytes whose checksums are right.
#![expect(clippy::cast_possible_truncation, reason = "small random numbers")]

use std::sync::Arc;

use bytes::Bytes;
use carnet_base::{CellKey, KeyRange, PartitionKey, Rng, SeededRng, TableId, Timestamp, Version};

use super::block::Block;
use super::bloom::Bloom;
use super::footer::{FOOTER_BYTES, Footer, Statistics};
use super::index::Index;
use super::*;
use crate::disk::Disk;
use crate::disk::sim::SimDisk;
use crate::metrics::Counters;

fn time(number: u64) -> Timestamp {
    Timestamp::new(number).unwrap()
}

fn key(partition: u64, clustering: u64) -> CellKey {
    let partition = PartitionKey::new(partition.to_be_bytes().to_vec());
    CellKey::new(TableId(1), &partition, clustering.to_be_bytes())
}

/// Versions in the order of a table.
fn versions(rng: &mut SeededRng, count: u64) -> Vec<(CellKey, Timestamp, Option<Bytes>)> {
    let mut versions: Vec<_> = (1..=count)
        .map(|commit| {
            let payload = rng.chance(800).then(|| Bytes::from(vec![7; rng.below(40) as usize]));
            (key(rng.below(4), rng.below(6)), time(2 * commit), payload)
        })
        .collect();
    versions.sort_by(|left, right| left.0.cmp(&right.0).then(right.1.cmp(&left.1)));
    versions
}

fn build(disk: &SimDisk, versions: &[(CellKey, Timestamp, Option<Bytes>)]) -> Table {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut builder = Builder::begin(Arc::clone(&shared), 1, 150, 0.01).unwrap();
    for (key, commit, payload) in versions {
        let start = commit.previous().unwrap();
        builder.push(key, (start, *commit), payload.as_deref()).unwrap();
    }
    let built = builder.finish().unwrap().unwrap();
    Table::open(shared, built, new_cache(1000, 150), Arc::new(Counters::default())).unwrap()
}

fn walk(table: &Arc<Table>, range: &KeyRange, read: Timestamp, reverse: bool) -> Vec<CellKey> {
    let mut cursor = TableCursor::new(Arc::clone(table), range, read, reverse).unwrap();
    let mut keys = Vec::new();
    while let Some((key, version)) = cursor.take().unwrap() {
        let direct = table.get(&key, read).unwrap();
        assert_eq!(version, direct, "{key:?} at {read}, reverse {reverse}");
        keys.push(key);
    }
    keys
}

/// Cells with many versions, so that they span blocks, found at every snapshot.
#[test]
fn every_version_is_found_at_its_snapshots_across_blocks() {
    for seed in 0..30 {
        let mut rng = SeededRng::new(seed);
        let versions = versions(&mut rng, 300);
        let table = Arc::new(build(&SimDisk::new(seed), &versions));
        assert!(table.index().blocks() > 20, "cells must span blocks");
        let mut keys: Vec<_> = versions.iter().map(|(key, ..)| key.clone()).collect();
        keys.dedup();
        for _ in 0..100 {
            let read = time(rng.below(620));
            let wanted = &keys[rng.below(keys.len() as u64) as usize];
            let newest = versions.iter().find(|(key, commit, _)| key == wanted && *commit <= read);
            let expected = newest.map(|(_, commit, payload)| Version {
                start: commit.previous().unwrap(),
                commit: Some(*commit),
                payload: payload.clone(),
            });
            assert_eq!(table.get(wanted, read).unwrap(), expected, "seed {seed}, {read}");
        }
        let whole = KeyRange::table(TableId(1));
        let read = time(rng.below(620));
        let forward = walk(&table, &whole, read, false);
        let mut backward = walk(&table, &whole, read, true);
        backward.reverse();
        assert_eq!((&forward, &backward), (&keys, &keys), "seed {seed}");
        for left in &keys {
            let rest = whole.after(left.clone(), false);
            let expected: Vec<_> = keys.iter().filter(|key| *key > left).cloned().collect();
            assert_eq!(walk(&table, &rest, read, false), expected, "seed {seed}");
            let rest = whole.after(left.clone(), true);
            let expected: Vec<_> = keys.iter().rev().filter(|key| *key < left).cloned().collect();
            assert_eq!(walk(&table, &rest, read, true), expected, "seed {seed}");
        }
    }
}

/// Bytes whose checksum was made for them, so that decoders meet what no checksum keeps out.
#[test]
fn decoders_take_mutated_sections_with_right_checksums() {
    let disk = SimDisk::new(1);
    let mut rng = SeededRng::new(1);
    let table = build(&disk, &versions(&mut rng, 60));
    let file = disk.contents(&file_name(1)).unwrap();
    let footer_at = file.len() - FOOTER_BYTES as usize;
    let footer = Footer::read(&Bytes::copy_from_slice(&file[footer_at..]), file.len() as u64);
    let footer = footer.unwrap();
    let block = table.index().get(0).unwrap().place;
    let places = [block, footer.index, footer.filter, footer.statistics];
    let mut refused = 0;
    for round in 0..20_000 {
        let place = places[round % places.len()];
        let mut section = mutate(&file, place, &mut rng);
        section::seal(&mut section, 0, place.offset);
        let bytes = Bytes::from(section);
        let outcome = match round % places.len() {
            0 => Block::read(&bytes, place.offset).map(|_| ()),
            1 => Index::read(&bytes, place.offset).map(|_| ()),
            2 => Bloom::read(&bytes, place.offset).map(|bloom| {
                bloom.may_contain(TableId(1), carnet_base::Token(rng.next_u64().cast_signed()));
            }),
            _ => Statistics::read(&bytes, place.offset).map(|_| ()),
        };
        refused += usize::from(outcome.is_err());
    }
    assert!(refused > 5_000, "only {refused} of 20,000 were refused");
    for _ in 0..5_000 {
        let place = section::Place { offset: footer_at as u64, len: FOOTER_BYTES - 8 };
        let mut section = mutate(&file, place, &mut rng);
        section::seal(&mut section, 0, place.offset);
        section.extend_from_slice(b"CARNTSST");
        let _ = Footer::read(&Bytes::from(section), file.len() as u64);
    }
}

/// A section without its checksum, with a few bytes changed, cut, or added.
fn mutate(file: &[u8], place: section::Place, rng: &mut SeededRng) -> Vec<u8> {
    let from = place.offset as usize;
    let mut section = file[from..from + place.len as usize - section::CRC_BYTES].to_vec();
    for _ in 0..=rng.below(3) {
        let at = rng.below(section.len() as u64) as usize;
        section[at] = rng.next_u64() as u8;
    }
    match rng.below(4) {
        0 => section.truncate(rng.below(section.len() as u64) as usize),
        1 => section.extend_from_slice(&rng.next_u64().to_le_bytes()),
        _ => {}
    }
    section
}
