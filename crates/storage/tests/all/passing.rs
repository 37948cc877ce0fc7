//! Errors that pass (no space, descriptors or memory, and interruptions) at every operation: the
//! store goes on, and no commit is lost.
#![allow(clippy::cast_possible_truncation, reason = "a test")]

use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use carnet_base::{
    Clock, Error, ErrorKind, Moment, Result, SeededRng, Stepped, Timestamp, WallTime, block_on,
};
use carnet_storage::disk::sim::{Kind, SimDisk};
use carnet_storage::{Appended, CompactionStyle, Durability, Engine, Options};
use rustix::io::Errno;

use crate::support;
use crate::support::{
    Forget, Mix, Model, append, check_recovered, compare_at, entry_cell, poll, time,
};

const MIX: Mix = Mix { tables: 2, partitions: 4, clusterings: 3, payload_bytes: 400 };

const PASSING: [Errno; 7] = [
    Errno::NOSPC,
    Errno::DQUOT,
    Errno::MFILE,
    Errno::NFILE,
    Errno::NOMEM,
    Errno::INTR,
    Errno::AGAIN,
];

fn options(durability: Durability, style: CompactionStyle) -> Options {
    Options {
        durability,
        compaction_style: style,
        flush_bytes: 20_000,
        memtables_waiting_max: 50,
        segment_bytes: 2_000,
        log_ahead_bytes: 100,
        table_options: support::blocks(500),
        cache_bytes: 20_000,
        compaction: support::small_compaction(),
        ..Options::default()
    }
}

/// A clock that the test advances.
#[derive(Default)]
struct Moved(Mutex<Duration>);

impl Clock for Moved {
    fn now(&self) -> Moment {
        Moment(*self.0.lock().unwrap())
    }

    fn wall(&self) -> WallTime {
        WallTime(0)
    }
}

/// A client that repeats refused calls.
struct Client {
    disk: SimDisk,
    options: Options,
    clock: Arc<Moved>,
    model: Model,
    rng: SeededRng,
    /// Sums of the metrics of all openings.
    retries: u64,
}

impl Client {
    fn new(options: &Options) -> Self {
        let (disk, rng) = (SimDisk::new(1), SeededRng::new(1));
        let (clock, options) = (Arc::default(), options.clone());
        Self { disk, options, clock, model: Model::default(), rng, retries: 0 }
    }

    fn open(&self) -> Result<(Engine, Stepped)> {
        let (workers, disk) = (Stepped::default(), Arc::new(self.disk.clone()));
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let engine = Engine::open(disk, clock, &workers, self.options.clone(), entry_cell())?;
        engine.set_merge_operator(Arc::new(support::Joined));
        Ok((engine, workers))
    }

    /// Lets the maximum pause between retries pass.
    fn pass(&self, workers: &Stepped) {
        *self.clock.0.lock().unwrap() += Duration::from_secs(5);
        workers.settle();
    }

