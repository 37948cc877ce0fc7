//! Compares the encoding with Cassandra's comparators, and ranges with filters.

use std::cmp::Ordering;
use std::net::IpAddr;
use std::ops::{Bound, RangeBounds};

use bytes::Bytes;
use carnet_base::error::ErrorKind;
use num_bigint::BigInt;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use uuid::Uuid;

use super::comparators::{compare, compare_tuples};
use super::*;
use crate::testing;
use crate::value::{Composite, DataType, FieldKeys, Value};

fn key_types() -> Vec<DataType> {
    let composite = [
        DataType::list(DataType::Int),
        DataType::set(DataType::Text),
        DataType::map(DataType::Tinyint, DataType::Timeuuid),
        DataType::tuple([DataType::Boolean, DataType::Blob]),
        DataType::list(DataType::list(DataType::Boolean)),
        DataType::vector(DataType::Float, 2),
        DataType::vector(DataType::Text, 3),
        DataType::set(DataType::Decimal),
        DataType::tuple([DataType::Varint, DataType::Decimal]),
        point(FieldKeys::All, 2),
        point(FieldKeys::Open, 3),
        DataType::list(point(FieldKeys::Open, 2)),
    ];
    let scalars = DataType::SCALARS.into_iter().filter(DataType::is_key_type);
    scalars.chain(composite).collect()
}

fn point(keys: FieldKeys, fields: usize) -> DataType {
    let fields = [("x", DataType::Int), ("y", DataType::Text), ("z", DataType::Boolean)]
        .into_iter()
        .take(fields);
    DataType::Udt(std::sync::Arc::new(crate::value::UserType {
        keyspace: "ks".to_owned(),
        name: "point".to_owned(),
        fields: fields.map(|(name, field)| (name.to_owned(), field)).collect(),
        reference: crate::value::TypeReference::default(),
        keys,
    }))
}

#[test]
fn open_keys_stay_when_fields_are_added() {
    let [before, after] = [1, 3].map(|fields| point(FieldKeys::Open, fields));
    for of in [DataType::list as fn(DataType) -> DataType, DataType::set, |it| it] {
        let is_whole = matches!(of(before.clone()), DataType::Udt(_));
        for (old, new) in [("{x: 7}", "{x: 7, y: null, z: null}"), ("{x: null}", "{}")] {
            let text = |text: &str| if is_whole { text.to_owned() } else { format!("[{text}]") };
            let value = |data_type: &DataType, shown: &str| {
                let whole = of(data_type.clone());
                let shown = match &whole {
                    DataType::Set(_) => text(shown).replace('[', "{").replace(']', "}"),
                    _ => text(shown),
                };
                whole.parse_text(&shown).unwrap()
            };
            let (old, new) = (value(&before, old), value(&after, new));
            let orders = [Order::Desc, Order::Asc];
            let key = |value: &Value| encode(&[value.clone(), Value::Int(1)], &orders).unwrap();
            assert_eq!(key(&old), key(&new), "{old}");
            let types = [of(after.clone()), DataType::Int];
            assert_eq!(decode(&key(&old), &types, &orders).unwrap()[0], new);
            let partition = |value: &Value| crate::partition::encode(std::slice::from_ref(value));
            assert_eq!(partition(&old).unwrap(), partition(&new).unwrap(), "{old}");
        }
    }
}

/// Bytes that are often equal, and include values that codecs treat specially.
fn edgy_bytes(len: impl Into<proptest::collection::SizeRange>) -> BoxedStrategy<Vec<u8>> {
    let byte = prop_oneof![
        4 => select(vec![0x00_u8, 0x01, 0x02, 0x7f, 0x80, 0x81, 0xfe, 0xff]),
        1 => any::<u8>(),
    ];
    vec(byte, len).boxed()
}

fn edgy<const N: usize>() -> BoxedStrategy<[u8; N]> {
    edgy_bytes(N).prop_map(|bytes| bytes.try_into().unwrap()).boxed()
}

