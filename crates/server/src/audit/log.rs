//! The queue and the thread of an audit log: files may be slow, and statements do not wait for them.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use carnet_base::{Clock, Error, LogRate, Result, WallTime, lock};
use carnet_cql::{AuditCategory, AuditEntry, AuditLog};
use tracing::{error, info};

use super::filter::Filter;
use super::line::line;
use super::rotated::Rotated;

/// Maximum number of entries that wait to be written, of some 5 KiB at most.
const WAITING_MAX: usize = 4_096;
/// Maximum bytes of a user's name.
const USER_LEN_MAX: usize = 256;
/// Maximum number of lines that are written at once.
const LINES_MAX: usize = 256;
/// Maximum time for which the end waits for the file.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval of the log lines about failures.
const FAILURE_INTERVAL: Duration = Duration::from_secs(10);

/// Where the lines of an audit log go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The server's log, as events of the target `audit`.
    Log,
    /// A file of the operator.
    File {
        /// Path of the file; predecessors have a number behind it.
        path: PathBuf,
        /// Length in bytes above which a new file begins.
        len_max: u64,
        /// Maximum number of files.
        files_max: usize,
    },
}

/// An audit log. See the module documentation.
pub struct Audit {
    filter: Filter,
    clock: Arc<dyn Clock>,
    /// `None` once the log is closed.
    queue: Mutex<Option<SyncSender<(WallTime, AuditEntry)>>>,
    /// Disconnected when the thread has ended.
    ended: Mutex<Receiver<()>>,
    counts: Arc<Counts>,
    /// Whether entries go to the server's log.
    is_in_log: bool,
}

#[derive(Default)]
struct Counts {
    written: AtomicU64,
    lost: AtomicU64,
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit").field("filter", &self.filter).finish_non_exhaustive()
    }
}

impl Audit {
    /// Opens a log and starts its thread.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the file cannot be opened or the thread cannot be started.
    pub fn open(destination: Destination, filter: Filter, clock: Arc<dyn Clock>) -> Result<Self> {
        let is_in_log = matches!(destination, Destination::Log);
        let sink = Sink::open(destination)?;
        let counts = Arc::new(Counts::default());
        let (queue, entries) = sync_channel(WAITING_MAX);
        let writer = Writer {
            entries,
            sink,
            counts: Arc::clone(&counts),
            told: 0,
            failures: LogRate::new(1, FAILURE_INTERVAL),
            clock: Arc::clone(&clock),
        };
        let (ends, ended) = sync_channel(0);
        let run = move || {
            writer.run();
            drop::<SyncSender<()>>(ends);
        };
        thread::Builder::new().name("audit".to_owned()).spawn(run).map_err(|source| {
            Error::unavailable("the thread of the audit log cannot be started").with_source(source)
        })?;
        let (queue, ended) = (Mutex::new(Some(queue)), Mutex::new(ended));
        Ok(Self { filter, clock, queue, ended, counts, is_in_log })
    }

    /// Flushes the queue, for a few seconds at most, and closes the log; later entries count as lost.
    pub fn close(&self) {
        drop(lock(&self.queue).take());
        if lock(&self.ended).recv_timeout(CLOSE_TIMEOUT) == Err(RecvTimeoutError::Timeout) {
            error!("the audit log cannot be written; its last entries are lost");
        }
    }

    /// Writes an entry about a log-in, with the reason of a refusal. The user's name is as the client sent
    /// it, cut at a maximum length.
    pub(crate) fn login(&self, client: SocketAddr, user: &str, refusal: Option<&str>) {
        let user = &user[..user.floor_char_boundary(USER_LEN_MAX)];
        if self.wants(AuditCategory::Login, Some(user)) {
            self.write(AuditEntry {
                category: AuditCategory::Login,
                operation: "LOGIN",
                user: Some(user.into()),
                client: client.to_string(),
                keyspaces: Vec::new(),
                statement: String::new(),
                error: refusal.map(str::to_owned),
            });
        }
    }

    /// Returns `true` if an entry goes to the server's log.
    pub(super) fn logs(&self, entry: &AuditEntry) -> bool {
        let is_wanted = self.wants(entry.category, entry.user.as_deref());
        self.is_in_log && is_wanted && self.filter.wants_keyspaces(&entry.keyspaces)
    }

    /// Returns the numbers of entries that were written and lost.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        let Counts { written, lost } = &*self.counts;
        (written.load(Ordering::Relaxed), lost.load(Ordering::Relaxed))
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.close();
    }
}

impl AuditLog for Audit {
    fn wants(&self, category: AuditCategory, user: Option<&str>) -> bool {
        self.filter.wants(category, user)
    }

