//! Columns that expire, as typed tables, reads of the past and compaction see them.

use std::sync::Arc;
use std::time::Duration;

use carnet::{Db, Key, PageLimit, Table, WallTime, block_on, catalog};
use carnet_base::{CellKey, ColumnId, KeyRange};
use carnet_data::row::{
    Change, CollectionChange, CollectionKind, Column, Element, RowDelta, RowImage,
};
use carnet_storage::disk::sim::SimDisk;

use super::world::{SECOND, World};

carnet::record! {
    #[derive(Debug, PartialEq)]
    struct Reading {
        level: Option<i32>,
        note: Option<String>,
    }
}

type Readings = Table<Key<(i64,)>, Reading>;

fn key(number: i64) -> Key<(i64,)> {
    Key((number,), ())
}

/// A table in a world that is stepped manually.
struct Place {
    world: World,
    db: Db,
    readings: Readings,
}

impl Place {
    fn new(disk: &SimDisk, retention: Duration) -> Self {
        let world = World::default();
        let builder = world.builder().retention(retention);
        let db = builder.open_on(Arc::new(disk.clone())).unwrap();
        let readings: Readings = db.table("readings").unwrap();
        db.transact(|tx| {
            readings.put(tx, &key(0), &Reading { level: Some(0), note: Some("stays".to_owned()) })
        })
        .unwrap();
        Self { world, db, readings }
    }

    /// Returns the second in `seconds` seconds.
    fn after(&self, seconds: i64) -> Option<i64> {
        use carnet_base::Clock;
        Some(self.world.wall().0.div_euclid(SECOND) + seconds)
    }

    /// Writes a row whose columns expire: the level first, and the note a second later.
    fn put_expiring(&self, number: i64, seconds: i64, note: &str) {
        let snapshot = block_on(self.db.snapshot_async()).unwrap();
        let table = block_on(catalog::table(&snapshot, "main", "readings")).unwrap().unwrap();
        let id = |name: &str| table.column(name).unwrap().id;
        let mut image = RowImage::new(table.version);
        let level = 5_i32.to_be_bytes().to_vec();
        image.set(id("level"), Column::new(level).expiring(self.after(seconds)));
        let note = Column::new(note.to_owned()).expiring(self.after(seconds + 1));
        image.set(id("note"), note);
        let cell = self.cell(number);
        self.db.transact(|tx| tx.as_async().put_cell(cell.clone(), image.encode())).unwrap();
    }

    /// Changes the notes of rows by deltas that expire.
    fn change_expiring(&self, number: i64, seconds: i64, note: &str) {
        let snapshot = block_on(self.db.snapshot_async()).unwrap();
        let table = block_on(catalog::table(&snapshot, "main", "readings")).unwrap().unwrap();
        let mut delta = RowDelta::new(table.version);
        let set = Change::Set { value: note.to_owned().into(), expiry: self.after(seconds) };
        delta.change(table.column("note").unwrap().id, set);
        let cell = self.cell(number);
        self.db
            .transact(|tx| tx.as_async().change_cell(&cell, &delta).map(|taken| assert!(taken)))
            .unwrap();
    }

    /// Sets an element of a map, in a column that the record lacks, by a delta that expires.
    fn add_expiring(&self, number: i64, seconds: i64, text: &str) {
        let mut change = CollectionChange::new(CollectionKind::Map);
        let (key, value) = (seconds.to_string().into(), text.to_owned().into());
        change.add(vec![Element { key, value, expiry: self.after(seconds), written: None }]);
        let mut delta = RowDelta::new(1);
        delta.change(ColumnId(77), Change::from(change));
        let cell = self.cell(number);
        self.db
            .transact(|tx| tx.as_async().change_cell(&cell, &delta).map(|taken| assert!(taken)))
            .unwrap();
    }

    fn cell(&self, number: i64) -> CellKey {
        let snapshot = block_on(self.db.snapshot_async()).unwrap();
        let table = block_on(catalog::table(&snapshot, "main", "readings")).unwrap().unwrap();
        let range = KeyRange::table(table.id);
        let page = block_on(snapshot.range_cells(&range, false, PageLimit::cells(1))).unwrap();
        let partition = carnet_data::partition::encode(&[carnet::Value::Bigint(number)]).unwrap();
        CellKey::new(table.id, &partition, page.cells.get(0).unwrap().key.clustering())
    }

