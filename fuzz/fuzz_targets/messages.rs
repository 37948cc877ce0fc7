//! Lines that a Maelstrom node reads: messages, and the requests in them. What is accepted is
//! encoded again to the same message.
#![no_main]

use carnet_maelstrom::{Message, WorkloadRequest};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &[u8]| {
    if let Ok(message) = Message::decode(line) {
        let again = Message::decode(message.clone().encode().as_bytes());
        assert_eq!(again.as_ref(), Ok(&message));
        let _ = WorkloadRequest::decode(&message.kind, message.fields);
    }
});
