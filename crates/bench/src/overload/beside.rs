//! Latency of point reads beside heavy statements.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use carnet_base::{Clock, SeededRng, SystemClock};
use hdrhistogram::Histogram;

use super::load::{Statement, pause};
use super::wire::{self, ResponseKind};

/// Latency of point reads in microseconds, and throughput of the heavy statements.
pub(super) struct Latency {
    pub(super) reads: u64,
    pub(super) p50_micros: u64,
    pub(super) p99_micros: u64,
    pub(super) max_micros: u64,
    pub(super) beside: u64,
    pub(super) failed: u64,
}

/// Work beside point reads, and the reads' rate.
pub(super) struct Beside<'s> {
    pub(super) heavy: Option<&'s Statement>,
    /// Number of clients that run the heavy statement.
    pub(super) clients: u64,
    /// Interval of a client's reads; `None` if it reads without a pause.
    pub(super) every: Option<Duration>,
    pub(super) time: Duration,
}

impl Beside<'_> {
    pub(super) const fn nothing() -> Self {
        Self { heavy: None, clients: 0, every: None, time: Duration::ZERO }
    }
}

/// Runs point reads one after the other on two clients, while other clients run a heavy statement.
pub(super) fn measure(
    address: SocketAddr,
    point: &Statement,
    work: &Beside<'_>,
) -> io::Result<Latency> {
    let Beside { heavy, clients: heavy_clients, every, time } = *work;
    let (is_over, beside, failed) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let ends = SystemClock.now().after(time);
    let micros = thread::scope(|scope| {
        let hog = |seed, statement| {
            let (is_over, beside, failed) = (&is_over, &beside, &failed);
            move || -> io::Result<()> {
                let (mut tcp, mut rng) = (wire::connect(address)?, SeededRng::new(seed));
                while !is_over.load(Ordering::Relaxed) {
                    let answer = ask(&mut tcp, statement, &mut rng)?;
                    let count = if answer == ResponseKind::Good { beside } else { failed };
                    count.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            }
        };
        let hogs: Vec<_> = heavy
            .into_iter()
            .flat_map(|statement| (0..heavy_clients).map(move |seed| (100 + seed, statement)))
            .map(|(seed, statement)| scope.spawn(hog(seed, statement)))
            .collect();
        let reader = |seed| {
            let failed = &failed;
            move || -> io::Result<Histogram<u64>> {
                let (mut tcp, mut rng) = (wire::connect(address)?, SeededRng::new(seed));
                let mut micros = histogram();
                while SystemClock.now() < ends {
                    every.into_iter().for_each(pause);
                    let sent = SystemClock.now();
                    if ask(&mut tcp, point, &mut rng)? != ResponseKind::Good {
                        failed.fetch_add(1, Ordering::Relaxed);
                    }
                    let took = SystemClock.now().since(sent).as_micros();
                    micros.saturating_record(u64::try_from(took).unwrap_or(u64::MAX));
                }
                Ok(micros)
            }
        };
        let readers = [scope.spawn(reader(1)), scope.spawn(reader(2))];
        let mut all = histogram();
        let mut outcome = Ok(());
        for reader in readers {
            match joined(reader) {
                Ok(micros) => all.add(micros).map_err(io::Error::other)?,
                Err(error) => outcome = Err(error),
            }
        }
        is_over.store(true, Ordering::Relaxed);
        hogs.into_iter().try_for_each(joined)?;
        outcome.map(|()| all)
    })?;
    Ok(Latency {
        reads: micros.len(),
        p50_micros: micros.value_at_quantile(0.5),
        p99_micros: micros.value_at_quantile(0.99),
        max_micros: micros.max(),
        beside: beside.load(Ordering::Relaxed),
        failed: failed.load(Ordering::Relaxed),
    })
}

/// Microseconds of up to a minute. Longer ones count as a minute.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000, 3).expect("the bounds are valid")
}

pub(super) fn joined<T>(thread: thread::ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    thread.join().map_err(|_| io::Error::other("a client panicked"))?
}

fn ask(
    tcp: &mut (impl io::Read + Write),
    statement: &Statement,
    rng: &mut SeededRng,
) -> io::Result<ResponseKind> {
    tcp.write_all(&statement.frame(1, rng))?;
    Ok(wire::receive(tcp)?.answer)
}