    /// Repeats a call, whose error must pass.
    fn insist<T>(
        &mut self,
        workers: &Stepped,
        mut call: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<T, String> {
        let mut refusal = String::new();
        for _ in 0..3 {
            match call(self) {
                Ok(done) => return Ok(done),
                Err(error) => refusal = refused(&error)?,
            }
            self.pass(workers);
        }
        Err(format!("still refused: {refusal}"))
    }

    /// Writes, flushes, compacts, raises the bound, reads, closes and opens again.
    fn run(&mut self) -> Result<(), String> {
        for life in 0..3 {
            let (engine, workers) = self.insist(&Stepped::default(), |client| client.open())?;
            let forget = Forget::nothing_yet(&engine);
            for round in 0..4 {
                let waiting = self.write(&engine, &workers)?;
                if round % 2 == 0 {
                    self.insist(&workers, |_| engine.flush())?;
                }
                let bound = time(self.model.last_commit().get() + 100);
                self.insist(&workers, |_| engine.raise_bound(bound))?;
                self.model.bound = bound;
                forget.below(engine.published());
                workers.settle();
                self.pass(&workers);
                for mut appended in waiting {
                    match poll(&mut appended) {
                        Poll::Ready(done) => drop(done.map_err(|error| error.to_string())?),
                        Poll::Pending => return Err(format!("{appended:?} still waits")),
                    }
                }
                let published = engine.published();
                self.insist(&workers, |Self { model, rng, .. }| {
                    compare_at(&engine, model, published, rng)
                })?;
            }
            if life == 1 {
                self.insist(&workers, |_| engine.compact())?;
            }
            self.retries += retries(&engine);
            let quarantined = engine.warnings();
            if !quarantined.is_empty() {
                return Err(format!("{quarantined:?}"));
            }
            engine.close().or_else(|error| refused(&error).map(drop))?;
        }
        Ok(())
    }

    fn write(&mut self, engine: &Engine, workers: &Stepped) -> Result<Vec<Appended>, String> {
        let mut waiting = Vec::new();
        for at in 0..4 {
            waiting.push(
                self.insist(workers, |Self { model, rng, .. }| append(engine, model, &MIX, rng))?,
            );
            if at % 2 == 1 {
                workers.step(0);
            }
        }
        Ok(waiting)
    }

    /// All commits are there for the next process, and after a loss of power.
    fn check_successors(&mut self) -> Result<(), String> {
        let Self { disk, options, model, rng, .. } = self;
        model.acknowledged = model.last_commit();
        check_recovered(&disk.kill(), options, &mut model.clone(), rng)?;
        check_recovered(&disk.crash(rng), options, model, rng)
    }
}

fn retries(engine: &Engine) -> u64 {
    let metrics = engine.metrics();
    metrics.retries_space
        + metrics.retries_descriptors
        + metrics.retries_memory
        + metrics.retries_interrupted
}

/// Returns the text of an error that passes.
fn refused(error: &Error) -> Result<String, String> {
    let text = error.to_string();
    let passes = error.kind() == ErrorKind::Unavailable && text.contains("simulated/");
    if passes && !text.contains("has stopped writing") { Ok(text) } else { Err(text) }
}

fn long_edition() -> bool {
    std::env::var_os("CARNET_FAULTS_LONG").is_some()
}

/// Fails the `nth` operation of each kind with one error, for each error and some `nth`.
fn fail_each(options: &Options, stride: u64) -> u64 {
    let mut plain = Client::new(options);
    plain.run().unwrap();
    assert_eq!(plain.retries, 0);
    let mut retries = 0;
    for kind in Kind::ALL {
        for (which, errno) in (0..).zip(PASSING) {
            let is_lossy = [Errno::NOSPC, Errno::DQUOT, Errno::NOMEM].contains(&errno);
            if kind == Kind::Sync && is_lossy && options.durability != Durability::Always {
                continue;
            }
            let stride = if long_edition() { 1 } else { stride };
            let mut nth = 1 + which % stride;
            while nth <= plain.disk.count(kind) {
                let mut client = Client::new(options);
                client.disk.fail_nth(kind, nth, errno);
                let outcome = client.run().and_then(|()| client.check_successors());
                assert_eq!(outcome, Ok(()), "{options:?}: {kind:?} {nth} fails with {errno:?}");
                retries += client.retries;
                nth += stride;
            }
        }
    }
    retries
}

#[test]
fn every_passing_error_is_survived() {
    let options = options(Durability::Always, CompactionStyle::Leveled);
    assert!(fail_each(&options, 11) > 50, "the errors are counted");
}

#[test]
fn passing_errors_are_survived_with_all_options() {
    for durability in [Durability::None, Durability::Interval(Duration::ZERO)] {
        for style in [CompactionStyle::Leveled, CompactionStyle::Tiered] {
            fail_each(&options(durability, style), 97);
        }
    }
}

/// The kernel considers the pages of a failed sync clean: only bytes that are written again are
/// synced the next time.
#[test]
fn lossy_sync_is_repeated_with_its_bytes() {
    for errno in [Errno::NOSPC, Errno::DQUOT, Errno::NOMEM] {
        let mut client = Client::new(&options(Durability::Always, CompactionStyle::Leveled));
        client.options.segment_bytes = 1 << 20;
        let (engine, workers) = client.open().unwrap();
        let mut append = || append(&engine, &mut client.model, &MIX, &mut client.rng).unwrap();
        let mut appended = append();
        client.disk.fail_nth(Kind::Sync, client.disk.count(Kind::Sync) + 1, errno);
        workers.step(0);
        assert!(poll(&mut appended).is_pending());
        // A full disk refuses new writes at once.
        let mut later = (errno == Errno::NOMEM).then(&mut append);
        client.pass(&workers);
        for appended in [Some(&mut appended), later.as_mut()].into_iter().flatten() {
            assert!(matches!(poll(appended), Poll::Ready(Ok(_))), "{errno:?}");
        }
        assert_eq!(client.check_successors(), Ok(()), "{errno:?}");
    }
}

/// Without the bytes in memory, a sync that may have lost writes stops the store.
#[test]
fn lossy_sync_without_kept_writes_stops_the_store() {
    let mut client =
        Client::new(&options(Durability::Interval(Duration::ZERO), CompactionStyle::Leveled));
    let (engine, workers) = client.open().unwrap();
    drop(append(&engine, &mut client.model, &MIX, &mut client.rng).unwrap());
    client.disk.fail_nth(Kind::Sync, client.disk.count(Kind::Sync) + 1, Errno::NOSPC);
    client.pass(&workers);
    let error = engine.check_writable().unwrap_err().to_string();
    assert!(error.contains("has stopped writing") && error.contains("wal-"), "{error}");
    assert!(error.contains("may have lost writes"), "{error}");
}

/// The shortage lasts: commits that were decided wait, others are refused after a while, and all
/// goes on when it ends.
#[test]
fn writes_resume_when_a_shortage_ends() {
    let lasting = [
        (Kind::Create, Errno::MFILE),
        (Kind::Create, Errno::NFILE),
        (Kind::Write, Errno::NOMEM),
        (Kind::Sync, Errno::NOSPC),
        (Kind::Sync, Errno::NOMEM),
        (Kind::Sync, Errno::INTR),
        (Kind::Rename, Errno::NOSPC),
        (Kind::Open, Errno::MFILE),
    ];
    for (kind, errno) in lasting {
        let options = options(Durability::Always, CompactionStyle::Leveled);
        let mut client = Client::new(&options);
        let (engine, workers) = client.open().unwrap();
        client.disk.fail_all(Some((kind, errno.into())));
        let mut waiting = Vec::new();
        let mut refusal = None;
        for _ in 0..200 {
            match append(&engine, &mut client.model, &MIX, &mut client.rng) {
                Ok(appended) => waiting.push(appended),
                Err(error) => refusal = Some(refused(&error).unwrap()),
            }
            engine.seal();
            workers.settle();
            *client.clock.0.lock().unwrap() += Duration::from_millis(100);
        }
        let refusal = refusal.unwrap_or_else(|| panic!("{kind:?} {errno:?} refuses nothing"));
        let metrics = engine.metrics();
        let is_space = errno == Errno::NOSPC;
        assert_eq!((metrics.stopped, metrics.disk_full), (0, u64::from(is_space)), "{refusal}");
        assert_eq!(metrics.writes_starved, u64::from(!is_space), "{refusal}");
        assert!(retries(&engine) > 5, "{refusal}");
        let (ready, writable) = (block_on(engine.ready(1)), engine.check_writable());
        assert!(ready.is_err() && writable.is_err(), "{kind:?} {errno:?}");
        client.disk.fail_all(None);
        client.pass(&workers);
        client.pass(&workers);
        engine.check_writable().unwrap();
        for mut appended in waiting {
            assert!(matches!(poll(&mut appended), Poll::Ready(Ok(_))), "{kind:?} {errno:?}");
        }
        assert_eq!(engine.published(), client.model.last_commit());
        drop(append(&engine, &mut client.model, &MIX, &mut client.rng).unwrap());
        engine.close().unwrap();
        assert_eq!(client.check_successors(), Ok(()), "{kind:?} {errno:?}");
        assert!(client.model.last_commit() > Timestamp::ZERO);
    }
}