fn text() -> BoxedStrategy<String> {
    let letter = prop_oneof![
        4 => select(vec!['\0', '\u{1}', '\u{2}', 'a', 'b', '\u{7f}', '\u{80}', '\u{ff}', '\u{10ffff}']),
        1 => any::<char>(),
    ];
    vec(letter, 0..6).prop_map(|letters| letters.into_iter().collect()).boxed()
}

/// Half of the UUIDs are of version 1, and half of them share one of four first halves, because the
/// second halves matter only if the first ones are equal.
fn uuid() -> BoxedStrategy<[u8; 16]> {
    let shared = select(vec![0x00_u8, 0x01, 0x80, 0xff]).prop_map(|byte| [byte; 8]);
    let first = prop_oneof![shared, edgy::<8>()];
    (first, edgy::<8>(), prop_oneof![Just(0x10_u8), any::<u8>()])
        .prop_map(|(first, second, version)| {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&first);
            bytes[8..].copy_from_slice(&second);
            bytes[6] = (bytes[6] & 0x0f) | (version & 0xf0);
            bytes
        })
        .boxed()
}

/// Numbers of any length, and often the same ones. A byte that says the length is not enough from 127.
fn number() -> BoxedStrategy<BigInt> {
    let long = (126..130_usize, edgy::<1>())
        .prop_map(|(len, [byte])| BigInt::from_signed_bytes_be(&vec![byte; len]));
    prop_oneof![
        4 => edgy_bytes(0..4).prop_map(|bytes| BigInt::from_signed_bytes_be(&bytes)),
        4 => (-120..120_i64).prop_map(BigInt::from),
        1 => long,
    ]
    .boxed()
}

/// Decimals whose digits end in zeros, so that they equal others of another scale.
fn decimal() -> BoxedStrategy<Value> {
    let zeros = select(vec![0_u32, 0, 1, 2, 3, 40]);
    (number(), zeros, prop_oneof![-3..6_i32, -60..60_i32])
        .prop_map(|(digits, zeros, scale)| Value::Decimal {
            unscaled: digits * BigInt::from(10).pow(zeros),
            scale,
        })
        .boxed()
}

fn composite(data_type: &DataType) -> BoxedStrategy<Value> {
    let whole = data_type.clone();
    let parts = match data_type {
        record if record.is_record() => {
            let fields = record.parts().into_iter();
            let fields = fields.map(|field| proptest::option::of(value(field)));
            fields.collect::<Vec<_>>().boxed()
        }
        DataType::Vector(vector) => {
            vec(value(&vector.0).prop_map(Some), usize::from(vector.1)).boxed()
        }
        _ => {
            let item: Vec<_> = data_type.parts().into_iter().map(value).collect();
            vec(item, 0..4)
                .prop_map(|items| items.into_iter().flatten().map(Some).collect())
                .boxed()
        }
    };
    parts
        .prop_map(move |parts: Vec<Option<Value>>| {
            Value::Composite(Composite::new(whole.clone(), parts).unwrap())
        })
        .boxed()
}

