//! Clients that run operations at their due times, and their measurements.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use carnet_base::{Clock, Moment, Signal, SystemClock, lock};

use super::load_target::{Done, LoadTarget};
use super::measured::Measured;
use super::operation::Operations;
use super::report;
use super::settings::Load;

/// Time before an operation is due for which a client does not sleep: it could wake late.
const AWAKE: Duration = Duration::from_micros(200);
/// Longest sleep, after which a client checks whether the run is over.
const LOOK: Duration = Duration::from_millis(20);
/// Number of attempts to write a row while the table is filled.
const FILL_TRIES: usize = 100;

/// Due times of a run's operations.
struct Schedule {
    began: Moment,
    until: Moment,
    /// Interval between due times; `None` in a closed loop.
    every: Option<Duration>,
    begun: AtomicU64,
}

impl Schedule {
    /// Waits until the next operation is due, and returns this time; `None` if the run is over.
    fn next(&self, stop: &AtomicBool) -> Option<Moment> {
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        let due = self.every.map(|every| {
            self.began.after(Duration::from_secs_f64(every.as_secs_f64() * number as f64))
        });
        if due.is_some_and(|due| due >= self.until) {
            return None;
        }
        loop {
            let now = SystemClock.now();
            if stop.load(Ordering::Relaxed) || (due.is_none() && now >= self.until) {
                return None;
            }
            let due = due.unwrap_or(now);
            let left = due.since(now);
            if left.is_zero() {
                return Some(due);
            }
            if left > AWAKE {
                Signal::new().wait(Some((left - AWAKE).min(LOOK)));
            } else {
                std::thread::yield_now();
            }
        }
    }
}

impl Load {
    /// Fills the table, runs the operations, and prints the result.
    pub(in crate::commands::stress) fn run(&self, target: &impl LoadTarget) -> Result<()> {
        self.fill(target)?;
        let measured = self.measure(target)?;
        report::print(self, &measured)?;
        match measured.latency.len() {
            0 => bail!(
                "no operation succeeded: {} were refused, {} failed",
                measured.refused,
                measured.failed
            ),
            _ => Ok(()),
        }
    }

    /// Writes all rows of the table, each client a part of them.
    fn fill(&self, target: &impl LoadTarget) -> Result<()> {
        let rows = self.options.rows;
        eprintln!("seed {}; writing {rows} rows", self.seed);
        self.of_each_client(|client| {
            let mut operations = Operations::new(self.kind, &self.options, self.seed ^ client);
            for row in (client..rows).step_by(usize::from(self.clients)) {
                let write = operations.fill(row);
                let mut tries = 0;
                while !matches!(target.run(&write)?, Done::Rows(_)) {
                    tries += 1;
                    if tries == FILL_TRIES {
                        bail!("the database does not take the table's rows");
                    }
                    Signal::new().wait(Some(LOOK));
                }
            }
            Ok(())
        })
    }

    pub(super) fn measure(&self, target: &impl LoadTarget) -> Result<Measured> {
        let began = SystemClock.now();
        let schedule = Schedule {
            began,
            until: began.after(Duration::from_secs(self.seconds)),
            every: self.rate.map(|rate| Duration::from_secs(1) / rate.max(1)),
            begun: AtomicU64::new(0),
        };
        let (stop, all) = (AtomicBool::new(false), Mutex::new(Measured::new()));
        let done = self.of_each_client(|client| {
            let mut operations = Operations::new(self.kind, &self.options, self.seed + 1 + client);
            let mut measured = Measured::new();
            while let Some(due) = schedule.next(&stop) {
                let operation = operations.next();
                let begun = SystemClock.now();
                let done = target.run(&operation);
                let done = done.inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
                let due = if self.rate.is_some() { due } else { begun };
                measured.record(&done, (due, begun, SystemClock.now()));
            }
            lock(&all).add(&measured);
            Ok(())
        });
        done?;
        let mut all = all.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        all.elapsed = SystemClock.now().since(began);
        Ok(all)
    }

    /// Runs `work` on a thread for each client.
    fn of_each_client(&self, work: impl Fn(u64) -> Result<()> + Sync) -> Result<()> {
        std::thread::scope(|scope| {
            let work = &work;
            let clients: Vec<_> = (0..u64::from(self.clients))
                .map(|client| scope.spawn(move || work(client)))
                .collect();
            clients.into_iter().try_for_each(|client| client.join().expect("no client panics"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::operation::Operation;
    use super::super::options::LoadOptions;
    use super::*;
    use crate::commands::stress::load_kind::LoadKind;

    /// Answers at once, but for one operation that takes long.
    struct Stalls {
        number: AtomicU64,
        at: u64,
        stall: Duration,
    }

    impl LoadTarget for Stalls {
        fn run(&self, _: &Operation) -> Result<Done> {
            if self.number.fetch_add(1, Ordering::Relaxed) == self.at {
                Signal::new().wait(Some(self.stall));
            }
            Ok(Done::Rows(1))
        }
    }

    fn load(rate: Option<u32>) -> Load {
        let options =
            LoadOptions { group: 1, rows: 1000, value_bytes: 1, writes: 0, json: false, hdr: None };
        Load { kind: LoadKind::Read, options, clients: 1, seconds: 1, rate, seed: 1 }
    }

    /// A stall of 300 ms delays the operations that are due meanwhile: their latency counts from the
    /// due times, the time that the database took does not show it.
    #[test]
    fn stall_shows_in_all_operations_that_were_due() {
        let stalls =
            || Stalls { number: AtomicU64::new(0), at: 100, stall: Duration::from_millis(300) };
        let open = load(Some(1000)).measure(&stalls()).unwrap();
        assert_eq!(open.latency.len(), 1000, "every operation that was due ran");
        assert!(open.latency.value_at_quantile(0.9) > 100_000, "the latency from the due time");
        assert!(open.service.value_at_quantile(0.9) < 100_000, "the time of the operation alone");
        let closed = load(None).measure(&stalls()).unwrap();
        assert!(closed.latency.value_at_quantile(0.9) < 100_000, "a closed loop does not show it");
    }

    #[test]
    fn rate_is_kept_and_rows_counted() {
        let stalls = Stalls { number: AtomicU64::new(0), at: u64::MAX, stall: Duration::ZERO };
        let measured = Load { clients: 3, ..load(Some(200)) }.measure(&stalls).unwrap();
        assert_eq!((measured.latency.len(), measured.rows), (200, 200));
        assert_eq!((measured.refused, measured.failed), (0, 0));
    }
}
