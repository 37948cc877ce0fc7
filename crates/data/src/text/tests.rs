//! Forms one by one, and properties of all values.

use carnet_base::error::ErrorKind;
use proptest::prelude::*;

use crate::testing::{self, unhex};
use crate::value::{DataType, Value};

fn parse(data_type: &DataType, text: &str) -> Value {
    data_type.parse_text(text).unwrap()
}

fn check(data_type: &DataType, printed: &str, forms: &[&str]) {
    let value = parse(data_type, printed);
    assert_eq!(value.data_type(), *data_type);
    assert_eq!(value.to_string(), printed);
    for form in forms {
        assert_eq!(parse(data_type, form), value, "{form}");
    }
}

#[test]
fn the_drivers_values_read_and_print() {
    let vectors = testing::vectors("serialization_vectors.json");
    for vector in vectors["values"].as_array().unwrap() {
        let field = |name: &str| vector[name].as_str().unwrap();
        let data_type = DataType::from_name(field("type")).unwrap();
        let value = parse(&data_type, field("text"));
        assert_eq!(value.serialize(), unhex(field("bytes")), "{vector}");
        let printed = parse(&data_type, &value.to_string());
        assert_eq!(printed.serialize(), value.serialize(), "{vector} prints as {value}");
    }
}

#[test]
fn timestamps_print_like_cqlsh_and_parse() {
    check(
        &DataType::Timestamp,
        "2026-01-02 03:04:05.678000+0000",
        &[
            "2026-01-02T03:04:05.678Z",
            "2026-01-02 03:04:05.678",
            "2026-01-02 03:04:05.678999+0000",
            "2026-1-2 3:4:5.678",
            "2026-01-02 04:04:05.678+01",
            "2026-01-02 04:34:05.678 +0130",
            "2026-01-01T22:04:05.678-05:00",
            "2026-01-02 03:04:05.678 UTC",
            " 1767323045678 ",
        ],
    );
    check(
        &DataType::Timestamp,
        "2026-01-02 00:00:00.000000+0000",
        &[
            "2026-01-02",
            "2026-01-02T00:00",
            "2026-01-02 01:00+0100",
            "2026-01-02+0000",
            "2026-01-02Z",
        ],
    );
    check(&DataType::Timestamp, "1969-12-31 23:59:59.999000+0000", &["-1"]);
    check(&DataType::Timestamp, "0001-01-01 00:00:00.000000+0000", &[]);
    check(&DataType::Timestamp, "253402300800000", &["10000-01-01", "+10000-01-01T00:00Z"]);
    check(&DataType::Timestamp, "-62135596800001", &["0000-12-31 23:59:59.999"]);
    check(&DataType::Timestamp, &i64::MIN.to_string(), &[]);
    check(&DataType::Timestamp, &i64::MAX.to_string(), &[]);
}

#[test]
fn dates_and_times_print_and_parse() {
    check(&DataType::Date, "2024-02-29", &["2147503430", "2024-2-29"]);
    check(&DataType::Date, "1970-01-01", &["2147483648"]);
    check(&DataType::Date, "9999-12-31", &[]);
    check(&DataType::Date, "0", &["-5877641-06-23"]);
    check(&DataType::Date, "4294967295", &["5881580-07-11"]);
    check(&DataType::Time, "03:04:05.678000000", &["03:04:05.678", "3:4:5.678", "11045678000000"]);
    check(&DataType::Time, "23:59:59.999999999", &["86399999999999"]);
    check(&DataType::Time, "00:00:00.000000000", &["0", "0:0:0"]);
}

#[test]
fn numbers_print_and_parse() {
    check(&DataType::Int, "-12", &[" -12 "]);
    check(&DataType::Bigint, "9223372036854775807", &["+9223372036854775807"]);
    check(&DataType::Double, "1", &["1.0", "1e0", "1."]);
    check(&DataType::Double, "0.1", &[".1"]);
    check(&DataType::Double, "1e+16", &["10000000000000000"]);
    check(&DataType::Double, "1234567890123456", &[]);
    check(&DataType::Double, "0.0001", &[]);
    check(&DataType::Double, "1.5e-05", &["0.000015"]);
    check(&DataType::Double, "5e-324", &[]);
    check(&DataType::Double, "-0", &["-0.0"]);
    check(&DataType::Double, "-Infinity", &["-infinity", "-inf"]);
    assert_eq!(parse(&DataType::Double, "nan").to_string(), "NaN");
    check(&DataType::Float, "0.1", &[]);
    check(&DataType::Float, "3.4028235e+38", &[]);
    check(&DataType::Varint, "123456789012345678901234567890", &[]);
    for (printed, form) in [
        ("1.50", "1.50"),
        ("-0.001", "-1e-3"),
        ("0.000001", "0.000001"),
        ("1E-7", "0.0000001"),
        ("1.2E+6", "12e5"),
        ("0E-7", "0.0000000"),
        ("-1E+2147483647", "-1e2147483647"),
    ] {
        check(&DataType::Decimal, printed, &[form]);
    }
}

