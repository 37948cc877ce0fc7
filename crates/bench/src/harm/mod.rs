//! What heavy clients take from others: memory beyond the server's budget, and the time of point
//! reads.
//!
//! Each load runs on a new server of the program `carnet`, with `--memory` as its whole budget, while
//! one client reads a row of another table every few milliseconds. A row of the output has the
//! greatest resident memory during the load and the longest of these reads.

mod loads;

use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use carnet_base::{Clock, SystemClock};
use clap::Args;
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::overload::pause;
use crate::program::{Client, Process, ServeOptions, Tally};
use loads::{LOADS, Load};

/// Interval of the point reads, and of the looks at the server's memory.
const READ_EVERY: Duration = Duration::from_millis(2);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Nice value of the clients of a load.
const NICE: i32 = 10;

/// Returns the names of the loads, in the order in which they are measured.
pub(crate) fn load_names() -> impl Iterator<Item = &'static str> {
    LOADS.iter().map(|load| load.name)
}

/// Measure memory and point reads beside heavy clients.
#[derive(Args)]
pub(crate) struct Harm {
    /// Duration of each load, in seconds.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Memory of the server, in MiB.
    #[arg(long, default_value_t = 256)]
    memory: u64,
    /// Only loads whose name contains this text.
    #[arg(long, default_value = "")]
    only: String,
    /// The program `carnet`; by default the one beside this program.
    #[arg(long)]
    carnet: Option<PathBuf>,
    /// Print the parts of the server's memory near its peak, as the server counts them.
    #[arg(long)]
    owners: bool,
    /// Print a JSON object for each load.
    #[arg(long)]
    json: bool,
}

/// Effects of a load.
#[derive(Serialize)]
struct Row {
    load: &'static str,
    before_mib: u64,
    peak_mib: u64,
    reads: u64,
    p50_ms: f64,
    p99_ms: f64,
    longest_ms: f64,
    answered: u64,
    refused: u64,
    failed: u64,
    /// Connections that the server closed or did not take.
    closed: u64,
    errors: Vec<String>,
}

impl Harm {
    pub(crate) fn run(&self) -> carnet::Result<()> {
        raise_descriptors();
        for load in LOADS.iter().filter(|load| load.name.contains(&self.only)) {
            let row = self.measure(load).map_err(|error| {
                carnet::Error::unavailable(format!("cannot measure {}: {error}", load.name))
            })?;
            self.print(&row);
        }
        Ok(())
    }

    fn measure(&self, load: &Load) -> io::Result<Row> {
        let settings = format!("[server]\nmemory = \"{}MiB\"\n", self.memory);
        let program = self.carnet.as_deref();
        let server = Process::start(&ServeOptions {
            program,
            settings: &settings,
            durability: "none",
            users: "",
        })?;
        let mut client = Client::connect(server.address)?;
        client.query(
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        )?;
        client.query("CREATE TABLE ks.point (k int PRIMARY KEY, v text)")?;
        client.query("INSERT INTO ks.point (k, v) VALUES (1, 'one')")?;
        (load.fill)(&mut client)?;
        let point = client.prepare("SELECT v FROM ks.point WHERE k = ?")?;
        let (before_mib, tally) = (server.resident_mib(), Tally::default());
        let (peak_mib, waits) = thread::scope(|scope| {
            for number in 0..load.clients {
                let (tally, address) = (&tally, server.address);
                scope.spawn(move || {
                    // The clients stand for other machines: they do not take the reader's processor.
                    let _ = rustix::process::setpriority_process(None, NICE);
                    let ended = Client::connect(address)
                        .and_then(|mut client| (load.run)(&mut client, number, tally));
                    if ended.is_err() && !tally.is_over() {
                        tally.closed.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let tally = &tally;
            let reader = scope.spawn(move || read(&mut client, &point, tally));
            let peak_mib = self.watch(&server, before_mib);
            tally.is_over.store(true, Ordering::Relaxed);
            let waits = reader.join().map_err(|_| io::Error::other("the reader panicked"))?;
            // Statements of minutes end with the server.
            drop(server);
            io::Result::Ok((peak_mib, waits))
        })?;
        let millis = |micros: u64| Duration::from_micros(micros).as_secs_f64() * 1e3;
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Ok(Row {
            load: load.name,
            before_mib,
            peak_mib,
            reads: waits.len(),
            p50_ms: millis(waits.value_at_quantile(0.5)),
            p99_ms: millis(waits.value_at_quantile(0.99)),
            longest_ms: millis(waits.max()),
            answered: count(&tally.answered),
            refused: count(&tally.refused),
            failed: count(&tally.failed),
            closed: count(&tally.closed),
            errors: tally.errors.into_iter().filter_map(OnceLock::into_inner).collect(),
        })
    }

    /// Returns the greatest resident memory of a server during the load.
    fn watch(&self, server: &Process, before_mib: u64) -> u64 {
        let ends = SystemClock.now().after(Duration::from_secs(self.seconds));
        let (mut peak_mib, mut owners) = (before_mib, Vec::new());
        while SystemClock.now() < ends {
            pause(LOOK_EVERY);
            let resident_mib = server.resident_mib();
            if self.owners && resident_mib > peak_mib + peak_mib / 16 {
                owners = server.owners().unwrap_or_default();
            }
            peak_mib = peak_mib.max(resident_mib);
        }
        if self.owners {
            println!("{}", owners.join(", "));
        }
        peak_mib
    }

    fn print(&self, row: &Row) {
        if self.json {
            println!("{}", serde_json::json!(row));
            return;
        }
        let Row { load, before_mib, peak_mib, reads, p50_ms, p99_ms, longest_ms, .. } = row;
        let Row { answered, refused, failed, closed, errors, .. } = row;
        println!(
            "{load:<44} {before_mib:>4} MiB before, {peak_mib:>4} at most; {reads:>5} point reads, \
             p50 {p50_ms:>5.1} ms, p99 {p99_ms:>6.1}, longest {longest_ms:>6.0}; \
             {answered} answered, {refused} refused, {failed} failed, {closed} closed"
        );
        errors.iter().for_each(|error| println!("    {error}"));
    }
}

/// Reads one row until the load is over; returns the microseconds that each read took.
fn read(client: &mut Client, point: &[u8], tally: &Tally) -> Histogram<u64> {
    let mut micros = Histogram::new_with_bounds(1, 60_000_000, 3).expect("the bounds are valid");
    while !tally.is_over() {
        pause(READ_EVERY);
        let sent = SystemClock.now();
        let answer = client.execute(point, &[&1_i32.to_be_bytes()]);
        let took = SystemClock.now().since(sent).as_micros();
        micros.saturating_record(u64::try_from(took).unwrap_or(u64::MAX));
        if answer.is_err() {
            // A read that fails counts as the longest possible wait.
            micros.saturating_record(u64::MAX);
            break;
        }
    }
    micros
}

/// Raises the limit of open files to the permitted one, for thousands of connections.
fn raise_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        eprintln!("the limit of open files stays: {error}");
    }
}
