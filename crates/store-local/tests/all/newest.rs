//! Reads at a snapshot that is chosen during the read, beside schema changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use carnet_base::{
    CellKey, PartitionKey, Result, SystemClock, TableId, ThreadSpawn, Timestamp, block_on,
};
use carnet_storage::disk::sim::SimDisk;
use carnet_store::conformance::PlainOrder;
use carnet_store::{BeginKind, Begun, Claim, CommitOrder, Context};
use carnet_store_local::{DEFAULT_ENCODING, LocalStore};

/// Commit order in which another thread changes the schema right after the schema version was read.
struct Racing {
    inner: PlainOrder,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    is_racing: AtomicBool,
    /// Commit of the schema change; 0 is none.
    changed: AtomicU64,
}

impl Shared {
    fn changed(&self) -> Timestamp {
        Timestamp::new(self.changed.load(Ordering::SeqCst)).expect("63 bits")
    }
}

impl CommitOrder for Racing {
    fn begin(&self, kind: BeginKind) -> Result<Begun> {
        self.inner.begin(kind)
    }

    fn end(&self, begun: Begun) {
        self.inner.end(begun);
    }

    fn decide(&self, claim: &mut Claim) -> Result<Timestamp> {
        self.inner.decide(claim)
    }

    fn publish(&self, commit: Timestamp) {
        self.inner.publish(commit);
    }

    fn published(&self) -> Timestamp {
        self.inner.published().max(self.shared.changed())
    }

    fn schema(&self) -> Timestamp {
        let before = self.inner.schema().max(self.shared.changed());
        if self.shared.is_racing.swap(false, Ordering::SeqCst) {
            self.shared.changed.store(self.inner.published().get() + 1, Ordering::SeqCst);
        }
        before
    }

    fn latest(&self) -> Timestamp {
        self.inner.latest()
    }

    fn is_running(&self, start: Timestamp) -> bool {
        self.inner.is_running(start)
    }

    fn raise_mark(&self, wanted: Timestamp) -> Timestamp {
        self.inner.raise_mark(wanted)
    }

    fn mark(&self) -> Timestamp {
        self.inner.mark()
    }

    fn headroom(&self) -> u64 {
        self.inner.headroom()
    }

    fn extend(&self, bound: Timestamp) {
        self.inner.extend(bound);
    }

    fn skip_to(&self, first: Timestamp) {
        self.inner.skip_to(first);
    }
}

#[test]
fn newest_read_never_misses_a_schema_change() {
    let shared = Arc::new(Shared::default());
    let order = |life: carnet_store::LogStart| -> Box<dyn CommitOrder> {
        let shared = Arc::clone(&shared);
        Box::new(Racing { inner: PlainOrder::starting_above(life.first), shared })
    };
    let (disk, clock) = (Arc::new(SimDisk::new(1)), Arc::new(SystemClock));
    let options = carnet_storage::Options::default();
    let (spawn, retention) = (&ThreadSpawn, Duration::ZERO);
    let store =
        LocalStore::open(disk, clock, spawn, options, retention, DEFAULT_ENCODING, order).unwrap();
    let key = CellKey::new(TableId(1000), &PartitionKey::new(b"k"[..].to_vec()), "");
    shared.is_racing.store(true, Ordering::SeqCst);
    let newest = block_on(store.get_newest(&Context::unbounded(), key.as_key_ref())).unwrap();
    let changed = shared.changed();
    assert!(changed > Timestamp::ZERO, "the read asks for the schema version");
    assert!(newest.read < changed || newest.schema >= changed, "{newest:?}");
}
