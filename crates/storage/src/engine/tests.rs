//! Tests of the order of reservation, insertion and publication, step by step.

mod checkpoint;
mod close;
mod compactors;
mod io;
mod newest;
mod power;
mod pressure;
mod spill;
mod watermark;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use carnet_base::{
    CellKey, Clock, Error, ErrorKind, KeyRange, Moment, PageLimit, PartitionKey, Result, Rng,
    SeededRng, Signal, Spawn, Step, SystemClock, TableId, ThreadSpawn, Timestamp, WaitNote,
    WallTime, Worker, WorkerHandle, block_on, take_wait_note,
};

use super::publication::Publication;
use super::*;
use crate::batch::Mutation;
use crate::compaction::merge::GcHook;
use crate::disk::Disk;
use crate::disk::sim::{Kind, SimDisk};
use crate::io::Class;
use crate::options::{Durability, Options};
use crate::sstable::ReadOptions;
use crate::sync::lock;

/// Keeps the workers so that the test steps them; the log flusher is the first.
#[derive(Default)]
pub(super) struct Stepped(Mutex<Vec<Box<dyn Worker>>>);

impl Spawn for Stepped {
    fn spawn(&self, _: &str, _: Signal, worker: Box<dyn Worker>) -> WorkerHandle {
        lock(&self.0).push(worker);
        WorkerHandle::detached()
    }
}

impl Stepped {
    pub(super) fn step(&self, worker: usize) -> Step {
        lock(&self.0)[worker].step()
    }
}

/// Records the published commits.
#[derive(Default)]
struct Observed(Mutex<Vec<u64>>);

impl Publish for Observed {
    fn publish(&self, commit: Timestamp) {
        lock(&self.0).push(commit.get());
    }
}

pub(super) fn time(number: u64) -> Timestamp {
    Timestamp::new(number).unwrap()
}

pub(super) fn key(number: u64) -> CellKey {
    CellKey::new(TableId(1), &PartitionKey::new(number.to_be_bytes().to_vec()), "")
}

fn entry_cell() -> EntryCell {
    Arc::new(|start, commit| {
        let partition = PartitionKey::new(start.get().to_be_bytes().to_vec());
        let value = commit.get().to_be_bytes().to_vec().into();
        Ok((CellKey::new(TableId(0), &partition, ""), value))
    })
}

pub(super) fn open(disk: &SimDisk, spawn: &dyn Spawn, options: Options) -> Engine {
    Engine::open(Arc::new(disk.clone()), Arc::new(SystemClock), spawn, options, entry_cell())
        .unwrap()
}

fn prepared(engine: &Engine, commit: u64) -> Prepared {
    let payload = Bytes::from(vec![7; 100]);
    let key = key(commit);
    let put = Mutation::put_or_delete(&key, Some(&payload));
    engine.prepare(time(commit - 1), [put]).unwrap()
}

pub(super) fn reserve(engine: &Engine, commit: u64) -> append::Reserved<'_> {
    engine.reserve(prepared(engine, commit), || Ok::<_, Error>(time(commit))).unwrap()
}

