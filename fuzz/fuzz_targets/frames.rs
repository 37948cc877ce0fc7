//! A connection's bytes, in pieces, plain and in segments, compressed and not.
#![no_main]

use bytes::BytesMut;
use carnet_server::ProtocolRequest;
use carnet_server::protocol::Version;
use carnet_base::MemoryBudget;
use carnet_server::protocol::decoder::{Decoded, FrameDecoder};
use carnet_server::protocol::peek::Peek;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (bool, bool, Vec<Vec<u8>>)| {
    let (v5, lz4, pieces) = input;
    let mut decoder = FrameDecoder::new(MemoryBudget::new(1 << 20), 1 << 16);
    decoder.negotiated(if v5 { Version::V5 } else { Version::V4 }, lz4);
    let mut inbox = BytesMut::new();
    for piece in pieces {
        inbox.extend_from_slice(&piece);
        while let Ok(Some(decoded)) = decoder.next(&mut inbox) {
            if let Decoded::Frame(frame) = decoded {
                let peek = Peek::from_frame(&frame);
                if let Ok(ProtocolRequest::Statement(statement)) = ProtocolRequest::decode(&frame) {
                    let decoded = Peek::from(&statement);
                    assert!(peek.is_some_and(|peek| peek.is_of(decoded)));
                }
            }
        }
    }
});
