//! A client, a clock, random changes and a builder for the tests of indexes and views.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use carnet::{Bytes, block_on};
use carnet_base::{
    Clock, Moment, Rng, SeededRng, Signal, Spawn, Step, ThreadSpawn, WallTime, Worker, WorkerHandle,
};
use carnet_cql::Parameters;
use carnet_cql::result::{Response, Rows};

use super::client::Client;

/// Clock that stands still until it is moved, in seconds.
pub(crate) struct Manual(pub(crate) AtomicI64);

impl Clock for Manual {
    fn now(&self) -> Moment {
        Moment(Duration::from_secs(self.0.load(Ordering::SeqCst).unsigned_abs()))
    }

    fn wall(&self) -> WallTime {
        WallTime((1_700_000_000 + self.0.load(Ordering::SeqCst)) * 1_000_000)
    }
}

impl Client {
    /// Returns all rows of a query, read in pages of `page_rows`.
    pub(crate) fn all_rows(
        &self,
        select: &str,
        page_rows: Option<usize>,
    ) -> Vec<Vec<Option<Bytes>>> {
        let mut all = Vec::new();
        let mut parameters = Parameters { page_rows, ..Parameters::default() };
        loop {
            let response = block_on(self.executor.query(&self.session, select, &parameters));
            let response = response.unwrap_or_else(|error| panic!("{select}: {error}"));
            let Response::Rows(Rows { rows, paging_state, .. }) = response else {
                panic!("{select}")
            };
            all.extend(rows.to_vec());
            if paging_state.is_none() {
                return all;
            }
            parameters.paging_state = paging_state;
        }
    }
}

pub(crate) const COLUMNS: &str = "(k int, c int, s int STATIC, v int, w text, e set<int>, m map<int, int>, \
                       PRIMARY KEY (k, c))";

/// Returns a number below `bound`.
pub(crate) fn below(rng: &mut SeededRng, bound: u64) -> u64 {
    rng.next_u64() % bound
}

/// Returns a position below `bound`.
pub(crate) fn at(rng: &mut SeededRng, bound: usize) -> usize {
    usize::try_from(below(rng, bound as u64)).unwrap()
}

/// Returns a statement that changes rows of a table named `{t}`.
pub(crate) fn change(rng: &mut SeededRng) -> String {
    let mut small = || below(rng, 4);
    let (k, c, x, y, z) = (small(), small(), small(), small(), small());
    let row = format!("k = {k} AND c = {c}");
    match below(rng, 17) {
        0 | 1 => format!("INSERT INTO {{t}} (k, c, v, w) VALUES ({k}, {c}, {x}, 'w{y}')"),
        2 => format!("INSERT INTO {{t}} (k, c, v, e) VALUES ({k}, {c}, {x}, {{{y}, {z}}})"),
        3 => format!(
            "INSERT INTO {{t}} (k, c, s, v, w, e, m) \
             VALUES ({k}, {c}, {x}, {y}, 'w{z}', {{{x}}}, {{{y}: {z}, {x}: {x}}})"
        ),
        4 => format!("UPDATE {{t}} SET v = {x} WHERE {row}"),
        5 => format!("UPDATE {{t}} SET v = null, w = 'w{x}' WHERE {row}"),
        6 => format!("UPDATE {{t}} USING TTL {} SET v = {y}, w = 'w{z}' WHERE {row}", 1 + x),
        7 => format!("UPDATE {{t}} SET e = e + {{{x}, {y}}}, m[{z}] = {x} WHERE {row}"),
        8 => format!("UPDATE {{t}} SET e = e - {{{x}}}, m = m - {{{y}}} WHERE {row}"),
        9 => format!("UPDATE {{t}} SET s = {x} WHERE k = {k}"),
        10 => format!("DELETE v, s FROM {{t}} WHERE {row}"),
        11 => format!("DELETE FROM {{t}} WHERE {row}"),
        12 => format!("DELETE FROM {{t}} WHERE k = {k} AND c > {c}"),
        13 => format!("UPDATE {{t}} SET v = {x} WHERE {row} IF v = {y}"),
        14 => format!(
            "BEGIN BATCH UPDATE {{t}} SET v = {x} WHERE {row}; \
             UPDATE {{t}} SET v = {y} WHERE {row}; \
             DELETE FROM {{t}} WHERE k = {k} AND c = {z}; APPLY BATCH"
        ),
        15 => format!(
            "UPDATE {{t}} USING TTL {} SET e = e + {{{y}}}, m[{z}] = {x} WHERE {row}",
            1 + x
        ),
        _ => format!("DELETE FROM {{t}} WHERE k = {k}"),
    }
}

/// Keeps the worker that builds indexes and views, for the test to step it; other workers get threads.
#[derive(Default)]
pub(crate) struct KeepsBuilder(pub(crate) Mutex<Vec<Box<dyn Worker>>>);

impl Spawn for KeepsBuilder {
    fn spawn(&self, name: &str, signal: Signal, worker: Box<dyn Worker>) -> WorkerHandle {
        if name != "carnet-build" {
            return ThreadSpawn.spawn(name, signal, worker);
        }
        self.0.lock().unwrap().push(worker);
        WorkerHandle::detached()
    }
}

impl KeepsBuilder {
    /// Steps the builder; returns `false` when it has ended.
    pub(crate) fn step(&self) -> bool {
        let mut workers = self.0.lock().unwrap();
        let Some(worker) = workers.last_mut() else { return false };
        if worker.step() == Step::Done {
            workers.pop();
        }
        true
    }
}
