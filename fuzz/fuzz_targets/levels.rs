//! Rows of service levels from hostile bytes. What is accepted is encoded so that it is read alike.
#![no_main]

use carnet::levels::Row;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for decode in [Row::decode_level, Row::decode_user, Row::decode_next] {
        if let Ok(row) = decode(bytes) {
            assert_eq!(decode(&row.encode()).expect("what is written is read"), row);
        }
    }
});
