//! A segment of the log with right checksums around a body that somebody else wrote: it is shown,
//! or the error says why not. The input: start, commit, body.
#![no_main]

use carnet_storage::disk::sim::SimDisk;
use carnet_storage::inspect;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((start, rest)) = input.split_first_chunk() else { return };
    let Some((commit, body)) = rest.split_first_chunk() else { return };
    let [start, commit] = [start, commit].map(|bytes| u64::from_le_bytes(*bytes));
    let mut segment = b"CARNTWAL".to_vec();
    segment.extend(2_u32.to_le_bytes());
    for number in [1_u64, 0, 0] {
        segment.extend(number.to_le_bytes());
    }
    segment.extend(crc32c::crc32c(&segment).to_le_bytes());
    let mut header = b"CREC".to_vec();
    header.extend(u32::try_from(body.len()).expect("inputs are short").to_le_bytes());
    for number in [segment.len() as u64, start >> 1, (commit >> 1).max(1), 0] {
        header.extend(number.to_le_bytes());
    }
    header.extend(crc32c::crc32c(body).to_le_bytes());
    header.extend(crc32c::crc32c(&header).to_le_bytes());
    segment.extend(header);
    segment.extend(body);
    let disk = SimDisk::new(1);
    disk.plant("wal-00000001.log", segment);
    let mut records = 0;
    let shown = inspect::log(&disk, "wal-00000001.log", |_| {
        records += 1;
        Ok(())
    });
    assert_eq!(shown.is_ok(), records == 1, "the record is shown or refused");
});
