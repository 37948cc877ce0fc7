//! Tests of large transactions, step by step.

use super::*;

fn spilled(engine: &Engine, commit: u64, keys: std::ops::Range<u64>) -> Merged {
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
