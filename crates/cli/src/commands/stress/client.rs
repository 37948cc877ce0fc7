//! The clients: threads that run one transaction after another and record their observations.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use carnet_base::{Clock, Moment, Signal, SystemClock, lock};
use carnet_checker::{History, Outcome, Recorder};
use hdrhistogram::Histogram;

use super::bank::BankOperation;
use super::plan::{Plan, Work};
use super::target::{Target, TransactionOutcome};
use super::transaction::Transaction;
use super::workload::Workload;

/// Pause of a client whose transaction did not commit.
const PAUSE: Duration = Duration::from_millis(5);
/// Maximum number of attempts for the final reads, with a pause in between: a server may just be
/// starting.
const LAST_TRIES: usize = 100;
const LAST_PAUSE: Duration = Duration::from_millis(100);

/// Observations of all clients.
pub(super) struct Record {
    pub(super) history: History,
    /// The first forbidden read, if there was one.
    pub(super) seen: Option<String>,
    /// Totals of the run, for display.
    pub(super) totals: String,
}

/// State that the clients share.
pub(super) struct Clients {
    count: usize,
    rate: Option<u32>,
    began: Moment,
    state: Mutex<ClientState>,
    counts: Counts,
    times: Mutex<Times>,
}

/// Times of acknowledgements.
struct Times {
    latency: Histogram<u64>,
    last: Moment,
    /// The longest interval without an acknowledgement.
    silence: Duration,
    /// Set for the final reads, which are not measured.
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

struct ClientState {
    plan: Plan,
    recorder: Recorder,
    /// The first forbidden read.
    seen: Option<String>,
    /// Number of the transaction that begins next, for the rate limit.
    begun: u64,
    /// The next process name for a client whose last transaction is open.
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
            state: Mutex::new(ClientState { plan, recorder, seen: None, begun: 0, next_process }),
            counts: Counts::default(),
            times: Mutex::new(Times::new(began)),
        }
    }

    /// Runs transactions until `stop` is set.
    ///
    /// Each client uses one of the targets, which are servers of one database.
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
                Work::Bank(operation) => self.bank(target, operation),
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

    /// Waits until a transaction is due.
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

    /// Runs one transaction, records it, and checks its reads.
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

    fn bank(&self, target: &impl Target, operation: BankOperation) -> Result<Outcome> {
        let (outcome, judged) = self.measured(|| operation.run(target))?;
        self.note(judged.unwrap_or(Ok(())));
        Ok(outcome)
    }

    fn note(&self, judged: Result<(), String>) {
        if let Err(what) = judged {
            lock(&self.state).seen.get_or_insert(what);
        }
    }

    /// Runs one transaction and counts it.
    fn measured<T>(
        &self,
        run: impl FnOnce() -> Result<TransactionOutcome<T>>,
    ) -> Result<(Outcome, Option<T>)> {
        let before = SystemClock.now();
        let answer = run()?;
        let (outcome, read, count) = match answer {
            TransactionOutcome::Committed(read) => {
                (Outcome::Committed, Some(read), &self.counts.committed)
            }
            TransactionOutcome::Aborted => (Outcome::Aborted, None, &self.counts.aborted),
            TransactionOutcome::Unknown => (Outcome::Unknown, None, &self.counts.unknown),
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

    /// Reads every object that was ever used, so that a lost write shows, and the accounts.
    pub(super) fn read_all(&self, target: &impl Target) -> Result<()> {
        let (reads, has_bank) = {
            let state = lock(&self.state);
            (state.plan.reads(), state.plan.has(Workload::Bank))
        };
        for transaction in reads {
            last_read(|| {
                // Each attempt is a process of its own: the one before may still be open.
                let process = {
                    let mut state = lock(&self.state);
                    state.next_process += 1;
                    state.next_process - 1
                };
                self.call(target, process, transaction.clone())
            })?;
        }
        if has_bank {
            last_read(|| self.bank(target, BankOperation::Audit))?;
        }
        Ok(())
    }

    /// Returns the totals so far, for display.
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

    /// Ends the record, which is empty if only the bank was in use.
    pub(super) fn finish(self) -> Result<Record> {
        let totals = self.progress();
        let state = self.state.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let history = state.recorder.finish().context("the recorded history is inconsistent")?;
        Ok(Record { history, seen: state.seen, totals })
    }
}

/// Retries until a read succeeds: a server may just be starting.
fn last_read(mut read: impl FnMut() -> Result<Outcome>) -> Result<()> {
    for _ in 0..LAST_TRIES {
        if read()? == Outcome::Committed {
            return Ok(());
        }
        Signal::new().wait(Some(LAST_PAUSE));
    }
    bail!("the database does not answer the final reads")
}
