//! Servers under measurement: their processes, processor time, and pauses.

use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::process::Acknowledgement;

/// A server, stopped except while it is measured.
pub(super) struct Target {
    pub(super) name: String,
    pub(super) address: SocketAddr,
    processes: Vec<Pid>,
    /// The process of a server that this program started, which ends on drop.
    child: Option<Child>,
}

impl Target {
    /// Starts the server process of a build of this program.
    pub(super) fn start(
        name: &str,
        program: &Path,
        durability: Acknowledgement,
    ) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.args(["server-process", "--durability", durability.name()]);
        // Same setting as the program `carnet`.
        if std::env::var_os("MIMALLOC_PURGE_DELAY").is_none() {
            command.env("MIMALLOC_PURGE_DELAY", "10");
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().ok_or_else(|| io::Error::other("no output"))?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let processes = vec![Pid::from_child(&child)];
        let target =
            |address| Self { name: name.to_owned(), address, processes, child: Some(child) };
        let target = target(line.trim().parse().map_err(io::Error::other)?);
        target.pause()?;
        Ok(target)
    }

    /// Returns another database, from `ADDRESS,PID[,PID…]`.
    pub(super) fn peer(name: &str, place: &str) -> io::Result<Self> {
        let invalid = || io::Error::other(format!("not ADDRESS,PID: {place}"));
        let mut parts = place.split(',');
        let address = parts.next().and_then(|it| it.parse().ok()).ok_or_else(invalid)?;
        let pid = |text: &str| text.parse().ok().and_then(Pid::from_raw).ok_or_else(invalid);
        let processes: Vec<Pid> = parts.map(pid).collect::<io::Result<_>>()?;
        if processes.is_empty() {
            return Err(invalid());
        }
        let target = Self { name: name.to_owned(), address, processes, child: None };
        target.pause()?;
        Ok(target)
    }

    /// Returns `true` for a database that this program did not start.
    pub(super) const fn is_peer(&self) -> bool {
        self.child.is_none()
    }

    pub(super) fn pause(&self) -> io::Result<()> {
        self.signal(Signal::STOP)
    }

    pub(super) fn resume(&self) -> io::Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        self.processes.iter().try_for_each(|pid| Ok(kill_process(*pid, signal)?))
    }

    /// Returns the processor time that the server has used, in user and kernel mode.
    pub(super) fn processor(&self) -> io::Result<Duration> {
        self.processes.iter().map(|pid| processor(*pid)).sum()
    }
}

/// Returns the processor time of a process. The system reports it in units of 10 ms.
fn processor(pid: Pid) -> io::Result<Duration> {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()))?;
    // The name may contain any character; after it, user and system time are the 12th and 13th
    // field.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: f64 = ticks.filter_map(|field| field.parse::<f64>().ok()).sum();
    Ok(Duration::from_secs_f64(ticks / TICKS_PER_SECOND))
}

impl Drop for Target {
    fn drop(&mut self) {
        // A peer ends with the program that started it, which a stopped process could not hear.
        let _ = self.resume();
        if let Some(child) = &mut self.child {
            // The server ends with its input, and removes its directory. The process may have
            // exited already.
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}
