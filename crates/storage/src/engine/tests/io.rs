//! Tests of I/O scheduling in the engine.

use super::*;
use crate::backup::About;
use crate::backup::sim::SimVault;
use crate::io::ClassTotals;
use crate::options::IoOptions;

fn totals(engine: &Engine, class: Class) -> ClassTotals {
    engine.io_totals().unwrap()[class.kind()]
}

fn write_and_compact(engine: &Engine) {
    for n in 1..=3 {
        drop(reserve(engine, 10 * n).insert());
        engine.flush().unwrap();
    }
    engine.compact().unwrap();
}

#[test]
fn background_work_is_counted_by_class() {
    let disk = SimDisk::new(1);
    let engine = open(&disk, &ThreadSpawn, Options::default());
    write_and_compact(&engine);
    let job = engine.begin_backup(&SimVault::new(1), About::default()).unwrap();
    job.run(|_| {}).unwrap();
    let metrics = engine.metrics();
    assert!(totals(&engine, Class::Wal).bytes >= metrics.log_bytes);
    // Files are written in whole blocks.
    assert!(totals(&engine, Class::Flush).bytes >= metrics.flush_bytes);
    let compaction = totals(&engine, Class::Compaction).bytes;
    assert!(compaction >= metrics.compaction_bytes + metrics.flush_bytes, "it reads and writes");
    assert!(totals(&engine, Class::Maintenance).bytes >= metrics.table_bytes);
    assert_eq!(totals(&engine, Class::Read).dispatched, 0, "no read reached the device");
}

#[test]
fn workers_without_threads_take_no_turns_unless_asked() {
    let spawn = Stepped::default();
    let engine = open(&SimDisk::new(1), &spawn, Options::default());
    assert_eq!(engine.io_totals(), None);
    let io = IoOptions { pauses: true, ..IoOptions::default() };
    let engine = open(&SimDisk::new(1), &spawn, Options { io, ..Options::default() });
    write_and_compact(&engine);
    assert!(totals(&engine, Class::Compaction).bytes > 0);
}

#[test]
fn io_floor_follows_the_backlog() {
    let engine = open(&SimDisk::new(1), &ThreadSpawn, Options::default());
    let io = &engine.core.io;
    let floor = || io.floor_permille();
    assert_eq!(floor(), 50);
    io.compaction_is_behind(Some(1.0));
    assert_eq!(floor(), 525);
    io.flush_is_behind(0, 3);
    assert_eq!(floor(), 1000);
    io.compaction_is_behind(None);
    assert_eq!(floor(), 1000);
    io.flush_is_behind(2, 1);
    assert_eq!(floor(), 50);
}

/// Linux has a nice value per thread, which new threads inherit.
#[cfg(target_os = "linux")]
#[test]
fn background_threads_are_niced() {
    struct Asks(std::sync::mpsc::Sender<i32>);
    impl Worker for Asks {
        fn step(&mut self) -> Step {
            self.0.send(rustix::process::getpriority_process(None).unwrap()).unwrap();
            Step::Done
        }
    }
    let engine = open(&SimDisk::new(1), &ThreadSpawn, Options::default());
    let (sender, receiver) = std::sync::mpsc::channel();
    let before = rustix::process::getpriority_process(None).unwrap();
    let worker = engine.core.io.niced(Asks(sender));
    ThreadSpawn.spawn("asks", Signal::new(), worker).join();
    assert_eq!(receiver.recv().unwrap(), 10.max(before));
    assert_eq!(rustix::process::getpriority_process(None).unwrap(), before);
}

#[test]
fn manual_compaction_tells_its_progress() {
    let engine = open(&SimDisk::new(1), &ThreadSpawn, Options::default());
    let payload = Bytes::from(vec![7; 100 << 10]);
    for n in 1..=10 {
        let key = key(n);
        let put = Mutation::put_or_delete(&key, Some(&payload));
        let prepared = engine.prepare(time(10 * n - 1), [put]).unwrap();
        let reserved = engine.reserve(prepared, || Ok::<_, Error>(time(10 * n))).unwrap();
        block_on(reserved.insert()).unwrap();
    }
    engine.flush().unwrap();
    let (size, mut told) = (engine.metrics().table_bytes, Vec::new());
    engine
        .compact_with(&mut |bytes, total| {
            assert_eq!(total, size);
            told.push(bytes);
        })
        .unwrap();
    assert!(told.len() >= 3 && told.is_sorted(), "{told:?}");
    assert!(told[0] >= size / 10 && *told.last().unwrap() < size, "{told:?} of {size}");
}
