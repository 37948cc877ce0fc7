//! Shared helpers of the end-to-end tests: the real binary, run as a server or a shell, and the
//! fetched clients.

pub(crate) mod clients;

use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Output, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use carnet_base::{Clock, SystemClock};

/// Maximum duration of any step, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn carnet() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_carnet"));
    // The tests must not use the shell history of the user who runs them.
    command
        .env_remove("HOME")
        .env_remove("XDG_STATE_HOME")
        .env_remove("RUST_LOG")
        .stdin(Stdio::null());
    command
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Returns the standard output of a command, which must succeed.
pub(crate) fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let Output { status, stdout, stderr } = &output;
    assert!(status.success(), "{command:?}: {status}\n{}{}", text(stdout), text(stderr));
    text(stdout).to_owned()
}

/// Returns the error of a command that must fail with exit code 1, without the log before it.
pub(crate) fn fail(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let stderr = text(&stderr);
    assert_eq!(status.code(), Some(1), "{command:?}\n{}{stderr}", text(&stdout));
    assert!(!stderr.contains("panicked"), "{stderr}");
    let is_log = |line: &&str| line.contains("  INFO ") || line.contains("  WARN ");
    let log: usize = stderr.split_inclusive('\n').take_while(is_log).map(str::len).sum();
    let error = &stderr[log..];
    assert!(error.starts_with("error: "), "{stderr}");
    error.to_owned()
}

/// Runs statements on a database.
pub(crate) fn shell(directory: &Path, cql: &str) -> Command {
    let mut command = carnet();
    command.arg("shell").arg(directory).args(["-e", cql]);
    command
}

/// Returns the JSON rows of a query, one per line.
pub(crate) fn rows(directory: &Path, cql: &str) -> String {
    succeed(shell(directory, cql).arg("--json"))
}

/// A process that is killed at the end of the test, also if that fails.
pub(crate) struct Guard(Child);

impl Guard {
    pub(crate) fn new(child: Child) -> Self {
        Self(child)
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn stdin(&mut self) -> ChildStdin {
        self.0.stdin.take().unwrap()
    }

    pub(crate) fn stdout(&mut self) -> BufReader<std::process::ChildStdout> {
        BufReader::new(self.0.stdout.take().unwrap())
    }

    pub(crate) fn stderr(&mut self) -> std::process::ChildStderr {
        self.0.stderr.take().unwrap()
    }

    /// Waits for the end, which must come soon.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let deadline = SystemClock.now().after(PATIENCE);
        while SystemClock.now() < deadline {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            pause(Duration::from_millis(5));
        }
        panic!("process {} did not end within {PATIENCE:?}", self.id());
    }

    /// Returns the status of a process that has ended.
    #[allow(dead_code, reason = "only the tests over a Cassandra use it")]
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().unwrap()
    }

    /// Kills the process with SIGKILL, without a clean shutdown.
    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "tests of processes wait for them")]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Waits until `is_so`, at most [`PATIENCE`].
///
/// # Panics
///
/// If it does not become so.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = SystemClock.now().after(PATIENCE);
    while !is_so() {
        assert!(SystemClock.now() < deadline, "within {PATIENCE:?}: {what}");
        pause(Duration::from_millis(5));
    }
}

/// Writes a secret to a file that lasts as long as the build's folder, and returns its path.
pub(crate) fn secret_file(secret: &str) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{secret}.secret"));
    std::fs::write(&path, secret).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Starts a thread beside the test.
#[expect(clippy::disallowed_methods, reason = "tests of processes are not simulated")]
pub(crate) fn spawn<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    std::thread::spawn(run)
}

/// A running `carnet serve`.
pub(crate) struct Server {
    pub(crate) process: Guard,
    pub(crate) cql: SocketAddr,
    pub(crate) http: SocketAddr,
    stdout: BufReader<std::process::ChildStdout>,
    log: tempfile::NamedTempFile,
}

impl Server {
    /// Serves a directory on free ports.
    pub(crate) fn start(directory: &Path, arguments: &[&str]) -> Self {
        Self::start_at(directory, "127.0.0.1:0", arguments)
    }

