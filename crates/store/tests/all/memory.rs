//! The memory store passes the conformance suite.

use carnet_base::Timestamp;
use carnet_store::MemoryStore;
use carnet_store::conformance::{PlainOrder, run};

#[test]
fn the_memory_store_conforms() {
    run(|| MemoryStore::new(Box::new(PlainOrder::starting_above(Timestamp::ZERO))));
}
