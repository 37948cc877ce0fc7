//! All ways to write a row produce the same bytes, and all ways to read it produce the same record.

use std::sync::Arc;

use carnet::{
    Bytes, CellKey, DataType, Db, ErrorKind, Key, PageLimit, Record, Result, Table, Value,
    block_on, catalog,
};
use carnet_base::KeyRange;
use carnet_data::row::{Column, RowImage, RowReader};
use carnet_storage::disk::sim::{Kind, SimDisk};

carnet::record! {
    #[derive(Clone, Debug, PartialEq)]
    struct Straight {
        number: i64,
        text: Option<String>,
        blob: Vec<u8>,
        flag: Option<bool>,
    }
}

// The same columns, not in the order of their ids.
carnet::record! {
    struct Crossed {
        flag: Option<bool>,
        blob: Vec<u8>,
        number: i64,
        text: Option<String>,
    }
}

/// Like [`Straight`], but with only the required methods of a record.
struct ByHand(Straight);

impl Record for ByHand {
    const COLUMNS: &'static [(&'static str, DataType)] = Straight::COLUMNS;

    fn to_columns(&self) -> Vec<Option<Value>> {
        self.0.to_columns()
    }

    fn from_columns(columns: Vec<Option<Value>>) -> Result<Self> {
        Straight::from_columns(columns).map(Self)
    }
}

type Rows<V> = Table<Key<(i64,)>, V>;

fn rows() -> Vec<Straight> {
    let row = |number, text: Option<&str>, blob: &[u8], flag| Straight {
        number,
        text: text.map(str::to_owned),
        blob: blob.to_vec(),
        flag,
    };
    vec![
        row(0, None, b"", None),
        row(-1, Some(""), b"x", Some(true)),
        row(i64::MAX, Some("text"), &[7; 127], None),
        row(1, None, &[8; 128], Some(false)),
        row(2, Some("long"), &[9; 100_000], Some(true)),
    ]
}

fn cells(db: &Db) -> Vec<(CellKey, Bytes)> {
    let snapshot = block_on(db.snapshot_async()).unwrap();
    let table = block_on(catalog::table(&snapshot, "main", "t")).unwrap().unwrap();
    let range = KeyRange::table(table.id);
    let page = block_on(snapshot.range_cells(&range, false, PageLimit::cells(100))).unwrap();
    page.cells.share_all().collect()
}

#[test]
fn all_ways_to_write_make_the_same_bytes() {
    for row in rows() {
        let db = Db::builder().in_memory();
        let straight: Rows<Straight> = db.table("t").unwrap();
        let crossed: Rows<Crossed> = db.table("t").unwrap();
        let by_hand: Rows<ByHand> = db.table("t").unwrap();
        let Straight { number, text, blob, flag } = row.clone();
        db.transact(|tx| {
            straight.put(tx, &Key((1,), ()), &row)?;
            by_hand.put(tx, &Key((2,), ()), &ByHand(row.clone()))?;
            let (text, blob) = (text.clone(), blob.clone());
            crossed.put(tx, &Key((3,), ()), &Crossed { flag, blob, number, text })
        })
        .unwrap();
        let (table, other) = (straight.clone(), row.clone());
        block_on(db.run(|tx| {
            let (table, other) = (table.clone(), other.clone());
            async move { table.put(&tx, &Key((4,), ()), &other).await }
        }))
        .unwrap();
        let cells = cells(&db);
        assert_eq!(cells.len(), 4);
        let payload = &cells[0].1;
        assert!(cells.iter().all(|(_, other)| other == payload), "{row:?}");

        let snapshot = db.snapshot().unwrap();
        for key in 1..=4 {
            let key = Key((key,), ());
            assert_eq!(straight.get(&snapshot, &key).unwrap().unwrap(), row);
            assert_eq!(by_hand.get(&snapshot, &key).unwrap().unwrap().0, row);
            let read = crossed.get(&snapshot, &key).unwrap().unwrap();
            let Crossed { flag, blob, number, text } = read;
            assert_eq!(Straight { number, text, blob, flag }, row);
        }
    }
}

