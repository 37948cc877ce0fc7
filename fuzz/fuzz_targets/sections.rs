//! The sections of a table, behind the checksums that keep damage out: the first byte says which.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Some((kind, section)) = input.split_first() {
        carnet_storage::sstable::decode_anything(*kind, section);
    }
});