fn poll(appended: &mut Appended) -> Poll<Result<Timestamp>> {
    std::pin::pin!(appended).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn slow_insert_delays_only_visibility() {
    for durability in [Durability::Always, Durability::None] {
        let (disk, workers) = (SimDisk::new(1), Stepped::default());
        let engine = open(&disk, &workers, Options { durability, ..Options::default() });
        let observed = Arc::new(Observed::default());
        assert!(engine.observe(Arc::clone(&observed) as _));
        let slow = reserve(&engine, 10);
        let mut quick = reserve(&engine, 20).insert();
        workers.step(0);
        assert!(poll(&mut quick).is_pending(), "an earlier commit is not inserted");
        assert_eq!(engine.published(), Timestamp::ZERO);
        assert_eq!(engine.metrics().log_writes, 1, "the log does not wait for inserts");
        let mut slow = slow.insert();
        assert!(matches!(poll(&mut slow), Poll::Ready(Ok(commit)) if commit == time(10)));
        assert!(matches!(poll(&mut quick), Poll::Ready(Ok(commit)) if commit == time(20)));
        assert_eq!(*lock(&observed.0), [20], "both at once");
    }
}

#[test]
fn commits_are_synced_before_publication() {
    let (disk, workers) = (SimDisk::new(1), Stepped::default());
    let engine = open(&disk, &workers, Options::default());
    let mut appended: Vec<_> = (1..=10).map(|n| reserve(&engine, 10 * n).insert()).collect();
    assert!(appended.iter_mut().all(|appended| poll(appended).is_pending()));
    let syncs = disk.syncs();
    workers.step(0);
    assert!(appended.iter_mut().all(|appended| poll(appended).is_ready()));
    let metrics = engine.metrics();
    assert_eq!((metrics.log_writes, metrics.log_syncs), (1, 1), "ten commits share one sync");
    assert_eq!(engine.log_sync_durations().count(), 1);
    assert_eq!(disk.syncs(), syncs + 1);
}

/// Returns the key of a cell in one wide partition.
fn wide(number: u64) -> CellKey {
    let partition = PartitionKey::new(b"wide".to_vec());
    CellKey::new(TableId(1), &partition, number.to_be_bytes())
}

/// Writes incompressible cells of 1 KiB, fifty per record.
fn put_wide(engine: &Engine, numbers: impl Iterator<Item = u64>) {
    let mut rng = SeededRng::new(1);
    let mut payload = || (0..128).flat_map(|_| rng.next_u64().to_le_bytes()).collect::<Vec<u8>>();
    let cells: Vec<_> = numbers.map(|number| (wide(number), payload())).collect();
    for cells in cells.chunks(50) {
        let puts = cells.iter().map(|(key, payload)| Mutation::put_or_delete(key, Some(payload)));
        let start = engine.published().get() + 1;
        let prepared = engine.prepare(time(start), puts).unwrap();
        let appended = engine.append(prepared, || Ok::<_, Error>(time(start + 1))).unwrap();
        block_on(appended).unwrap();
    }
}

#[test]
fn page_reads_few_blocks_beyond_its_cells() {
    let disk = SimDisk::new(1);
    let durability = Durability::None;
    let options = Options { durability, cache_bytes: 1, ..Options::default() };
    let engine = open(&disk, &ThreadSpawn, options);
    put_wide(&engine, 1..=5_000);
    engine.flush().unwrap();
    let range = KeyRange::partition(TableId(1), &wide(0).partition());
    for (reverse, cells) in [(false, 100), (true, 100), (false, 3), (true, 3)] {
        let before = engine.metrics();
        let limit = PageLimit { cells, bytes: usize::MAX };
        let from = range.after(wide(2_500), reverse);
        let page = block_on(engine.range(&from, Timestamp::MAX, reverse, limit)).unwrap();
        assert_eq!(page.cells.len(), cells);
        let after = engine.metrics();
        let reads = after.block_reads - before.block_reads;
        assert!(reads <= 3, "{reads} reads for {cells} cells, {reverse}");
        let blocks = reads + after.block_reads_ahead - before.block_reads_ahead;
        // A block holds slightly more than three cells.
        assert!(blocks <= cells as u64 / 3 + 10, "{blocks} blocks for {cells} cells, {reverse}");
    }
}

/// If the log kept flushed segments, their files would stay open, and their space allocated, until
/// the engine is closed.
#[test]
fn unsynced_log_drops_flushed_segments() {
    let options = Options { durability: Durability::None, ..Options::default() };
    let engine = open(&SimDisk::new(1), &ThreadSpawn, options);
    for round in 0..20 {
        put_wide(&engine, round..round + 1);
        engine.flush().unwrap();
        let kept = engine.core.log.unsynced_segments();
        assert!(kept <= 2, "{kept} segments in round {round}");
    }
}

/// Each run reads ahead for its share of the page only.
#[test]
fn runs_of_a_page_share_read_ahead() {
    let disk = SimDisk::new(1);
    let options = Options { durability: Durability::None, cache_bytes: 1, ..Options::default() };
    let engine = open(&disk, &ThreadSpawn, options);
    for run in 0..3 {
        put_wide(&engine, (run..3_000).step_by(3));
        engine.flush().unwrap();
    }
    let range = KeyRange::partition(TableId(1), &wide(0).partition());
    for reverse in [false, true] {
        let before = disk.read_bytes();
        let limit = PageLimit { cells: 100, bytes: usize::MAX };
        let from = range.after(wide(1_500), reverse);
        let page = block_on(engine.range(&from, Timestamp::MAX, reverse, limit)).unwrap();
        assert_eq!(page.cells.len(), 100);
        let kib = (disk.read_bytes() - before) / 1024;
        assert!((100..150).contains(&kib), "{kib} KiB for 100 of 1 KiB, {reverse}");
    }
}

/// A clock that the test moves.
#[derive(Default)]
struct Moved(Mutex<Duration>);

impl Clock for Moved {
    fn now(&self) -> Moment {
        Moment(*lock(&self.0))
    }

    fn wall(&self) -> WallTime {
        WallTime(0)
    }
}

#[test]
fn replaced_directory_stops_the_store() {
    let (disk, workers) = (SimDisk::new(1), Stepped::default());
    let engine = open(&disk, &workers, Options::default());
    let mut appended = reserve(&engine, 10).insert();
    disk.replace_directory();
    assert_eq!(workers.step(0), Step::Done);
    let Poll::Ready(Err(error)) = poll(&mut appended) else { panic!("it is not acknowledged") };
    assert!(error.to_string().contains("put the directory back"), "{error}");
    assert!(engine.close().is_err());
}

#[test]
fn replaced_directory_gets_no_manifest_and_no_segment() {
    let (disk, workers) = (SimDisk::new(1), Stepped::default());
    let options = Options { durability: Durability::None, ..Options::default() };
    let engine = open(&disk, &workers, options);
    assert!(poll(&mut reserve(&engine, 10).insert()).is_ready());
    let (names, manifest) = (disk.list().unwrap(), disk.contents("MANIFEST"));
    disk.replace_directory();
    let error = engine.flush().unwrap_err();
    assert!(error.to_string().contains("put the directory back"), "{error}");
    assert!(engine.note(time(100), Bytes::new()).is_err());
    assert_eq!((disk.list().unwrap(), disk.contents("MANIFEST")), (names, manifest));
}

#[test]
fn interval_durability_syncs_after_the_interval() {
    let (disk, workers, clock) = (SimDisk::new(1), Stepped::default(), Arc::<Moved>::default());
    let interval = Duration::from_millis(10);
    let options = Options { durability: Durability::Interval(interval), ..Options::default() };
    let shared = Arc::new(disk.clone());
    let engine =
        Engine::open(shared, Arc::clone(&clock) as _, &workers, options, entry_cell()).unwrap();
    assert_eq!(workers.step(0), Step::Idle(None), "there is nothing to sync");
    for round in 1..=2 {
        let mut appended = reserve(&engine, 10 * round).insert();
        assert!(poll(&mut appended).is_ready(), "the caller has written it");
        engine.core.log.signal.wait(None);
        assert_eq!(workers.step(0), Step::Idle(Some(interval)), "the sleeping flusher was woken");
        assert_eq!(engine.metrics().log_syncs, round - 1);
        *lock(&clock.0) += interval;
        assert_eq!(workers.step(0), Step::Again);
        assert_eq!(engine.metrics().log_syncs, round);
        let crashed = disk.crash(&mut SeededRng::new(round));
        assert_eq!(
            open(&crashed, &Stepped::default(), Options::default()).published(),
            time(10 * round)
        );
        assert_eq!(workers.step(0), Step::Idle(None));
    }
}

#[test]
fn commit_is_published_without_waiters() {
    let (disk, workers) = (SimDisk::new(1), Stepped::default());
    let engine = open(&disk, &workers, Options::default());
    drop(reserve(&engine, 10).insert());
    let mut second = reserve(&engine, 20).insert();
    workers.step(0);
    assert!(poll(&mut second).is_ready());
    assert_eq!(engine.published(), time(20));
}

#[test]
fn refused_decision_has_no_effect() {
    let (disk, workers) = (SimDisk::new(1), Stepped::default());
    let engine = open(&disk, &workers, Options::default());
    let refused = engine.append(prepared(&engine, 10), || Err::<Timestamp, _>("no"));
    assert!(matches!(refused, Err(AppendError::Refused("no"))));
    drop(reserve(&engine, 20).insert());
    let late = engine.append(prepared(&engine, 15), || Ok::<_, Error>(time(15)));
    let late = Error::from(late.map(|_| ()).unwrap_err());
    assert_eq!(late.kind(), ErrorKind::Invalid, "{late}");
    engine.close().unwrap();
    let workers = Stepped::default();
    let engine = open(&disk, &workers, Options::default());
    assert_eq!((engine.metrics().recovered_records, engine.published()), (1, time(20)));
}

#[test]
fn dropped_reservation_stops_the_store() {
    let (disk, workers) = (SimDisk::new(1), Stepped::default());
    let engine = open(&disk, &workers, Options::default());
    let lost = reserve(&engine, 10);
    let mut waiting = reserve(&engine, 20).insert();
    assert!(poll(&mut waiting).is_pending());
    drop(lost);
    let Poll::Ready(Err(error)) = poll(&mut waiting) else { panic!("the waiter hangs") };
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("gave up"), "{error}");
    let error = engine.append(prepared(&engine, 30), || Ok::<_, Error>(time(30)));
    let error = Error::from(error.map(|_| ()).unwrap_err());
    assert!(error.to_string().contains("gave up"), "{error}");
    assert_eq!(workers.step(0), Step::Done);
    assert_eq!(block_on(engine.get(&key(10), engine.published())).unwrap(), None);
}

