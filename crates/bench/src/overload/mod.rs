//! Goodput of an overloaded server, with and without its admission gate.
//!
//! For each multiple of its capacity a new server process gets an open loop (requests are sent on a
//! schedule, independent of replies), and afterwards a closed loop. A request is a multi-get of 20
//! random keys, whose rows are in memory. Generator and server share the machine, so that the
//! generator lowers the capacity.

mod beside;
mod compaction;
mod load;
mod memory;
mod multiget;
mod overwrites;
mod server;
mod shares;
mod table;

use std::io;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use beside::Beside;
use load::Statement;
use server::{Process, Setup};
use table::{ROWS, fill};

use crate::wire;

pub(crate) use load::pause;
pub(crate) use multiget::Multiget;
pub(crate) use server::serve;

/// Measure goodput at multiples of capacity, and afterwards.
#[derive(Args)]
pub(crate) struct Overload {
    /// Duration of each multiple, in seconds.
    #[arg(long, default_value_t = 6)]
    seconds: u64,
    /// Multiples of the capacity.
    #[arg(long, value_delimiter = ',', default_values_t = [0.8, 1.0, 2.0, 5.0, 10.0])]
    factors: Vec<f64>,
    /// Number of rounds; each runs with and without gate.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// Time point reads beside heavy statements instead.
    #[arg(long)]
    beside: bool,
    /// Measure the server's memory under replies that exceed its budget instead.
    #[arg(long)]
    memory: bool,
    /// Measure how two service levels with shares of 1000 and 100 share the server instead.
    #[arg(long)]
    shares: bool,
    /// Run the server and the generator on separate halves of the processors.
    #[arg(long)]
    pin: bool,
    /// Time point reads beside a compaction instead.
    #[arg(long)]
    compaction: bool,
    /// Print a JSON object for each measurement.
    #[arg(long)]
    json: bool,
}

const CLIENTS: u64 = 16;

/// Result of one measurement.
#[derive(Serialize)]
struct Row {
    round: usize,
    gate: bool,
    factor: f64,
    /// Capacity. All figures are per second unless stated otherwise.
    capacity: f64,
    offered: f64,
    good: f64,
    late: f64,
    shed: f64,
    failed: f64,
    /// Number of lost requests, not per second.
    lost: u64,
    /// Good replies per second of the closed loop, two seconds after the load.
    after: f64,
    /// Processor time of the server per request that it answered under the load, in microseconds.
    processor_us: f64,
    peak_mib: u64,
    generator_lag_ms: u128,
}

impl Overload {
    pub(crate) fn run(&self) -> carnet::Result<()> {
        let failed =
            |error| carnet::Error::unavailable("the measurement failed").with_source(error);
        if self.beside {
            return (0..self.rounds).try_for_each(|round| self.beside(round)).map_err(failed);
        }
        if self.compaction {
            return (0..self.rounds).try_for_each(|round| self.compaction(round)).map_err(failed);
        }
        if self.memory {
            return (0..self.rounds).try_for_each(|round| self.memory(round)).map_err(failed);
        }
        if self.shares {
            return (0..self.rounds).try_for_each(|round| self.shares(round)).map_err(failed);
        }
        if !self.json {
            println!(
                "gate factor capacity offered/s  good/s  late/s  shed/s failed/s  lost after/s CPU us peak MiB lag ms"
            );
        }
        for round in 0..self.rounds {
            for &factor in &self.factors {
                for gate in [false, true] {
                    let row = self.measure(round, gate, factor).map_err(failed)?;
                    self.print(&row);
                }
            }
        }
        Ok(())
    }

    /// Measures the server's memory under loads of long replies.
    fn memory(&self, round: usize) -> io::Result<()> {
        for load in &memory::LOADS {
            let server = Process::start(&self.setup(true))?;
            memory::fill(&server)?;
            let held = memory::measure(&server, load, Duration::from_secs(self.seconds))?;
            if self.json {
                println!(
                    "{}",
                    serde_json::json!({ "round": round, "load": load.name, "held": held })
                );
            } else {
                let memory::Held { before_mib, peak_mib, after_mib, .. } = held;
                let memory::Held { answered, refused, failed, closed, .. } = held;
                println!(
                    "{:<30} {before_mib:>5} MiB before, {peak_mib:>5} at most, {after_mib:>5} after 10 s; \
                     {answered} answered, {refused} refused, {failed} failed, {closed} connections closed",
                    load.name
                );
            }
        }
        Ok(())
    }

    /// Measures how two service levels share the server.
    fn shares(&self, round: usize) -> io::Result<()> {
        let server = Process::start(&self.setup(true))?;
        fill(&server)?;
        let shared = shares::measure(&server, Duration::from_secs(self.seconds))?;
        if self.json {
            println!("{}", serde_json::json!({ "round": round, "shares": shared }));
        } else {
            let shares::Shared { large_per_s, small_per_s, quotient } = shared;
            println!(
                "shares 1000: {large_per_s:.0}/s, shares 100: {small_per_s:.0}/s, {quotient:.2} to 1"
            );
        }
        Ok(())
    }

