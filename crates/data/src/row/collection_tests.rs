use super::*;
use crate::testing;
use crate::value::UserType;
use crate::{Rng as _, SeededRng};

fn value_of(data_type: &DataType, text: &str) -> Bytes {
    data_type.parse_text(text).unwrap().serialize()
}

#[test]
fn values_become_elements_and_values_again() {
    let types = ["list<int>", "set<int>", "map<varint, text>", "map<text, tuple<int, text>>"];
    let texts =
        ["[3, -1, 3]", "{-1, 0, 7, 300}", "{-300: 'a', 2: '', 1000: 'c'}", "{'': (1, null)}"];
    for (data_type, text) in types.iter().zip(texts) {
        let data_type = data_type.parse::<DataType>().unwrap();
        let kind = CollectionKind::of_type(&data_type).unwrap();
        let bytes = value_of(&data_type, text);
        let collection = Collection::from_serialized(kind, &bytes, Some(9)).unwrap();
        assert!(collection.elements().iter().all(|element| element.expiry == Some(9)));
        assert_eq!(collection.serialize(&data_type).unwrap(), bytes, "{data_type}");
        let mut encoded = BytesMut::new();
        collection.put(&mut encoded);
        let encoded = encoded.freeze();
        assert_eq!(Collection::decode(&encoded, &encoded).unwrap(), collection);
    }
}

#[test]
fn elements_are_stored_by_bytes_and_read_by_type() {
    let set = DataType::set(DataType::Int);
    let bytes = value_of(&set, "{-1, 1}");
    let collection = Collection::from_serialized(CollectionKind::Set, &bytes, None).unwrap();
    let keys = collection.elements().iter().map(|element| element.key[0]).collect::<Vec<_>>();
    assert_eq!(keys, [0, 0xff], "the negative number is stored last");
    assert_eq!(collection.serialize(&set).unwrap(), bytes, "and read first");
}

#[test]
fn fields_are_elements_by_place() {
    let fields = |count: usize| {
        let names = ["x", "y", "z"].into_iter().take(count);
        let fields = names.map(|name| (name.to_owned(), DataType::Int)).collect();
        DataType::Udt(std::sync::Arc::new(UserType {
            keyspace: "ks".into(),
            name: "point".into(),
            fields,
            reference: crate::TypeReference::default(),
            keys: crate::value::FieldKeys::Open,
        }))
    };
    let bytes = value_of(&fields(2), "{x: null, y: 2}");
    let collection = Collection::from_serialized(CollectionKind::Record, &bytes, None).unwrap();
    assert_eq!(collection.elements().len(), 1);
    assert_eq!(collection.get(&Element::place_of(1)).unwrap().value[..], 2_i32.to_be_bytes());
    assert_eq!(collection.serialize(&fields(2)).unwrap(), bytes);
    // A field that was added later is null.
    let added = value_of(&fields(3), "{x: null, y: 2, z: null}");
    assert_eq!(collection.serialize(&fields(3)).unwrap(), added);
}

#[test]
fn equal_keys_in_several_forms_are_one_element() {
    let map = DataType::map(DataType::Decimal, DataType::Int);
    let stored = |key: &str, value: i32, written: Option<i64>| Element {
        key: value_of(&DataType::Decimal, key),
        value: Bytes::copy_from_slice(&value.to_be_bytes()),
        expiry: None,
        written: written.map(WallTime),
    };
    let elements =
        vec![stored("1.5", 2, Some(7)), stored("1.50", 3, Some(9)), stored("2", 4, None)];
    let old = Collection::new(CollectionKind::Map, elements);
    let shown = |collection: &Collection| {
        map.deserialize(&collection.serialize(&map).unwrap()).unwrap().to_literal()
    };
    assert_eq!(shown(&old), "{1.50: 3, 2: 4}");
    let key = DataType::Decimal.parse_text("1.500").unwrap();
    assert_eq!(old.find(&map, &key).unwrap().unwrap().value[..], 3_i32.to_be_bytes());
    let other = old.other_forms(&map, |form| *form == key.key_form()).unwrap();
    assert_eq!(other, [value_of(&DataType::Decimal, "1.50")]);
    // New values have one form.
    let sent = value_of(&map, "{1.50: 3, 2.0: 4}");
    let new = Collection::of_value(&map, &sent, None).unwrap();
    assert_eq!(shown(&new), "{1.5: 3, 2: 4}");
    assert!(new.other_forms(&map, |_| true).unwrap().is_empty());
}

