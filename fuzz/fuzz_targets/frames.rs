//! A connection's bytes, in pieces, plain and in segments, compressed and not.
#![no_main]

use bytes::BytesMut;
use carnet_cql::{Bound, Values};
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
                    (Peek::Execute { id, values }, Ok(Statement::Execute { id: decoded, params, .. })) => {
                        assert_eq!(*id, decoded);
                        let Values::Positional(bound) = &params.values else { continue };
                        for (index, value) in bound.iter().enumerate() {
                            let Bound::Bytes(bytes) = value else { continue };
                            let len = bytes.first_chunk().map(|len| i32::from_be_bytes(*len));
                            let len = len.and_then(|len| usize::try_from(len).ok());
                            assert_eq!(values.list_len(index), len);
                        }
                    }
                    (peek, Ok(Statement::Query { text, .. })) => {
                        assert_eq!(peek, Peek::of_text(text.as_bytes()));
                    }
                    (Peek::Prepare, Ok(Statement::Prepare { .. })) => {}
                    (Peek::Batch, Ok(Statement::Batch(_))) | (_, Err(_)) => {}
                    (peek, Ok(statement)) => panic!("{peek:?} of {statement:?}"),
                }
            }
        }
    }
});