fn value(data_type: &DataType) -> BoxedStrategy<Value> {
    match data_type {
        DataType::Bigint => edgy().prop_map(|b| Value::Bigint(i64::from_be_bytes(b))).boxed(),
        DataType::Timestamp => edgy().prop_map(|b| Value::Timestamp(i64::from_be_bytes(b))).boxed(),
        DataType::Int => edgy().prop_map(|b| Value::Int(i32::from_be_bytes(b))).boxed(),
        DataType::Smallint => edgy().prop_map(|b| Value::Smallint(i16::from_be_bytes(b))).boxed(),
        DataType::Tinyint => edgy().prop_map(|b| Value::Tinyint(i8::from_be_bytes(b))).boxed(),
        DataType::Date => edgy().prop_map(|b| Value::Date(u32::from_be_bytes(b))).boxed(),
        DataType::Time => {
            prop_oneof![0..3_i64, 0..crate::serial::DAY_NANOS].prop_map(Value::Time).boxed()
        }
        DataType::Boolean => any::<bool>().prop_map(Value::Boolean).boxed(),
        DataType::Double => prop_oneof![
            select(vec![0.0, -0.0, f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.0]),
            edgy().prop_map(f64::from_be_bytes),
        ]
        .prop_map(Value::Double)
        .boxed(),
        DataType::Float => prop_oneof![
            select(vec![0.0, -0.0, f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.0]),
            edgy().prop_map(f32::from_be_bytes),
        ]
        .prop_map(Value::Float)
        .boxed(),
        DataType::Text => text().prop_map(Value::Text).boxed(),
        DataType::Ascii => edgy_bytes(0..6)
            .prop_map(|bytes| bytes.into_iter().map(|byte| char::from(byte & 0x7f)).collect())
            .prop_map(Value::Ascii)
            .boxed(),
        DataType::Blob => edgy_bytes(0..6).prop_map(|b| Value::Blob(Bytes::from(b))).boxed(),
        DataType::Inet => prop_oneof![
            edgy::<4>().prop_map(IpAddr::from),
            // An IPv4-mapped address is decoded as the IPv4 address.
            edgy::<16>().prop_map(|octets| IpAddr::from(octets).to_canonical()),
            // An IPv6 address that begins with an IPv4 address that is drawn as well.
            Just(IpAddr::from([0, 0, 0, 0])),
            Just(IpAddr::from([0; 16])),
        ]
        .prop_map(Value::Inet)
        .boxed(),
        DataType::Uuid => uuid().prop_map(|b| Value::Uuid(Uuid::from_bytes(b))).boxed(),
        DataType::Timeuuid => uuid()
            .prop_map(|mut bytes| {
                bytes[6] = (bytes[6] & 0x0f) | 0x10;
                Value::Timeuuid(Uuid::from_bytes(bytes))
            })
            .boxed(),
        DataType::List(_)
        | DataType::Set(_)
        | DataType::Map(_)
        | DataType::Tuple(_)
        | DataType::Udt(_)
        | DataType::Vector(_) => composite(data_type),
        DataType::Varint => number().prop_map(Value::Varint).boxed(),
        DataType::Decimal => decimal(),
        DataType::Counter | DataType::Duration => unreachable!("not a key type"),
    }
}

/// A schema of up to four clustering columns.
fn columns() -> impl Strategy<Value = (Vec<DataType>, Vec<Order>)> {
    let order = select(vec![Order::Asc, Order::Desc]);
    vec((select(key_types()), order), 1..=4).prop_map(|columns| columns.into_iter().unzip())
}

fn tuple(types: &[DataType]) -> Vec<BoxedStrategy<Value>> {
    types.iter().map(value).collect()
}

/// The value that is read back from a key.
fn canonical(value: &Value) -> Value {
    match value {
        Value::Decimal { unscaled, scale } => {
            let mut shown = (unscaled.clone(), *scale);
            while shown.0 != BigInt::ZERO && &shown.0 % 10 == BigInt::ZERO {
                shown = (shown.0 / 10, shown.1 - 1);
            }
            let digits = i32::try_from(shown.0.magnitude().to_string().len()).unwrap();
            if shown.0 == BigInt::ZERO {
                shown.1 = 0;
            } else if shown.1 < 0 && digits - shown.1 <= 38 {
                shown = (shown.0 * BigInt::from(10).pow(shown.1.unsigned_abs()), 0);
            }
            Value::Decimal { unscaled: shown.0, scale: shown.1 }
        }
        Value::Composite(composite) => {
            let parts = composite.parts().iter();
            let parts = parts.map(|part| part.as_ref().map(canonical)).collect();
            Value::Composite(Composite::new(composite.data_type().clone(), parts).unwrap())
        }
        Value::Double(number) if number.is_nan() => Value::Double(f64::NAN),
        Value::Float(number) if number.is_nan() => Value::Float(f32::NAN),
        other => other.clone(),
    }
}

/// Asserts equality, with NaN equal to itself, −0.0 distinct from 0.0, and decimals by number.
fn assert_same(decoded: &[Value], values: &[Value]) {
    let bytes = |values: &[Value]| -> Vec<_> {
        values.iter().map(|value| (value.data_type(), canonical(value).serialize())).collect()
    };
    assert_eq!(bytes(decoded), bytes(values));
}

