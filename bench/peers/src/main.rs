//! The same work on Carnet and on other storage engines, in one process.
//!
//! ```text
//!  main ── reads the command line, prints
//!    └─ run ── passes, rotation, fresh directories, medians
//!         ├─ workloads ── what is timed: write, read, scan
//!         │     └─ measure ── threads, stop watches, histograms
//!         └─ engines ── one file an engine, behind the traits of `engine`
//!               └─ settings ── what each engine is set to, all in one place
//! ```
//!
//! Every engine gets the same rows (`data`), made by the same code at the same place, and every
//! row that comes back is checked. A result is a `record`, which `report` turns into a table and a
//! plot. How to run it, and what to make of the figures, is in `README.md`.

mod data;
mod engine;
mod engines;
mod measure;
mod page_cache;
mod record;
mod report;
mod run;
mod settings;
mod workloads;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::engine::{Compression, Direction, Durability, Kind, Shape};
use crate::record::Record;
use crate::run::{Failures, Filling, Plan, Subject, Transactions, Writes};
use crate::workloads::read::Place;
use crate::workloads::transaction::{Access, Spread};

/// Measures Carnet and other storage engines at the same work.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Transactions of 8 puts: 16-byte random keys, 100-byte values.
    Write(Write),
    /// Reads of one row.
    Read(Read),
    /// Scans of 100 rows from random places, in cache.
    Scan(Scan),
    /// Transactions that read a row and put one, by the engines that find conflicts.
    Transaction(Transaction),
    /// Turns results into a Markdown table and a plot.
    Report(Report),
}

#[derive(Args)]
struct Common {
    /// The engines; all by default that are measured at that work.
    #[arg(long, value_enum, value_delimiter = ',')]
    engines: Vec<Kind>,
    /// How Carnet lays keys out; both by default.
    #[arg(long, value_enum, value_delimiter = ',')]
    shape: Vec<ShapeChoice>,
    /// Numbers of threads.
    #[arg(long, value_delimiter = ',')]
    threads: Vec<usize>,
    /// Passes; the median one is shown.
    #[arg(long, default_value_t = 5)]
    passes: usize,
    /// Where the databases are put: a real disk, not a file system in memory.
    #[arg(long, default_value = "target")]
    dir: PathBuf,
    /// Makes other rows and other places.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Compression of sorted files.
    #[arg(long, value_enum, default_value = "none")]
    compression: Compression,
    /// Prints one JSON object a line and engine instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum ShapeChoice {
    Hashed,
    Raw,
    Both,
}

#[derive(Args)]
struct Write {
    #[command(flatten)]
    common: Common,
    /// What an acknowledgement promises.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "none,always")]
    durability: Vec<Durability>,
    /// Sizes of a memtable: at 1g nothing is flushed, at 64m flushes and compactions are measured.
    #[arg(long, value_parser = parse_bytes, value_delimiter = ',', default_value = "1g")]
    memtable: Vec<usize>,
    /// Keys in a measurement.
    #[arg(long, default_value_t = 3_000_000)]
    keys: u64,
    /// A measurement ends after this time if not all keys are written.
    #[arg(long, default_value_t = 20.0)]
    seconds: f64,
}

#[derive(Args)]
struct Filled {
    /// Rows in a database.
    #[arg(long, default_value_t = 2_000_000)]
    rows: u64,
    /// How long a measurement lasts.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Fills a new database for each pass: one layout of files does not decide, and it takes
    /// several times as long.
    #[arg(long)]
    fresh: bool,
}

#[derive(Args)]
struct Read {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    filled: Filled,
    /// Where the rows are.
    #[arg(
        long = "where",
        value_enum,
        value_delimiter = ',',
        default_value = "memtable,cache,disk,miss"
    )]
    places: Vec<Place>,
    /// Reads in one snapshot.
    #[arg(long, value_delimiter = ',', default_value = "1,100")]
    per_snapshot: Vec<usize>,
}

#[derive(Args)]
struct Scan {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    filled: Filled,
    /// Which way.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "forward,reversed")]
    direction: Vec<Direction>,
    /// Scans in one snapshot.
    #[arg(long, value_delimiter = ',', default_value = "1")]
    per_snapshot: Vec<usize>,
}

#[derive(Args)]
struct Transaction {
    #[command(flatten)]
    common: Common,
    /// Rows in a database.
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// How long a measurement lasts.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// What a transaction does.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "update,pair,read")]
    access: Vec<Access>,
    /// To which rows.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "uniform,hot")]
    spread: Vec<Spread>,
}

#[derive(Args)]
struct Report {
    /// Files of JSON lines.
    #[arg(required = true)]
    results: Vec<PathBuf>,
    /// Writes the plot there.
    #[arg(long)]
    svg: Option<PathBuf>,
}

