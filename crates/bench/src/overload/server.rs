//! The server under load, as a separate process.

use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use carnet::{Db, Durability, IoClass, IoTotals, Uuid};
use carnet_admission::{AdmissionLimits, Class};
use carnet_base::SystemClock;
use carnet_cql::system::NodeInfo;
use carnet_cql::{Executor, Timeouts};
use carnet_server::{Config, CqlBackend, Limits, Server};

use super::overwrites;
use crate::processors::Pinned;

/// Metric of the total time that statements ran on a thread.
const POLL_SUM: &str = "carnet_server_poll_duration_seconds_sum";
/// Number of executed statements, and number of executed statements that the server answered within 250 µs.
const EXECUTED: &str = "carnet_server_request_duration_seconds_count{opcode=\"execute\"}";
const EXECUTED_FAST: &str =
    "carnet_server_request_duration_seconds_bucket{opcode=\"execute\",le=\"0.00025\"}";
/// Memory budget of the server, and of its storage engine.
pub(super) const MEMORY_BYTES: usize = 256 << 20;
const ENGINE_BYTES: usize = 64 << 20;
const PREPARED_BYTES: usize = 64 << 20;

/// Line of standard input after which the server writes without end, for compactions.
const COMPACT: &str = "compact";

/// Serves a new database until standard input ends. Prints its address, and its [`Figures`] for
/// each line of standard input. `running` is the maximum number of running statements per class.
pub(crate) fn serve(with_gate: bool, running: Option<usize>) -> carnet::Result<()> {
    let directory = tempfile::tempdir()
        .map_err(|error| carnet::Error::unavailable("no directory").with_source(error))?;
    let mut builder = Db::builder().memory_bytes(ENGINE_BYTES).durability(Durability::None);
    if with_gate {
        let processors = available_parallelism().map_or(1, usize::from);
        let mut limits = AdmissionLimits::of_server(processors);
        limits.statements.running_max = running.unwrap_or(limits.statements.running_max);
        builder = builder.admission(limits);
    }
    let db = builder.open(directory.path())?;
    let executor = Executor::new(db.clone(), NodeInfo::local(Uuid::from_bytes([7; 16])));
    executor.set_prepared_bytes_max(PREPARED_BYTES);
    if with_gate {
        let minute = Duration::from_secs(60);
        let timeouts = Timeouts { statement: Duration::from_secs(5), scan: minute, schema: minute };
        executor.set_timeouts(timeouts);
    }
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| carnet::Error::unavailable("no runtime").with_source(error))?;
    runtime.block_on(async {
        let mut config = Config::new(SocketAddr::from(([127, 0, 0, 1], 0)));
        config.limits = Limits::of_memory(MEMORY_BYTES - ENGINE_BYTES - PREPARED_BYTES);
        let clock = Arc::new(SystemClock);
        let server = Server::bind(config, CqlBackend::new(executor), None, clock).await?;
        let _ = writeln!(io::stdout(), "{}", server.local_addr()?);
        let metrics = server.metrics();
        let tell = move || {
            for line in io::stdin().lines().map_while(Result::ok) {
                if line == COMPACT
                    && let Err(error) = overwrites::start(&db)
                {
                    let _ = writeln!(io::stderr(), "no compaction: {error}");
                    return;
                }
                let _ = writeln!(io::stdout(), "{}", figures(&db, &metrics.render(0)));
            }
        };
        server.run(async { drop(tokio::task::spawn_blocking(tell).await) }).await;
        Ok(())
    })
}

/// Totals of a server since its start: read statements, their time in the admission queue, and the
/// time of all statements on a thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    pub(super) admitted: f64,
    pub(super) waited_micros: f64,
    pub(super) ran_micros: f64,
    /// Bytes that compactions read and wrote.
    pub(super) compacted_bytes: f64,
    /// Executed statements, and those whose answer took the server more than 250 µs.
    pub(super) executed: f64,
    pub(super) executed_slowly: f64,
}

/// Returns the text of [`Figures`], from the text of `/metrics`.
fn figures(db: &Db, metrics: &str) -> String {
    let waited = db.admission().map(|admission| admission.figures(Class::Read)).unwrap_or_default();
    let sum = |name: &str| -> f64 {
        let lines = metrics.lines().filter(|line| line.starts_with(name));
        let value = |line: &str| line.rsplit(' ').next().and_then(|text| text.parse::<f64>().ok());
        lines.filter_map(value).sum()
    };
    let ran = sum(POLL_SUM);
    let executed = sum(EXECUTED);
    let slowly = executed - sum(EXECUTED_FAST);
    let compacted = db.io_totals().map_or(0, |totals| compacted_bytes(&totals));
    let waited_micros = waited.waited.as_secs_f64() * 1e6;
    format!("{} {waited_micros} {} {compacted} {executed} {slowly}", waited.admitted, ran * 1e6)
}

