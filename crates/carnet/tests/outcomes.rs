//! Outcomes of young transactions are known after a crash.

#![expect(clippy::unwrap_used, reason = "helpers outside of #[test] functions unwrap as well")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use carnet::base::{Clock, Moment, WallTime};
use carnet::storage::disk::sim::SimDisk;
use carnet::{Db, Durability, ErrorKind, Outcome};

const RETENTION: Duration = Duration::from_secs(20);

#[derive(Clone, Default)]
struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    fn pass(&self, seconds: u64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Moment {
        Moment(Duration::from_secs(self.0.load(Ordering::SeqCst)))
    }

    fn wall(&self) -> WallTime {
        let seconds = i64::try_from(self.0.load(Ordering::SeqCst)).unwrap();
        WallTime(seconds * 1_000_000)
    }
}

fn open(disk: &SimDisk, clock: &ManualClock) -> Db {
    let builder = Db::builder().durability(Durability::Always).retention(RETENTION);
    builder.clock(Arc::new(clock.clone())).open_on(Arc::new(disk.clone())).unwrap()
}

fn write(db: &Db, value: &str) {
    let table = db.raw("t").unwrap();
    db.transact(|tx| table.put(tx, "key", value)).unwrap();
}

/// No commit came for longer than the retention; then a transaction begins, and the process is killed.
#[test]
fn young_transaction_is_known_after_a_pause_and_a_crash() {
    let (disk, clock) = (SimDisk::new(1), ManualClock::default());
    let db = open(&disk, &clock);
    write(&db, "1");
    clock.pass(60);
    let tx = carnet::block_on(db.transaction().begin_async()).unwrap();
    let lost = tx.start_timestamp().unwrap();
    let killed = disk.kill();
    clock.pass(2);
    let db = open(&killed, &clock);
    // Makes the collection of garbage go on as far as it may.
    let collect = |db: &Db| {
        for value in ["2", "3"] {
            write(db, value);
            db.flush().unwrap();
            db.compact().unwrap();
        }
    };
    collect(&db);
    assert_eq!(db.outcome(lost).unwrap(), Outcome::Aborted);
    clock.pass(RETENTION.as_secs() + 2);
    collect(&db);
    assert_eq!(db.outcome(lost).unwrap_err().kind(), ErrorKind::Unknown { start: lost });
}
