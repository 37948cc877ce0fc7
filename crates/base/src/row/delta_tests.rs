use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::error::ErrorKind;
use crate::testing;

fn at(number: u64) -> Timestamp {
    Timestamp::new(number).unwrap()
}

fn value() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 8).prop_map(Bytes::from)
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
    let marker = option::of(option::of(any::<i64>()).prop_map(|expiry| Marker { expiry }));
    (any::<u32>(), marker, btree_map(0..6_u16, change(), 0..6)).prop_map(
        |(schema_version, marker, changes)| {
            let mut delta = RowDelta { marker, ..RowDelta::new(schema_version) };
            for (id, change) in changes.into_iter().rev() {
                delta.change(ColumnId(id), change);
            }
            delta
        },
    )
}

/// Values of columns, changed by each delta in turn.
fn model(image: Option<&RowImage>, oldest_first: &[RowDelta]) -> BTreeMap<u16, Vec<u8>> {
    let columns = image.into_iter().flat_map(RowImage::columns);
    let mut model: BTreeMap<u16, Vec<u8>> =
        columns.map(|(id, column)| (id.0, column.value.to_vec())).collect();
    for (id, change) in oldest_first.iter().flat_map(RowDelta::changes) {
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
        prop_assert_eq!(merged.marker, second.marker.or(first.marker));
    }
}

#[test]
fn bytes_match_the_documented_layout() {
    let mut delta = RowDelta::new(3);
    delta.change(ColumnId(2), Change::Set { value: Bytes::from_static(b"ab"), expiry: None });
    assert_eq!(delta.encode()[..], [2, 3, 0, 1, 2, 0, 2, b'a', b'b']);
    delta.marker = Some(Marker { expiry: Some(-2) });
    delta.change(ColumnId(1), Change::Deleted);
    delta.change(ColumnId(2), Change::Set { value: Bytes::from_static(b"x"), expiry: Some(5) });
    delta.change(ColumnId(3), Change::Added(-1));
    let head = [2, 3, 3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe, 3];
    let changes = [&[1, 2][..], &[2, 1, 0, 0, 0, 0, 0, 0, 0, 5, 1, b'x'], &[3, 3], &[0xff; 8]];
    assert_eq!(delta.encode(), [&head[..], &changes.concat()].concat());
}

#[test]
fn columns_name_the_version_that_set_them() {
    let mut image = RowImage::new(1);
    for id in 1..=3 {
        image.set(ColumnId(id), Column::new("image"));
    }
    let set = |ids: &[u16]| {
        let mut delta = RowDelta::new(2);
        for id in ids {
            let value = Bytes::from_static(b"delta");
            delta.change(ColumnId(*id), Change::Set { value, expiry: None });
        }
        delta.encode()
    };
    let deltas = [(at(9), set(&[3])), (at(7), set(&[2, 3]))];
    let merged = RowDelta::merge(Some((at(5), &image.encode())), &deltas).unwrap();
    let written = merged.columns().iter().map(|(_, column)| column.written);
    assert_eq!(written.collect::<Vec<_>>(), [Some(at(5)), Some(at(7)), None]);
    assert_eq!(merged.schema_version, 2);
}

#[test]
fn wrong_deltas_are_refused() {
    let kind = |bytes: &[u8]| RowDelta::decode(&Bytes::copy_from_slice(bytes)).unwrap_err().kind();
    assert_eq!(kind(&[]), ErrorKind::Corrupted);
    assert_eq!(kind(&[1, 0, 0, 0]), ErrorKind::Corrupted, "an image");
    assert_eq!(kind(&[2, 0, 0, 0, 0]), ErrorKind::Corrupted, "a byte too many");
    assert_eq!(kind(&[2, 0, 2, 0]), ErrorKind::Corrupted, "an expiry of no marker");
    assert_eq!(kind(&[2, 0, 0, 1, 2, 4]), ErrorKind::Unsupported, "a later kind");
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
    delta.marker = Some(Marker { expiry: Some(9) });
    delta.change(ColumnId(1), Change::Set { value: "abc".into(), expiry: Some(77) });
    delta.change(ColumnId(2), Change::Deleted);
    delta.change(ColumnId(300), Change::Added(7));
    testing::fuzz(&[delta.encode(), RowDelta::new(0).encode()], |bytes| {
        if let Ok(delta) = RowDelta::decode(&Bytes::copy_from_slice(bytes)) {
            assert_eq!(&delta.encode()[..], bytes);
        }
    });
}