#[test]
fn failed_sync_is_not_retried() {
    let (disk, workers) = (SimDisk::new(1), Stepped::default());
    let engine = open(&disk, &workers, Options::default());
    let mut lost = reserve(&engine, 10).insert();
    disk.fail_at(disk.operations() + 2, std::io::ErrorKind::Other);
    assert_eq!(workers.step(0), Step::Done);
    assert!(matches!(poll(&mut lost), Poll::Ready(Err(_))));
    assert!(engine.close().is_err());
    let after = disk.crash(&mut SeededRng::new(1));
    let engine = open(&after, &Stepped::default(), Options::default());
    assert!(engine.published() <= time(10));
}

#[test]
fn memtable_is_flushed_after_its_publication() {
    let (disk, workers) = (SimDisk::new(1), Stepped::default());
    let options = Options { flush_bytes: 1, log_spares_max: 0, ..Options::default() };
    let engine = open(&disk, &workers, options);
    let slow = reserve(&engine, 10);
    let quick = (reserve(&engine, 20).insert(), reserve(&engine, 30).insert());
    workers.step(0);
    assert_eq!(workers.step(1), Step::Idle(None), "a writer is still at it");
    assert_eq!(engine.metrics().memtables_waiting, 1);
    drop(slow.insert());
    assert_eq!(workers.step(1), Step::Again);
    assert_eq!((engine.metrics().memtables_waiting, engine.metrics().tables), (0, 1));
    assert!(disk.contents("wal-00000001.log").is_none(), "the log's part is not needed any more");
    drop(quick);
    for commit in [10, 20, 30] {
        let found = block_on(engine.get(&key(commit), engine.published())).unwrap().unwrap();
        assert_eq!(found.commit, Some(time(commit)));
    }
    let entry = entry_cell()(time(9), time(10)).unwrap().0;
    assert!(engine.commit_of(time(9)).is_none());
    assert!(block_on(engine.get(&entry, Timestamp::MAX)).unwrap().is_some());
}

