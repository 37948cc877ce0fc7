//! Servers that are killed and restarted, or paused at any moment.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use carnet_base::{Rng, SeededRng, Signal as Bell, lock};
use rustix::process::{Pid, Signal, kill_process};

use super::remote::Remote;

/// Minimum pause of a server, and its maximum extension: a lease of one second expires in some of
/// the pauses and survives others.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_FURTHER: Duration = Duration::from_millis(2_300);

/// Servers of this program over one database, on free ports of 127.0.0.1. They end when this value
/// is dropped.
pub(super) struct Fleet {
    /// Arguments of `carnet serve` that name the database.
    place: Vec<String>,
    servers: Vec<Server>,
}

struct Server {
    /// Listen address; the same after each start.
    address: String,
    process: Arc<Mutex<Child>>,
}

/// Faults injected into servers, with their mean intervals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Faults {
    pub(super) kill_every: Option<Duration>,
    pub(super) pause_every: Option<Duration>,
}

/// Fault of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Kill,
    Pause(Duration),
}

impl Faults {
    /// Draws the next fault and the time until it, between half and one and a half of the mean
    /// interval.
    fn next(self, rng: &mut dyn Rng) -> Option<(Duration, Event)> {
        let mut due = |every: Option<Duration>| {
            let factor = 0.5 + rng.below(1000) as f64 / 1000.0;
            every.map(|every| every.mul_f64(factor))
        };
        let (kill, pause) = (due(self.kill_every), due(self.pause_every));
        let further = PAUSE_FURTHER.mul_f64(rng.below(1000) as f64 / 1000.0);
        let pause = pause.map(|after| (after, Event::Pause(PAUSE_MIN + further)));
        let kill = kill.map(|after| (after, Event::Kill));
        kill.into_iter().chain(pause).min_by_key(|(after, _)| *after)
    }
}

impl Fleet {
    /// Starts one server of a directory.
    pub(super) fn of_directory(directory: &Path) -> Result<Self> {
        Self::start(vec![directory.display().to_string()], 1)
    }

    /// Starts servers of a database on a cluster. They reach each other over loopback, unless the
    /// URL has another address.
    pub(super) fn of_cluster(url: &str, count: usize) -> Result<Self> {
        let mut url = url.to_owned();
        if !url.contains("listen=") {
            url.push(if url.contains('?') { '&' } else { '?' });
            url.push_str("listen=127.0.0.1:0");
            if !url.contains("secret") {
                url.push_str("&insecure=true");
            }
        }
        Self::start(vec!["--store".into(), url], count)
    }

    fn start(place: Vec<String>, count: usize) -> Result<Self> {
        let mut fleet = Self { place, servers: Vec::new() };
        for _ in 0..count {
            let (process, address) = start(&fleet.place, "127.0.0.1:0")?;
            fleet.servers.push(Server { address, process: Arc::new(Mutex::new(process)) });
        }
        Ok(fleet)
    }

    /// Returns the servers' listen addresses.
    pub(super) fn addresses(&self) -> Vec<String> {
        self.servers.iter().map(|server| server.address.clone()).collect()
    }

    /// Injects faults at random moments until `stop` is set.
    pub(super) fn inject(
        &self,
        faults: Faults,
        seed: u64,
        stop: &AtomicBool,
        targets: &[Remote],
    ) -> Result<()> {
        let mut rng = SeededRng::new(seed);
        let (mut kills, mut pauses) = (0_u32, 0_u32);
        while let Some((after, event)) = faults.next(&mut rng) {
            if !pass(after, stop) {
                break;
            }
            let number = usize::try_from(rng.below(self.servers.len() as u64))?;
            let server = &self.servers[number];
            match event {
                Event::Kill => {
                    server.kill()?;
                    kills += 1;
                    let (process, _) = start(&self.place, &server.address)?;
                    *lock(&server.process) = process;
                    targets[number].connect_again()?;
                }
                Event::Pause(wait) => {
                    server.signal(Signal::STOP)?;
                    pauses += 1;
                    // The server resumes even after the end of the run.
                    pass(wait, &AtomicBool::new(false));
                    server.signal(Signal::CONT)?;
                }
            }
        }
        eprintln!("killed {kills} times, paused {pauses} times");
        Ok(())
    }
}

/// Waits; returns `false` if `stop` was set meanwhile.
fn pass(mut left: Duration, stop: &AtomicBool) -> bool {
    const LOOK: Duration = Duration::from_millis(50);
    while !left.is_zero() {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        Bell::new().wait(Some(left.min(LOOK)));
        left = left.saturating_sub(LOOK);
    }
    true
}

impl Server {
    fn kill(&self) -> Result<()> {
        let mut process = lock(&self.process);
        process.kill().context("cannot kill the server")?;
        process.wait().context("cannot wait for the server's end")?;
        Ok(())
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let process = lock(&self.process);
        let id = Pid::from_child(&process);
        kill_process(id, signal).context("cannot signal the server")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// Starts a server and returns it with the address where it listens.
fn start(place: &[String], listen: &str) -> Result<(Child, String)> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut server = Command::new(program)
        .arg("serve")
        .args(place)
        .args(["--listen", listen, "--http", "off"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the server")?;
    let mut line = String::new();
    if let Some(stdout) = server.stdout.take() {
        BufReader::new(stdout).read_line(&mut line).context("cannot hear the server")?;
    }
    match line.trim_end().rsplit_once("CQL on ") {
        Some((_, address)) => Ok((server, address.to_owned())),
        None => {
            let _ = server.kill();
            let status = server.wait().context("cannot wait for the server's end")?;
            bail!("the server did not start ({status}); see its error above")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_have_the_requested_mean_intervals() {
        let mut rng = SeededRng::new(1);
        let second = Duration::from_secs(1);
        let faults = Faults { kill_every: Some(second), pause_every: Some(second) };
        let (mut kills, mut short, mut long) = (0, 0, 0);
        for _ in 0..1000 {
            let (after, event) = faults.next(&mut rng).unwrap();
            assert!(after >= second / 2 && after <= second.mul_f64(1.5), "{after:?}");
            match event {
                Event::Kill => kills += 1,
                Event::Pause(wait) if wait < second => short += 1,
                Event::Pause(_) => long += 1,
            }
        }
        assert!(kills > 300 && short > 50 && long > 50, "{kills} {short} {long}");
        let never = Faults { kill_every: None, pause_every: None };
        assert_eq!(never.next(&mut rng), None);
    }
}