    fn write(&self, entry: AuditEntry) {
        if !self.filter.wants_keyspaces(&entry.keyspaces) {
            return;
        }
        let sent = match &*lock(&self.queue) {
            Some(queue) => queue.try_send((self.clock.wall(), entry)),
            None => Err(TrySendError::Disconnected((self.clock.wall(), entry))),
        };
        if sent.is_err() {
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

enum Sink {
    Log,
    File(Rotated),
}

impl Sink {
    fn open(destination: Destination) -> Result<Self> {
        match destination {
            Destination::Log => Ok(Self::Log),
            Destination::File { path, len_max, files_max } => {
                let file = Rotated::open(&path, len_max, files_max).map_err(|source| {
                    let path = path.display();
                    Error::unavailable(format!("cannot open the audit log {path}"))
                        .with_source(source)
                })?;
                Ok(Self::File(file))
            }
        }
    }

    fn write(&mut self, lines: &str) -> io::Result<()> {
        match self {
            Self::Log => {
                lines.lines().for_each(|line| info!(target: "audit", "audit {line}"));
                Ok(())
            }
            Self::File(file) => file.write(lines.as_bytes()),
        }
    }
}

/// The thread's part of a log.
struct Writer {
    entries: Receiver<(WallTime, AuditEntry)>,
    sink: Sink,
    counts: Arc<Counts>,
    /// Number of lost entries that a line has told.
    told: u64,
    failures: LogRate,
    clock: Arc<dyn Clock>,
}

impl Writer {
    fn run(mut self) {
        while let Ok(first) = self.entries.recv() {
            let lost = self.counts.lost.load(Ordering::Relaxed);
            let (mut lines, mut count) = (line(first.0, &first.1, lost - self.told), 1);
            while count < LINES_MAX
                && let Ok((time, entry)) = self.entries.try_recv()
            {
                lines.push_str(&line(time, &entry, 0));
                count += 1;
            }
            match self.sink.write(&lines) {
                Ok(()) => {
                    self.told = lost;
                    self.counts.written.fetch_add(count as u64, Ordering::Relaxed);
                }
                Err(error) => self.failed(&error, count as u64),
            }
        }
    }

    fn failed(&mut self, error: &io::Error, count: u64) {
        let lost = self.counts.lost.fetch_add(count, Ordering::Relaxed) + count;
        if self.failures.admit(self.clock.now()).is_some() {
            error!(%error, lost, "the audit log cannot be written; its entries are lost until it can");
        }
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::SystemClock;

    use super::*;

    fn entry(statement: &str) -> AuditEntry {
        AuditEntry {
            category: AuditCategory::Ddl,
            operation: "CREATE TABLE",
            user: None,
            client: "10.0.0.7:1".to_owned(),
            keyspaces: vec!["ks".to_owned()],
            statement: statement.to_owned(),
            error: None,
        }
    }

    fn open(path: &std::path::Path) -> Audit {
        let destination =
            Destination::File { path: path.to_owned(), len_max: 1 << 30, files_max: 2 };
        let filter =
            Filter { exclude_keyspaces: ["hidden".to_owned()].into(), ..Filter::default() };
        Audit::open(destination, filter, Arc::new(SystemClock)).unwrap()
    }

    #[test]
    fn entries_are_written_before_the_log_is_closed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let audit = open(&path);
        for number in 0..1_000 {
            audit.write(entry(&number.to_string()));
        }
        audit.write(AuditEntry { keyspaces: vec!["hidden".to_owned()], ..entry("hidden") });
        audit.close();
        assert_eq!(audit.counts(), (1_000, 0));
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 1_000);
        assert!(text.lines().all(|line| line.contains("\"outcome\":\"ok\"")));
        audit.write(entry("late"));
        assert_eq!(audit.counts(), (1_000, 1));
    }

    #[expect(clippy::disallowed_methods, reason = "the test reads a pipe beside the log's thread")]
    fn read_until_lost(reader: std::fs::File) {
        let mut reader = io::BufReader::new(reader);
        let mut line = String::new();
        while !line.contains("\"lost\"") {
            line.clear();
            io::BufRead::read_line(&mut reader, &mut line).unwrap();
        }
        // The rest, so that the log's thread ends.
        thread::spawn(move || io::copy(&mut reader, &mut io::sink()));
    }

    /// The file is a pipe without a reader, so that the writer blocks.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "a file that is no database's")]
    fn statements_do_not_wait_for_a_slow_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        // Opened for reading and writing, so that opening it for writing does not block.
        let reader = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let audit = Arc::new(open(&path));
        let (log, statement) = (Arc::clone(&audit), "x".repeat(4_000));
        let statements = thread::spawn(move || {
            (0..2 * WAITING_MAX).for_each(|_| log.write(entry(&statement)));
        });
        let deadline = SystemClock.now().after(Duration::from_secs(30));
        while !statements.is_finished() {
            assert!(SystemClock.now() < deadline, "statements wait for the log");
            thread::sleep(Duration::from_millis(1));
        }
        let (written, lost) = audit.counts();
        assert!(written < 300 && lost > 3_000, "{written} were written, {lost} lost");
        read_until_lost(reader);
    }
}
