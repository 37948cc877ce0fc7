//! Tests of closing while commits and writers wait.

use std::sync::Weak;

use super::*;
use crate::batch;
use crate::compaction::merge::Mark;
use crate::wal::{Header, RECORD_HEADER_BYTES, record};

/// Closes the engine on another thread, and calls `meanwhile` when the engine takes no new commits.
fn close_while<T>(engine: &Engine, meanwhile: impl FnOnce() -> T) -> (Result<()>, T) {
    std::thread::scope(|scope| {
        let closing = scope.spawn(|| engine.shut_down());
        while !lock(&engine.core.order).closed {
            std::thread::yield_now();
        }
        let done = meanwhile();
        (closing.join().unwrap(), done)
    })
}

/// The slot is open, but the log cannot write its record yet.
#[test]
fn close_waits_for_unfilled_records() {
    for durability in [Durability::Always, Durability::None] {
        let (disk, workers) = (SimDisk::new(1), Stepped::default());
        let options = Options { durability, ..Options::default() };
        let engine = open(&disk, &workers, options.clone());
        let core = &*engine.core;
        let key = key(10);
        let put = [Mutation::put_or_delete(&key, Some(b"value"))];
        let (mut record, _) =
            batch::encode(put.into_iter(), RECORD_HEADER_BYTES, record::BODY_BYTES_MAX).unwrap();
        let lsn = lock(&core.order).tail.reserve(record.len() as u64);
        let number = core.publication.open(time(9), time(10), lsn.after(record.len() as u64));
        let owner = || {
            let body = &record[RECORD_HEADER_BYTES..];
            let (body_len, body_crc) = (body.len(), crc32c::crc32c(body));
            let (start, commit, durable) = (time(9), time(10), core.log.durable());
            Header { lsn, start, commit, durable, body_len, body_crc }.fill(&mut record);
            core.publication.filled(number, record.freeze());
            core.publication.inserted(number);
        };
        let (closed, ()) = close_while(&engine, owner);
        closed.unwrap();
        let polled = core.publication.poll(number, &mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Ready(Ok(()))), "{durability:?}: {polled:?}");
        drop(engine);
        assert_eq!(open(&disk.kill(), &workers, options).published(), time(10));
    }
}

#[test]
fn close_waits_for_slow_inserts() {
    for durability in [Durability::Always, Durability::None] {
        let (disk, workers) = (SimDisk::new(1), Stepped::default());
        let options = Options { durability, ..Options::default() };
        let engine = open(&disk, &workers, options.clone());
        let slow = reserve(&engine, 10);
        let (closed, mut appended) = close_while(&engine, || slow.insert());
        closed.unwrap();
        assert!(matches!(poll(&mut appended), Poll::Ready(Ok(_))), "{durability:?}");
        drop(engine);
        let engine = open(&disk.kill(), &workers, options);
        assert_eq!(engine.published(), time(10));
    }
}

#[test]
fn close_publishes_large_commits() {
    for durability in [Durability::Always, Durability::None] {
        let (disk, workers) = (SimDisk::new(1), Stepped::default());
        let engine = open(&disk, &workers, Options { durability, ..Options::default() });
        let merged = spill::spilled(&engine, 20, 0..50);
        let mut large = engine.adopt(&merged, || Ok::<_, Error>(time(20))).unwrap();
        engine.shut_down().unwrap();
        assert!(matches!(poll(&mut large), Poll::Ready(Ok(_))), "{durability:?}");
    }
}

#[test]
fn close_without_space_ends_every_waiter() {
    for (kind, name) in [(Kind::Write, "wal-"), (Kind::Create, "sst-")] {
        let (disk, workers) = (SimDisk::new(1), Stepped::default());
        let engine = open(&disk, &workers, Options::default());
        let merged = spill::spilled(&engine, 20, 0..50);
        let mut before = reserve(&engine, 30).insert();
        let mut large = engine.adopt(&merged, || Ok::<_, Error>(time(40))).unwrap();
        let next = disk.count(kind) + 1;
        for nth in next..next + 100 {
            disk.fail_nth(kind, nth, std::io::ErrorKind::StorageFull);
        }
        let error = engine.shut_down().unwrap_err().to_string();
        assert!(error.contains("the disk is full") || error.contains("free some space"), "{error}");
        assert!(name == "sst-" || error.contains(name), "{error}");
        for appended in [&mut before, &mut large] {
            assert!(poll(appended).is_ready(), "{kind:?}");
        }
    }
}

/// Memtables that wait for their flush keep writers waiting, and nothing flushes them any more.
#[test]
fn close_ends_writers_that_wait_for_room() {
    let (disk, workers) = (SimDisk::new(1), Stepped::default());
    let options = Options { flush_bytes: 1, memtables_waiting_max: 1, ..Options::default() };
    let engine = open(&disk, &workers, options);
    for commit in [10, 20, 30] {
        drop(reserve(&engine, commit).insert());
    }
    let counted = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&counted));
    let mut context = Context::from_waker(&waker);
    let (mut ready, mut drained) = (Box::pin(engine.ready(1)), Box::pin(engine.drained()));
    assert!(ready.as_mut().poll(&mut context).is_pending());
    assert!(drained.as_mut().poll(&mut context).is_pending());
    engine.shut_down().unwrap();
    assert!(counted.0.load(Ordering::SeqCst) > 0, "the waiters are woken");
    for polled in [ready.as_mut().poll(&mut context), drained.as_mut().poll(&mut context)] {
        let Poll::Ready(Err(error)) = polled else { panic!("{polled:?}") };
        assert!(error.to_string().contains("the database was closed"), "{error}");
    }
}

#[derive(Default)]
struct Woken(AtomicU64);

impl std::task::Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Closes the engine when a compaction asks about its first cell.
struct Closes(Mutex<Weak<Engine>>);

impl GcHook for Closes {
    fn mark(&self) -> Mark {
        Mark::default()
    }

    fn is_dropped(&self, _: TableId) -> bool {
        // The lock is free during the shutdown, which may ask the hook itself.
        let engine = std::mem::take(&mut *lock(&self.0)).upgrade();
        if let Some(engine) = engine {
            engine.shut_down().unwrap();
        }
        false
    }
}

#[test]
fn close_ends_manual_compaction() {
    let (disk, workers) = (SimDisk::new(1), Stepped::default());
    let engine = Arc::new(open(&disk, &workers, Options::default()));
    for _ in 0..2 {
        for commit in 1..=20 {
            let commit = engine.published().get() + 10 * commit;
            let wide: Vec<_> = (0..50).map(wide).collect();
            let payload = vec![7; 1024];
            let puts = wide.iter().map(|key| Mutation::put_or_delete(key, Some(&payload)));
            let prepared = engine.prepare(time(commit - 1), puts).unwrap();
            let reserved = engine.reserve(prepared, || Ok::<_, Error>(time(commit))).unwrap();
            drop(reserved.insert());
        }
        engine.flush().unwrap();
    }
    assert!(engine.set_gc(Arc::new(Closes(Mutex::new(Arc::downgrade(&engine))))));
    let files = disk.list().unwrap();
    for _ in 0..2 {
        let error = engine.compact().unwrap_err();
        assert!(error.to_string().contains("the database was closed"), "{error}");
    }
    let tables = |files: Vec<String>| {
        files.into_iter().filter(|name| name.starts_with("sst-")).collect::<Vec<_>>()
    };
    assert_eq!(tables(disk.list().unwrap()), tables(files), "no table is left behind or replaced");
    drop(engine);
    let engine = open(&disk.kill(), &workers, Options::default());
    assert_eq!(engine.metrics().tables, 2);
}
