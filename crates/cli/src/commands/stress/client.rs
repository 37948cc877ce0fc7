//! The clients: threads that run one transaction after another and write down what they saw.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use carnet::base::{Clock, Moment, Signal, SystemClock};
use carnet_checker::{History, Op, Outcome, Recorder};
use hdrhistogram::Histogram;

use super::bank::Errand;
use super::plan::{Plan, Work};
use super::transaction::Transaction;
use super::{Workload, lock};

/// A client whose transaction did not commit waits so long before the next one.
const PAUSE: Duration = Duration::from_millis(5);
/// The last reads are tried so often, with a pause in between: a server may just be starting.
const LAST_TRIES: usize = 100;
const LAST_PAUSE: Duration = Duration::from_millis(100);

/// What became of a transaction.
pub(super) enum Answer<T> {
    /// It committed, and this is what it read.
    Committed(T),
    /// It certainly did not happen.
    Aborted,
    /// Nobody knows.
    Unknown,
}

impl<T> Answer<T> {
    pub(super) fn map<U>(self, map: impl FnOnce(T) -> U) -> Answer<U> {
        match self {
            Self::Committed(read) => Answer::Committed(map(read)),
            Self::Aborted => Answer::Aborted,
            Self::Unknown => Answer::Unknown,
        }
    }
}

/// A database.
pub(super) trait Target: Sync {
    /// Brings a transaction's operations into the order in which the database runs them.
    fn arrange(&self, ops: Vec<Op>) -> Vec<Op> {
        ops
    }

    /// Runs a transaction, and returns what it did and read: writes only where its condition held.
    ///
    /// # Errors
    ///
    /// What makes it useless to go on.
    fn run(&self, transaction: &Transaction) -> Result<Answer<Vec<Op>>>;

    /// Moves money from one account to another, if the first has it.
    ///
    /// # Errors
    ///
    /// As [`Target::run`].
    fn transfer(&self, from: i64, to: i64, amount: i64) -> Result<Answer<()>>;

    /// Reads what the accounts hold.
    ///
    /// # Errors
    ///
    /// As [`Target::run`].
    fn balances(&self) -> Result<Answer<Vec<i64>>>;
}

/// What the clients saw, all in all.
pub(super) struct Record {
    pub(super) history: History,
    /// What a transaction read and must not have, if one did.
    pub(super) seen: Option<String>,
    /// How it went, for a person.
    pub(super) totals: String,
}

/// What the clients share.
pub(super) struct Clients {
    count: usize,
    rate: Option<u32>,
    began: Moment,
    state: Mutex<State>,
    counts: Counts,
    times: Mutex<Times>,
}

/// When transactions were acknowledged.
struct Times {
    latency: Histogram<u64>,
    last: Moment,
    /// The longest time in which none was.
    silence: Duration,
    /// The last reads are not what is measured.
    is_over: bool,
}

impl Times {
    fn new(began: Moment) -> Self {
        let latency = Histogram::new(3).expect("three digits are allowed");
        Self { latency, last: began, silence: Duration::ZERO, is_over: false }
    }

    fn acknowledged(&mut self, began: Moment, now: Moment) {
        if self.is_over {
            return;
        }
        let micros = u64::try_from(now.since(began).as_micros()).unwrap_or(u64::MAX);
        self.latency.record(micros).expect("it grows with what it records");
        self.hear(now);
    }

    fn hear(&mut self, now: Moment) {
        self.silence = self.silence.max(now.since(self.last));
        self.last = self.last.max(now);
    }

    fn end(&mut self, now: Moment) {
        self.hear(now);
        self.is_over = true;
    }
}

