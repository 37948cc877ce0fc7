//! The model of a disk, with a right checksum around fields of another origin.
#![no_main]

use carnet_storage::disk::model_file::{decode, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|fields: &[u8]| {
    let mut bytes = b"CARNTIOM".to_vec();
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend(fields);
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    if let Ok(model) = decode(&bytes) {
        assert_eq!(encode(&model), bytes, "it is written as it was read");
    }
});
