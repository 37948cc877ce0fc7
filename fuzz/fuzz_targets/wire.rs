//! What a frame between processes holds, under a right length and checksum. What is accepted is
//! encoded again to the same bytes.
#![no_main]

use bytes::{BufMut, BytesMut};
use carnet_sequencer::wire::codec::{decode, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|content: &[u8]| {
    let mut frame = BytesMut::new();
    frame.put_u32(u32::try_from(content.len()).expect("inputs are short"));
    frame.put_u32(crc32c::crc32c(content));
    frame.put_slice(content);
    let frame = frame.freeze();
    if let Ok(decoded) = decode(&frame) {
        let mut again = BytesMut::new();
        encode(decoded.id, &decoded.message, &mut again).expect("it fitted a frame");
        assert_eq!(again, frame);
    }
});
