//! A connection's bytes, in pieces, plain and in segments, compressed and not.
#![no_main]

use bytes::BytesMut;
use carnet_server::{ProtocolRequest, Statement};
use carnet_server::protocol::Version;
use carnet_base::MemoryBudget;
use carnet_server::protocol::decoder::{Decoded, FrameDecoder};
use carnet_server::protocol::head::Peek;
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
                let Ok(ProtocolRequest::Statement(head)) = ProtocolRequest::decode(&frame) else { continue };
                match (head.peek(), head.clone().decode()) {
                    (Peek::Execute { id, .. }, Ok(Statement::Execute { id: decoded, .. })) => {
                        assert_eq!(*id, decoded);
                    }
                    (Peek::Query(beginning), Ok(Statement::Query { text, .. })) => {
                        assert!(text.starts_with(beginning));
                    }
                    _ => {}
                }
            }
        }
    }
});
