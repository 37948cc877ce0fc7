//! Outcomes of young transactions are known after a crash.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use carnet::{Db, Durability, ErrorKind, Outcome};
use carnet_base::{Clock, Moment, WallTime};
use carnet_storage::disk::sim::SimDisk;

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

/// Outcomes of several transactions, and the list of the commit table, whose entries are in the log or
/// flushed, in two encodings.
#[test]
fn several_outcomes_and_the_commit_table_agree() {
    let (disk, clock) = (SimDisk::new(1), ManualClock::default());
    let db = open(&disk, &clock);
    let table = db.raw("t").unwrap();
    let mut starts = Vec::new();
    for value in 0..6_u8 {
        let tx = carnet::block_on(db.transaction().begin_async()).unwrap();
        starts.push(tx.start_timestamp().unwrap());
        carnet::block_on(async { table.put(&tx, [value], [value]).await }).unwrap();
        match value {
            // Aborted.
            2 => drop(tx),
            _ => drop(carnet::block_on(tx.commit()).unwrap()),
        }
        match value {
            3 => db.flush().unwrap(),
            4 => drop(db.migrate(carnet::Encoding::V3).unwrap()),
            _ => {}
        }
    }
    let outcomes = db.outcomes(&starts).unwrap();
    assert_eq!(outcomes.len(), starts.len());
    for (start, outcome) in starts.iter().zip(&outcomes) {
        assert_eq!(db.outcome(*start).unwrap(), *outcome);
        assert_eq!(*outcome == Outcome::Aborted, *start == starts[2], "{start}");
    }
    for db in [db, open(&disk.kill(), &clock)] {
        let mut listed = Vec::new();
        let (from, to) = (starts[0], carnet::Timestamp::MAX);
        let listing = db
            .list_commits(from, to, &mut |encoding, start, entry| {
                listed.push((start, encoding, entry));
                Ok(())
            })
            .unwrap();
        listed.retain(|(start, ..)| starts.contains(start));
        listed.sort_by_key(|(start, ..)| *start);
        let committed = starts.iter().zip(&outcomes).filter_map(|(start, outcome)| match outcome {
            Outcome::Committed(commit) => Some((*start, carnet::CommitEntry::Committed(*commit))),
            _ => None,
        });
        let found: Vec<_> = listed.iter().map(|(start, _, entry)| (*start, *entry)).collect();
        assert_eq!(found, committed.collect::<Vec<_>>());
        let encodings: Vec<_> = listed.iter().map(|(_, encoding, _)| *encoding).collect();
        assert_eq!(encodings[..4], [carnet::Encoding::V2; 4]);
        assert_eq!(encodings[4..], [carnet::Encoding::V3], "the start after the migration");
        assert_eq!(listing.encodings.len(), 2);
        assert!(listing.valid_through >= starts[5]);
        // A part of the range, whose end is not in it.
        let mut count = 0;
        db.list_commits(starts[1], starts[3], &mut |_, start, _| {
            count += u32::from(starts.contains(&start));
            Ok(())
        })
        .unwrap();
        assert_eq!(count, 1, "of the starts 1 and 2 one was aborted");
    }
}
