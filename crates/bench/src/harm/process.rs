//! The program `carnet` as a server, and its memory.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A server of its own database, killed on drop.
pub(super) struct Process {
    child: Child,
    pub(super) address: SocketAddr,
    http: SocketAddr,
    _directory: tempfile::TempDir,
}

impl Process {
    /// Starts a server with a memory budget.
    pub(super) fn start(program: Option<&Path>, memory_mib: u64) -> io::Result<Self> {
        let program = program.map_or_else(beside_this_program, |program| Ok(program.to_owned()))?;
        let directory = tempfile::tempdir()?;
        let config = directory.path().join("carnet.toml");
        std::fs::write(&config, format!("[server]\nmemory = \"{memory_mib}MiB\"\n"))?;
        let database = directory.path().join("database");
        let mut child = Command::new(&program)
            .arg("serve")
            .arg(database)
            .arg("--config")
            .arg(config)
            .args(["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--durability", "none"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| io::Error::other(format!("{}: {error}", program.display())))?;
        let stdout = child.stdout.take().ok_or_else(|| io::Error::other("no output"))?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let address = |name: &str| {
            let (_, rest) = line.split_once(name)?;
            rest.split([',', '\n']).next()?.parse().ok()
        };
        let (Some(address), Some(http)) = (address("CQL on "), address("HTTP on ")) else {
            // It may have ended already.
            let _ = child.kill();
            return Err(io::Error::other(format!("the server did not start: {line}")));
        };
        Ok(Self { child, address, http, _directory: directory })
    }

    /// Returns the parts of the server's memory that hold more than a MiB, as it counts them.
    pub(super) fn owners(&self) -> io::Result<Vec<String>> {
        let mut stream = TcpStream::connect(self.http)?;
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: carnet\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let owner = |line: &str| {
            let (owner, bytes) =
                line.strip_prefix("carnet_memory_bytes{owner=\"")?.split_once("\"}")?;
            let mib = bytes.trim().parse::<u64>().ok()? >> 20;
            (mib > 0).then(|| format!("{owner} {mib} MiB"))
        };
        Ok(answer.lines().filter_map(owner).collect())
    }

    /// Returns the resident memory in MiB.
    pub(super) fn resident_mib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let kib = status.ok().and_then(|status| {
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
            line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
        });
        kib.unwrap_or(0) >> 10
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn beside_this_program() -> io::Result<PathBuf> {
    let program = std::env::current_exe()?.with_file_name("carnet");
    if program.exists() {
        return Ok(program);
    }
    Err(io::Error::other(format!(
        "there is no {}: run `cargo build --release -p carnet-cli`, or name it by --carnet",
        program.display()
    )))
}
