//! `carnet stress`: drives a database with transactions, kills it if asked, and checks the results.
//!
//! ```text
//!  Plan ──ops──▶ clients (threads) ──▶ Target: embedded · servers ──▶ answers
//!                    │                       ▲ killed and started again, paused
//!                    ▼                     Fleet
//!               Recorder ──history──▶ the checker ──▶ verdict, exit code
//! ```
//!
//! The clients record their observations. In the end everything is read once more, so that a lost
//! acknowledged write shows. An unknown outcome, for example after the server died, leaves the
//! transaction open: it may have committed. Its client goes on under another name, as another
//! process.

mod bank;
mod client;
mod embedded;
mod fleet;
mod load;
mod load_kind;
mod plan;
mod remote;
mod statement;
mod target;
mod transaction;
mod workload;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use carnet_base::{Clock, Rng, SeededRng, SystemClock};
use carnet_checker::format::{write_edn, write_json};
use carnet_checker::{History, Model, Options, check};
use clap::builder::TypedValueParser;
use clap::{ArgGroup, Args};

use self::client::{Clients, Record};
use self::embedded::Embedded;
use self::fleet::{Faults, Fleet};
use self::load::{InProcess, Load, LoadOptions, Servers};
use self::load_kind::LoadKind;
use self::plan::Plan;
use self::remote::Remote;
use self::target::Target;
use self::workload::{Chosen, Workload};
use super::server_tls::ServerTls;
use crate::place::Place;

/// Drive a database with transactions, and check the observed results.
///
/// Every client runs one transaction after another. In the end the checker decides whether the
/// observed history is strictly serializable and no acknowledged write is missing. bank, write-skew
/// and phantom also have invariants that every transaction checks. The exit code is 1 on a
/// violation.
#[derive(Args)]
#[command(after_help = EXAMPLES, group = ArgGroup::new("place").required(true))]
pub(crate) struct Stress {
    /// Use the database in this directory, within this process; with --kill-every, through a server
    /// that this program starts.
    #[arg(long, value_name = "DIR", group = "place")]
    dir: Option<PathBuf>,
    /// Use the database on a cluster at this URL, within this process; with --servers, --kill-every
    /// or --pause-every, through servers that this program starts.
    #[arg(long, value_name = "URL", group = "place")]
    store: Option<String>,
    /// Use running servers of one database; clients are divided among them. The keyspace
    /// "carnet_stress" of an earlier run is dropped and created anew; one that `carnet stress` did
    /// not make is refused.
    #[arg(long, value_name = "HOST:PORT[,HOST:PORT]…", value_delimiter = ',', group = "place")]
    server: Vec<String>,
    #[command(flatten)]
    tls: ServerTls,
    /// Number of servers over one cluster. Clients are divided among them.
    #[arg(long, requires = "store", value_parser = clap::value_parser!(u16).range(1..))]
    servers: Option<u16>,
    /// Workloads; each transaction is one of these. A history holds lists (list-append, phantom) or
    /// registers (register, write-skew), not both; bank goes with either. read, write, mixed, scan and
    /// multi-get are loads: one of them alone, timed and not checked.
    #[arg(
        long,
        value_enum,
        value_name = "W[,W]…",
        value_delimiter = ',',
        default_value = "list-append"
    )]
    workload: Vec<Chosen>,
    /// Number of clients, each with one transaction at a time.
    #[arg(long, visible_alias = "threads", default_value_t = 8,
          value_parser = clap::value_parser!(u16).range(1..))]
    clients: u16,
    /// Duration of the run.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = run_time())]
    seconds: u64,
    /// Mean interval at which a server is killed with SIGKILL and restarted.
    #[arg(long, value_name = "SECONDS", conflicts_with = "server", value_parser = seconds)]
    kill_every: Option<Duration>,
    /// Mean interval at which a server is paused with SIGSTOP, for up to 2.5 s.
    #[arg(long, value_name = "SECONDS", conflicts_with = "server", value_parser = seconds)]
    pause_every: Option<Duration>,
    /// Maximum number of transactions per second of all clients together; unlimited by default. Of a
    /// load, the number of operations that are due each second, whatever the database does: their
    /// latency counts from the time at which they are due.
    #[arg(long, value_name = "N")]
    rate: Option<u32>,
    /// Write the history to this file, as Elle's EDN, or as JSON if the name ends in .json. The
    /// bank's transactions are not part of it: each that reads checks the total.
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// Seed. The same seed makes the same transactions, though at other moments.
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    load: LoadOptions,
}