/// While one caller is writing, another finds the log writer locked and leaves its record; the
/// first caller writes it. The flusher does not take part.
#[test]
fn log_writer_checks_again_before_it_unlocks() {
    let (disk, workers) = (SimDisk::new(1), Stepped::default());
    let options = Options { durability: Durability::None, ..Options::default() };
    let engine = open(&disk, &workers, options);
    disk.hold();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| reserve(&engine, 10).insert());
        while disk.held_operations() == 0 {
            std::thread::yield_now();
        }
        let mut second = reserve(&engine, 20).insert();
        assert!(poll(&mut second).is_pending(), "and its caller's thread is free meanwhile");
        disk.resume();
        assert!(poll(&mut first.join().unwrap()).is_ready());
        assert!(poll(&mut second).is_ready(), "nobody wrote the second record");
    });
}

/// A flush that waits for a commit must not replace the waker of the commit's owner.
#[test]
fn waiting_flush_keeps_the_owners_waker() {
    struct Count(AtomicU64);
    impl std::task::Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let (disk, workers) = (SimDisk::new(1), Stepped::default());
    let engine = open(&disk, &workers, Options::default());
    let slow = reserve(&engine, 10);
    let mut waiting = reserve(&engine, 20).insert();
    let woken = Arc::new(Count(AtomicU64::new(0)));
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    assert!(std::pin::pin!(&mut waiting).poll(&mut context).is_pending());
    std::thread::scope(|scope| {
        let flush = scope.spawn(|| engine.flush().unwrap());
        while engine.metrics().log_syncs == 0 {
            std::thread::yield_now();
        }
        // By now the flush has synced and waits, or is about to wait.
        (0..1000).for_each(|_| std::thread::yield_now());
        drop(slow.insert());
        flush.join().unwrap();
    });
    assert_eq!(woken.0.load(Ordering::SeqCst), 1);
    assert!(poll(&mut waiting).is_ready());
    assert_eq!(engine.metrics().tables, 1);
}

