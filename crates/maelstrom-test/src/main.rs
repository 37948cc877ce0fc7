//! `carnet-maelstrom-test`: runs Maelstrom nodes without Maelstrom, and checks the clients'
//! history. Exits with 0 if it is valid, 1 if not, and 2 if the run failed.

use std::env;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use carnet_checker::Model;
use carnet_checker::format::write_edn;
use carnet_maelstrom_test::{
    Conditions, Distribution, Faults, Kind, Plan, Report, pictures, processes, simulated,
};
use clap::Parser;

/// Runs Maelstrom nodes against simulated services, clients and faults, and checks the clients'
/// history.
///
/// Arguments after -- are given to the node, after "maelstrom" if --bin is not given.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The requests that clients make.
    #[arg(short, long, value_enum, default_value = "txn-list-append")]
    workload: Kind,
    /// The node's program. Default: `carnet`, built by cargo like this program.
    #[arg(long, value_name = "PROGRAM")]
    bin: Option<PathBuf>,
    /// Run the project's nodes in this process on virtual time, with their default options: a seed
    /// gives one run, independent of the machine's speed.
    #[arg(long, conflicts_with_all = ["bin", "node"])]
    simulated: bool,
    /// Number of nodes.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=100))]
    node_count: u16,
    /// Requests per second, of all clients together.
    #[arg(long, default_value_t = 100.0, value_parser = rate)]
    rate: f64,
    /// Duration of the run in seconds.
    #[arg(long, default_value_t = 10.0, value_parser = seconds)]
    time_limit: f64,
    /// Clients for each node; each makes one request at a time.
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    concurrency: u16,
    /// Mean one-way latency of messages between servers, in milliseconds.
    #[arg(long, value_name = "MILLIS", default_value_t = 0)]
    latency: u64,
    /// Distribution of these latencies.
    #[arg(long, value_enum, default_value = "constant")]
    latency_dist: Distribution,
    /// Number of messages between nodes that are lost, per 1000.
    #[arg(long, value_name = "PER-MILLE", default_value_t = 0)]
    loss: u64,
    /// Cut nodes off from each other, or reunite them, each time this many seconds have passed.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    partition_every: Option<f64>,
    /// Cut these nodes off from services as well.
    #[arg(long, requires = "partition_every")]
    partition_services: bool,
    /// Number of requests to services that are late, per 1000, and the same for their answers.
    #[arg(long, value_name = "PER-MILLE", default_value_t = 0)]
    late: u64,
    /// Maximum delay of late messages, in milliseconds.
    #[arg(long, value_name = "MILLIS", default_value_t = 2000)]
    lateness: u64,
    /// Number of requests to services that are never answered, executed or not, per 1000.
    #[arg(long, value_name = "PER-MILLE", default_value_t = 0)]
    silence: u64,
    /// Number of requests to services that get an indefinite error, executed or not, per 1000.
    #[arg(long, value_name = "PER-MILLE", default_value_t = 0)]
    errors: u64,
    /// Number of keys written before the clients begin.
    #[arg(long, value_name = "KEYS", default_value_t = 0)]
    preload: u64,
    /// The consistency model that the history has to satisfy.
    #[arg(long, value_name = "MODEL", default_value = "strict-serializable", value_parser = model)]
    consistency_model: Model,
    /// Seed for all randomness outside the nodes.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Print everything as one JSON object.
    #[arg(long)]
    json: bool,
    /// Write the history to a file, as EDN.
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// Draw the run into this folder: `index.html`, and its pictures as SVG files.
    #[arg(long, value_name = "FOLDER")]
    pictures: Option<PathBuf>,
    /// Show the nodes' logs.
    #[arg(long)]
    log: bool,
    /// Arguments of the node.
    #[arg(last = true)]
    node: Vec<String>,
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (0.01..=100_000.0).contains(rate));
    rate.ok_or_else(|| "expected between 0.01 and 100000 a second".to_owned())
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.001..=86_400.0).contains(seconds));
    seconds.ok_or_else(|| "expected between 0.001 and 86400 seconds".to_owned())
}

fn model(text: &str) -> Result<Model, String> {
    Model::from_name(text).ok_or_else(|| format!("there is no model {text}"))
}