fn main() -> ExitCode {
    if cfg!(all(target_arch = "x86_64", not(target_feature = "sse4.2"))) {
        eprintln!(
            "compiled without SSE 4.2: RocksDB computes checksums in software and its figures are \
             too low; run cargo from bench/peers, with RUSTFLAGS unset"
        );
    }
    let outcome = match Arguments::parse().command {
        Command::Write(write) => run_writes(&write),
        Command::Read(read) => run_reads(&read),
        Command::Scan(scan) => run_scans(&scan),
        Command::Transaction(transaction) => run_transactions(&transaction),
        Command::Report(report) => report::run(&report.results, report.svg.as_deref()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run_writes(write: &Write) -> Result<()> {
    let plan = write.common.plan(&[1, 2, 8, 32], write.seconds)?;
    let mut failures = Failures(0);
    for &durability in &write.durability {
        for &memtable_bytes in &write.memtable {
            for &threads in &plan.threads {
                let writes = Writes { durability, memtable_bytes, threads, keys: write.keys };
                failures.0 += run::writes(&plan, &writes, &mut write.common.printer()).0;
            }
        }
    }
    failures.into_result()
}

fn run_reads(read: &Read) -> Result<()> {
    let plan = read.common.plan(&[1, 2, 8], read.filled.seconds)?;
    let filling = read.filled.filling(&read.per_snapshot)?;
    let mut failures = Failures(0);
    for &place in &read.places {
        failures.0 += run::reads(&plan, &filling, place, &mut read.common.printer()).0;
    }
    failures.into_result()
}

fn run_scans(scan: &Scan) -> Result<()> {
    let plan = scan.common.plan(&[1, 2, 8], scan.filled.seconds)?;
    let filling = scan.filled.filling(&scan.per_snapshot)?;
    run::scans(&plan, &filling, &scan.direction, &mut scan.common.printer()).into_result()
}

fn run_transactions(transaction: &Transaction) -> Result<()> {
    let common = &transaction.common;
    let plan = common.plan_of(&Kind::transactional(), &[1, 2, 4], transaction.seconds)?;
    let asked = Transactions::all(&plan, &transaction.access, &transaction.spread);
    run::transactions(&plan, transaction.rows, &asked, &mut common.printer()).into_result()
}

impl Common {
    fn plan(&self, threads: &[usize], seconds: f64) -> Result<Plan<'_>> {
        self.plan_of(&Kind::all(), threads, seconds)
    }

    fn plan_of(&self, engines: &[Kind], threads: &[usize], seconds: f64) -> Result<Plan<'_>> {
        let engines = if self.engines.is_empty() { engines } else { &self.engines[..] };
        let shapes = match self.shape[..] {
            [ShapeChoice::Hashed] => vec![Shape::Hashed],
            [ShapeChoice::Raw] => vec![Shape::Raw],
            _ => vec![Shape::Hashed, Shape::Raw],
        };
        let threads = if self.threads.is_empty() { threads } else { &self.threads[..] };
        if threads.contains(&0) || self.passes == 0 {
            bail!("a measurement needs a thread and a pass at least");
        }
        std::fs::create_dir_all(&self.dir)
            .with_context(|| format!("no directory {}", self.dir.display()))?;
        Ok(Plan {
            subjects: Subject::all(engines, &shapes),
            threads: threads.to_vec(),
            time: Duration::try_from_secs_f64(seconds).context("--seconds")?,
            passes: self.passes,
            dir: &self.dir,
            seed: self.seed,
            compression: self.compression,
        })
    }

    fn printer(&self) -> impl FnMut(&[Record]) + use<> {
        let json = self.json;
        move |records| {
            if json {
                for record in records {
                    println!("{}", serde_json::to_string(record).expect("a record is plain data"));
                }
            } else {
                print!("{}", report::table(records));
            }
        }
    }
}

impl Filled {
    fn filling(&self, per_snapshot: &[usize]) -> Result<Filling> {
        if per_snapshot.contains(&0) || self.rows == 0 {
            bail!("there is nothing to read without rows and reads in a snapshot");
        }
        Ok(Filling { count: self.rows, fresh: self.fresh, per_snapshot: per_snapshot.to_vec() })
    }
}

impl Failures {
    fn into_result(self) -> Result<()> {
        if self.0 > 0 {
            bail!("{} engines failed; what they did is written above", self.0);
        }
        Ok(())
    }
}

/// Reads a size: a number, or one with k, m or g for binary thousands.
fn parse_bytes(text: &str) -> Result<usize, String> {
    let lower = text.to_ascii_lowercase();
    let (digits, shift) = match lower.as_bytes().last() {
        Some(b'k') => (&lower[..lower.len() - 1], 10),
        Some(b'm') => (&lower[..lower.len() - 1], 20),
        Some(b'g') => (&lower[..lower.len() - 1], 30),
        _ => (&lower[..], 0),
    };
    let number: usize = digits.parse().map_err(|_| format!("{text} is no size like 64m or 1g"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("{text} is too large"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
        let arguments = ["peers", "write", "--threads", "8", "--durability", "none", "--json"];
        assert!(Arguments::try_parse_from(arguments).is_ok());
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_bytes("1g"), Ok(1 << 30));
        assert_eq!(parse_bytes("64M"), Ok(64 << 20));
        assert_eq!(parse_bytes("17"), Ok(17));
        assert!(parse_bytes("99999999999g").is_err());
        assert!(parse_bytes("m").is_err());
    }
}