struct State {
    plan: Plan,
    recorder: Recorder,
    /// The first thing that a transaction read and must not have.
    seen: Option<String>,
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
        let began = SystemClock.now();
        Self {
            count,
            rate,
            began,
            state: Mutex::new(State { plan, recorder, seen: None, begun: 0, next_process }),
            counts: Counts::default(),
            times: Mutex::new(Times::new(began)),
        }
    }

    /// Runs transactions until it is told to stop.
    ///
    /// Each client keeps to one of the targets, which are servers of one database.
    pub(super) fn run(&self, targets: &[impl Target], stop: &AtomicBool) -> Result<()> {
        lock(&self.times).last = SystemClock.now();
        let outcome = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..self.count)
                .map(|client| {
                    scope.spawn(move || self.one(client, &targets[client % targets.len()], stop))
                })
                .collect();
            let results =
                clients.into_iter().map(|client| client.join().expect("no client panics"));
            results.collect::<Result<()>>()
        });
        lock(&self.times).end(SystemClock.now());
        outcome
    }

    fn one(&self, client: usize, target: &impl Target, stop: &AtomicBool) -> Result<()> {
        let mut process = i64::try_from(client)?;
        while !stop.load(Ordering::Relaxed) {
            let (work, number) = {
                let mut state = lock(&self.state);
                state.begun += 1;
                (state.plan.transaction(), state.begun)
            };
            self.keep_pace(number, stop);
            let outcome = match work {
                Work::Judged(transaction) => self.call(target, process, transaction),
                Work::Errand(errand) => self.errand(target, errand),
            };
            let outcome = outcome.inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
            stop.fetch_or(lock(&self.state).seen.is_some(), Ordering::Relaxed);
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

    /// Runs one transaction, writes it down, and looks at what it read.
    fn call(
        &self,
        target: &impl Target,
        process: i64,
        transaction: Transaction,
    ) -> Result<Outcome> {
        let ops = target.arrange(transaction.ops);
        let transaction = Transaction { ops, ..transaction };
        let nanos = self.nanos();
        let call = lock(&self.state).recorder.invoke(process, nanos, transaction.ops.clone());
        let (outcome, did) = self.measured(|| target.run(&transaction))?;
        let judged = did.as_ref().map_or(Ok(()), |did| transaction.judge(did));
        let nanos = self.nanos();
        lock(&self.state).recorder.complete(call, nanos, outcome, did);
        self.note(judged);
        Ok(outcome)
    }

    fn errand(&self, target: &impl Target, errand: Errand) -> Result<Outcome> {
        let (outcome, judged) = self.measured(|| errand.run(target))?;
        self.note(judged.unwrap_or(Ok(())));
        Ok(outcome)
    }

    fn note(&self, judged: Result<(), String>) {
        if let Err(what) = judged {
            lock(&self.state).seen.get_or_insert(what);
        }
    }

    /// Runs one transaction and counts it.
    fn measured<T>(&self, run: impl FnOnce() -> Result<Answer<T>>) -> Result<(Outcome, Option<T>)> {
        let before = SystemClock.now();
        let answer = run()?;
        let (outcome, read, count) = match answer {
            Answer::Committed(read) => (Outcome::Committed, Some(read), &self.counts.committed),
            Answer::Aborted => (Outcome::Aborted, None, &self.counts.aborted),
            Answer::Unknown => (Outcome::Unknown, None, &self.counts.unknown),
        };
        count.fetch_add(1, Ordering::Relaxed);
        if outcome == Outcome::Committed {
            lock(&self.times).acknowledged(before, SystemClock.now());
        }
        Ok((outcome, read))
    }

    fn nanos(&self) -> i64 {
        i64::try_from(SystemClock.now().since(self.began).as_nanos()).unwrap_or(i64::MAX)
    }

    /// Reads every object there ever was, so that a lost write shows, and the accounts.
    pub(super) fn read_all(&self, target: &impl Target) -> Result<()> {
        let (reads, has_bank) = {
            let state = lock(&self.state);
            (state.plan.reads(), state.plan.has(Workload::Bank))
        };
        for transaction in reads {
            last_read(|| {
                // Each try is a process of its own: the one before may still be open.
                let process = {
                    let mut state = lock(&self.state);
                    state.next_process += 1;
                    state.next_process - 1
                };
                self.call(target, process, transaction.clone())
            })?;
        }
        if has_bank {
            last_read(|| self.errand(target, Errand::Audit))?;
        }
        Ok(())
    }

    /// How it goes, for a person.
    pub(super) fn progress(&self) -> String {
        let Counts { committed, aborted, unknown } = &self.counts;
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Times { latency, silence, .. } = &*lock(&self.times);
        format!(
            "{} committed, {} aborted, {} unknown; p50 {} µs, p99 {} µs, longest silence {} ms",
            count(committed),
            count(aborted),
            count(unknown),
            latency.value_at_quantile(0.5),
            latency.value_at_quantile(0.99),
            silence.as_millis(),
        )
    }

    /// Ends the record, which is empty where only the bank was in use.
    pub(super) fn finish(self) -> Result<Record> {
        let totals = self.progress();
        let state = self.state.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let history = state.recorder.finish().context("the record makes no sense")?;
        Ok(Record { history, seen: state.seen, totals })
    }
}

/// Tries until it succeeds: a server may just be starting.
fn last_read(mut read: impl FnMut() -> Result<Outcome>) -> Result<()> {
    for _ in 0..LAST_TRIES {
        if read()? == Outcome::Committed {
            return Ok(());
        }
        Signal::new().wait(Some(LAST_PAUSE));
    }
    bail!("the database does not answer the last reads")
}
