//! Write throttling: writers are slowed to the pace of compaction, and released when it has caught
//! up or failed; and tiered compaction in an engine.

use carnet_base::{WaitNote, take_wait_note};

use super::*;
use crate::compaction::policy::Config;
use crate::options::CompactionStyle;

fn options(config: Config) -> Options {
    Options { flush_bytes: 1, memtables_waiting_max: 50, compaction: config, ..Options::default() }
}

/// Writes a table for each record.
fn flush_tables(engine: &Engine, from: u64, count: u64) {
    for n in from..from + count {
        drop(reserve(engine, 10 * n).insert());
        engine.flush().unwrap();
    }
}

fn is_ready(engine: &Engine, bytes: usize) -> bool {
    let mut ready = std::pin::pin!(engine.ready(bytes));
    let _ = take_wait_note();
    let polled = ready.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    let note = polled.is_pending().then_some(WaitNote::Throttle);
    assert_eq!(take_wait_note(), note, "a writer that is held back is throttled");
    match polled {
        Poll::Ready(outcome) => outcome.map(|()| true).unwrap(),
        Poll::Pending => false,
    }
}

#[test]
fn writers_are_throttled_until_compaction_catches_up() {
    let (disk, workers) = (SimDisk::new(1), Stepped::default());
    let config = Config { level0_tables: 2, slow_runs: 3, slowest_runs: 50, ..Config::default() };
    let engine = open(&disk, &workers, options(config));
    flush_tables(&engine, 1, 3);
    assert!(is_ready(&engine, 1), "three runs are no pressure");
    flush_tables(&engine, 4, 1);
    assert!(!is_ready(&engine, 1), "nothing was moved yet that writers could have a part of");
    engine.core.compactions.throttle.refill(1000);
    assert!(is_ready(&engine, 10_000), "whoever finds an allowance is let in whole");
    assert!(!is_ready(&engine, 1), "and the next one pays for it");
    engine.core.compactions.throttle.refill(2000);
    assert!(!is_ready(&engine, 1));
    engine.core.compactions.throttle.refill(20_000);
    assert!(is_ready(&engine, 1));
    while workers.step(2) == Step::Again {}
    assert_eq!(engine.metrics().tables, 1);
    assert!(is_ready(&engine, usize::MAX) && is_ready(&engine, usize::MAX), "it has caught up");
}

#[test]
fn writers_always_get_a_minimum_share() {
    let (disk, workers) = (SimDisk::new(1), Stepped::default());
    let config = Config { level0_tables: 2, slow_runs: 2, slowest_runs: 4, ..Config::default() };
    let engine = open(&disk, &workers, options(config));
    flush_tables(&engine, 1, 10);
    for _ in 0..10 {
        assert!(!is_ready(&engine, 1));
        engine.core.compactions.throttle.refill(1_000_000);
        // The unused allowance does not accumulate.
        engine.core.compactions.throttle.refill(1_000_000);
        assert!(is_ready(&engine, 60_000), "a tenth");
        assert!(is_ready(&engine, 60_000));
    }
}

#[test]
fn waiting_writers_wake_when_compaction_catches_up() {
    struct Count(AtomicU64);
    impl std::task::Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let (disk, workers) = (SimDisk::new(1), Stepped::default());
    let config = Config { level0_tables: 2, slow_runs: 2, slowest_runs: 4, ..Config::default() };
    let engine = open(&disk, &workers, options(config));
    flush_tables(&engine, 1, 4);
    let woken = Arc::new(Count(AtomicU64::new(0)));
    let waker = Waker::from(Arc::clone(&woken));
    let mut ready = std::pin::pin!(engine.ready(1));
    let mut context = Context::from_waker(&waker);
    assert!(ready.as_mut().poll(&mut context).is_pending(), "nothing was moved yet");
    while workers.step(2) == Step::Again {}
    assert!(woken.0.load(Ordering::SeqCst) > 0);
    assert!(matches!(ready.as_mut().poll(&mut context), Poll::Ready(Ok(()))));
}

