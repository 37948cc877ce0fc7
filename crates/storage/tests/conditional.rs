//! Put-unless-exists with threads and crashes: no put cell existed before, reported cells existed,
//! and after a power failure each call's entries exist together or not at all.
#![allow(missing_docs, clippy::cast_possible_truncation, clippy::unwrap_used, reason = "a test")]

mod common;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;

use carnet_base::{
    Bytes, CellKey, Error, KeyRange, PartitionKey, Rng, SeededRng, SystemClock, TableId,
    ThreadSpawn, Timestamp, Version, block_on,
};
use carnet_storage::disk::sim::SimDisk;
use carnet_storage::{Appended, Durability, Engine, Mutation, Options, PutUnlessExists, WritePath};
use common::{entry_cell, open, time};

fn key(number: u64) -> CellKey {
    CellKey::new(TableId(1), &PartitionKey::new(number.to_be_bytes()[6..].to_vec()), "c")
}

fn options(write_path: WritePath) -> Options {
    Options {
        write_path,
        flush_bytes: 20_000,
        memtables_waiting_max: 50,
        table_options: common::blocks(500),
        cache_bytes: 5_000,
        segment_bytes: 10_000,
        log_ahead_bytes: 1000,
        compaction: common::small_compaction(),
        ..Options::default()
    }
}

/// An operation of the history.
#[derive(Debug)]
enum Done {
    /// Commit, and each cell that was put (true) or deleted.
    Wrote { commit: u64, conditional: bool, cells: Vec<(u64, bool)> },
    /// Deletion of all cells.
    Cleared { commit: u64 },
    /// Commits of the existing cells at some time between two commits.
    Stood { from: u64, to: u64, found: Vec<(u64, Option<u64>)> },
}

/// Returns the existing cells after each commit, with the commits that put them.
fn states(done: &[Done]) -> Result<BTreeMap<u64, BTreeMap<u64, u64>>, String> {
    let mut writes: Vec<&Done> =
        done.iter().filter(|done| !matches!(done, Done::Stood { .. })).collect();
    let commit_of = |done: &Done| match done {
        Done::Wrote { commit, .. } | Done::Cleared { commit } => *commit,
        Done::Stood { .. } => 0,
    };
    writes.sort_by_key(|done| commit_of(done));
    let mut now = BTreeMap::new();
    let mut states = BTreeMap::from([(0, now.clone())]);
    for write in writes {
        match write {
            Done::Wrote { commit, conditional, cells } => {
                for (cell, put) in cells {
                    if *conditional && now.contains_key(cell) {
                        return Err(format!("{write:?} has put a cell that stood: {now:?}"));
                    }
                    if *put {
                        now.insert(*cell, *commit);
                    } else {
                        now.remove(cell);
                    }
                }
            }
            _ => now.clear(),
        }
        states.insert(commit_of(write), now.clone());
    }
    Ok(states)
}

fn check(done: &[Done]) -> Result<(), String> {
    let states = states(done)?;
    for answer in done {
        let Done::Stood { from, to, found } = answer else { continue };
        let first = states.range(..=from).next_back().map_or(0, |(at, _)| *at);
        let stood = states
            .range(first..=*to)
            .any(|(_, state)| found.iter().all(|(cell, at)| state.get(cell) == at.as_ref()));
        if !stood {
            return Err(format!("{answer:?} was so at no moment of the call"));
        }
    }
    Ok(())
}

struct Racing {
    engine: Engine,
    next: AtomicU64,
    done: Mutex<Vec<Done>>,
}

impl Racing {
    fn draw(&self) -> Timestamp {
        time(self.next.fetch_add(1, Ordering::SeqCst))
    }

    fn put(&self, numbers: &[u64], rng: &mut SeededRng) {
        let entries: Vec<_> = numbers
            .iter()
            .map(|&n| (key(n), Bytes::from(vec![1; rng.below(200) as usize])))
            .collect();
        let from = self.engine.published().get();
        let put =
            self.engine.put_unless_exists(self.draw(), &entries, || Ok::<_, Error>(self.draw()));
        let done = match block_on(put).unwrap() {
            PutUnlessExists::Put(appended) => {
                let commit = appended.commit().get();
                if rng.chance(500) {
                    block_on(appended).unwrap();
                }
                let cells = numbers.iter().map(|&n| (n, true)).collect();
                Done::Wrote { commit, conditional: true, cells }
            }
            PutUnlessExists::Exists(versions) => {
                let to = self.next.load(Ordering::SeqCst);
                let at = |version: &Option<Version>| version.as_ref()?.commit.map(Timestamp::get);
                assert!(versions.iter().any(Option::is_some));
                let found = numbers.iter().copied().zip(versions.iter().map(at)).collect();
                Done::Stood { from, to, found }
            }
        };
        self.done.lock().unwrap().push(done);
    }