#[test]
fn writers_wait_while_memtables_wait() {
    let (disk, workers) = (SimDisk::new(1), Stepped::default());
    let options = Options { flush_bytes: 1, memtables_waiting_max: 2, ..Options::default() };
    let engine = open(&disk, &workers, options);
    for commit in [10, 20, 30] {
        drop(reserve(&engine, commit).insert());
    }
    drop(reserve(&engine, 32).insert());
    assert_eq!(engine.metrics().memtables_waiting, 2, "who got here together is let in");
    let key = key(36);
    // docs/memory.md has the number.
    let payload = vec![7; 4 << 20];
    let put = Mutation::put_or_delete(&key, Some(&payload));
    let large = engine.prepare(time(35), [put]).unwrap();
    drop(engine.append(large, || Ok::<_, Error>(time(36))).unwrap());
    let refused = engine.append(prepared(&engine, 40), || -> Result<Timestamp> {
        panic!("the decision must not run")
    });
    let refused = Error::from(refused.map(|_| ()).unwrap_err());
    assert!(matches!(refused.kind(), ErrorKind::Overloaded { .. }), "{refused}");
    let mut ready = std::pin::pin!(engine.ready(100));
    let mut context = Context::from_waker(Waker::noop());
    assert!(ready.as_mut().poll(&mut context).is_pending());
    assert_eq!(take_wait_note(), Some(WaitNote::Throttle), "a write stall");
    workers.step(0);
    workers.step(1);
    assert!(matches!(ready.as_mut().poll(&mut context), Poll::Ready(Ok(()))));
    drop(reserve(&engine, 40).insert());
}

#[test]
fn active_memtable_grows_to_twice_its_part_while_others_wait() {
    const FLUSH_BYTES: usize = 5 << 20;
    let (disk, workers) = (SimDisk::new(1), Stepped::default());
    let options =
        Options { flush_bytes: FLUSH_BYTES, memtables_waiting_max: 1, ..Options::default() };
    let engine = open(&disk, &workers, options);
    let payload = vec![7; 1 << 20];
    let mut commit = 10;
    let refused = loop {
        let key = key(commit);
        let put = Mutation::put_or_delete(&key, Some(&payload));
        let record = engine.prepare(time(commit - 1), [put]).unwrap();
        match engine.append(record, || Ok::<_, Error>(time(commit))) {
            Ok(appended) => drop(appended),
            Err(refused) => break Error::from(refused),
        }
        commit += 2;
    };
    assert!(matches!(refused.kind(), ErrorKind::Overloaded { .. }), "{refused}");
    assert_eq!(engine.metrics().memtables_waiting, 1);
    let active = engine.core.view().active.memory_bytes();
    assert!((2 * FLUSH_BYTES..2 * FLUSH_BYTES + (3 << 20)).contains(&active), "{active}");
}

