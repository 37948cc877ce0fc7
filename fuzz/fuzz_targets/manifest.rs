//! A manifest with a right checksum around fields that somebody else wrote.
#![no_main]

use carnet_storage::disk::sim::SimDisk;
use carnet_storage::inspect;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|fields: &[u8]| {
    let mut manifest = b"CARNTMAN".to_vec();
    manifest.extend(4_u32.to_le_bytes());
    manifest.extend(fields);
    manifest.extend(crc32c::crc32c(&manifest).to_le_bytes());
    let disk = SimDisk::new(1);
    disk.plant("MANIFEST", manifest.clone());
    if let Ok(found) = inspect::load(&disk) {
        found.store(&disk).expect("the disk works");
        assert_eq!(disk.contents("MANIFEST"), Some(manifest), "it is written as it was read");
    }
});