    fn write(&self, cells: Vec<(u64, bool)>) {
        let keys: Vec<_> = cells.iter().map(|(n, put)| (key(*n), *put)).collect();
        let changes = keys
            .iter()
            .map(|(key, put)| Mutation::put_or_delete(key, put.then_some(&b"plain"[..])));
        let prepared = self.engine.prepare(self.draw(), changes).unwrap();
        block_on(self.engine.ready(prepared.bytes())).unwrap();
        let appended = self.engine.append(prepared, || Ok::<_, Error>(self.draw())).unwrap();
        let commit = appended.commit().get();
        self.done.lock().unwrap().push(Done::Wrote { commit, conditional: false, cells });
    }

    fn clear(&self) {
        let range = KeyRange::table(TableId(1));
        let delete = [Mutation::DeleteRange { range: &range }];
        let prepared = self.engine.prepare(self.draw(), delete).unwrap();
        let appended = self.engine.append(prepared, || Ok::<_, Error>(self.draw())).unwrap();
        self.done.lock().unwrap().push(Done::Cleared { commit: appended.commit().get() });
    }
}

fn some(cells: u64, rng: &mut SeededRng) -> Vec<u64> {
    let mut some: Vec<u64> = (0..=rng.below(5)).map(|_| rng.below(cells)).collect();
    some.sort_unstable();
    some.dedup();
    // Unsorted: results must be in the order of the call.
    some.reverse();
    some
}

fn race(seed: u64, durability: Durability, write_path: WritePath) {
    let disk = Arc::new(SimDisk::new(seed));
    let options = Options { durability, ..options(write_path) };
    let engine =
        Engine::open(disk, Arc::new(SystemClock), &ThreadSpawn, options, entry_cell()).unwrap();
    let racing = Racing { engine, next: AtomicU64::new(1), done: Mutex::default() };
    thread::scope(|scope| {
        for thread in 0..4 {
            let racing = &racing;
            scope.spawn(move || {
                let mut rng = SeededRng::new(seed * 10 + thread);
                for turn in 0..400 {
                    if (thread, turn) == (0, 200) {
                        racing.engine.flush().unwrap();
                    }
                    match rng.below(100) {
                        0..60 => racing.put(&some(30, &mut rng), &mut rng),
                        60..99 => {
                            let cells = some(30, &mut rng);
                            racing.write(cells.iter().map(|&n| (n, rng.chance(100))).collect());
                        }
                        _ => racing.clear(),
                    }
                }
            });
        }
    });
    let metrics = racing.engine.metrics();
    racing.engine.close().unwrap();
    let done = racing.done.into_inner().unwrap();
    assert_eq!(check(&done), Ok(()), "seed {seed}, {durability:?}, {write_path:?}");
    let stood = done.iter().filter(|done| matches!(done, Done::Stood { .. })).count();
    let put = done.iter().filter(|done| matches!(done, Done::Wrote { conditional: true, .. }));
    println!("{} put, {stood} stood, {} looked again", put.count(), metrics.puts_repeated);
    assert!(metrics.flushes > 0, "tables were read too");
}

#[test]
fn threads_race_for_the_same_cells() {
    for seed in 1..4 {
        race(seed, Durability::None, WritePath::Unordered);
        race(seed, Durability::Always, WritePath::Unordered);
    }
}

#[test]
fn threads_race_on_the_grouped_path() {
    race(7, Durability::None, WritePath::Grouped);
}

type Putting<'a> = Pin<Box<dyn Future<Output = carnet_base::Result<PutUnlessExists>> + 'a>>;

/// Promises to the callers of one seed.
#[derive(Default)]
struct Promised {
    /// Commit and cells of each call with a position in the log.
    put: Vec<(u64, Vec<u64>)>,
    acknowledged: u64,
    /// Cells reported as existing, with their commits.
    stood: Vec<(u64, u64)>,
}