/// Maximum duration and maximum interval between faults: 30 days.
const SECONDS_MAX: u64 = 30 * 86_400;

const EXAMPLES: &str = "\
Examples:
  carnet stress --dir ./data
  carnet stress --dir ./data --kill-every 3 --clients 32 --seconds 300
  carnet stress --server 127.0.0.1:9042 --workload register --history h.edn
  carnet stress --dir ./data --workload list-append,bank --kill-every 3
  carnet stress --server 127.0.0.1:9042 --workload write-skew,register
  carnet stress --dir ./data --workload phantom --clients 16
  carnet stress --store cassandra://127.0.0.1/tried --servers 3 --kill-every 5 --pause-every 5
  carnet stress --server 127.0.0.1:9042 --workload multi-get --group 20 --threads 4
  carnet stress --dir ./tried --workload mixed --writes 10 --rate 5000 --json";

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|text| Duration::try_from_secs_f64(text).ok());
    match seconds.filter(|time| !time.is_zero()) {
        Some(time) if time.as_secs() <= SECONDS_MAX => Ok(time),
        Some(_) => Err(format!("expected at most {SECONDS_MAX} seconds, 30 days")),
        None => Err("expected seconds such as 2.5".into()),
    }
}

fn run_time() -> impl TypedValueParser<Value = u64> {
    clap::value_parser!(u64).range(..=SECONDS_MAX)
}

impl Stress {
    pub(crate) fn run(self) -> Result<()> {
        let seed = self.seed.unwrap_or_else(|| SeededRng::from_entropy().next_u64());
        let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
        if let Some(kind) = self.load_kind()? {
            return self.run_load(kind, seed, &runtime);
        }
        let plan = Plan::new(seed, &self.checked())?;
        if self.history.is_some() && !plan.has_history() {
            bail!("the bank's transactions make no history: add another workload, or leave it out");
        }
        let stop = AtomicBool::new(false);
        if !self.server.is_empty() {
            let targets =
                Remote::connect_all(&self.server, self.tls.config()?.as_ref(), runtime.handle())?;
            return self.drive(plan, &targets, &stop, |_| Ok(()));
        }
        let place = Place::from_options(self.dir.clone(), self.store.as_deref())?;
        let place = place.context("give --dir DIR, --store URL or --server HOST:PORT")?;
        let (kill_every, pause_every) = (self.kill_every, self.pause_every);
        if kill_every.is_none() && pause_every.is_none() && self.servers.is_none() {
            let target = Embedded::open(&place)?;
            return self.drive(plan, &[target], &stop, |_| Ok(()));
        }
        let fleet = match &self.store {
            Some(url) => Fleet::of_cluster(url, self.servers.unwrap_or(1).into())?,
            None => Fleet::of_directory(place.directory()?)?,
        };
        let targets = Remote::connect_all(&fleet.addresses(), None, runtime.handle())?;
        let faults = Faults { kill_every, pause_every };
        self.drive(plan, &targets, &stop, |targets| fleet.inject(faults, seed, &stop, targets))
    }

    /// Returns the load, if one is chosen.
    ///
    /// # Errors
    ///
    /// It is chosen together with other workloads, or with options of theirs.
    fn load_kind(&self) -> Result<Option<LoadKind>> {
        let kinds: Vec<LoadKind> =
            self.workload.iter().filter_map(|chosen| chosen.load()).collect();
        let Some(kind) = kinds.first() else { return Ok(None) };
        if self.workload.len() > 1 {
            bail!(
                "read, write, mixed, scan and multi-get run alone: give one of them, or only workloads \
                 that are checked"
            );
        }
        let has_faults = self.kill_every.is_some() || self.pause_every.is_some();
        if has_faults || self.servers.is_some() || self.history.is_some() {
            bail!(
                "--kill-every, --pause-every, --servers and --history are for workloads that are checked"
            );
        }
        if *kind == LoadKind::MultiGet && u64::from(self.load.group) > self.load.rows / 2 {
            bail!("--group may be at most half of --rows");
        }
        Ok(Some(*kind))
    }