    /// Serves a directory at an address, and waits until it is ready.
    pub(crate) fn start_at(directory: &Path, listen: &str, arguments: &[&str]) -> Self {
        Self::start_on(&[directory.to_str().unwrap()], listen, arguments)
    }

    /// Serves a database on a cluster, at an address.
    #[allow(dead_code, reason = "only the tests over a Cassandra use it")]
    pub(crate) fn of_store(url: &str, listen: &str) -> Self {
        Self::start_on(&["--store", url], listen, &[])
    }

    /// Serves a directory in a process with at most this number of open files.
    pub(crate) fn start_with_files_max(directory: &Path, files_max: u32) -> Self {
        let mut limited = Command::new("sh");
        let script = format!("ulimit -n {files_max}; exec \"$0\" \"$@\"");
        limited.args(["-c", &script, env!("CARGO_BIN_EXE_carnet")]).stdin(Stdio::null());
        Self::run(limited, &[directory.to_str().unwrap()], "127.0.0.1:0", &[])
    }

    /// Serves a directory in a process with these levels in the environment variable `RUST_LOG`.
    pub(crate) fn start_with_levels(directory: &Path, levels: &str, arguments: &[&str]) -> Self {
        let mut command = carnet();
        command.env("RUST_LOG", levels);
        Self::run(command, &[directory.to_str().unwrap()], "127.0.0.1:0", arguments)
    }

    fn start_on(place: &[&str], listen: &str, arguments: &[&str]) -> Self {
        Self::run(carnet(), place, listen, arguments)
    }

    fn run(command: Command, place: &[&str], listen: &str, arguments: &[&str]) -> Self {
        Self::try_run(command, place, listen, arguments)
            .unwrap_or_else(|log| panic!("the server did not start:\n{log}"))
    }

    /// Starts a server of a database on a cluster; returns the log of one that ends instead.
    #[allow(dead_code, reason = "only the tests over a Cassandra use it")]
    pub(crate) fn try_store(url: &str, listen: &str, arguments: &[&str]) -> Result<Self, String> {
        Self::try_run(carnet(), &["--store", url], listen, arguments)
    }

    fn try_run(
        mut command: Command,
        place: &[&str],
        listen: &str,
        arguments: &[&str],
    ) -> Result<Self, String> {
        let log = tempfile::NamedTempFile::new().unwrap();
        command
            .arg("serve")
            .args(place)
            .args(["--listen", listen, "--http", "127.0.0.1:0"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(log.reopen().unwrap());
        let mut process = Guard::new(command.spawn().unwrap());
        let mut stdout = process.stdout();
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let address = |name: &str| {
            let (_, rest) = line.split_once(name)?;
            rest.split([',', '\n']).next()?.parse().ok()
        };
        let (Some(cql), Some(http)) = (address("CQL on "), address("HTTP on ")) else {
            let status = process.wait();
            return Err(format!("{line}{status}\n{}", read(&log)));
        };
        Ok(Self { process, cql, http, stdout, log })
    }

    pub(crate) fn port(&self) -> String {
        self.cql.port().to_string()
    }

    /// Asks the server to drain and end.
    pub(crate) fn terminate(&self) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    }

    /// Waits for the end; returns the status and the log.
    pub(crate) fn wait(mut self) -> (ExitStatus, String) {
        let status = self.process.wait();
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        (status, rest)
    }

    /// Returns the log up to now.
    pub(crate) fn log(&self) -> String {
        read(&self.log)
    }

    /// Returns the status line and the body of an answer over HTTP.
    pub(crate) fn get(&self, path: &str) -> (String, String) {
        let mut stream = TcpStream::connect(self.http).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: carnet\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.lines().next().unwrap().to_owned(), body.to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the server's log:\n{}", read(&self.log));
        }
    }
}

fn read(log: &tempfile::NamedTempFile) -> String {
    let mut file = log.reopen().unwrap();
    file.rewind().unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    text
}

/// Returns a file beside the end-to-end tests.
pub(crate) fn e2e(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e").join(name)
}