/// Several concurrent callers on one thread, with worker steps in between, until the power fails.
fn callers(disk: &SimDisk, seed: u64, promised: &mut Promised) -> carnet_base::Result<()> {
    let mut rng = SeededRng::new(seed);
    let (engine, workers) = open(disk, options(WritePath::Unordered))?;
    let next = AtomicU64::new(1);
    let draw = || Ok::<_, Error>(time(next.fetch_add(1, Ordering::SeqCst)));
    let value = Bytes::from(vec![5; 600]);
    let mut putting: Vec<(Vec<u64>, Putting<'_>)> = Vec::new();
    let mut waiting: Vec<Appended> = Vec::new();
    let context = &mut Context::from_waker(Waker::noop());
    for _ in 0..120 {
        match rng.below(10) {
            0..4 => {
                let numbers = some(60, &mut rng);
                let entries: Vec<_> = numbers.iter().map(|&n| (key(n), value.clone())).collect();
                let (engine, start) = (&engine, draw()?);
                let call = async move {
                    let put = engine.put_unless_exists(start, &entries, draw).await;
                    put.map_err(Error::from)
                };
                putting.push((numbers, Box::pin(call)));
            }
            4..8 => workers.step(0),
            8 => workers.step(1 + rng.below(2) as usize),
            _ if rng.chance(300) => engine.flush()?,
            _ => {}
        }
        let mut ended = Vec::new();
        for (at, (numbers, call)) in putting.iter_mut().enumerate() {
            match call.as_mut().poll(context) {
                Poll::Pending => continue,
                Poll::Ready(outcome) => match outcome? {
                    PutUnlessExists::Put(appended) => {
                        promised.put.push((appended.commit().get(), numbers.clone()));
                        waiting.push(appended);
                    }
                    PutUnlessExists::Exists(versions) => {
                        let commits = versions.iter().map(|v| v.as_ref()?.commit);
                        let stood = numbers.iter().zip(commits);
                        promised
                            .stood
                            .extend(stood.filter_map(|(&n, commit)| Some((n, commit?.get()))));
                    }
                },
            }
            ended.push(at);
        }
        ended.into_iter().rev().for_each(|at| drop(putting.swap_remove(at)));
        waiting.retain_mut(|appended| match common::poll(appended) {
            Poll::Ready(Ok(commit)) => {
                promised.acknowledged = promised.acknowledged.max(commit.get());
                false
            }
            Poll::Ready(Err(_)) => false,
            Poll::Pending => true,
        });
    }
    drop(putting);
    engine.close()
}

fn check_promises(disk: &SimDisk, promised: &Promised) -> Result<(), String> {
    let (engine, _workers) =
        open(disk, options(WritePath::Unordered)).map_err(|error| error.to_string())?;
    let last = engine.published().get();
    if last < promised.acknowledged {
        return Err(format!("{} was acknowledged, {last} is the last", promised.acknowledged));
    }
    let standing = |cell| {
        let found = block_on(engine.get(&key(cell), Timestamp::MAX)).unwrap();
        found.and_then(|version| version.commit).map(Timestamp::get)
    };
    for (commit, cells) in &promised.put {
        for &cell in cells {
            let expected = (*commit <= last).then_some(*commit);
            // A cell is put only once, because none is deleted here.
            let found = standing(cell);
            if expected.is_some() && found != expected {
                return Err(format!("cell {cell} of commit {commit} is {found:?}"));
            }
            if expected.is_none() && found == Some(*commit) {
                return Err(format!("a part of commit {commit} is there"));
            }
        }
    }
    for &(cell, commit) in &promised.stood {
        if standing(cell) != Some(commit) {
            return Err(format!("cell {cell} was said to stand since {commit}"));
        }
    }
    Ok(())
}

#[test]
fn power_failure_keeps_calls_atomic() {
    let disk = SimDisk::new(1);
    let mut promised = Promised::default();
    callers(&disk, 1, &mut promised).unwrap();
    assert!(promised.put.len() > 10 && promised.stood.len() > 10, "too little happens");
    for seed in [1, 2] {
        for at in 1..=disk.operations() {
            let disk = SimDisk::new(seed);
            disk.halt_at(at);
            let mut promised = Promised::default();
            let _ = callers(&disk, seed, &mut promised);
            let left = disk.crash(&mut SeededRng::new(at));
            assert_eq!(
                check_promises(&left, &promised),
                Ok(()),
                "replay: seed {seed}, halt at operation {at}"
            );
        }
    }
}