impl Arguments {
    fn plan(&self) -> Plan {
        Plan {
            workload: self.workload,
            nodes: self.node_count.into(),
            rate: self.rate,
            time_limit: Duration::from_secs_f64(self.time_limit),
            clients_per_node: self.concurrency.into(),
            preload: self.preload,
            conditions: Conditions {
                latency: Duration::from_millis(self.latency),
                distribution: self.latency_dist,
                loss: self.loss,
            },
            faults: Faults {
                late_requests: self.late,
                late_answers: self.late,
                lateness_max: Duration::from_millis(self.lateness),
                lost: self.silence,
                errors: self.errors,
            },
            partition_every: self.partition_every.map(Duration::from_secs_f64),
            partition_services: self.partition_services,
            model: self.consistency_model,
            seed: self.seed,
            traces: self.pictures.is_some(),
            ..Plan::default()
        }
    }

    fn run(&self, plan: &Plan) -> Result<Report, String> {
        if self.simulated {
            return simulated::run(plan, &carnet_maelstrom::Options::default());
        }
        let mut arguments = self.node.clone();
        let path = match &self.bin {
            Some(path) => path.clone(),
            None => {
                arguments.insert(0, "maelstrom".to_owned());
                build()?
            }
        };
        processes::run(plan, &processes::Program { path, arguments, shows_log: self.log })
    }
}

/// Builds `carnet` next to this program, and returns its path.
fn build() -> Result<PathBuf, String> {
    let own = env::current_exe()
        .map_err(|error| format!("cannot find the path of this program: {error}"))?;
    let folder = own.parent().unwrap_or(Path::new("."));
    if let Some(cargo) = env::var_os("CARGO") {
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--package", "carnet-cli", "--bin", "carnet"]);
        if folder.ends_with("release") {
            build.arg("--release");
        }
        match build.status() {
            Ok(status) if status.success() => {}
            Ok(status) => return Err(format!("cargo cannot build carnet: {status}")),
            Err(error) => return Err(format!("cargo cannot be run: {error}")),
        }
    }
    let path = folder.join("carnet");
    if path.exists() { Ok(path) } else { Err("there is no carnet to run; give --bin".to_owned()) }
}

fn shown(report: &Report, plan: &Plan) -> String {
    let Report { verdict, ok, fail, info, .. } = report;
    let latency = |per_mille| report.latency(per_mille).as_secs_f64() * 1e3;
    format!(
        "{}\n{ok} ok, {fail} failed, {info} unknown; {:.2} server messages each; p50 {:.1} ms, \
         p95 {:.1} ms, p99 {:.1} ms\n{} {}",
        verdict.explanation.trim_end(),
        report.server_messages_per_op(),
        latency(500),
        latency(950),
        latency(990),
        plan.model,
        if verdict.is_valid { "holds" } else { "is VIOLATED" },
    )
}

#[expect(clippy::disallowed_methods, reason = "a binary writes the file that it was told to")]
fn save(report: &Report, path: &Path) -> io::Result<()> {
    let Some(history) = &report.verdict.history else {
        return Err(io::Error::other("this workload has no history"));
    };
    let mut file = io::BufWriter::new(std::fs::File::create(path)?);
    write_edn(history, &mut file)?;
    file.flush()
}

/// Draws a run into a folder.
fn draw(report: &Report, plan: &Plan, folder: &Path) -> Result<(), String> {
    let drawn = pictures::draw(report)?;
    let page = pictures::page(report, plan, &drawn);
    let files = drawn.iter().map(|picture| (picture.file, &picture.svg));
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for (name, text) in files.chain([("index.html", &page)]) {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let plan = arguments.plan();
    let report = match arguments.run(&plan) {
        Ok(report) => report,
        Err(message) => {
            eprintln!("carnet-maelstrom-test: {message}");
            return ExitCode::from(2);
        }
    };
    if let Some(path) = &arguments.history
        && let Err(error) = save(&report, path)
    {
        eprintln!("carnet-maelstrom-test: {}: {error}", path.display());
        return ExitCode::from(2);
    }
    if let Some(folder) = &arguments.pictures
        && let Err(message) = draw(&report, &plan, folder)
    {
        eprintln!("carnet-maelstrom-test: {message}");
        return ExitCode::from(2);
    }
    let text =
        if arguments.json { report.to_json(&plan).to_string() } else { shown(&report, &plan) };
    // A closed pipe is not an error.
    let _ = writeln!(io::stdout(), "{text}");
    ExitCode::from(u8::from(!report.verdict.is_valid))
}

#[cfg(test)]
#[path = "../../bench/src/page_commands.rs"]
mod page_commands;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_all_pages_are_known() {
        page_commands::are_known::<Arguments>("carnet-maelstrom-test", 5);
    }
}
