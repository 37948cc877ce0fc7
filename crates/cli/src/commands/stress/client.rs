//! The clients: threads that run one transaction after another and write down what they saw.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use carnet::base::{Clock, Moment, Signal, SystemClock};
use carnet_checker::{Call, History, Op, Outcome, Recorder};
use hdrhistogram::Histogram;

use super::lock;
use super::plan::Plan;

/// A client whose transaction did not commit waits so long before the next one.
const PAUSE: Duration = Duration::from_millis(5);
/// The last reads are tried so often, with a pause in between: a server may just be starting.
const LAST_TRIES: usize = 100;
const LAST_PAUSE: Duration = Duration::from_millis(100);
/// So many objects are read by one of the last transactions.
const LAST_KEYS: usize = 16;

/// What became of a transaction.
pub(super) enum Answer {
    /// It committed, and this is what it read.
    Committed(Vec<Op>),
    /// It certainly did not happen.
    Aborted,
    /// Nobody knows.
    Unknown,
}

/// A database.
pub(super) trait Target: Sync {
    /// Brings a transaction's operations into the order in which the database runs them.
    fn arrange(&self, ops: Vec<Op>) -> Vec<Op> {
        ops
    }

    /// Runs a transaction.
    ///
    /// # Errors
    ///
    /// What makes it useless to go on.
    fn run(&self, ops: &[Op]) -> Result<Answer>;
}

/// What the clients share.
pub(super) struct Clients {
    count: usize,
    rate: Option<u32>,
    began: Moment,
    state: Mutex<State>,
    counts: Counts,
    latency: Mutex<Histogram<u64>>,
}

struct State {
    plan: Plan,
    recorder: Recorder,
    /// The number of the transaction that begins next, for the pace.
    begun: u64,
    /// The next name of a client whose last transaction is open.
    next_process: i64,
}

#[derive(Default)]
struct Counts {
    committed: AtomicU64,
    aborted: AtomicU64,
    unknown: AtomicU64,
}

impl Clients {
    pub(super) fn new(plan: Plan, count: usize, rate: Option<u32>) -> Self {
        let next_process = i64::try_from(count).unwrap_or(i64::MAX);
        let recorder = Recorder::default();
        let latency = Histogram::new(3).expect("three digits are allowed");
        Self {
            count,
            rate,
            began: SystemClock.now(),
            state: Mutex::new(State { plan, recorder, begun: 0, next_process }),
            counts: Counts::default(),
            latency: Mutex::new(latency),
        }
    }

    /// Runs transactions until it is told to stop.
    pub(super) fn run(&self, target: &impl Target, stop: &AtomicBool) -> Result<()> {
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..self.count)
                .map(|client| scope.spawn(move || self.one(client, target, stop)))
                .collect();
            let results =
                clients.into_iter().map(|client| client.join().expect("no client panics"));
            results.collect::<Result<()>>()
        })
    }

    fn one(&self, client: usize, target: &impl Target, stop: &AtomicBool) -> Result<()> {
        let mut process = i64::try_from(client)?;
        while !stop.load(Ordering::Relaxed) {
            let (ops, number) = {
                let mut state = lock(&self.state);
                state.begun += 1;
                (target.arrange(state.plan.transaction()), state.begun)
            };
            self.keep_pace(number, stop);
            let outcome = self.call(target, process, &ops);
            let outcome = outcome.inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
            if outcome != Outcome::Committed {
                // The database is busy or away.
                Signal::new().wait(Some(PAUSE));
            }
            if outcome == Outcome::Unknown {
                let mut state = lock(&self.state);
                process = state.next_process;
                state.next_process += 1;
            }
        }
        Ok(())
    }

    /// Waits until it is a transaction's turn.
    fn keep_pace(&self, number: u64, stop: &AtomicBool) {
        let Some(rate) = self.rate else { return };
        let due = Duration::from_secs_f64(number as f64 / f64::from(rate.max(1)));
        while !stop.load(Ordering::Relaxed) {
            let left = due.saturating_sub(SystemClock.now().since(self.began));
            if left.is_zero() {
                return;
            }
            Signal::new().wait(Some(left.min(Duration::from_millis(50))));
        }
    }

    /// Runs one transaction and writes it down.
    fn call(&self, target: &impl Target, process: i64, ops: &[Op]) -> Result<Outcome> {
        let call = self.invoke(process, ops.to_vec());
        let before = SystemClock.now();
        let answer = target.run(ops)?;
        let micros = SystemClock.now().since(before).as_micros();
        let (outcome, read, count) = match answer {
            Answer::Committed(read) => (Outcome::Committed, Some(read), &self.counts.committed),
            Answer::Aborted => (Outcome::Aborted, None, &self.counts.aborted),
            Answer::Unknown => (Outcome::Unknown, None, &self.counts.unknown),
        };
        count.fetch_add(1, Ordering::Relaxed);
        if outcome == Outcome::Committed {
            let recorded = lock(&self.latency).record(u64::try_from(micros)?);
            recorded.expect("it grows with what it records");
        }
        let nanos = self.nanos();
        lock(&self.state).recorder.complete(call, nanos, outcome, read);
        Ok(outcome)
    }

    fn invoke(&self, process: i64, ops: Vec<Op>) -> Call {
        let nanos = self.nanos();
        lock(&self.state).recorder.invoke(process, nanos, ops)
    }

    fn nanos(&self) -> i64 {
        i64::try_from(SystemClock.now().since(self.began).as_nanos()).unwrap_or(i64::MAX)
    }

    /// Reads every object there ever was, so that a lost write shows.
    pub(super) fn read_all(&self, target: &impl Target) -> Result<()> {
        let (keys, workload, process) = {
            let state = lock(&self.state);
            let keys: Vec<i64> = state.plan.keys().collect();
            (keys, state.plan.workload(), state.next_process)
        };
        for keys in keys.chunks(LAST_KEYS) {
            let ops: Vec<Op> = keys.iter().map(|key| Plan::read(workload, *key)).collect();
            let mut tries = 0;
            // Each try is a process of its own: the one before may still be open.
            while self.call(target, process + tries, &ops)? != Outcome::Committed {
                tries += 1;
                if usize::try_from(tries)? == LAST_TRIES {
                    bail!("the database does not answer the last reads");
                }
                Signal::new().wait(Some(LAST_PAUSE));
            }
            lock(&self.state).next_process += tries + 1;
        }
        Ok(())
    }

    /// How it goes, for a person.
    pub(super) fn progress(&self) -> String {
        let Counts { committed, aborted, unknown } = &self.counts;
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let latency = lock(&self.latency);
        format!(
            "{} committed, {} aborted, {} unknown; p50 {} µs, p99 {} µs",
            count(committed),
            count(aborted),
            count(unknown),
            latency.value_at_quantile(0.5),
            latency.value_at_quantile(0.99),
        )
    }

    /// Ends the record.
    pub(super) fn finish(self) -> Result<(History, impl fmt::Display)> {
        let progress = self.progress();
        let state = self.state.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let history = state.recorder.finish().context("the record makes no sense")?;
        Ok((history, progress))
    }
}
