use std::collections::BTreeMap;

use carnet_base::error::ErrorKind;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::row::{Collection, CollectionKind, Element};
use crate::testing;
use crate::value::DataType;

fn at(number: u64) -> Timestamp {
    Timestamp::new(number).unwrap()
}

fn value() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 8).prop_map(Bytes::from)
}

fn element(kind: CollectionKind) -> impl Strategy<Value = Element> {
    let written = option::of((0..3_i64).prop_map(WallTime));
    (0..6_u8, 0..3_u8, option::of(any::<i64>()), written).prop_map(
        move |(key, value, expiry, written)| {
            let bytes = |byte: u8| Bytes::copy_from_slice(&[0, byte]);
            let key = if kind == CollectionKind::List { Bytes::new() } else { bytes(key) };
            let value = if kind == CollectionKind::Set { Bytes::new() } else { bytes(value) };
            Element { key, value, expiry, written }
        },
    )
}

/// The kind of a collection is always that of its column.
const fn kind_of(column: u16) -> CollectionKind {
    match column % 4 {
        0 => CollectionKind::List,
        1 => CollectionKind::Set,
        2 => CollectionKind::Map,
        _ => CollectionKind::Record,
    }
}

fn elements(column: u16) -> impl Strategy<Value = CollectionChange> {
    let kind = kind_of(column);
    let some = move || vec(element(kind), 0..3);
    let steps = vec((0..3_u8, some()), 0..4);
    (any::<bool>(), some(), steps).prop_map(move |(is_cleared, first, steps)| {
        let mut change = match is_cleared {
            true => CollectionChange::replace(Collection::new(kind, first)),
            false => CollectionChange::new(kind),
        };
        for (step, elements) in steps {
            match (step, kind) {
                (0, _) => change.add(elements),
                (_, CollectionKind::List) => change.prepend(elements),
                _ => change.remove(elements.into_iter().map(|element| element.key).collect()),
            }
        }
        change
    })
}

/// Collections have the columns from 10 on.
fn collection_changes() -> impl Strategy<Value = Vec<(u16, Change)>> {
    let change = (10..16_u16).prop_flat_map(|column| {
        prop_oneof![
            4 => elements(column).prop_map(move |change| (column, Change::from(change))),
            1 => Just((column, Change::Deleted)),
        ]
    });
    vec(change, 0..4)
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (value(), option::of(any::<i64>()))
            .prop_map(|(value, expiry)| Change::Set { value, expiry }),
        Just(Change::Deleted),
        any::<i64>().prop_map(Change::Added),
    ]
}

fn delta() -> impl Strategy<Value = RowDelta> {
    let marker = option::of(option::of(any::<i64>()).prop_map(Marker::expiring));
    let written = option::of((0..3_i64).prop_map(WallTime));
    (any::<u32>(), marker, written, btree_map(0..6_u16, change(), 0..6), collection_changes())
        .prop_map(|(schema_version, marker, written, changes, collections)| {
            let mut delta = RowDelta { marker, written, ..RowDelta::new(schema_version) };
            for (id, change) in collections {
                delta.change(ColumnId(id), change);
            }
            for (id, change) in changes.into_iter().rev() {
                delta.change(ColumnId(id), change);
            }
            delta
        })
}

/// Values of columns, changed by each delta in turn.
fn model(image: Option<&RowImage>, oldest_first: &[RowDelta]) -> BTreeMap<u16, Vec<u8>> {
    let columns = image.into_iter().flat_map(RowImage::columns);
    let mut model: BTreeMap<u16, Vec<u8>> =
        columns.map(|(id, column)| (id.0, column.value.to_vec())).collect();
    let plain = |(id, _): &&(ColumnId, Change)| id.0 < 10;
    for (id, change) in oldest_first.iter().flat_map(RowDelta::changes).filter(plain) {
        match change {
            Change::Set { value, .. } => {
                model.insert(id.0, value.to_vec());
            }
            Change::Deleted => {
                model.remove(&id.0);
            }
            Change::Added(amount) => {
                let value = model.entry(id.0).or_insert_with(|| vec![0; 8]);
                let sum = i64::from_be_bytes(value[..].try_into().unwrap()).wrapping_add(*amount);
                *value = sum.to_be_bytes().to_vec();
            }
            Change::Elements(_) => {}
        }
    }
    model
}

