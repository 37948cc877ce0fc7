//! Statements that servers forward to each other, and their answers. What is accepted is encoded
//! again to the same bytes.
#![no_main]

use bytes::Bytes;
use carnet_cql::forward::{Answer, Request};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|content: &[u8]| {
    let bytes = Bytes::copy_from_slice(content);
    if let Ok(request) = Request::decode(bytes.clone()) {
        assert_eq!(request.encode(), bytes);
    }
    if let Ok(answer) = Answer::decode(bytes.clone()) {
        assert_eq!(answer.encode(), bytes);
    }
});
