//! Tests of large transactions, step by step.

use super::*;
use crate::manifest::Contents;
use crate::merge_operator::MergeOperator;

pub(super) fn spilled(engine: &Engine, commit: u64, keys: std::ops::Range<u64>) -> Merged {
    let spill = engine.spill(time(commit - 1));
    let mut keys: Vec<_> = keys.map(key).collect();
    keys.sort();
    let payload = commit.to_be_bytes();
    spill.add(keys.iter().map(|key| (key, Some(&payload[..])))).unwrap();
    spill.merge(|_| ()).unwrap()
}

fn files(disk: &SimDisk) -> usize {
    disk.list().unwrap().iter().filter(|name| name.starts_with("sst-")).count()
}

fn found(engine: &Engine, number: u64, read: u64) -> Option<u64> {
    let version = block_on(engine.get(&key(number), time(read))).unwrap()?;
    Some(version.commit.unwrap().get())
}

#[test]
fn adopted_commit_is_published_with_its_table() {
    for durability in [Durability::Always, Durability::None] {
        let (disk, workers) = (SimDisk::new(1), Stepped::default());
        let engine = open(&disk, &workers, Options { durability, ..Options::default() });
        let mut before = reserve(&engine, 10).insert();
        let merged = spilled(&engine, 20, 0..50);
        let mut large = engine.adopt(&merged, || Ok::<_, Error>(time(20))).unwrap();
        let mut after = reserve(&engine, 30).insert();
        workers.step(0);
        assert!(poll(&mut before).is_ready());
        assert!(poll(&mut large).is_pending() && poll(&mut after).is_pending());
        assert_eq!((engine.published(), found(&engine, 7, 10)), (time(10), None));
        assert_eq!(engine.commit_of(time(19)), Some(time(20)), "its entry is there already");
        while workers.step(1) == Step::Again {}
        assert!(poll(&mut large).is_ready() && poll(&mut after).is_ready());
        assert_eq!(engine.published(), time(30));
        // Key 10 was written before, and key 30 after.
        for (number, read, commit) in
            [(7, 19, None), (7, 20, Some(20)), (10, 19, Some(10)), (10, 20, Some(20))]
        {
            assert_eq!(found(&engine, number, read), commit, "{number} at {read}");
        }
        assert_eq!(found(&engine, 30, 29), Some(20));
        assert_eq!(found(&engine, 30, 30), Some(30));
        let entry = (entry_cell())(time(19), time(20)).unwrap();
        let entry = block_on(engine.get(&entry.0, time(20))).unwrap();
        assert!(entry.is_some(), "it was flushed with the table");
    }
}

/// A sync on the thread of each statement would make all clients wait for the disk.
#[test]
fn additions_are_synced_by_the_commit_alone() {
    for additions in [1, 20] {
        let (disk, workers) = (SimDisk::new(1), Stepped::default());
        let engine = open(&disk, &workers, Options::default());
        let syncs = disk.syncs();
        let spill = engine.spill(time(19));
        for number in 0..additions {
            spill
                .add([(key(number), Some(&b"value"[..]))].iter().map(|(key, value)| (key, *value)))
                .unwrap();
        }
        assert_eq!(disk.syncs(), syncs, "{additions} additions");
        let merged = spill.merge(|_| ()).unwrap();
        assert!(disk.syncs() > syncs, "the table of {additions} additions is durable");
        drop(merged);
    }
}

/// Each addition is a run; the runs are merged, and a cell's last write is kept.
#[test]
fn many_additions_keep_few_files() {
    let (disk, workers) = (SimDisk::new(1), Stepped::default());
    let engine = open(&disk, &workers, Options::default());
    let spill = engine.spill(time(19));
    let mut most = 0;
    for round in 0..300_u64 {
        let mut keys: Vec<_> = (round..round + 10).map(key).collect();
        keys.sort();
        let payload = round.to_be_bytes();
        spill.add(keys.iter().map(|key| (key, Some(&payload[..])))).unwrap();
        most = most.max(files(&disk));
        assert_eq!(spill.runs() as u64, round + 1);
    }
    // A merge writes one more beside its inputs.
    assert!((7..=9).contains(&most), "{most} files");
    for number in [0, 9, 150, 299, 305] {
        let found = block_on(spill.get(&key(number))).unwrap().flatten().unwrap();
        assert_eq!(found, number.min(299).to_be_bytes()[..], "{number}");
    }
    let merged = spill.merge(|_| ()).unwrap();
    drop(spill);
    assert_eq!(files(&disk), 1);
    drop(engine.adopt(&merged, || Ok::<_, Error>(time(20))).unwrap());
}

