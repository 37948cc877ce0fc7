//! Runs timed work on several threads and collects their figures.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;

use crate::data::Seen;
use crate::engine::{Session, Store};

/// Largest recorded latency, a minute; three significant digits.
const LONGEST_NANOS: u64 = 60_000_000_000;

/// Figures of one measurement.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// Keys written or rows read.
    pub(crate) keys: u64,
    /// Time from the first thread's start to the last thread's end.
    pub(crate) elapsed: Duration,
    /// Latency of an operation in nanoseconds.
    pub(crate) latency: Histogram<u64>,
    /// Processor time of all threads of the process, background threads included.
    pub(crate) cpu: Duration,
    /// Number of retried transactions.
    pub(crate) aborts: u64,
}

impl Sample {
    pub(crate) fn keys_per_second(&self) -> f64 {
        self.keys as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    pub(crate) fn cpu_nanos_per_key(&self) -> f64 {
        self.cpu.as_nanos() as f64 / (self.keys as f64).max(1.0)
    }

    pub(crate) fn micros_at(&self, quantile: f64) -> f64 {
        self.latency.value_at_quantile(quantile) as f64 / 1e3
    }
}

/// Timer of one thread.
///
/// An operation lasts from the end of the previous one to its own end. This includes generating
/// keys and checking rows (some 0.2 µs per batch of 8), and one reading of the clock (20 to 30 ns).
pub(crate) struct Meter {
    began: Instant,
    last: Instant,
    time: Duration,
    keys: u64,
    latency: Histogram<u64>,
    pub(crate) seen: Seen,
    pub(crate) aborts: u64,
}

impl Meter {
    fn start(time: Duration) -> Self {
        let latency = Histogram::new_with_bounds(1, LONGEST_NANOS, 3).expect("valid bounds");
        let now = Instant::now();
        Self { began: now, last: now, time, keys: 0, latency, seen: Seen::default(), aborts: 0 }
    }

    /// Counts an operation; returns whether time is left for another.
    pub(crate) fn done(&mut self, keys: u64) -> bool {
        let now = Instant::now();
        let nanos = u64::try_from((now - self.last).as_nanos()).unwrap_or(u64::MAX);
        self.latency.saturating_record(nanos);
        self.last = now;
        self.keys += keys;
        now - self.began < self.time
    }
}

/// Runs `work` on several threads, each with its own session, for at most `time`.
///
/// # Errors
///
/// The first error of any thread, or an error if a returned row is wrong.
pub(crate) fn run(
    store: &dyn Store,
    threads: usize,
    time: Duration,
    work: impl Fn(usize, &mut dyn Session, &mut Meter) -> Result<()> + Sync,
) -> Result<(Sample, Seen)> {
    let barrier = Barrier::new(threads);
    let one = |thread: usize| -> Result<Meter> {
        let session = store.session();
        barrier.wait();
        let mut meter = Meter::start(time);
        work(thread, &mut *session?, &mut meter)?;
        Ok(meter)
    };
    let before = cpu_time();
    let meters: Vec<Result<Meter>> = thread::scope(|scope| {
        let spawned: Vec<_> = (0..threads)
            .map(|thread| {
                let one = &one;
                scope.spawn(move || one(thread))
            })
            .collect();
        spawned.into_iter().map(|thread| thread.join().expect("no thread panics")).collect()
    });
    let cpu = cpu_time().saturating_sub(before);
    let meters = meters.into_iter().collect::<Result<Vec<_>>>()?;
    join(&meters, cpu)
}

/// Returns the processor time of the process, in user and kernel mode.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

fn join(meters: &[Meter], cpu: Duration) -> Result<(Sample, Seen)> {
    let began = meters.iter().map(|meter| meter.began).min().context("no thread ran")?;
    let ended = meters.iter().map(|meter| meter.last).max().context("no thread ran")?;
    let mut latency = Histogram::new_with_bounds(1, LONGEST_NANOS, 3)?;
    let (mut keys, mut aborts, mut seen) = (0, 0, Seen::default());
    for meter in meters {
        latency.add(&meter.latency)?;
        keys += meter.keys;
        aborts += meter.aborts;
        seen.add(&meter.seen);
    }
    ensure!(seen.wrong == 0, "{} of {} rows differ from the written ones", seen.wrong, seen.rows);
    Ok((Sample { keys, elapsed: ended - began, latency, cpu, aborts }, seen))
}
