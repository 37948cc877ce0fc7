//! Nodes and roots of a tree from hostile bytes, behind their checksums. What is accepted is
//! encoded again to the same bytes.
#![no_main]

use carnet_base::Bytes;
use carnet_tree::{Attempt, Node, NodeId, Root, TransactorId};
use libfuzzer_sys::fuzz_target;

fn sealed(bytes: &[u8], name: &[u8]) -> Bytes {
    let sum = crc32c::crc32c_append(crc32c::crc32c(name), bytes);
    Bytes::from([bytes, &sum.to_le_bytes()].concat())
}

fuzz_target!(|bytes: &[u8]| {
    let id = NodeId::new(TransactorId(7), Attempt(3), 0).expect("it is in range");
    let node = sealed(bytes, &id.to_bytes());
    if let Ok(decoded) = Node::decode(id, &node) {
        assert_eq!(decoded.encode(id), node);
    }
    let root = sealed(bytes, b"root");
    if let Ok(decoded) = Root::decode(&root) {
        assert_eq!(decoded.encode(), root);
    }
});