#[test]
fn writers_are_throttled_before_they_must_wait() {
    let (disk, workers) = (SimDisk::new(1), Stepped::default());
    let options = Options { flush_bytes: 1, memtables_waiting_max: 2, ..Options::default() };
    let engine = open(&disk, &workers, options);
    let is_ready = || {
        let mut ready = std::pin::pin!(engine.ready(100));
        ready.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    };
    drop(reserve(&engine, 10).insert());
    assert!(is_ready(), "nothing waits");
    drop(reserve(&engine, 20).insert());
    assert!(!is_ready(), "one memtable waits, and only one more may");
    assert_eq!(take_wait_note(), Some(WaitNote::Throttle));
    engine.core.flushes.throttle.refill(150);
    assert!(is_ready() && is_ready() && !is_ready(), "as much as was flushed");
    workers.step(0);
    workers.step(1);
    assert!(is_ready() && is_ready());
}

/// Each flush finds another sealed memtable at its end.
#[test]
fn flush_does_not_wait_for_later_memtables() {
    let disk = SimDisk::new(1);
    let engine: Arc<OnceLock<std::sync::Weak<Engine>>> = Arc::default();
    let (writer, next) = (Arc::clone(&engine), AtomicU64::new(2));
    let entry_cell: EntryCell = Arc::new(move |start, commit| {
        let engine = writer.get().and_then(std::sync::Weak::upgrade).unwrap();
        for _ in 0..2 {
            let next = next.fetch_add(1, Ordering::SeqCst);
            if next < 50 {
                drop(reserve(&engine, 10 * next).insert());
            }
        }
        entry_cell()(start, commit)
    });
    let workers = Stepped::default();
    let options = Options { flush_bytes: 1, memtables_waiting_max: 50, ..Options::default() };
    let (disk, clock) = (Arc::new(disk), Arc::new(SystemClock));
    let opened = Arc::new(Engine::open(disk, clock, &workers, options, entry_cell).unwrap());
    engine.set(Arc::downgrade(&opened)).unwrap();
    drop(reserve(&opened, 10).insert());
    opened.flush().unwrap();
    let metrics = opened.metrics();
    assert_eq!((metrics.flushes, metrics.memtables_waiting), (1, 1));
}

/// The cache gives memory back while memtables wait for their flush.
#[test]
fn cache_takes_the_memory_that_memtables_do_not_need() {
    let engine: Arc<OnceLock<std::sync::Weak<Engine>>> = Arc::default();
    let (observed, observer) = (Arc::new(Mutex::new(Vec::new())), Arc::clone(&engine));
    let seen = Arc::clone(&observed);
    let entry_cell: EntryCell = Arc::new(move |start, commit| {
        let engine = observer.get().and_then(std::sync::Weak::upgrade).unwrap();
        lock(&seen).push(engine.core.cache.capacity());
        entry_cell()(start, commit)
    });
    let (disk, clock) = (Arc::new(SimDisk::new(1)), Arc::new(SystemClock));
    let options = Options { memory_bytes: 8 << 20, flush_bytes: 1 << 16, ..Options::default() };
    let workers = Stepped::default();
    let opened = Arc::new(Engine::open(disk, clock, &workers, options, entry_cell).unwrap());
    engine.set(Arc::downgrade(&opened)).unwrap();
    let cache = &opened.core.cache;
    let alone = (6 << 20) - (2 << 16);
    assert_eq!(cache.capacity(), alone);
    drop(reserve(&opened, 10).insert());
    opened.flush().unwrap();
    assert_eq!(*lock(&observed), [alone - (1 << 16)], "one memtable waits during its flush");
    assert_eq!(cache.capacity(), alone);
}

