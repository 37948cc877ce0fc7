//! All ways to read a range return the same rows.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use carnet::table::{RawRows, Rows};
use carnet::{
    Bytes, BytesMut, CellKey, Db, ErrorKind, Key, RawTable, SyncTx, Table, Token, Value, block_on,
    catalog,
};
use carnet_base::{Rng, SeededRng};
use carnet_data::key::{self, Order};
use carnet_data::partition;
use carnet_data::row::{Marker, RowImage};
use carnet_storage::disk::sim::SimDisk;

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

/// Reads a range, alternating between iterator, borrowed cells and pages.
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
        assert!(
            rows.next().is_none() && rows.next_lent().is_none(),
            "a read that ended stays ended"
        );
        found
    }};
}

#[test]
fn all_ways_to_read_a_range_agree() {
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
fn borrowed_range_is_checked_for_phantoms() {
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

carnet::record! {
    #[derive(Clone, Debug, PartialEq)]
    struct Reading {
        note: Option<String>,
        value: i64,
    }
}

type Readings = Table<Key<(i64,), (i64,)>, Reading>;
type Place = (Token, i64, i64);

const SENSORS: u64 = 12;

/// Writes a few readings, and cells that are not rows: of static columns, and of rows without
/// content.
fn record(
    rng: &mut SeededRng,
    (db, table): (&Db, &Readings),
    tx: &SyncTx,
    expected: &mut BTreeMap<Place, Reading>,
) {
    let snapshot = block_on(db.snapshot_async()).unwrap();
    let schema = block_on(catalog::table(&snapshot, "main", "t")).unwrap().unwrap();
    let mut image = RowImage::new(schema.version);
    let put = |sensor, clustering: Bytes, image: &RowImage| {
        let partition = partition::encode(&[Value::Bigint(sensor)]).unwrap();
        let cell = CellKey::new(schema.id, &partition, clustering);
        tx.as_async().put_cell(cell, image.encode()).unwrap();
    };
    let below = |rng: &mut SeededRng, bound| i64::from_ne_bytes(rng.below(bound).to_ne_bytes());
    for _ in 0..rng.below(30) {
        let (sensor, time) = (below(rng, SENSORS), below(rng, 5) - 2);
        let key = Key((sensor,), (time,));
        let place = (table.token(&key.0).unwrap(), sensor, time);
        match rng.below(10) {
            0 => {
                table.delete(tx, &key).unwrap();
                expected.remove(&place);
                continue;
            }
            1 => {
                let mut clustering = BytesMut::new();
                key::encode_into(&mut clustering, &[Value::Bigint(time)], &[Order::Asc]).unwrap();
                image.marker = None;
                put(sensor, clustering.freeze(), &image);
                expected.remove(&place);
                continue;
            }
            2 => {
                image.marker = Some(Marker::default());
                put(sensor, Bytes::new(), &image);
            }
            _ => {}
        }
        let note = rng.chance(500).then(|| "x".repeat(usize::try_from(rng.below(99)).unwrap()));
        let reading = Reading { note, value: time * 1000 + sensor };
        table.put(tx, &key, &reading).unwrap();
        expected.insert(place, reading);
    }
}

/// Reads rows, alternating between iterator, borrowed rows and pages.
macro_rules! mixed_rows {
    ($rng:expr, $table:expr, $rows:expr) => {{
        let (rng, table): (&mut SeededRng, &Readings) = ($rng, $table);
        let mut rows: Rows<_, Key<(i64,), (i64,)>, Reading> = $rows;
        let mut found: Vec<(Place, Reading)> = Vec::new();
        let mut see = |key: Key<(i64,), (i64,)>, reading| {
            found.push(((table.token(&key.0).unwrap(), key.0.0, key.1.0), reading));
        };
        loop {
            match rng.below(3) {
                0 => {
                    let Some(row) = rows.next() else { break };
                    let (key, reading) = row.unwrap();
                    see(key, reading);
                }
                1 => {
                    let Some(row) = rows.next_lent() else { break };
                    let row = row.unwrap();
                    let (key, reading) = (row.key().unwrap(), row.record().unwrap());
                    assert_eq!(row.partition_key(), key.0.0.to_be_bytes());
                    assert_eq!(
                        row.column("value").unwrap(),
                        Some(&reading.value.to_be_bytes()[..])
                    );
                    let note = row.column("note").unwrap();
                    assert_eq!(note, reading.note.as_ref().map(|note| note.as_bytes()));
                    assert_eq!(row.column("none").unwrap_err().kind(), ErrorKind::Invalid);
                    see(key, reading);
                }
                _ => {
                    let page = rows.next_page().unwrap();
                    if page.is_empty() {
                        break;
                    }
                    page.into_iter().for_each(|(key, reading)| see(key, reading));
                }
            }
        }
        assert!(
            rows.next().is_none() && rows.next_lent().is_none(),
            "a read that ended stays ended"
        );
        found
    }};
}

#[test]
fn all_ways_to_read_rows_agree() {
    for seed in 0..200 {
        let rng = &mut SeededRng::new(seed);
        let db = match rng.chance(500) {
            true => Db::builder().in_memory(),
            false => Db::builder().open_on(Arc::new(SimDisk::new(seed))).unwrap(),
        };
        let table: Readings = db.table("t").unwrap();
        let mut expected = BTreeMap::new();
        for _ in 0..rng.below(6) {
            let tx = db.begin().unwrap();
            record(rng, (&db, &table), &tx, &mut expected);
            tx.commit().unwrap();
            if rng.chance(300) {
                db.flush().unwrap();
            }
        }
        let bound = |rng: &mut SeededRng| {
            let sensor = (i64::from_ne_bytes(rng.below(SENSORS).to_ne_bytes()),);
            let token = match rng.below(8) {
                0 => Token(i64::MIN),
                1 => Token(i64::MAX),
                _ => table.token(&sensor).unwrap(),
            };
            match rng.below(5) {
                0 => Bound::Unbounded,
                1 | 2 => Bound::Included(token),
                _ => Bound::Excluded(token),
            }
        };
        // Half of the ranges have start and end swapped.
        let tokens = (bound(rng), bound(rng));
        let (page, reverse) = (1 + usize::try_from(rng.below(8)).unwrap(), rng.chance(500));
        let in_range = |expected: &BTreeMap<Place, Reading>| {
            let rows = expected
                .iter()
                .filter(|((token, ..), _)| RangeBounds::<Token>::contains(&tokens, token));
            let mut rows: Vec<_> = rows.map(|(place, row)| (*place, row.clone())).collect();
            if reverse {
                rows.reverse();
            }
            rows
        };
        let snapshot = db.snapshot().unwrap();
        let rows = table.scan_tokens(&snapshot, tokens).page(page);
        let rows = if reverse { rows.rev() } else { rows };
        assert_eq!(mixed_rows!(rng, &table, rows), in_range(&expected), "seed {seed}");
        assert_eq!(table.scan(&snapshot).count(), expected.len(), "seed {seed}");

        let tx = db.begin().unwrap();
        if rng.chance(500) {
            record(rng, (&db, &table), &tx, &mut expected);
        }
        let rows = table.scan_tokens(&tx, tokens).page(page);
        let rows = if reverse { rows.rev() } else { rows };
        assert_eq!(mixed_rows!(rng, &table, rows), in_range(&expected), "seed {seed}, own writes");
    }
}

#[test]
fn read_resumes_at_its_resume_key() {
    let db = Db::builder().in_memory();
    let table: Readings = db.table("t").unwrap();
    db.transact(|tx| {
        (0..10).try_for_each(|n| table.put(tx, &Key((1,), (n,)), &Reading { note: None, value: n }))
    })
    .unwrap();
    let mut rows = table.scan(&db.snapshot().unwrap()).page(4);
    assert_eq!(rows.next().unwrap().unwrap().1.value, 0);
    let resume = rows.resume().unwrap();
    // The unread rest of the current page lies before it.
    let values = rows.resume_from(resume).map(|row| row.unwrap().1.value);
    assert_eq!(values.collect::<Vec<_>>(), [4, 5, 6, 7, 8, 9]);
}
