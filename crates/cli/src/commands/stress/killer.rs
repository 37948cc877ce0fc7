//! A server that is killed and started again.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use carnet::base::{Rng, SeededRng, Signal};

use super::remote::Remote;
use super::{Shared, lock};

/// A server of this program's own, on a free port of 127.0.0.1. It ends with this value.
pub(super) struct Killer {
    directory: PathBuf,
    address: String,
    server: Shared<Child>,
}

impl Killer {
    pub(super) fn start(directory: &Path) -> Result<Self> {
        let (server, address) = start(directory, "127.0.0.1:0")?;
        let server = Arc::new(Mutex::new(server));
        Ok(Self { directory: directory.to_path_buf(), address, server })
    }

    /// Where the server listens; the same after each start.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Kills the server at random moments, on average once in `every` seconds, until it is told
    /// to stop.
    pub(super) fn kill_again_and_again(
        &self,
        every: f64,
        seed: u64,
        stop: &AtomicBool,
        target: &Remote,
    ) -> Result<()> {
        const LOOK: Duration = Duration::from_millis(50);
        let mut rng = SeededRng::new(seed);
        let mut kills = 0_u32;
        loop {
            // Between half of it and one and a half of it.
            let factor = 0.5 + rng.below(1000) as f64 / 1000.0;
            let mut left = Duration::try_from_secs_f64(every * factor)
                .context("--kill-every takes a number of seconds")?;
            while !left.is_zero() {
                if stop.load(Ordering::Relaxed) {
                    eprintln!("killed {kills} times");
                    return Ok(());
                }
                Signal::new().wait(Some(left.min(LOOK)));
                left = left.saturating_sub(LOOK);
            }
            self.kill()?;
            kills += 1;
            let (server, _) = start(&self.directory, &self.address)?;
            *lock(&self.server) = server;
            target.connect_again()?;
        }
    }

    fn kill(&self) -> Result<()> {
        let mut server = lock(&self.server);
        server.kill().context("cannot kill the server")?;
        server.wait().context("cannot wait for the server's end")?;
        Ok(())
    }
}

impl Drop for Killer {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// Starts a server and returns it with the address where it listens.
fn start(directory: &Path, listen: &str) -> Result<(Child, String)> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut server = Command::new(program)
        .arg("serve")
        .arg(directory)
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
            bail!("the server did not start ({status}); its reason stands above")
        }
    }
}
