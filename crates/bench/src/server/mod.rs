//! Processor time of a server per operation, with latency and throughput.
//!
//! A closed loop of clients keeps a fixed number of requests in flight. The server is a process of
//! its own, so that the system reports its processor time without the generator's. Several servers
//! are measured in turn in one run: this build, other builds of this program, and other databases
//! that speak the native protocol. A server that is not measured at the moment is stopped.

mod client;
mod data;
mod frame;
mod process;
mod target;
mod workload;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::processors::Pinned;
use client::Load;
use target::Target;
use workload::{Prepared, Workload};

pub(crate) use process::{Acknowledgement, serve};

/// Measure the processor time of a server per operation.
#[derive(Args)]
pub(crate) struct ServerCost {
    /// The workloads to run, in this order; all of them by default.
    #[arg(value_enum)]
    workloads: Vec<Workload>,
    /// Numbers of requests in flight, of all connections together.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 128])]
    in_flight: Vec<u16>,
    /// Numbers of connections; a number above that of the requests in flight is left out.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8])]
    connections: Vec<u16>,
    /// Duration of each measurement, in milliseconds.
    #[arg(long, default_value_t = 1_000)]
    millis: u64,
    /// Duration of the warm-up before each measurement, in milliseconds.
    #[arg(long, default_value_t = 200)]
    warm_up: u64,
    /// Number of passes; the medians are printed.
    #[arg(long, default_value_t = 3)]
    passes: usize,
    /// Durability of Carnet's writes.
    #[arg(long, value_enum, default_value_t = Acknowledgement::Interval)]
    durability: Acknowledgement,
    /// Another build of this program to measure in turn with this one.
    #[arg(long, value_name = "NAME=PROGRAM")]
    build: Vec<String>,
    /// Another database to measure in turn, by its address and the ids of its processes.
    #[arg(long, value_name = "NAME=ADDRESS,PID[,PID…]")]
    peer: Vec<String>,
    /// Request the descriptions of the columns with each result. Without it they are left out, as
    /// most drivers request for prepared statements.
    #[arg(long)]
    metadata: bool,
    /// Run the server and the generator on separate halves of the processors.
    #[arg(long)]
    pin: bool,
    /// Print a JSON object for each measurement.
    #[arg(long)]
    json: bool,
}

/// Medians of the measurements of one server.
#[derive(Serialize)]
struct Row<'r> {
    workload: Workload,
    in_flight: u16,
    connections: u16,
    server: &'r str,
    /// Processor time of the server per operation, in microseconds.
    processor_us: f64,
    p50_us: f64,
    p99_us: f64,
    per_second: f64,
    /// Number of operations of all passes that the server answered with an error.
    failed: u64,
}

/// Figures of one measurement of one server.
struct Pass {
    processor_us: f64,
    p50_us: f64,
    p99_us: f64,
    per_second: f64,
    failed: u64,
}

/// A workload with its number of requests in flight and of connections.
#[derive(Clone, Copy)]
struct Setting {
    workload: Workload,
    in_flight: u16,
    connections: u16,
}

impl ServerCost {
    pub(crate) fn run(&self) -> carnet::Result<()> {
        self.measure_all().map_err(|error| {
            carnet::Error::unavailable("the measurement failed").with_source(error)
        })
    }

    fn measure_all(&self) -> io::Result<()> {
        let targets = self.targets()?;
        for target in &targets {
            target.resume()?;
            data::fill(target.address)?;
            target.pause()?;
        }
        if !self.json {
            println!(
                "{:<12} {:>9} {:>11} {:<16} {:>8} {:>9} {:>9} {:>10} {:>6}",
                "workload",
                "in flight",
                "connections",
                "server",
                "CPU µs",
                "p50 µs",
                "p99 µs",
                "per s",
                "failed"
            );
        }
        for setting in self.settings() {
            let mut passes: Vec<Vec<Pass>> = targets.iter().map(|_| Vec::new()).collect();
            for pass in 0..self.passes.max(1) {
                for (target, passes) in targets.iter().zip(&mut passes) {
                    target.resume()?;
                    let measured = self.measure(target, setting, pass as u64);
                    target.pause()?;
                    passes.extend(measured?);
                }
            }
            for (target, passes) in targets.iter().zip(&passes) {
                if !passes.is_empty() {
                    self.print(&row(setting, &target.name, passes));
                }
            }
        }
        Ok(())
    }

