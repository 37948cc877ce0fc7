//! Ranges read in every way that there is: all see the same.

#![expect(clippy::unwrap_used, reason = "helpers outside of #[test] functions unwrap as well")]

use std::collections::BTreeMap;
use std::sync::Arc;

use carnet::base::{Rng, SeededRng};
use carnet::storage::disk::sim::SimDisk;
use carnet::table::RawRows;
use carnet::{Bytes, Db, RawTable, SyncTx};

type Expected = BTreeMap<Vec<u8>, Vec<u8>>;

const KEYS: u64 = 60;

fn key(number: u64) -> Vec<u8> {
    format!("{number:02}").into_bytes()
}

/// Puts and deletes a few keys.
fn write(rng: &mut SeededRng, table: &RawTable, tx: &SyncTx, expected: &mut Expected) {
    for _ in 0..rng.below(20) {
        let key = key(rng.below(KEYS));
        if rng.chance(300) {
            table.delete(tx, &key).unwrap();
            expected.remove(&key);
        } else {
            let value = vec![7; usize::try_from(rng.below(200)).unwrap()];
            table.put(tx, &key, &value).unwrap();
            expected.insert(key, value);
        }
    }
}

/// Reads a range by turns of iterator, lent cells and pages.
macro_rules! mixed {
    ($rng:expr, $rows:expr) => {{
        let (rng, mut rows): (&mut SeededRng, RawRows<_>) = ($rng, $rows);
        let mut found: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        loop {
            match rng.below(3) {
                0 => {
                    let Some(cell) = rows.next() else { break };
                    let (key, value): (Bytes, Bytes) = cell.unwrap();
                    found.push((key.to_vec(), value.to_vec()));
                }
                1 => {
                    let Some(cell) = rows.next_lent() else { break };
                    let (key, value) = cell.unwrap();
                    found.push((key.to_vec(), value.to_vec()));
                }
                _ => {
                    let page = rows.next_page().unwrap();
                    if page.is_empty() {
                        break;
                    }
                    found.extend(page.iter().map(|(key, value)| (key.to_vec(), value.to_vec())));
                }
            }
        }
        assert!(rows.next().is_none() && rows.next_lent().is_none(), "the end is the end");
        found
    }};
}

#[test]
fn every_way_to_read_a_range_finds_the_same() {
    for seed in 0..200 {
        let rng = &mut SeededRng::new(seed);
        let db = match rng.chance(500) {
            true => Db::builder().in_memory(),
            false => Db::builder().open_on(Arc::new(SimDisk::new(seed))).unwrap(),
        };
        let table = db.raw("t").unwrap();
        let mut expected = Expected::new();
        for _ in 0..rng.below(6) {
            let tx = db.begin().unwrap();
            write(rng, &table, &tx, &mut expected);
            tx.commit().unwrap();
            if rng.chance(300) {
                db.flush().unwrap();
            }
        }
        let (from, to) = (rng.below(KEYS), rng.below(KEYS + 1));
        let (from, to) = (key(from.min(to)), key(from.max(to)));
        let (page, reverse) = (1 + usize::try_from(rng.below(8)).unwrap(), rng.chance(500));
        let in_range = |expected: &Expected| {
            let range = expected.range(from.clone()..to.clone());
            let mut cells: Vec<_> =
                range.map(|(key, value)| (key.clone(), value.clone())).collect();
            if reverse {
                cells.reverse();
            }
            cells
        };
        let snapshot = db.snapshot().unwrap();
        let rows = table.range(&snapshot, from.clone()..to.clone()).page(page);
        let rows = if reverse { rows.rev() } else { rows };
        assert_eq!(mixed!(rng, rows), in_range(&expected), "seed {seed}");

        let tx = db.begin().unwrap();
        if rng.chance(500) {
            write(rng, &table, &tx, &mut expected);
        }
        let rows = table.range(&tx, from.clone()..to.clone()).page(page);
        let rows = if reverse { rows.rev() } else { rows };
        assert_eq!(mixed!(rng, rows), in_range(&expected), "seed {seed}, own writes");
    }
}

#[test]
fn a_range_that_was_lent_is_checked_for_phantoms() {
    let db = Db::builder().open_on(Arc::new(SimDisk::new(1))).unwrap();
    let table = db.raw("t").unwrap();
    db.transact(|tx| table.put(tx, "a", "1")).unwrap();
    for (other, conflicts) in [("b", true), ("x", false)] {
        let tx = db.begin().unwrap();
        let mut rows = table.range(&tx, "a".."c");
        while let Some(cell) = rows.next_lent() {
            cell.unwrap();
        }
        db.transact(|tx| table.put(tx, other, "2")).unwrap();
        table.put(&tx, "y", "3").unwrap();
        assert_eq!(tx.commit().is_err(), conflicts, "{other}");
    }
}