    fn checked(&self) -> Vec<Workload> {
        self.workload.iter().filter_map(|chosen| chosen.checked()).collect()
    }

    fn run_load(&self, kind: LoadKind, seed: u64, runtime: &tokio::runtime::Runtime) -> Result<()> {
        let (options, clients) = (self.load.clone(), self.clients);
        let load = Load { kind, options, clients, seconds: self.seconds, rate: self.rate, seed };
        if !self.server.is_empty() {
            let tls = self.tls.config()?;
            return load.run(&Servers::connect(&self.server, tls.as_ref(), runtime.handle())?);
        }
        let place = Place::from_options(self.dir.clone(), self.store.as_deref())?;
        load.run(&InProcess::open(
            &place.context("give --dir DIR, --store URL or --server HOST:PORT")?,
        )?)
    }

    /// Runs the clients, with `beside` concurrently, then checks the results.
    fn drive<T: Target>(
        &self,
        plan: Plan,
        targets: &[T],
        stop: &AtomicBool,
        beside: impl FnOnce(&[T]) -> Result<()> + Send,
    ) -> Result<()> {
        eprintln!("seed {}", plan.seed());
        let has_history = plan.has_history();
        let clients = Clients::new(plan, self.clients.into(), self.rate);
        let outcome = std::thread::scope(|scope| {
            let beside = scope.spawn(|| {
                let outcome = beside(targets);
                // Without a server the clients cannot go on.
                stop.fetch_or(outcome.is_err(), Ordering::Relaxed);
                outcome
            });
            let watch = scope.spawn(|| self.watch(&clients, stop));
            let driven = clients.run(targets, stop);
            stop.store(true, Ordering::Relaxed);
            watch.join().expect("watching does not panic");
            let killed = beside.join().expect("killing does not panic");
            driven.and(killed)
        });
        outcome?;
        clients.read_all(&targets[0])?;
        self.judge(clients, has_history)
    }

    /// Prints the progress, and sets `stop` when the time is over.
    fn watch(&self, clients: &Clients, stop: &AtomicBool) {
        const EVERY: Duration = Duration::from_secs(1);
        const LOOK: Duration = Duration::from_millis(50);
        let began = SystemClock.now();
        let mut printed = began;
        while !stop.load(Ordering::Relaxed) {
            let now = SystemClock.now();
            if now.since(began) >= Duration::from_secs(self.seconds) {
                stop.store(true, Ordering::Relaxed);
            }
            if now.since(printed) >= EVERY {
                eprintln!("{:>5} s  {}", now.since(began).as_secs(), clients.progress());
                printed = now;
            }
            carnet_base::Signal::new().wait(Some(LOOK));
        }
    }

    fn judge(&self, clients: Clients, has_history: bool) -> Result<()> {
        let Record { history, seen, totals } = clients.finish()?;
        println!("{totals}");
        if seen.is_none() {
            let checked = self.checked();
            let held = checked.iter().filter_map(|workload| workload.held());
            held.for_each(|held| println!("{held}"));
        }
        let is_strict = !has_history || self.check(&history)?;
        match seen {
            Some(what) => bail!("a transaction violated an invariant: {what}"),
            None if !is_strict => bail!("the observed history is not strictly serializable"),
            None => Ok(()),
        }
    }

    /// Writes the history to the file, if requested; returns `true` if it is strictly serializable.
    fn check(&self, history: &History) -> Result<bool> {
        if let Some(path) = &self.history {
            #[expect(clippy::disallowed_methods, reason = "the user names the file")]
            let file = File::create(path).with_context(|| path.display().to_string())?;
            let mut file = BufWriter::new(file);
            let json = path.extension().is_some_and(|extension| extension == "json");
            let written =
                if json { write_json(history, &mut file) } else { write_edn(history, &mut file) };
            written.and_then(|()| file.flush()).with_context(|| path.display().to_string())?;
        }
        let report = check(history, &Options::default())?;
        let is_strict = report.allows(Model::StrictSerializable);
        if is_strict {
            println!("strictly serializable, nothing acknowledged is missing");
        } else {
            println!("{}", report.explain(history));
        }
        Ok(is_strict)
    }
}

#[cfg(test)]
mod tests;
