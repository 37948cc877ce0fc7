//! Idle timeouts of transactions: cleanup that an idle transaction delays goes on after it is
//! rolled back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use carnet::{Db, Durability, ErrorKind, block_on};
use carnet_base::{Clock, Moment, Stepped, WallTime};
use carnet_storage::disk::sim::SimDisk;

#[derive(Clone, Default)]
struct ManualClock(Arc<AtomicU64>);

impl Clock for ManualClock {
    fn now(&self) -> Moment {
        Moment(Duration::from_secs(self.0.load(Ordering::SeqCst)))
    }

    fn wall(&self) -> WallTime {
        let seconds = i64::try_from(self.0.load(Ordering::SeqCst)).unwrap();
        WallTime(seconds * 1_000_000)
    }
}

struct Bed {
    db: Db,
    clock: ManualClock,
    workers: Stepped,
}

impl Bed {
    /// Idle timeouts: 80 seconds for writers, 800 for snapshots.
    fn new() -> Self {
        let (clock, workers) = (ManualClock::default(), Stepped::default());
        let db = Db::builder()
            .durability(Durability::None)
            .retention(Duration::ZERO)
            .idle_timeout(Duration::from_secs(80))
            .snapshot_idle_timeout(Duration::from_secs(800))
            .clock(Arc::new(clock.clone()))
            .spawn(Arc::new(workers.clone()))
            .open_on(Arc::new(SimDisk::new(1)))
            .unwrap();
        Self { db, clock, workers }
    }

    fn pass(&self, seconds: u64) {
        for _ in 0..seconds.div_ceil(10) {
            self.clock.0.fetch_add(10, Ordering::SeqCst);
            self.workers.settle();
        }
    }
}

#[test]
fn idle_transaction_ends_and_releases_versions() {
    let bed = Bed::new();
    let table = bed.db.raw("t").unwrap();
    bed.db.transact(|tx| table.put(tx, "k", [0])).unwrap();
    let (snapshot, writer) = (bed.db.snapshot().unwrap(), bed.db.begin().unwrap());
    table.put(&writer, "k", [1]).unwrap();
    for version in 2..10 {
        bed.db.transact(|tx| table.put(tx, "k", [version])).unwrap();
    }
    let taken = snapshot.read_timestamp();
    bed.pass(200);
    for error in [table.get(&writer, "k").unwrap_err(), writer.commit().unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert!(error.to_string().contains("nothing was called on it for 80s"), "{error}");
    }
    bed.db.compact().unwrap();
    assert_eq!(table.get(&snapshot, "k").unwrap().as_deref(), Some(&[0][..]), "it is in use");
    bed.pass(1000);
    let error = table.get(&snapshot, "k").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    bed.db.transact(|tx| table.put(tx, "k", [10])).unwrap();
    bed.db.compact().unwrap();
    let again = block_on(bed.db.snapshot_at(taken)).map(|_| ()).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::TooOld, "the sweep went past it: {again}");
}

#[test]
fn idle_closure_is_not_retried() {
    let bed = Bed::new();
    let table = bed.db.raw("t").unwrap();
    let runs = AtomicU64::new(0);
    let error = bed.db.transact(|tx| {
        runs.fetch_add(1, Ordering::SeqCst);
        table.put(tx, "k", [1])?;
        bed.pass(200);
        table.put(tx, "k", [2])
    });
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Timeout);
    assert_eq!(runs.load(Ordering::SeqCst), 1, "it would be idle again");
    assert_eq!(table.get(&bed.db.snapshot().unwrap(), "k").unwrap(), None);
}