fn values(image: &RowImage) -> BTreeMap<u16, Vec<u8>> {
    image.columns().iter().map(|(id, column)| (id.0, column.value.to_vec())).collect()
}

proptest! {
    #[test]
    fn deltas_round_trip(delta in delta()) {
        let bytes = delta.encode();
        prop_assert_eq!(bytes[0], RowDelta::MARK);
        prop_assert_eq!(RowDelta::decode(&bytes).unwrap(), delta);
        for cut in 0..bytes.len() {
            prop_assert!(RowDelta::decode(&bytes.slice(..cut)).is_err());
        }
    }

    #[test]
    fn merge_equals_changes_in_order_of_commits(
        columns in option::of(btree_map(0..6_u16, value(), 0..6)),
        deltas in vec(delta(), 1..5),
    ) {
        let image = columns.map(|columns| {
            let mut image = RowImage::new(1);
            for (id, value) in columns {
                image.set(ColumnId(id), Column::new(value));
            }
            image
        });
        let encoded = image.as_ref().map(RowImage::encode);
        let starts = (0..deltas.len() as u64).map(|place| at(10 + place));
        let mut versions: Vec<_> =
            starts.zip(&deltas).map(|(start, delta)| (start, delta.encode())).collect();
        versions.reverse();
        let merged = RowDelta::merge(encoded.as_ref().map(|image| (at(1), image)), &versions);
        let merged = merged.unwrap();
        prop_assert_eq!(values(&merged), model(image.as_ref(), &deltas));

        // An image in the place of a delta and all versions below it changes nothing.
        for place in 0..versions.len() {
            let below = &versions[place..];
            let start = below[0].0;
            let image = RowDelta::merge(encoded.as_ref().map(|image| (at(1), image)), below);
            let image = image.unwrap();
            if place == 0 {
                prop_assert_eq!(&image, &merged);
                continue;
            }
            let image = image.encode();
            let again = RowDelta::merge(Some((start, &image)), &versions[..place]).unwrap();
            prop_assert_eq!(again, merged.clone());
        }
    }

    #[test]
    fn statements_of_one_transaction_are_one_delta(first in delta(), second in delta()) {
        let mut both = first.clone();
        both.extend(second.clone());
        let merged = RowDelta::merge(None, &[(at(5), both.encode())]).unwrap();
        prop_assert_eq!(values(&merged), model(None, &[first.clone(), second.clone()]));
        let in_turn = [(at(6), second.encode()), (at(5), first.encode())];
        let in_turn = RowDelta::merge(None, &in_turn).unwrap();
        let keys = |image: &RowImage| {
            let elements = image.collections().iter().flat_map(|(id, it)| {
                it.elements().iter().map(|it| (*id, it.key.clone(), it.value.clone(), it.expiry))
            });
            elements.collect::<Vec<_>>()
        };
        prop_assert_eq!(keys(&merged), keys(&in_turn));
        prop_assert_eq!(merged.marker, second.marker.or(first.marker));
    }
}

#[test]
fn bytes_match_the_documented_layout() {
    let mut delta = RowDelta::new(3);
    delta.change(ColumnId(2), Change::Set { value: Bytes::from_static(b"ab"), expiry: None });
    assert_eq!(delta.encode()[..], [2, 3, 0, 1, 2, 0, 2, b'a', b'b']);
    delta.marker = Some(Marker::expiring(Some(-2)));
    delta.change(ColumnId(1), Change::Deleted);
    delta.change(ColumnId(2), Change::Set { value: Bytes::from_static(b"x"), expiry: Some(5) });
    delta.change(ColumnId(3), Change::Added(-1));
    let head = [2, 3, 3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe, 3];
    let changes = [&[1, 2][..], &[2, 1, 0, 0, 0, 0, 0, 0, 0, 5, 1, b'x'], &[3, 3], &[0xff; 8]];
    assert_eq!(delta.encode(), [&head[..], &changes.concat()].concat());

    let mut delta = RowDelta { written: Some(WallTime(9)), ..RowDelta::new(3) };
    let mut map = CollectionChange::new(CollectionKind::Map);
    map.add(vec![pair("b", "two")]);
    map.remove(vec![text("c"), text("a")]);
    delta.change(ColumnId(1), Change::from(map));
    let mut list = CollectionChange::new(CollectionKind::List);
    list.add(vec![Element { expiry: Some(5), ..pair("", "x") }]);
    list.prepend(vec![pair("", "y")]);
    delta.change(ColumnId(2), Change::from(list));
    let set = Collection::new(CollectionKind::Set, vec![pair("k", "")]);
    delta.change(ColumnId(3), Change::from(CollectionChange::replace(set)));
    let head = [&[2, 3, 4][..], &9_i64.to_be_bytes(), &[3]].concat();
    let map = [&[1, 4, 2, 1, 0][..], b"\x01b\x03two", &[2, 1, b'a', 1, b'c']].concat();
    let list = [&[2, 4, 0, 1, 1][..], &5_i64.to_be_bytes(), &[1, b'x', 1, 0, 1, b'y']].concat();
    let set = [3, 4, 0x81, 1, 0, 1, b'k'];
    assert_eq!(delta.encode(), [&head[..], &map, &list, &set].concat());
}

