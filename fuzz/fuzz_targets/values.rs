//! Values from hostile bytes and texts. What is read from text is written so that it is read back.
#![no_main]

use carnet_base::DataType;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, Vec<u8>)| {
    let (n, bytes) = input;
    let data_type = DataType::ALL[usize::from(n) % DataType::ALL.len()];
    let _ = data_type.deserialize(&bytes);
    let Ok(text) = std::str::from_utf8(&bytes) else { return };
    if let Ok(value) = data_type.parse_text(text) {
        let again = data_type.parse_text(&value.to_string()).expect("what is written is read");
        assert_eq!(again.serialize(), value.serialize(), "{text}");
    }
});