    fn get(&self, number: i64) -> Option<Reading> {
        let newest = self.readings.get(&self.db, &key(number)).unwrap();
        let snapshot = self.db.snapshot().unwrap();
        assert_eq!(self.readings.get(&snapshot, &key(number)).unwrap(), newest);
        let mut scanned = self.readings.scan(&snapshot).map(Result::unwrap);
        let scanned = scanned.find(|(found, _)| found.0.0 == number).map(|(_, reading)| reading);
        assert_eq!(scanned, newest);
        newest
    }
}

fn reading(level: Option<i32>, note: Option<&str>) -> Option<Reading> {
    Some(Reading { level, note: note.map(str::to_owned) })
}

#[test]
fn typed_tables_see_no_expired_columns() {
    let place = Place::new(&SimDisk::new(1), Duration::from_secs(600));
    place.put_expiring(1, 10, "first");
    place.world.pass_seconds(9);
    assert_eq!(place.get(1), reading(Some(5), Some("first")));
    place.world.pass_seconds(1);
    assert_eq!(place.get(1), reading(None, Some("first")));
    let before = place.db.snapshot().unwrap();
    assert_eq!(place.readings.get(&before, &key(1)).unwrap(), reading(None, Some("first")));
    place.world.pass_seconds(1);
    assert_eq!(place.get(1), None);
    let still = place.readings.get(&before, &key(1)).unwrap();
    assert_eq!(still, reading(None, Some("first")), "a snapshot sees one moment");
    assert_eq!(place.get(0), reading(Some(0), Some("stays")));
}

#[test]
fn expired_rows_stay_expired_when_the_clock_is_set_back() {
    let place = Place::new(&SimDisk::new(4), Duration::from_secs(600));
    place.put_expiring(1, 10, "first");
    place.world.pass_seconds(20);
    assert_eq!(place.get(1), None);
    place.world.jump(-1_000 * SECOND);
    assert_eq!(place.get(1), None);
}

#[test]
fn past_reads_see_columns_that_expired_since() {
    let place = Place::new(&SimDisk::new(2), Duration::from_secs(600));
    place.world.pass_seconds(5);
    place.put_expiring(1, 10, "first");
    let commit = place.db.published();
    place.world.pass_seconds(5);
    let then = place.world.pass_seconds(4);
    place.world.pass_seconds(100);
    assert_eq!(place.get(1), None);
    let read = |at: WallTime| {
        let snapshot = place.db.snapshot_as_of(at).unwrap();
        place.readings.get(&snapshot, &key(1)).unwrap()
    };
    assert_eq!(read(then), reading(Some(5), Some("first")));
    assert_eq!(read(WallTime(then.0 + SECOND)), reading(None, Some("first")));
    assert_eq!(read(WallTime(then.0 + 2 * SECOND)), None);
    let snapshot = place.db.snapshot_as_of(commit).unwrap();
    let at_commit = place.readings.get(&snapshot, &key(1)).unwrap();
    assert_eq!(at_commit, reading(Some(5), Some("first")));
}

#[test]
fn compaction_reclaims_expired_rows() {
    const ROWS: i64 = 300;
    let place = Place::new(&SimDisk::new(3), Duration::from_secs(20));
    // Each note is different, so that no compression hides it.
    let note = |number: i64| number.to_string().repeat(60);
    for number in 1..=ROWS {
        place.put_expiring(number, 50, &note(number));
        place.change_expiring(ROWS + number, 40, &note(number));
        place.change_expiring(ROWS + number, 50, &note(number));
        place.add_expiring(2 * ROWS + number, 50, &note(number));
        place.add_expiring(2 * ROWS + number, 40, &note(number));
    }
    let bytes = || {
        place.db.flush().unwrap();
        place.db.compact().unwrap();
        place.db.metrics().unwrap().table_bytes
    };
    place.world.pass_seconds(30);
    // Older versions and entries of commits are gone, and the rows are there.
    let full = bytes();
    assert_eq!(place.readings.scan(&place.db.snapshot().unwrap()).count(), 901);
    // A reader of the past at the watermark may see them.
    place.world.pass_seconds(30);
    place.put_expiring(2_000, 1_000, "another commit");
    place.world.pass_seconds(1);
    let then = place.world.pass_seconds(0);
    assert!(bytes() * 10 > full * 9, "readers of the past see them");
    let past = place.db.snapshot_as_of(WallTime(then.0 - 15 * SECOND)).unwrap();
    assert_eq!(place.readings.scan(&past).count(), 901);
    drop(past);
    for number in 0..30 {
        place.put_expiring(3_000 + number, 1_000, "another commit");
        place.world.pass_seconds(1);
    }
    let left = bytes();
    assert!(left < full / 2, "{left} of {full} bytes are left");
    assert_eq!(place.readings.scan(&place.db.snapshot().unwrap()).count(), 32);
}
