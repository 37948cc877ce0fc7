//! The n-th operation of each kind fails, for every n, while a client continues.
//!
//! Any error that may have lost an acknowledged commit stops the store: writes are refused with an
//! error that names the file, and reads continue. A failed read fails only its call; a file that
//! cannot be removed is left. The next process recovers everything acknowledged, after a kill and
//! after a power failure, and so does the process after it.

use std::io;
use std::task::Poll;
use std::time::Duration;

use carnet_base::{Error, ErrorKind, Result, SeededRng, Stepped, Timestamp, block_on};
use carnet_storage::disk::sim::{Kind, SimDisk};
use carnet_storage::{CompactionStyle, Durability, Engine, Options};

use crate::support;
use crate::support::{Forget, Mix, Model, append, check_recovered, compare_at, poll, time};

const MIX: Mix = Mix { tables: 2, partitions: 4, clusterings: 3, payload_bytes: 400 };

/// Returns `true` for the long edition, which tests every n instead of some.
fn long_edition() -> bool {
    std::env::var_os("CARNET_FAULTS_LONG").is_some()
}

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

/// A client with a fixed sequence of operations.
struct Client {
    disk: SimDisk,
    options: Options,
    model: Model,
    rng: SeededRng,
    /// Errors so far.
    errors: Vec<Error>,
}

/// Result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// No failure affected writes.
    Served,
    /// The store refused further writes.
    Stopped,
    /// The store refused further writes because the disk is full.
    Full,
    /// The database did not open.
    NotOpened,
}

impl Client {
    fn new(options: &Options) -> Self {
        let (disk, rng) = (SimDisk::new(1), SeededRng::new(1));
        let (model, options) = (Model::default(), options.clone());
        Self { disk, options, model, rng, errors: Vec::new() }
    }

    fn open(&self) -> Result<(Engine, Stepped)> {
        support::open(&self.disk, self.options.clone())
    }

    /// Records an error; the client continues.
    fn note(&mut self, outcome: Result<()>) {
        self.errors.extend(outcome.err());
    }

    /// Writes, flushes, compacts, raises the bound, reads, closes and opens again.
    fn run(&mut self) -> Result<End, String> {
        for life in 0..3 {
            let (engine, workers) = match self.open() {
                Ok(opened) => opened,
                Err(error) => {
                    self.errors.push(error);
                    return Ok(End::NotOpened);
                }
            };
            let forget = Forget::nothing_yet(&engine);
            for round in 0..4 {
                self.write(&engine, &workers);
                if round % 2 == 0 {
                    let (flushed, last) = (engine.flush(), self.model.last_commit());
                    if flushed.is_ok() {
                        self.model.kept = last;
                    }
                    self.note(flushed);
                }
                let bound = time(self.model.last_commit().get() + 100);
                let raised = engine.raise_bound(bound);
                if raised.is_ok() {
                    self.model.bound = bound;
                }
                self.note(raised);
                forget.below(engine.published());
                workers.settle();
                self.read(&engine)?;
            }
            if life == 1 {
                self.note(engine.compact());
                self.read(&engine)?;
            }
            if let Some(end) = self.end_of(engine)? {
                return Ok(end);
            }
        }
        Ok(End::Served)
    }

    fn write(&mut self, engine: &Engine, workers: &Stepped) {
        let mut waiting = Vec::new();
        for at in 0..4 {
            match append(engine, &mut self.model, &MIX, &mut self.rng) {
                Ok(appended) => waiting.push(appended),
                Err(error) => self.errors.push(error),
            }
            if at % 2 == 1 {
                workers.step(0);
            }
        }
        for mut appended in waiting {
            match poll(&mut appended) {
                Poll::Ready(Ok(commit)) => {
                    self.model.acknowledged = self.model.acknowledged.max(commit);
                }
                Poll::Ready(Err(error)) => self.errors.push(error),
                Poll::Pending => {}
            }
        }
    }

    /// Everything published can be read, at the latest by the second attempt.
    fn read(&mut self, engine: &Engine) -> Result<(), String> {
        let published = engine.published();
        if let Err(error) = compare_at(engine, &self.model, published, &mut self.rng) {
            if error.kind() != ErrorKind::Unavailable {
                return Err(format!("a read: {error}"));
            }
            self.errors.push(error);
            compare_at(engine, &self.model, published, &mut self.rng)
                .map_err(|error| format!("the same read again: {error}"))?;
        }
        Ok(())
    }

    /// Closes; a stopped store must refuse all writes with a clear error.
    fn end_of(&mut self, engine: Engine) -> Result<Option<End>, String> {
        let refused = match append(&engine, &mut self.model, &MIX, &mut self.rng) {
            Ok(appended) => {
                drop(appended);
                let closed = engine.close();
                if closed.is_ok() {
                    self.model.acknowledged = self.model.last_commit();
                    self.model.kept = self.model.acknowledged;
                    return Ok(None);
                }
                self.note(closed);
                return Ok(Some(End::Stopped));
            }
            Err(error) => error,
        };
        if refused.to_string().contains("the disk is full (cannot ") {
            self.errors.push(refused);
            self.note(engine.close());
            return Ok(Some(End::Full));
        }
        let also = [
            ("flush", engine.flush()),
            ("compact", engine.compact()),
            ("raise_bound", engine.raise_bound(Timestamp::MAX)),
            ("ready", block_on(engine.ready(1))),
            ("close", engine.close()),
        ];
        for (what, outcome) in also {
            let Err(error) = outcome else {
                return Err(format!("the store has stopped ({refused}), but {what} goes on"));
            };
            self.errors.push(error);
        }
        let text = refused.to_string();
        if !text.contains("has stopped writing (cannot ") || !text.contains("simulated/") {
            return Err(format!("this names no cause or no file: {text}"));
        }
        self.errors.push(refused);
        Ok(Some(End::Stopped))
    }