fn check_pair(a: &[Value], b: &[Value], types: &[DataType], orders: &[Order]) {
    let (left, right) = (encode(a, orders).unwrap(), encode(b, orders).unwrap());
    assert_eq!(left.cmp(&right), compare_tuples(a, b, orders), "{a:?} and {b:?}, {orders:?}");
    assert!(left.len() >= a.len(), "each component takes a byte");
    assert!(left == right || !left.starts_with(&right), "{b:?} is a prefix of {a:?}");
    assert_same(&decode(&left, types, orders).unwrap(), a);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn byte_order_of_one_value_is_cassandras(
        (data_type, a, b) in select(key_types())
            .prop_flat_map(|of| (Just(of.clone()), value(&of), value(&of))),
    ) {
        for order in [Order::Asc, Order::Desc] {
            let expected = compare(&data_type, &a.serialize(), &b.serialize());
            assert_eq!(a.compare(&b), expected, "{a:?} and {b:?}");
            check_pair(std::slice::from_ref(&a), std::slice::from_ref(&b), std::slice::from_ref(&data_type), &[order]);
        }
    }

    #[test]
    fn byte_order_of_tuples_is_cassandras(
        (types, orders, a, b, shared) in columns().prop_flat_map(|(types, orders)| {
            let (a, b) = (tuple(&types), tuple(&types));
            let shared = 0..=types.len();
            (Just(types), Just(orders), a, b, shared)
        }),
    ) {
        // Tuples share their first components, so that the later ones matter.
        let b: Vec<_> = a[..shared].iter().chain(&b[shared..]).cloned().collect();
        check_pair(&a, &b, &types, &orders);
    }

    #[test]
    fn prefix_range_holds_exactly_the_matching_keys(
        (orders, a, b, len) in columns().prop_flat_map(|(types, orders)| {
            let len = 0..=types.len();
            (Just(orders), tuple(&types), tuple(&types), len)
        }),
        shared in 0..=4_usize,
    ) {
        let shared = shared.min(a.len());
        let b: Vec<_> = a[..shared].iter().chain(&b[shared..]).cloned().collect();
        let range = prefix_range(&encode(&a[..len], &orders).unwrap());
        let begins_alike = compare_tuples(&a[..len], &b[..len], &orders) == Ordering::Equal;
        prop_assert_eq!(range.contains(&encode(&b, &orders).unwrap()), begins_alike);
        prop_assert!(!range.contains(&Bytes::new()), "the static columns' key is in the range");
    }

    #[test]
    fn a_slice_holds_exactly_the_keys_between_its_bounds(
        (order, types, low, high, key, equal) in (1..=3_usize, select(vec![Order::Asc, Order::Desc]))
            .prop_flat_map(|(len, order)| (Just(order), vec(select(key_types()), len)))
            .prop_flat_map(|(order, types)| {
                let equal = 0..types.len();
                let (low, high, key) = (tuple(&types), tuple(&types), tuple(&types));
                (Just(order), Just(types), low, high, key, equal)
            }),
        kinds in (0..3_u8, 0..3_u8),
        shared in 0..=3_usize,
    ) {
        // Components before the slice are compared for equality, and so should often be equal.
        let key: Vec<_> = low[..shared.min(low.len())]
            .iter().chain(&key[shared.min(low.len())..]).cloned().collect();
        // Columns before the slice may be of another order.
        let orders: Vec<_> = (0..types.len())
            .map(|column| if column < equal { Order::Desc } else { order })
            .collect();
        let lower = make_bound(kinds.0, &low[equal..]);
        let upper = make_bound(kinds.1, &high[equal..=equal]);
        let range = slice(&orders, &low[..equal], lower, upper).unwrap();

        let ascending = vec![Order::Asc; types.len()];
        let against = |values: &[Value]| compare_tuples(&key[equal..equal + values.len()], values, &ascending);
        let inside = compare_tuples(&key[..equal], &low[..equal], &ascending) == Ordering::Equal
            && match lower {
                Bound::Unbounded => true,
                Bound::Included(values) => against(values) != Ordering::Less,
                Bound::Excluded(values) => against(values) == Ordering::Greater,
            }
            && match upper {
                Bound::Unbounded => true,
                Bound::Included(values) => against(values) != Ordering::Greater,
                Bound::Excluded(values) => against(values) == Ordering::Less,
            };
        prop_assert_eq!(range.contains(&encode(&key, &orders).unwrap()), inside);
        prop_assert!(!range.contains(&Bytes::new()), "the static columns' key is in the range");
    }
}

