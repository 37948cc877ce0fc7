//! "When Multiget Goes Bad": requests and keys per second, by clients and keys per request.
//!
//! Two statements run at a time, like the two reading threads of that article's experiment. Each
//! client sends one request after the other. With more than two clients, requests wait at the gate,
//! and requests with more keys return more keys and fewer replies per second.
//!
//! With fairness, 8 statements per processor run, and two other clients run point reads beside
//! them.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use carnet_base::{Clock, SeededRng, SystemClock};
use clap::Args;
use serde::Serialize;

use super::beside::{self, Beside, Latency};
use super::load::Statement;
use super::server::{Figures, Process, Setup};
use super::table::{ROWS, fill};
use super::wire::{self, ResponseKind};

/// Number of statements that run at a time.
const READERS: usize = 2;

/// Measure requests and keys per second of multi-gets, as in "When Multiget Goes Bad".
#[derive(Args)]
pub(crate) struct Multiget {
    /// Duration of each setting, in milliseconds.
    #[arg(long, default_value_t = 1_000)]
    millis: u64,
    /// Numbers of clients.
    #[arg(long, value_delimiter = ',', default_values_t = [2, 4, 8, 16])]
    clients: Vec<u64>,
    /// Numbers of keys per request.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4, 5, 8, 10, 16])]
    keys: Vec<usize>,
    /// Number of rounds; each runs all settings.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// Print a JSON object for each measurement.
    #[arg(long)]
    json: bool,
}

/// Result of one measurement.
#[derive(Serialize)]
struct Row {
    round: usize,
    fair: bool,
    clients: u64,
    keys: usize,
    requests_per_s: f64,
    keys_per_s: f64,
    /// Mean latency of a request at the client, in microseconds.
    client_us: f64,
    /// Mean time of a request at the gate, in microseconds.
    gate_us: f64,
    /// Mean time of a request on a thread in microseconds, and its share per key.
    table_us: f64,
    table_us_per_key: f64,
    /// Latency of point reads of two other clients, in microseconds; zero if there are none.
    point_p50_us: u64,
    point_p99_us: u64,
}

impl Multiget {
    pub(crate) fn run(&self) -> carnet::Result<()> {
        let failed =
            |error| carnet::Error::unavailable("the measurement failed").with_source(error);
        if !self.json {
            println!(
                "fair clients keys requests/s   keys/s client µs gate µs table µs a key point p50 p99"
            );
        }
        (0..self.rounds).try_for_each(|round| self.round(round)).map_err(failed)
    }

    fn round(&self, round: usize) -> io::Result<()> {
        for fair in [false, true] {
            let running = (!fair).then_some(READERS);
            let mut server = Process::start(&Setup { running, ..Setup::default() })?;
            fill(&server)?;
            for &keys in &self.keys {
                for &clients in &self.clients {
                    let row = self.measure(&mut server, round, fair, clients, keys)?;
                    self.print(&row);
                }
            }
        }
        Ok(())
    }

    fn measure(
        &self,
        server: &mut Process,
        round: usize,
        fair: bool,
        clients: u64,
        keys: usize,
    ) -> io::Result<Row> {
        let mut tcp = wire::connect(server.address)?;
        let markers = vec!["?"; keys].join(", ");
        let text = format!("SELECT k, v FROM ks.t WHERE k IN ({markers})");
        let statement =
            Statement { id: wire::prepare(&mut tcp, &text)?, keys, rows: ROWS, page_rows: None };
        let point = wire::prepare(&mut tcp, "SELECT k, v FROM ks.t WHERE k = ?")?;
        let point = Statement { id: point, keys: 1, rows: ROWS, page_rows: None };
        let time = Duration::from_millis(self.millis);
        let before = server.figures()?;
        let (requests, took, points) = if fair {
            // The figures of the gate and the table then include the point reads.
            let address = server.address;
            let work = Beside { heavy: Some(&statement), clients, time, ..Beside::nothing() };
            let latency = beside::measure(address, &point, &work)?;
            let busy = time * u32::try_from(clients).unwrap_or(u32::MAX);
            (latency.beside, busy, Some(latency))
        } else {
            let (requests, took) = closed(server, &statement, clients, time)?;
            (requests, took, None)
        };
        let after = server.figures()?;
        Ok(row(
            self.millis,
            (round, fair, clients, keys),
            (requests, took),
            points.as_ref(),
            before,
            after,
        ))
    }

    fn print(&self, row: &Row) {
        if self.json {
            println!("{}", serde_json::json!(row));
            return;
        }
        println!(
            "{:<5} {:>6} {:>4} {:>10.0} {:>8.0} {:>9.0} {:>7.0} {:>8.1} {:>5.1} {:>9} {:>3}",
            row.fair,
            row.clients,
            row.keys,
            row.requests_per_s,
            row.keys_per_s,
            row.client_us,
            row.gate_us,
            row.table_us,
            row.table_us_per_key,
            row.point_p50_us,
            row.point_p99_us
        );
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn row(
    millis: u64,
    (round, fair, clients, keys): (usize, bool, u64, usize),
    (requests, took): (u64, Duration),
    points: Option<&Latency>,
    before: Figures,
    after: Figures,
) -> Row {
    let per_second = requests as f64 * 1_000.0 / millis as f64;
    let admitted = (after.admitted - before.admitted).max(1.0);
    let table_us = (after.ran_micros - before.ran_micros) / admitted;
    // Point reads are requests of one key.
    let read = points.map_or(0, |points| points.reads) as f64;
    let keys_read = (requests as f64 * keys as f64 + read).max(1.0);
    Row {
        round,
        fair,
        clients,
        keys,
        requests_per_s: per_second,
        keys_per_s: per_second * keys as f64,
        client_us: took.as_secs_f64() * 1e6 / (requests as f64).max(1.0),
        gate_us: (after.waited_micros - before.waited_micros) / admitted,
        table_us,
        table_us_per_key: (after.ran_micros - before.ran_micros) / keys_read,
        point_p50_us: points.map_or(0, |points| points.p50_micros),
        point_p99_us: points.map_or(0, |points| points.p99_micros),
    }
}

/// Runs clients that wait for each reply; returns the number of replies, and the total time of all
/// requests.
fn closed(
    server: &Process,
    statement: &Statement,
    clients: u64,
    time: Duration,
) -> io::Result<(u64, Duration)> {
    let (count, micros, is_over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let ends = SystemClock.now().after(time);
    thread::scope(|scope| {
        let client = |seed| {
            let (count, micros, is_over) = (&count, &micros, &is_over);
            move || -> io::Result<()> {
                let (mut tcp, mut rng) = (wire::connect(server.address)?, SeededRng::new(seed));
                while SystemClock.now() < ends && !is_over.load(Ordering::Relaxed) {
                    let sent = SystemClock.now();
                    tcp.write_all(&statement.frame(1, &mut rng))?;
                    if wire::receive(&mut tcp)?.answer != ResponseKind::Good {
                        is_over.store(true, Ordering::Relaxed);
                        return Err(io::Error::other("a multi-get was refused"));
                    }
                    let took = SystemClock.now().since(sent).as_micros();
                    micros.fetch_add(u64::try_from(took).unwrap_or(u64::MAX), Ordering::Relaxed);
                    count.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            }
        };
        let threads: Vec<_> = (0..clients).map(|seed| scope.spawn(client(seed))).collect();
        threads.into_iter().try_for_each(beside::joined)
    })?;
    Ok((count.into_inner(), Duration::from_micros(micros.into_inner())))
}