    fn targets(&self) -> io::Result<Vec<Target>> {
        let pinned = if self.pin { Some(Pinned::new()?) } else { None };
        let mut targets =
            vec![Target::start("carnet", &std::env::current_exe()?, self.durability)?];
        for build in &self.build {
            let (name, program) = split(build, "--build")?;
            targets.push(Target::start(name, program.as_ref(), self.durability)?);
        }
        for peer in &self.peer {
            let (name, place) = split(peer, "--peer")?;
            targets.push(Target::peer(name, place)?);
        }
        if let Some(pinned) = pinned {
            pinned.move_to_generator()?;
            // The generator stays on its half until the process ends.
            std::mem::forget(pinned);
        }
        Ok(targets)
    }

    fn settings(&self) -> Vec<Setting> {
        let workloads = if self.workloads.is_empty() {
            Workload::value_variants()
        } else {
            self.workloads.as_slice()
        };
        let mut settings = Vec::new();
        for &workload in workloads {
            for &in_flight in self.in_flight.iter().filter(|it| **it <= workload.in_flight_max()) {
                for &connections in self.connections.iter().filter(|it| **it <= in_flight) {
                    settings.push(Setting { workload, in_flight, connections });
                }
            }
        }
        settings
    }

    /// Measures one server; `None` if it does not know the workload's statements.
    fn measure(&self, target: &Target, setting: Setting, seed: u64) -> io::Result<Option<Pass>> {
        let Setting { workload, in_flight, connections } = setting;
        let address: SocketAddr = target.address;
        let prepared = match Prepared::new(address, workload, !self.metadata) {
            Ok(prepared) => prepared,
            Err(error) if target.is_peer() => {
                let _ = writeln!(io::stderr(), "{}: no {workload:?}: {error}", target.name);
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let load =
            |time, seed| Load { address, prepared: &prepared, in_flight, connections, time, seed };
        load(Duration::from_millis(self.warm_up), 1_000 + seed).run()?;
        let before = target.processor()?;
        let time = Duration::from_millis(self.millis);
        let measured = load(time, seed).run()?;
        let processor = target.processor()?.saturating_sub(before);
        #[expect(clippy::cast_precision_loss, reason = "it is far below 2^52")]
        let operations = measured.nanos.len() as f64;
        #[expect(clippy::cast_precision_loss, reason = "it is far below 2^52")]
        let micros = |quantile| measured.nanos.value_at_quantile(quantile) as f64 / 1e3;
        Ok(Some(Pass {
            processor_us: processor.as_secs_f64() * 1e6 / operations.max(1.0),
            p50_us: micros(0.5),
            p99_us: micros(0.99),
            per_second: operations / measured.took.as_secs_f64(),
            failed: measured.failed,
        }))
    }

    fn print(&self, row: &Row<'_>) {
        if self.json {
            println!("{}", serde_json::json!(row));
            return;
        }
        println!(
            "{:<12} {:>9} {:>11} {:<16} {:>8.1} {:>9.1} {:>9.1} {:>10.0} {:>6}",
            format!("{:?}", row.workload),
            row.in_flight,
            row.connections,
            row.server,
            row.processor_us,
            row.p50_us,
            row.p99_us,
            row.per_second,
            row.failed
        );
    }
}

fn split<'o>(option: &'o str, name: &str) -> io::Result<(&'o str, &'o str)> {
    option.split_once('=').ok_or_else(|| io::Error::other(format!("{name} has no '=': {option}")))
}

fn row<'r>(setting: Setting, server: &'r str, passes: &[Pass]) -> Row<'r> {
    let Setting { workload, in_flight, connections } = setting;
    let median = |figure: fn(&Pass) -> f64| {
        let mut figures: Vec<f64> = passes.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures[figures.len() / 2]
    };
    Row {
        workload,
        in_flight,
        connections,
        server,
        processor_us: median(|pass| pass.processor_us),
        p50_us: median(|pass| pass.p50_us),
        p99_us: median(|pass| pass.p99_us),
        per_second: median(|pass| pass.per_second),
        failed: passes.iter().map(|pass| pass.failed).sum(),
    }
}