fn make_bound(kind: u8, values: &[Value]) -> Bound<&[Value]> {
    match kind {
        0 => Bound::Unbounded,
        1 => Bound::Included(values),
        _ => Bound::Excluded(values),
    }
}

#[test]
fn bytes_match_the_documented_layout() {
    let orders = [Order::Asc, Order::Desc];
    let key = encode(&[Value::Text("a".into()), Value::Int(3)], &orders).unwrap();
    assert_eq!(&key[..], [0x61, 0, 0, 0x7f, 0xff, 0xff, 0xfc]);
    let zeros = encode(&[Value::Blob(Bytes::from_static(b"a\0\0b"))], &orders).unwrap();
    assert_eq!(&zeros[..], [b'a', 0, 0xff, 0, 0xff, b'b', 0, 0]);
}

#[test]
fn bytes_of_numbers_match_the_documented_layout() {
    let bytes = |data_type: &DataType, text: &str| {
        encode(&[data_type.parse_text(text).unwrap()], &[Order::Asc]).unwrap().to_vec()
    };
    let varint = |text: &str| bytes(&DataType::Varint, text);
    assert_eq!(varint("0"), [0x80]);
    assert_eq!(varint("300"), [0x82, 1, 0x2c]);
    assert_eq!(varint("-300"), [0x7d, 0xfe, 0xd3]);
    let decimal = |text: &str| bytes(&DataType::Decimal, text);
    assert_eq!(decimal("0E+7"), [0x80]);
    assert_eq!(decimal("1.50"), [0x81, 0x81, 1, 0x10, 0]);
    assert_eq!(decimal("1.505"), [0x81, 0x81, 1, 0x10, 0x06, 0]);
    assert_eq!(decimal("0.05"), [0x81, 0x7e, 0xfe, 0x33, 0]);
    assert_eq!(decimal("-1.5"), [0x7e, 0x7e, 0xfe, 0xef, 0xff]);
}

#[test]
fn scales_at_the_limits_are_read_back() {
    for (digits, scale) in [(10, i32::MIN), (1, i32::MIN), (-1, i32::MAX), (123, i32::MAX)] {
        let value = Value::Decimal { unscaled: BigInt::from(digits), scale };
        let key = encode(std::slice::from_ref(&value), &[Order::Desc]).unwrap();
        let read = decode(&key, &[DataType::Decimal], &[Order::Desc]).unwrap();
        assert_eq!(read[0].compare(&value), Ordering::Equal, "{value}");
    }
    // An exponent that no scale has, and digits without an end.
    for bytes in [&[0x81, 0x85, 0xff, 0, 0, 0, 0, 0x0b, 0][..], &[0x81, 0x81, 1, 0x0b]] {
        assert!(decode(bytes, &[DataType::Decimal], &[Order::Asc]).is_err());
    }
}