    /// Checks the next process and the one after it.
    fn check_successors(&self) -> Result<(), String> {
        for error in &self.errors {
            if error.kind() != ErrorKind::Unavailable || !error.to_string().contains("simulated/") {
                return Err(format!("not an error that names a file of the disk: {error}"));
            }
        }
        let mut rng = self.rng.clone();
        let without_power = |disk: &SimDisk, model: &Model, rng: &mut SeededRng| {
            let mut model = model.clone();
            model.lose(self.options.durability, true);
            check_recovered(&disk.crash(rng), &self.options, &mut model, rng)
        };
        let times = if long_edition() { 4 } else { 1 };
        for _ in 0..times {
            without_power(&self.disk, &self.model, &mut rng)
                .map_err(|error| format!("after a loss of power: {error}"))?;
        }
        // The next process must make the recovered commits as durable as its option requires before
        // it serves them.
        let mut model = self.model.clone();
        model.lose(self.options.durability, false);
        let next = self.disk.kill();
        check_recovered(&next, &self.options, &mut model, &mut rng)
            .map_err(|error| format!("the next process: {error}"))?;
        model.acknowledged = model.last_commit();
        model.kept = model.acknowledged;
        for _ in 0..times {
            without_power(&next, &model, &mut rng)
                .map_err(|error| format!("the next process loses its power: {error}"))?;
        }
        Ok(())
    }
}

/// Runs the client with one failing operation.
fn with_failure(options: &Options, kind: Kind, nth: u64) -> Result<End, String> {
    let mut client = Client::new(options);
    client.disk.fail_nth(kind, nth, io::ErrorKind::Other);
    let end = client.run()?;
    // Readers retry, compaction does not use an unreadable table, and a file that could not be
    // removed is removed by the next opening.
    let harmless =
        matches!(kind, Kind::Read | Kind::Open | Kind::Remove) || client.disk.count(kind) < nth;
    if end == End::Served && !harmless {
        return Err("the store went on as if nothing had happened".to_owned());
    }
    client.check_successors()?;
    Ok(end)
}

fn all_options() -> Vec<Options> {
    let mut all = Vec::new();
    let interval = Durability::Interval(Duration::ZERO);
    for durability in [Durability::Always, Durability::None, interval, Durability::Memory] {
        for style in [CompactionStyle::Leveled, CompactionStyle::Tiered] {
            all.push(options(durability, style));
        }
    }
    all
}

fn name_of(options: &Options) -> String {
    let Options { durability, compaction_style, .. } = options;
    format!("{durability:?} {compaction_style:?}")
}

#[test]
fn workload_covers_every_kind_of_operation() {
    for options in all_options() {
        let mut client = Client::new(&options);
        assert_eq!(client.run(), Ok(End::Served));
        assert!(client.errors.is_empty(), "{:?}", client.errors);
        for kind in Kind::ALL {
            let count = client.disk.count(kind);
            assert!(count > 3, "{}: {kind:?} is hardly exercised", name_of(&options));
        }
    }
}

/// Fails each operation in turn, or some by `stride` after the first ones; returns the results.
fn fail_each(options: &Options, from: u64, stride: impl Fn(Kind) -> u64) -> Vec<(Kind, End)> {
    let mut client = Client::new(options);
    assert_eq!(client.run(), Ok(End::Served));
    let mut ends = Vec::new();
    for kind in Kind::ALL {
        let stride = if long_edition() { 1 } else { stride(kind) };
        let mut nth = 1 + from % stride;
        while nth <= client.disk.count(kind) {
            match with_failure(options, kind, nth) {
                Ok(end) => ends.push((kind, end)),
                Err(wrong) => panic!("{} {kind:?} {nth} fails: {wrong}", name_of(options)),
            }
            nth += stride;
        }
    }
    ends
}

#[test]
fn every_operation_may_fail() {
    let stride = |kind| if kind == Kind::Read { 5 } else { 1 };
    let ends = fail_each(&all_options()[0], 0, stride);
    for end in [End::Served, End::Stopped, End::NotOpened] {
        assert!(ends.contains(&(Kind::Read, end)), "no read ends so: {end:?}");
    }
}

#[test]
fn operations_may_fail_with_all_options() {
    for (which, options) in (0..).zip(&all_options()[1..]) {
        fail_each(options, 5 * which, |_| 29);
    }
}

#[test]
fn disk_may_be_full_at_every_size() {
    for (which, options) in (0..).zip(&all_options()) {
        let step_bytes = if long_edition() || which == 0 { 500 } else { 5_000 };
        let mut ends = Vec::new();
        for bytes in (37 * which..).step_by(step_bytes) {
            let mut client = Client::new(options);
            client.disk.full_at_bytes(bytes);
            let told = |outcome: Result<_, String>| {
                outcome.unwrap_or_else(|wrong| {
                    panic!("{} full at {bytes} bytes: {wrong}", name_of(options))
                })
            };
            ends.push(told(client.run()));
            let told_why = |error: &Error| error.to_string().contains("free some space");
            assert!(client.errors.is_empty() || client.errors.iter().any(told_why));
            told(client.check_successors().map(|()| End::Served));
            if ends.last() == Some(&End::Served) {
                break;
            }
        }
        assert!(ends.contains(&End::Full) && (which > 0 || ends.contains(&End::NotOpened)));
    }
}