#[test]
fn wrong_values_are_refused() {
    let refused = |kind, bytes: &[u8]| {
        Collection::from_serialized(kind, &Bytes::copy_from_slice(bytes), None).is_err()
    };
    assert!(refused(CollectionKind::Set, &[]));
    assert!(refused(CollectionKind::Set, &[0, 0, 0, 1]), "an element is missing");
    assert!(refused(CollectionKind::Set, &[0x7f, 0xff, 0xff, 0xff]), "a false count");
    assert!(refused(CollectionKind::List, &[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]), "null");
    assert!(refused(CollectionKind::List, &[0, 0, 0, 0, 1]), "a byte too many");
    let set = Collection::new(CollectionKind::Set, Vec::new());
    assert!(set.serialize(&DataType::list(DataType::Int)).is_err(), "another type");
    let key = Element { key: Bytes::from_static(b"abc"), ..Element::default() };
    let set = Collection::new(CollectionKind::Set, vec![key]);
    assert!(set.serialize(&DataType::set(DataType::Int)).is_err(), "three bytes are no int");
}

#[test]
fn hostile_values_do_not_panic() {
    let map = DataType::map(DataType::Text, DataType::Int);
    testing::fuzz(&[value_of(&map, "{'a': 1, 'b': 2}")], |bytes| {
        let bytes = Bytes::copy_from_slice(bytes);
        for kind in [0, 1, 2, 3].map(|byte| CollectionKind::from_byte(byte).unwrap()) {
            if let Ok(collection) = Collection::from_serialized(kind, &bytes, None) {
                let _ = collection.serialize(&map);
            }
        }
    });
}

/// A collection that was read from a row stays encoded as long as nothing changes.
#[test]
fn encoded_collection_equals_its_elements() {
    for seed in 0..300 {
        let mut rng = SeededRng::new(seed);
        let kind = CollectionKind::from_byte(u8::try_from(rng.below(4)).unwrap()).unwrap();
        let mut number = |bound: u64| i64::try_from(rng.below(bound)).unwrap();
        let elements = (0..number(20)).map(|place| Element {
            key: match kind {
                CollectionKind::List => Bytes::new(),
                _ => Element::place_of(usize::try_from(place).unwrap()),
            },
            value: match kind {
                CollectionKind::Set => Bytes::new(),
                _ => Bytes::from(vec![7; usize::try_from(number(4)).unwrap()]),
            },
            expiry: (number(3) == 0).then(|| number(10)),
            written: (number(3) == 0).then(|| WallTime(number(4))),
        });
        let mut decoded = Collection::new(kind, elements.collect());
        let mut encoded = read(&decoded);
        let mut written = WallTime(number(4));
        for _ in 0..6 {
            assert_eq!(encoded, decoded, "seed {seed}");
            assert_eq!(encoded.len(), decoded.elements().len(), "seed {seed}");
            assert!(encoded.clone().into_elements().eq(decoded.clone().into_elements()));
            assert_eq!(bytes_of(&encoded), bytes_of(&decoded), "seed {seed}");
            match number(6) {
                0 => {
                    let now = number(10);
                    encoded.expire(now);
                    decoded.expire(now);
                }
                1 | 2 => {
                    let newer = WallTime(number(4));
                    encoded.begin_version(written, newer);
                    decoded.begin_version(written, newer);
                    written = newer;
                }
                3 => assert_eq!(encoded.elements(), decoded.elements(), "seed {seed}"),
                4 => {
                    encoded.elements_mut().pop();
                    decoded.elements_mut().pop();
                }
                _ => encoded = read(&encoded),
            }
        }
        if kind == CollectionKind::List {
            assert_eq!(Collection::list(decoded.clone().into_elements()), decoded, "seed {seed}");
        }
    }
}

fn bytes_of(collection: &Collection) -> Bytes {
    let mut out = BytesMut::new();
    collection.put(&mut out);
    out.freeze()
}

fn read(collection: &Collection) -> Collection {
    let bytes = bytes_of(collection);
    Collection::decode(&bytes, &bytes).unwrap()
}