#[test]
fn malformed_rows_are_refused() {
    let db = Db::builder().in_memory();
    let table: Rows<Straight> = db.table("t").unwrap();
    let key = Key((1,), ());
    db.transact(|tx| table.put(tx, &key, &rows()[1])).unwrap();
    let (cell, payload) = cells(&db).remove(0);
    let whole = payload.to_vec();
    let behind = [&whole[..], b"x"].concat();
    let nothing_and_more = [&whole[..2], &[0, 0, 9][..]].concat();
    let mut short = RowImage::decode(&payload).unwrap();
    let number = RowReader::new(&whole).unwrap().next_column().unwrap().unwrap();
    short.set(number.id, Column::new(number.value[..3].to_vec()));
    let (crossed, by_hand): (Rows<Crossed>, Rows<ByHand>) =
        (db.table("t").unwrap(), db.table("t").unwrap());
    for wrong in [&behind[..], &whole[..whole.len() - 1], &nothing_and_more, b"", &short.encode()] {
        let payload = wrong.to_vec();
        db.transact(|tx| tx.as_async().put_cell(cell.clone(), payload.clone().into())).unwrap();
        let snapshot = db.snapshot().unwrap();
        for error in [
            table.get(&snapshot, &key).unwrap_err(),
            crossed.get(&snapshot, &key).map(drop).unwrap_err(),
            by_hand.get(&snapshot, &key).map(drop).unwrap_err(),
            table.scan(&snapshot).next().unwrap().unwrap_err(),
            table.scan(&snapshot).next_page().unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Corrupted, "{wrong:?}: {error}");
        }
    }
    // A cell without a marker and without columns is not a row.
    let nothing = [&whole[..2], &[0, 0][..]].concat();
    db.transact(|tx| tx.as_async().put_cell(cell.clone(), nothing.clone().into())).unwrap();
    assert_eq!(table.get(&db.snapshot().unwrap(), &key).unwrap(), None);
}

/// A record of one of the columns of [`Straight`].
mod part {
    carnet::record! {
        #[derive(Debug, PartialEq)]
        pub(super) struct Text {
            pub(super) text: Option<String>,
        }
    }
}

#[test]
fn updates_change_only_named_columns() {
    let on_disk = SimDisk::new(1);
    for db in [Db::builder().in_memory(), open(&on_disk)] {
        let table: Rows<Straight> = db.table("t").unwrap();
        let key = Key((1,), ());
        let mut row = rows().remove(4);
        db.transact(|tx| table.put(tx, &key, &row)).unwrap();
        let number = ("number", Some(Value::Bigint(9)));
        db.transact(|tx| table.update(tx, &key, &[number.clone(), ("text", None)])).unwrap();
        (row.number, row.text) = (9, None);
        assert_eq!(table.get(&db, &key).unwrap().unwrap(), row);
        // A record without some of the columns keeps these.
        let part: Rows<part::Text> = db.table("t").unwrap();
        let text = part::Text { text: Some("new".to_owned()) };
        db.transact(|tx| part.put(tx, &key, &text)).unwrap();
        row.text = Some("new".to_owned());
        assert_eq!(table.get(&db, &key).unwrap().unwrap(), row);
        for wrong in [("absent", None), ("number", Some(Value::Int(1)))] {
            let wrong = [wrong];
            let error = db.transact(|tx| table.update(tx, &key, &wrong)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        }
        // A row of an update alone exists until its last column is gone.
        let other = Key((2,), ());
        db.transact(|tx| part.update(tx, &other, &[("text", Some(Value::Text("x".into())))]))
            .unwrap();
        assert_eq!(part.get(&db, &other).unwrap().unwrap().text.as_deref(), Some("x"));
        assert!(table.get(&db, &other).is_err(), "its number is null");
        db.transact(|tx| part.update(tx, &other, &[("text", None)])).unwrap();
        assert_eq!(part.get(&db, &other).unwrap(), None);
        if db.metrics().is_some() {
            db.flush().unwrap();
        }
    }
    let db = open(&on_disk);
    let (table, part): (Rows<Straight>, Rows<part::Text>) =
        (db.table("t").unwrap(), db.table("t").unwrap());
    let update = |number: i64, text: &str| {
        let number = [("number", Some(Value::Bigint(number)))];
        db.transact(|tx| table.update(tx, &Key((1,), ()), &number)).unwrap();
        let text = part::Text { text: Some(text.to_owned()) };
        db.transact(|tx| part.put(tx, &Key((1,), ()), &text)).unwrap();
    };
    update(1, "reads the schema");
    let before = on_disk.count(Kind::Read);
    update(2, "last");
    assert_eq!(on_disk.count(Kind::Read), before, "no row was read");
    let row = table.get(&db, &Key((1,), ())).unwrap().unwrap();
    assert_eq!((row.number, row.text.as_deref()), (2, Some("last")));
}

fn open(disk: &SimDisk) -> Db {
    Db::builder().open_on(Arc::new(disk.clone())).unwrap()
}

#[test]
fn put_depends_on_its_schema() {
    let db = Db::builder().in_memory();
    let table: Rows<Straight> = db.table("t").unwrap();
    // From the second row on, the schema is cached.
    db.transact(|tx| table.put(tx, &Key((1,), ()), &rows()[0])).unwrap();
    let tx = db.begin().unwrap();
    table.put(&tx, &Key((2,), ()), &rows()[0]).unwrap();
    block_on(db.run(|tx| async move { catalog::drop_table(&tx, "main", "t").await })).unwrap();
    assert_eq!(tx.commit().unwrap_err().kind(), ErrorKind::Conflict);
}