#[test]
fn comparators_handle_special_cases() {
    use Ordering::{Equal, Greater, Less};
    let double = |a: f64, b: f64| compare(&DataType::Double, &a.to_be_bytes(), &b.to_be_bytes());
    assert_eq!(double(-0.0, 0.0), Less);
    assert_eq!(double(f64::NAN, f64::INFINITY), Greater);
    assert_eq!(double(f64::NAN, -f64::NAN), Equal);
    let uuid = |text: &str| Uuid::parse_str(text).unwrap().into_bytes();
    // A later version wins over larger bytes; a later time over a larger first byte.
    let old = uuid("ffffffff-ffff-1fff-ffff-ffffffffffff");
    let random = uuid("00000000-0000-4000-0000-000000000000");
    assert_eq!(compare(&DataType::Uuid, &old, &random), Less);
    let early = uuid("ffffffff-0000-1000-8000-000000000000");
    let late = uuid("00000000-0001-1000-8000-000000000000");
    assert_eq!(compare(&DataType::Uuid, &early, &late), Less);
    // At one time, UUIDType orders 0x80 after 0x7f and TimeUUIDType before.
    let (low, high) = (
        uuid("00000000-0000-1000-7f00-000000000000"),
        uuid("00000000-0000-1000-8000-000000000000"),
    );
    assert_eq!(compare(&DataType::Uuid, &low, &high), Less);
    assert_eq!(compare(&DataType::Timeuuid, &low, &high), Greater);
}

#[test]
fn successor_follows_all_strings_with_the_prefix() {
    assert_eq!(prefix_successor(b"ab").as_deref(), Some(&b"ac"[..]));
    assert_eq!(prefix_successor(b"a\xff\xff").as_deref(), Some(&b"b"[..]));
    assert_eq!(prefix_successor(b"\xff\xff"), None);
    assert_eq!(prefix_successor(b""), None);
    // The descending empty text consists of 0xFF only, so no key lies behind it.
    let empty = [Value::Text(String::new())];
    let (lower, upper) =
        slice(&[Order::Desc], &[], Bound::Unbounded, Bound::Excluded(&empty)).unwrap();
    assert!(matches!((lower, upper), (Bound::Excluded(a), Bound::Excluded(b)) if a == b));
}

#[test]
fn invalid_keys_are_rejected() {
    let kind = |values: &[Value], orders: &[Order]| encode(values, orders).unwrap_err().kind();
    assert_eq!(kind(&[Value::Counter(1)], &[Order::Asc]), ErrorKind::Unsupported);
    let long: BigInt = BigInt::from(1) << (8 * 65_535);
    assert_eq!(kind(&[Value::Varint(long.clone())], &[Order::Asc]), ErrorKind::Invalid);
    let decimal = Value::Decimal { unscaled: long, scale: 0 };
    assert_eq!(kind(&[decimal], &[Order::Asc]), ErrorKind::Invalid);
    assert_eq!(kind(&[Value::Int(1)], &[]), ErrorKind::Invalid);
    assert_eq!(kind(&[Value::Ascii("é".into())], &[Order::Asc]), ErrorKind::Invalid);
    let orders = [Order::Asc, Order::Desc];
    let values = [Value::Int(1), Value::Int(2)];
    let mixed = slice(&orders, &[], Bound::Included(&values), Bound::Unbounded).unwrap_err();
    assert_eq!(mixed.kind(), ErrorKind::Unsupported);
    let empty = slice(&orders, &[], Bound::Included(&[]), Bound::Unbounded).unwrap_err();
    assert_eq!(empty.kind(), ErrorKind::Invalid);
    let many = slice(&orders, &values, Bound::Included(&values), Bound::Unbounded).unwrap_err();
    assert_eq!(many.kind(), ErrorKind::Invalid);
    assert!(
        slice(&orders, &[values.clone(), values].concat(), Bound::Unbounded, Bound::Unbounded)
            .is_err()
    );
}

#[test]
fn decoder_accepts_only_canonical_bytes() {
    for data_type in key_types() {
        let good = [value(&data_type), value(&data_type)];
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        for order in [Order::Asc, Order::Desc] {
            let samples: Vec<_> = (0..16)
                .map(|_| {
                    let drawn = good.new_tree(&mut runner).unwrap().current();
                    encode(&drawn, &[order, Order::Asc]).unwrap()
                })
                .collect();
            testing::fuzz(&samples, |bytes| {
                let orders = [order, Order::Asc];
                let types = [data_type.clone(), data_type.clone()];
                if let Ok(values) = decode(bytes, &types, &orders) {
                    assert_eq!(&encode(&values, &orders).unwrap()[..], bytes);
                }
            });
        }
    }
}