/// Runs that cannot be merged stay readable.
#[test]
fn failed_merge_of_runs_loses_nothing() {
    let (disk, workers) = (SimDisk::new(1), Stepped::default());
    let engine = open(&disk, &workers, Options::default());
    let spill = engine.spill(time(19));
    for round in 0..30_u64 {
        if round == 7 {
            // The addition creates a file, and the merge another one.
            disk.fail_nth(Kind::Create, disk.count(Kind::Create) + 2, std::io::ErrorKind::Other);
        }
        spill.add(std::iter::once((&key(round), Some(&b"value"[..])))).unwrap();
    }
    for round in 0..30 {
        assert!(block_on(spill.get(&key(round))).unwrap().is_some(), "{round}");
    }
    assert!(engine.check_writable().is_ok() && files(&disk) < 10);
}

#[test]
fn unadopted_files_are_removed() {
    let (disk, workers) = (SimDisk::new(1), Stepped::default());
    let engine = open(&disk, &workers, Options::default());
    let merged = spilled(&engine, 20, 0..50);
    assert_eq!(files(&disk), 1);
    let refused = engine.adopt(&merged, || Err::<Timestamp, _>("no"));
    assert!(matches!(refused, Err(AppendError::Refused("no"))));
    drop(merged);
    assert_eq!((files(&disk), engine.published()), (0, Timestamp::ZERO));
}

/// Operator of tables whose values expire at the second that they state.
struct Expiring;

impl MergeOperator for Expiring {
    fn mark(&self) -> u8 {
        b'+'
    }

    fn has_deltas(&self, _: TableId) -> bool {
        true
    }

    fn merge(
        &self,
        _: Option<(Timestamp, &Bytes)>,
        _: &[(Timestamp, Bytes)],
    ) -> Result<Option<Bytes>> {
        Err(Error::unsupported("deltas"))
    }

    fn expiry(&self, value: &[u8]) -> Option<u64> {
        let second = u64::from_be_bytes(value.try_into().unwrap());
        (second > 0).then_some(second)
    }
}

/// The counts of expiring versions, before a flush adopts the table and after a crash before it.
#[test]
fn adopted_table_counts_expiring_versions() {
    let (disk, workers) = (SimDisk::new(1), Stepped::default());
    let engine = open(&disk, &workers, Options::default());
    assert!(engine.set_merge_operator(Arc::new(Expiring)));
    let spill = engine.spill(time(19));
    let mut cells: Vec<_> = (0..60).map(|number| (key(number), number.to_be_bytes())).collect();
    cells.sort();
    for half in cells.chunks(30) {
        spill.add(half.iter().map(|(key, second)| (key, Some(&second[..])))).unwrap();
    }
    let merged = spill.merge(|_| ()).unwrap();
    let appended = engine.adopt(&merged, || Ok::<_, Error>(time(20))).unwrap();
    workers.step(0);
    let (crashed, spare) = (disk.kill(), Stepped::default());
    drop(appended);
    let contents = |engine: &Engine| {
        let levels = lock(&engine.core.manifest).levels.clone();
        let tables = levels.level(0).iter().map(|table| table.contents);
        let contents = tables.max_by_key(|contents| contents.expiring).unwrap();
        let Contents { cells, expiring, expiry_min, expiry_max, .. } = contents;
        (cells, expiring, expiry_min, expiry_max)
    };
    engine.flush().unwrap();
    assert_eq!(contents(&engine), (60, 59, 1, 59));
    let engine = open(&crashed, &spare, Options::default());
    engine.adopt_recovered().unwrap();
    assert_eq!(contents(&engine), (60, 59, 1, 59), "recovered");
}