#[test]
fn other_types_print_and_parse() {
    check(&DataType::Boolean, "True", &["true", "TRUE", "tRuE"]);
    check(&DataType::Boolean, "False", &["false"]);
    check(&DataType::Blob, "0x00ff", &["0X00FF"]);
    check(&DataType::Blob, "0x", &[]);
    check(&DataType::Inet, "::1", &["0:0:0:0:0:0:0:1"]);
    check(&DataType::Inet, "127.0.0.1", &[]);
    let uuid = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
    check(&DataType::Uuid, uuid, &[&uuid.to_uppercase()]);
    check(&DataType::Timeuuid, uuid, &[]);
    check(&DataType::Text, " it's\n", &[]);
    assert_eq!(parse(&DataType::Text, "it's").to_literal(), "'it''s'");
    assert_eq!(parse(&DataType::Date, "2026-01-02").to_literal(), "'2026-01-02'");
    assert_eq!(parse(&DataType::Blob, "0x01").to_literal(), "0x01");
}

#[test]
fn wrong_text_is_rejected_with_a_reason() {
    let refused: &[(DataType, &[&str])] = &[
        (DataType::Int, &["", "x", "1.0", "2147483648", "0x1"]),
        (DataType::Tinyint, &["128", "-129"]),
        (DataType::Double, &["", "1e400", "one", "0x1p3", "1 2"]),
        (DataType::Float, &["1e39"]),
        (DataType::Varint, &["", "-", "1_000", "1.5", "--1"]),
        (DataType::Decimal, &["", ".", "-", "1.-5", "e5", "1e", "1.2.3", "1e2147483649", "1_0"]),
        (DataType::Boolean, &["", "1", "yes"]),
        (
            DataType::Uuid,
            &["", "f81d4fae7dec11d0a76500a0c91e6bf6", "{f81d4fae-7dec-11d0-a765-00a0c91e6bf6}"],
        ),
        (DataType::Timeuuid, &["3d813cbb-47fb-42ba-91df-831e1593ac29"]),
        (DataType::Inet, &["", "localhost", "1.2.3", "1.2.3.4/8"]),
        (DataType::Blob, &["", "00", "0x0", "0xgg", "0xé"]),
        (DataType::Ascii, &["é"]),
        (
            DataType::Timestamp,
            &[
                "",
                "now",
                "2026-13-01",
                "2026-02-29",
                "2026-00-01",
                "2026-01-00",
                "2026-01-01T24:00",
                "2026-01-01T",
                "2026-01-01 10",
                "2026-01-01 10:60",
                "2026-01-01 10:00:60",
                "2026-01-01 10:00:00.",
                "2026-01-01 10:00+1",
                "2026-01-01 10:00+19:00",
                "2026-01-01 10:00+01:",
                "2026-01-01 10:00 CET",
                "26-01-01",
                "9223372036854775808",
                "999999999-01-01",
                "2026-01-01x",
                "2026-é1-01",
            ],
        ),
        (
            DataType::Date,
            &["", "2026-02-30", "2026-01-01T00:00", "4294967296", "-1", "5881580-07-12"],
        ),
        (DataType::Time, &["", "24:00:00", "10:00", "10:00:00.1234567890", "86400000000000", "-1"]),
    ];
    for (data_type, texts) in refused {
        for text in *texts {
            let error = data_type.parse_text(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{text}");
        }
    }
    let long = "9".repeat(1_000_000);
    for data_type in DataType::SCALARS {
        if let Err(error) = data_type.parse_text(&long) {
            assert!(error.to_string().len() < 300, "{error}");
        }
    }
    for data_type in [DataType::Varint, DataType::Decimal] {
        assert!(data_type.parse_text(&long[..65_536]).is_ok());
        assert!(data_type.parse_text(&long[..65_537]).is_err());
    }
    let error = DataType::Boolean.parse_text("yes").unwrap_err();
    assert_eq!(error.to_string(), "'yes' is no boolean: expected true or false");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn printed_values_parse_back(bits in any::<u64>(), single in any::<u32>(), shift in 0..64_u32) {
        let millis = bits.cast_signed() >> shift;
        for value in [
            Value::Double(f64::from_bits(bits)),
            Value::Float(f32::from_bits(single)),
            Value::Timestamp(millis),
            Value::Date(single),
            Value::Time(bits.cast_signed().rem_euclid(crate::serial::DAY_NANOS)),
            Value::Decimal { unscaled: millis.into(), scale: single.cast_signed() >> (shift / 2) },
        ] {
            let text = value.to_string();
            let back = value.data_type().parse_text(&text).unwrap();
            if text == "NaN" {
                prop_assert_eq!(back.to_string(), "NaN");
            } else {
                prop_assert_eq!(back, value);
            }
        }
    }

    #[test]
    fn no_text_makes_a_parser_panic(text in "[-+0-9eETZxX:. aé]{0,24}", any in any::<String>()) {
        for data_type in DataType::SCALARS {
            for text in [&text, &any] {
                if let Ok(value) = data_type.parse_text(text) {
                    prop_assert!(value.validate().is_ok());
                    prop_assert!(data_type.parse_text(&value.to_string()).is_ok());
                }
            }
        }
    }
}