/// Makes a writer wait for a compaction whose next file cannot be created; returns the writer's
/// result.
fn ready_after_failed_create(cause: std::io::ErrorKind) -> Result<()> {
    let (disk, workers) = (SimDisk::new(1), Stepped::default());
    let config = Config { level0_tables: 2, slow_runs: 2, slowest_runs: 4, ..Config::default() };
    let engine = open(&disk, &workers, options(config));
    flush_tables(&engine, 1, 4);
    let mut ready = std::pin::pin!(engine.ready(1));
    let mut context = Context::from_waker(Waker::noop());
    assert!(ready.as_mut().poll(&mut context).is_pending());
    disk.fail_nth(Kind::Create, disk.count(Kind::Create) + 1, cause);
    while workers.step(2) == Step::Again {}
    let Poll::Ready(told) = ready.as_mut().poll(&mut context) else { panic!("the writer hangs") };
    told
}

#[test]
fn waiting_writers_get_the_compaction_error() {
    let error = ready_after_failed_create(std::io::ErrorKind::Other).unwrap_err();
    assert!(error.to_string().contains("cannot create simulated/"), "{error}");
}

#[test]
fn writers_are_not_throttled_without_disk_space() {
    ready_after_failed_create(std::io::ErrorKind::StorageFull).unwrap();
}

/// Otherwise it would never start if there is always something to compact.
#[test]
fn manual_compaction_pauses_background_compaction() {
    let (disk, workers) = (SimDisk::new(1), Stepped::default());
    let config = Config { level0_tables: 2, ..Config::default() };
    let engine = open(&disk, &workers, options(config));
    flush_tables(&engine, 1, 4);
    while lock(&engine.core.compactions.state).running() == 0 {
        assert_eq!(workers.step(2), Step::Again, "there is something to compact");
    }
    flush_tables(&engine, 5, 4);
    std::thread::scope(|scope| {
        let compact = scope.spawn(|| engine.compact());
        while engine.core.compactions.manual.load(Ordering::SeqCst) == 0 {
            assert!(!compact.is_finished(), "it waits for the one under way");
            std::thread::yield_now();
        }
        while workers.step(2) == Step::Again {}
        compact.join().unwrap().unwrap();
    });
    let metrics = engine.metrics();
    assert_eq!((metrics.compactions, metrics.tables), (1, 1), "and all the rest by hand");
    flush_tables(&engine, 9, 4);
    assert_eq!(workers.step(2), Step::Again, "it goes on");
}

/// Only runs of similar size are merged; every snapshot stays readable, also after a restart.
#[test]
fn tiered_engine_merges_similar_runs() {
    let (disk, workers) = (SimDisk::new(1), Stepped::default());
    let tiered = || Options {
        compaction_style: CompactionStyle::Tiered,
        ..options(Config { tier_runs: 4, space_percent: 100_000, ..Config::default() })
    };
    let engine = open(&disk, &workers, tiered());
    let mut tables = Vec::new();
    for round in 0..16 {
        flush_tables(&engine, 1 + round, 1);
        while workers.step(2) == Step::Again {}
        tables.push(engine.metrics().tables);
    }
    assert_eq!(tables[..4], [1, 2, 3, 1], "the fourth of a size brings them together");
    assert!(tables.iter().all(|&tables| tables <= 7), "{tables:?}");
    let metrics = engine.metrics();
    assert!((4..=6).contains(&metrics.compactions), "{metrics:?}");
    let read_all = |engine: &Engine| {
        for commit in (1..=16).map(|n| 10 * n) {
            let found = block_on(engine.get(&key(commit), time(commit))).unwrap().unwrap();
            assert_eq!(found.commit, Some(time(commit)));
            let before = block_on(engine.get(&key(commit), time(commit - 1))).unwrap();
            assert!(before.is_none(), "nothing is seen before its commit");
        }
    };
    read_all(&engine);
    engine.close().unwrap();
    read_all(&open(&disk, &Stepped::default(), tiered()));
}
