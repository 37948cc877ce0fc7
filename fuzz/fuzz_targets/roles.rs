//! Rows of roles from hostile bytes. What is accepted is encoded so that it is read alike.
#![no_main]

use carnet::roles::Row;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for decode in [Row::decode_role, Row::decode_grant, Row::decode_identity, Row::decode_change] {
        if let Ok(row) = decode(bytes) {
            assert_eq!(decode(&row.encode()).expect("what is written is read"), row);
        }
    }
});
