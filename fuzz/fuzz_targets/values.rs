//! Values from hostile bytes and texts. What is read from text is written so that it is read back.
#![no_main]

use carnet_data::DataType;
use libfuzzer_sys::fuzz_target;

/// Types of parts; the scalar types come before them.
const COMPOSITE: [&str; 8] = [
    "list<int>",
    "set<text>",
    "map<text, frozen<list<varint>>>",
    "tuple<int, blob, frozen<set<decimal>>>",
    "list<frozen<map<inet, duration>>>",
    "vector<float, 2>",
    "vector<text, 3>",
    "vector<vector<frozen<set<int>>, 1>, 2>",
];

fn data_type(n: u8) -> DataType {
    let n = usize::from(n) % (DataType::SCALARS.len() + COMPOSITE.len());
    match n.checked_sub(DataType::SCALARS.len()) {
        None => DataType::SCALARS[n].clone(),
        Some(n) => COMPOSITE[n].parse().expect("a type"),
    }
}

fuzz_target!(|input: (u8, Vec<u8>)| {
    let (n, bytes) = input;
    let data_type = data_type(n);
    if let Ok(value) = data_type.deserialize(&bytes) {
        let bytes = value.serialize();
        let again = data_type.deserialize(&bytes).expect("what is written is read");
        assert_eq!(again.serialize(), bytes);
    }
    let Ok(text) = std::str::from_utf8(&bytes) else { return };
    if let Ok(named) = text.parse::<DataType>() {
        assert_eq!(named.to_string().parse::<DataType>().expect("what is written is read"), named);
    }
    if let Ok(value) = data_type.parse_text(text) {
        let again = data_type.parse_text(&value.to_string()).expect("what is written is read");
        assert_eq!(again.serialize(), value.serialize(), "{text}");
    }
});