#[test]
fn slot_waiters_get_the_stop_error() {
    let (disk, workers) = (SimDisk::new(1), Stepped::default());
    let engine = open(&disk, &workers, Options::default());
    for commit in 1..=publication::RING * 3 / 4 + 1 {
        drop(reserve(&engine, commit * 10).insert());
    }
    let mut ready = std::pin::pin!(engine.ready(100));
    let mut context = Context::from_waker(Waker::noop());
    assert!(ready.as_mut().poll(&mut context).is_pending());
    assert_eq!(take_wait_note(), None, "it waits for the log");
    disk.fail_at(disk.operations() + 1, std::io::ErrorKind::Other);
    assert_eq!(workers.step(0), Step::Done);
    assert!(matches!(ready.as_mut().poll(&mut context), Poll::Ready(Err(_))));
}

#[test]
fn ring_slots_are_reused() {
    let options = Options {
        durability: Durability::None,
        flush_bytes: 1 << 20,
        segment_bytes: 100_000,
        ..Options::default()
    };
    let engine = open(&SimDisk::new(1), &ThreadSpawn, options);
    let clock = AtomicU64::new(1);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (engine, clock) = (&engine, &clock);
            scope.spawn(move || {
                let mut rng = SeededRng::new(thread);
                for _ in 0..publication::RING / 2 {
                    write(engine, clock, &mut rng);
                }
            });
        }
    });
    engine.flush().unwrap();
    assert_eq!(engine.metrics().memtables_waiting, 0);
    assert_eq!(engine.metrics().appends, publication::RING / 2 * 3);
}

/// Many threads with real workers: the log has commit order (recovery refuses any other),
/// publication follows it, and every acknowledged record is recovered after a crash.
#[test]
fn threads_share_syncs_and_keep_order() {
    for durability in [Durability::Always, Durability::None, Durability::Interval(Duration::ZERO)] {
        let disk = SimDisk::new(1);
        let options =
            Options { durability, flush_bytes: 50_000, segment_bytes: 700, ..Options::default() };
        let engine = open(&disk, &ThreadSpawn, options.clone());
        let observed = Arc::new(Observed::default());
        assert!(engine.observe(Arc::clone(&observed) as _));
        let clock = AtomicU64::new(1);
        let acknowledged = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            scope.spawn(|| (0..20).for_each(|_| engine.flush().unwrap()));
            for thread in 0..8 {
                let (engine, clock, acknowledged) = (&engine, &clock, &acknowledged);
                scope.spawn(move || {
                    let mut rng = SeededRng::new(thread);
                    for _ in 0..100 {
                        let commit = write(engine, clock, &mut rng);
                        assert!(engine.published() >= commit);
                        lock(acknowledged).push(commit);
                    }
                });
            }
        });
        let observed = lock(&observed.0).clone();
        assert!(observed.is_sorted_by(|one, other| one < other));
        assert_eq!(observed.last(), Some(&engine.published().get()));
        let disk = match durability {
            Durability::Always => disk.crash(&mut SeededRng::new(5)),
            _ => disk.kill(),
        };
        drop(engine);
        let engine = open(&disk, &Stepped::default(), options);
        for &commit in lock(&acknowledged).iter() {
            let found = block_on(engine.get(&key(commit.get()), engine.published())).unwrap();
            assert_eq!(found.unwrap().commit, Some(commit), "{durability:?}");
        }
    }
}

/// Appends a record whose key is its commit timestamp; returns when it is acknowledged.
fn write(engine: &Engine, clock: &AtomicU64, rng: &mut SeededRng) -> Timestamp {
    loop {
        block_on(engine.ready(100)).unwrap();
        // A thread can use its number only if no other thread has decided on a greater one.
        let guess = clock.fetch_add(2, Ordering::SeqCst) + 2;
        let payload = Bytes::from(vec![1; usize::try_from(rng.below(300)).unwrap()]);
        let key = key(guess);
        let put = Mutation::put_or_delete(&key, Some(&payload));
        let prepared = engine.prepare(time(guess - 1), [put]).unwrap();
        let decide = || match clock.load(Ordering::SeqCst) {
            last if last == guess => Ok(time(guess)),
            _ => Err(()),
        };
        match engine.append(prepared, decide) {
            Ok(appended) => return block_on(appended).unwrap(),
            Err(AppendError::Refused(())) => {}
            Err(AppendError::Engine(error)) => {
                assert!(matches!(error.kind(), ErrorKind::Overloaded { .. }), "{error}");
            }
        }
    }
}