/// How a server is started.
#[derive(Clone, Copy)]
pub(super) struct Setup {
    pub(super) with_gate: bool,
    /// Maximum number of running statements of a class; by default as for `carnet serve`.
    pub(super) running: Option<usize>,
    /// Server and generator run on separate halves of the processors.
    pub(super) pinned: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self { with_gate: true, running: None, pinned: false }
    }
}

fn compacted_bytes(totals: &[IoTotals; IoClass::KINDS]) -> u64 {
    let of_class = IoClass::NAMES.iter().zip(totals);
    of_class.filter(|(name, _)| **name == "compaction").map(|(_, totals)| totals.bytes).sum()
}

/// A server process, killed on drop.
pub(super) struct Process {
    child: Child,
    output: BufReader<ChildStdout>,
    pub(super) address: SocketAddr,
    /// While it exists, this thread runs on the generator's half of the processors.
    _pinned: Option<Pinned>,
}

impl Process {
    /// Starts a server.
    pub(super) fn start(setup: &Setup) -> io::Result<Self> {
        let Setup { with_gate, running, pinned } = *setup;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("overload-server");
        if with_gate {
            command.arg("--gate");
        }
        if let Some(running) = running {
            command.args(["--running", &running.to_string()]);
        }
        // Same setting as the program `carnet`.
        if std::env::var_os("MIMALLOC_PURGE_DELAY").is_none() {
            command.env("MIMALLOC_PURGE_DELAY", "10");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let pinned = if pinned { Some(Pinned::new()?) } else { None };
        let mut child = command.spawn()?;
        pinned.as_ref().map_or(Ok(()), Pinned::move_to_generator)?;
        let mut line = String::new();
        let stdout = child.stdout.take().ok_or_else(|| io::Error::other("no output"))?;
        let mut output = BufReader::new(stdout);
        output.read_line(&mut line)?;
        let address = line.trim().parse().map_err(io::Error::other)?;
        Ok(Self { child, output, address, _pinned: pinned })
    }

    /// Requests the server's totals.
    pub(super) fn figures(&mut self) -> io::Result<Figures> {
        self.tell("")
    }

    /// Lets the server overwrite a table without end, as soon as it has filled it.
    pub(super) fn compact(&mut self) -> io::Result<()> {
        self.tell(COMPACT).map(drop)
    }

    fn tell(&mut self, line: &str) -> io::Result<Figures> {
        let input = self.child.stdin.as_mut().ok_or_else(|| io::Error::other("no input"))?;
        writeln!(input, "{line}")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        let numbers: Vec<f64> = line.split_whitespace().filter_map(|it| it.parse().ok()).collect();
        let [admitted, waited_micros, ran_micros, compacted_bytes, executed, executed_slowly] =
            numbers[..]
        else {
            return Err(io::Error::other(format!("the server sent no figures: {line}")));
        };
        Ok(Figures {
            admitted,
            waited_micros,
            ran_micros,
            compacted_bytes,
            executed,
            executed_slowly,
        })
    }

    /// Returns the resident memory in bytes, if the system reports it.
    pub(super) fn resident_bytes(&self) -> Option<u64> {
        self.status_bytes("VmRSS:")
    }

    /// Returns the processor time used so far, if the system reports it. Its unit is 10 ms.
    pub(super) fn processor(&self) -> Option<Duration> {
        const TICKS_A_SECOND: f64 = 100.0;
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        // The name may contain any character; after it, user and system time are the 12th and 13th
        // field.
        let (_, fields) = stat.rsplit_once(')')?;
        let ticks = fields.split_whitespace().skip(11).take(2);
        let ticks: f64 = ticks.filter_map(|field| field.parse::<f64>().ok()).sum();
        Some(Duration::from_secs_f64(ticks / TICKS_A_SECOND))
    }

    /// Returns the peak resident memory in bytes, if the system reports it.
    pub(super) fn peak_bytes(&self) -> Option<u64> {
        self.status_bytes("VmHWM:")
    }

    fn status_bytes(&self, name: &str) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib << 10)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
