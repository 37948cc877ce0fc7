//! The program `carnet` as a server, and its memory.

use std::fs::Permissions;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A server of its own database, killed on drop.
pub(crate) struct Process {
    child: Child,
    pub(crate) address: SocketAddr,
    http: SocketAddr,
    program: PathBuf,
    directory: tempfile::TempDir,
}

/// Settings of a server.
pub(crate) struct ServeOptions<'o> {
    /// The program; the one beside this program by default.
    pub(crate) program: Option<&'o Path>,
    /// Text of the settings file.
    pub(crate) settings: &'o str,
    /// Value of `--durability`.
    pub(crate) durability: &'o str,
    /// Lines of the users file; empty for a server without log-ins.
    pub(crate) users: &'o str,
}

impl Process {
    /// Starts a server.
    pub(crate) fn start(options: &ServeOptions<'_>) -> io::Result<Self> {
        let ServeOptions { program, settings, durability, users } = options;
        let program = program.map_or_else(beside_this_program, |program| Ok(program.to_owned()))?;
        let directory = tempfile::tempdir()?;
        let config = directory.path().join("carnet.toml");
        std::fs::write(&config, settings)?;
        let database = directory.path().join("database");
        let mut command = Command::new(&program);
        command.arg("serve").arg(database);
        if !users.is_empty() {
            let file = directory.path().join("users");
            std::fs::write(&file, users)?;
            std::fs::set_permissions(&file, Permissions::from_mode(0o600))?;
            command.arg("--users").arg(file);
        }
        let mut child = command
            .arg("--config")
            .arg(config)
            .args(["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"])
            .args(["--durability", durability])
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
        Ok(Self { child, address, http, program, directory })
    }

    /// Returns the parts of the server's memory that hold more than a MiB, as it counts them.
    pub(crate) fn owners(&self) -> io::Result<Vec<String>> {
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

    /// Returns the report of `carnet bottleneck` as JSON.
    pub(crate) fn bottleneck(&self, user: Option<(&str, &str)>) -> io::Result<serde_json::Value> {
        let mut command = Command::new(&self.program);
        command.args(["bottleneck", "--json", "--at", &self.address.to_string()]);
        if let Some((user, password)) = user {
            let file = self.directory.path().join("password");
            std::fs::write(&file, password)?;
            command.args(["--user", user, "--password-file"]).arg(file);
        }
        let output = command.output()?;
        serde_json::from_slice(&output.stdout)
            .map_err(|_| io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()))
    }

    /// Returns the resident memory in MiB.
    pub(crate) fn resident_mib(&self) -> u64 {
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