    /// Times point reads alone, and beside counts and large multi-gets.
    fn beside(&self, round: usize) -> io::Result<()> {
        let server = Process::start(&self.setup(true))?;
        fill(&server)?;
        memory::fill(&server)?;
        let mut tcp = wire::connect(server.address)?;
        let mut statement = |text: &str, keys: usize| {
            let id = wire::prepare(&mut tcp, text)?;
            io::Result::Ok(Statement { id, keys, rows: ROWS, page_rows: Some(5_000) })
        };
        let multi_get = |keys: usize| {
            format!("SELECT k, v FROM ks.t WHERE k IN ({})", vec!["?"; keys].join(", "))
        };
        let point = statement("SELECT k, v FROM ks.t WHERE k = ?", 1)?;
        let heavy = [
            ("alone", None, 0),
            ("4 × count(*) of 20,000 rows", Some(statement("SELECT count(*) FROM ks.t", 0)?), 4),
            ("8 × 500 keys", Some(statement(&multi_get(500), 500)?), 8),
            ("1 × 10,000 keys", Some(statement(&multi_get(10_000), 10_000)?), 1),
            ("200 scans of 1-MiB rows", Some(statement("SELECT v FROM ks.b", 0)?), 200),
        ];
        let time = Duration::from_secs(self.seconds);
        for (name, heavy, clients) in &heavy {
            let work =
                Beside { heavy: heavy.as_ref(), clients: *clients, time, ..Beside::nothing() };
            let found = beside::measure(server.address, &point, &work)?;
            let beside::Latency { reads, p50_micros, p99_micros, max_micros, beside, failed } =
                found;
            if self.json {
                let row = serde_json::json!({
                    "round": round, "beside": name, "reads": reads, "p50_us": p50_micros,
                    "p99_us": p99_micros, "max_us": max_micros, "done_beside": beside,
                    "failed": failed,
                });
                println!("{row}");
            } else {
                println!(
                    "{name:<28} {reads:>8} reads, p50 {p50_micros:>5} µs, p99 {p99_micros:>6} µs, \
                     longest {max_micros:>7} µs; {beside} beside, {failed} failed"
                );
            }
        }
        Ok(())
    }

    /// Times point reads beside a compaction.
    fn compaction(&self, round: usize) -> io::Result<()> {
        let mut server = Process::start(&self.setup(true))?;
        fill(&server)?;
        let mut tcp = wire::connect(server.address)?;
        let id = wire::prepare(&mut tcp, "SELECT k, v FROM ks.t WHERE k = ?")?;
        let point = Statement { id, keys: 1, rows: ROWS, page_rows: Some(5_000) };
        let found = compaction::measure(&mut server, &point, Duration::from_secs(self.seconds))?;
        if self.json {
            println!("{}", serde_json::json!({ "round": round, "compaction": found }));
            return Ok(());
        }
        let compaction::Compacted { alone_p50_us, alone_p99_us, alone_mib_per_s, .. } = found;
        let compaction::Compacted { beside_p50_us, beside_p99_us, beside_mib_per_s, .. } = found;
        let compaction::Compacted { alone_slow_percent, beside_slow_percent, .. } = found;
        println!(
            "reads alone: p50 {alone_p50_us} µs, p99 {alone_p99_us} µs; compaction alone: {alone_mib_per_s:.0} MiB/s; \
             both: p50 {beside_p50_us} µs, p99 {beside_p99_us} µs, {beside_mib_per_s:.0} MiB/s; \
             over 250 µs at the server: {alone_slow_percent:.2} % alone, {beside_slow_percent:.2} % beside"
        );
        Ok(())
    }

    fn setup(&self, with_gate: bool) -> Setup {
        Setup { with_gate, pinned: self.pin, ..Setup::default() }
    }

    fn measure(&self, round: usize, gate: bool, factor: f64) -> io::Result<Row> {
        let server = Process::start(&self.setup(gate))?;
        let statement = fill(&server)?;
        let address = server.address;
        // With more than 12 keys it would be batch work by default, which is throttled instead of
        // refused.
        let interactive = "ALTER SERVICE LEVEL default WITH workload_type = 'interactive'";
        wire::query(&mut wire::connect(address)?, interactive)?;
        let closed =
            |seconds| load::closed(address, &statement, CLIENTS, Duration::from_secs(seconds));
        // The first second is a warm-up.
        closed(1)?;
        let capacity = closed(2)?;
        let time = Duration::from_secs(self.seconds);
        let before = server.processor().unwrap_or_default();
        let outcome = load::open(address, &statement, capacity * factor, time)?;
        let used = server.processor().unwrap_or_default().saturating_sub(before);
        pause(Duration::from_secs(2));
        let after = closed(2)?;
        #[expect(clippy::cast_precision_loss, reason = "it is far below 2^52")]
        let rate = |count: u64| count as f64 / time.as_secs_f64();
        Ok(Row {
            round,
            gate,
            factor,
            capacity,
            offered: rate(outcome.offered),
            good: rate(outcome.good),
            late: rate(outcome.late),
            shed: rate(outcome.shed),
            failed: rate(outcome.failed),
            lost: outcome.lost,
            after,
            processor_us: used.as_secs_f64() * 1e6 / outcome.answered().max(1.0),
            peak_mib: server.peak_bytes().unwrap_or(0) >> 20,
            generator_lag_ms: outcome.lag.as_millis(),
        })
    }

    fn print(&self, row: &Row) {
        if self.json {
            println!("{}", serde_json::json!(row));
            return;
        }
        println!(
            "{:<4} {:>6} {:>8.0} {:>9.0} {:>7.0} {:>7.0} {:>7.0} {:>8.0} {:>5} {:>7.0} {:>6.1} {:>8} {:>6}",
            if row.gate { "on" } else { "off" },
            row.factor,
            row.capacity,
            row.offered,
            row.good,
            row.late,
            row.shed,
            row.failed,
            row.lost,
            row.after,
            row.processor_us,
            row.peak_mib,
            row.generator_lag_ms
        );
    }
}