fn text(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn pair(key: &str, value: &str) -> Element {
    Element { key: text(key), value: text(value), ..Element::default() }
}

#[test]
fn columns_keep_the_time_of_their_version() {
    let mut image = RowImage::new(1);
    for id in 1..=3 {
        image.set(ColumnId(id), Column::new("image"));
    }
    let set = |ids: &[u16], written: i64| {
        let mut delta = RowDelta { written: Some(WallTime(written)), ..RowDelta::new(2) };
        for id in ids {
            let value = Bytes::from_static(b"delta");
            delta.change(ColumnId(*id), Change::Set { value, expiry: None });
        }
        let mut map = CollectionChange::new(CollectionKind::Map);
        map.add(vec![pair(&format!("at {written}"), ""), pair("last", "")]);
        delta.change(ColumnId(4), Change::from(map));
        delta.encode()
    };
    let deltas = [(at(9), set(&[3], 90)), (at(7), set(&[2, 3], 70))];
    let merged = RowDelta::merge(Some((at(5), &image.encode())), &deltas).unwrap();
    let written = merged.columns().iter().map(|(_, column)| merged.write_time(column.written));
    let (t70, t90) = (Some(WallTime(70)), Some(WallTime(90)));
    assert_eq!(written.collect::<Vec<_>>(), [None, t70, t90]);
    let elements = merged.collection(ColumnId(4)).unwrap().elements().iter();
    let written = elements.map(|element| merged.write_time(element.written));
    assert_eq!(written.collect::<Vec<_>>(), [t70, t90, t90]);
    assert_eq!(merged.schema_version, 2);
}

/// Keys and values of a map, or values of a list.
fn pairs(image: &RowImage) -> Vec<(Bytes, Bytes)> {
    let collection = image.collection(ColumnId(1)).map(|it| it.elements().to_vec());
    collection.unwrap_or_default().into_iter().map(|it| (it.key, it.value)).collect()
}

fn delta_of(change: Change) -> RowDelta {
    let mut delta = RowDelta::new(1);
    delta.change(ColumnId(1), change);
    delta
}

#[test]
fn elements_hide_the_same_elements_below() {
    let mut change = CollectionChange::new(CollectionKind::Map);
    change.add(vec![pair("a", "new"), pair("c", "new")]);
    change.remove(vec![text("b")]);
    let deltas = [(at(9), delta_of(Change::from(change)).encode())];
    let mut image = RowImage::new(1);
    let older = [pair("a", "old"), pair("b", "old"), pair("d", "old")];
    image.set_collection(ColumnId(1), Collection::new(CollectionKind::Map, older.to_vec()));
    let merged = RowDelta::merge(Some((at(5), &image.encode())), &deltas).unwrap();
    let pair = |key, value| (text(key), text(value));
    assert_eq!(pairs(&merged), [pair("a", "new"), pair("c", "new"), pair("d", "old")]);
    // A plain value of an older program is the collection that it is.
    let plain = DataType::map(DataType::Text, DataType::Text);
    let plain = plain.parse_text("{'b': 'old', 'd': 'old'}").unwrap().serialize();
    image.set(ColumnId(1), Column::new(plain).expiring(Some(77)));
    let merged = RowDelta::merge(Some((at(5), &image.encode())), &deltas).unwrap();
    assert_eq!(pairs(&merged), [pair("a", "new"), pair("c", "new"), pair("d", "old")]);
    let elements = merged.collection(ColumnId(1)).unwrap().elements();
    let expiries: Vec<_> = elements.iter().map(|element| element.expiry).collect();
    assert_eq!(expiries, [None, None, Some(77)]);
    // Another kind of value is damage.
    image.set(ColumnId(1), Column::new("x"));
    assert!(RowDelta::merge(Some((at(5), &image.encode())), &deltas).is_err());
}

#[test]
fn lists_are_joined_in_the_order_of_versions() {
    let list = |front: &[&str], back: &[&str]| {
        let elements = |texts: &[&str]| texts.iter().map(|it| pair("", it)).collect::<Vec<_>>();
        let mut change = CollectionChange::new(CollectionKind::List);
        change.prepend(elements(front));
        change.add(elements(back));
        delta_of(Change::from(change))
    };
    let deltas = [list(&["3"], &["c", "d"]), list(&["1", "2"], &["b"]), list(&[], &["a"])];
    let versions: Vec<_> = (1..).map(at).zip(deltas.iter().map(RowDelta::encode)).collect();
    let merged = RowDelta::merge(None, &versions).unwrap();
    let values: Vec<Bytes> = pairs(&merged).into_iter().map(|(_, value)| value).collect();
    assert_eq!(values, ["3", "1", "2", "a", "b", "c", "d"]);
}

#[test]
fn wrong_deltas_are_refused() {
    let kind = |bytes: &[u8]| RowDelta::decode(&Bytes::copy_from_slice(bytes)).unwrap_err().kind();
    assert_eq!(kind(&[]), ErrorKind::Corrupted);
    assert_eq!(kind(&[1, 0, 0, 0]), ErrorKind::Corrupted, "an image");
    assert_eq!(kind(&[2, 0, 0, 0, 0]), ErrorKind::Corrupted, "a byte too many");
    assert_eq!(kind(&[2, 0, 2, 0]), ErrorKind::Corrupted, "an expiry of no marker");
    assert_eq!(kind(&[2, 0, 0, 1, 2, 5]), ErrorKind::Unsupported, "a later kind");
    assert_eq!(kind(&[2, 0, 0, 1, 2, 4, 4, 0, 0]), ErrorKind::Unsupported, "a later collection");
    let set_and_removed = [2, 0, 0, 1, 2, 4, 1, 1, 0, 1, b'k', 1, 1, b'k'];
    assert_eq!(kind(&set_and_removed), ErrorKind::Corrupted, "a key is set and removed");
    assert_eq!(kind(&[2, 0, 0, 2, 2, 2, 2, 2]), ErrorKind::Corrupted, "an id twice");
    assert_eq!(kind(&[2, 0, 0, 2, 2, 2, 1, 2]), ErrorKind::Corrupted, "out of order");
    let huge = var_long::encode(i64::MAX);
    assert_eq!(kind(&[&[2, 0, 0][..], &huge].concat()), ErrorKind::Corrupted);
    assert_eq!(kind(&[&[2, 0, 0, 1, 2, 0][..], &huge].concat()), ErrorKind::Corrupted);
    let image = RowImage::decode(&RowDelta::new(1).encode()).unwrap_err();
    assert!(image.to_string().contains("delta"), "{image}");
}

#[test]
fn decoder_accepts_only_canonical_bytes() {
    let mut delta = RowDelta::new(1);
    delta.marker = Some(Marker::expiring(Some(9)));
    delta.change(ColumnId(1), Change::Set { value: "abc".into(), expiry: Some(77) });
    delta.change(ColumnId(2), Change::Deleted);
    delta.change(ColumnId(300), Change::Added(7));
    let mut map = CollectionChange::new(CollectionKind::Map);
    map.add(vec![pair("a", "1"), Element { expiry: Some(9), ..pair("b", "2") }]);
    map.remove(vec![text("c"), text("d")]);
    delta.change(ColumnId(301), Change::from(map));
    testing::fuzz(&[delta.encode(), RowDelta::new(0).encode()], |bytes| {
        if let Ok(delta) = RowDelta::decode(&Bytes::copy_from_slice(bytes)) {
            assert_eq!(&delta.encode()[..], bytes);
        }
    });
}
