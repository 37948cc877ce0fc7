//! Log of statements that took long.
//!
//! A statement pays for one comparison at its end. The steps of a slow statement cannot be known later,
//! but its waits can: the diagnosis measures them for each statement.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use carnet_admission::Permit;
use carnet_base::{LogRate, Moment, lock};
use tracing::warn;

/// Number of lines logged at once, and the interval between further ones.
const BURST: u32 = 10;
const INTERVAL: Duration = Duration::from_secs(1);

/// Limits the log of slow statements.
pub(super) struct SlowLog {
    /// Minimum duration of a slow statement in nanoseconds.
    threshold: AtomicU64,
    rate: Mutex<LogRate>,
}

impl Default for SlowLog {
    fn default() -> Self {
        Self {
            threshold: AtomicU64::new(u64::MAX),
            rate: Mutex::new(LogRate::new(BURST, INTERVAL)),
        }
    }
}

/// Description of a slow statement.
pub(super) struct Slow<'s> {
    pub(super) took: Duration,
    pub(super) permit: Option<&'s Permit>,
    pub(super) level: &'s str,
    pub(super) user: Option<&'s str>,
    /// Address and port of the client.
    pub(super) client: &'s str,
    pub(super) table: &'s str,
    /// Text without values.
    pub(super) statement: &'s str,
    pub(super) rows_read: u64,
    pub(super) rows_returned: u64,
    pub(super) conflicts: u64,
    pub(super) outcome: &'static str,
    /// Id of its trace, if it has one.
    pub(super) trace: Option<String>,
}

impl SlowLog {
    /// Sets the duration from which on statements are logged; `None` logs none.
    pub(super) fn set(&self, threshold: Option<Duration>) {
        let nanos = threshold.map_or(u64::MAX, nanos);
        self.threshold.store(nanos, Ordering::Relaxed);
    }

    /// Returns `true` if a statement of this duration is logged.
    pub(super) fn is_slow(&self, took: Duration) -> bool {
        let threshold = self.threshold.load(Ordering::Relaxed);
        threshold < u64::MAX && nanos(took) >= threshold
    }

    /// Returns the number of slow statements left out since the last logged one; `None` if this one is
    /// left out too.
    pub(super) fn admit(&self, now: Moment) -> Option<u64> {
        lock(&self.rate).admit(now)
    }
}

impl Slow<'_> {
    /// Writes the line.
    pub(super) fn log(&self, not_logged: u64) {
        let waits: Vec<_> =
            self.permit.map_or(Vec::new(), |permit| permit.waits().list().collect());
        let waited: Duration = waits.iter().map(|(_, waited)| *waited).sum();
        let each =
            waits.iter().map(|(why, waited)| format!("{} {:.1}", why.name(), millis(*waited)));
        let waits = each.collect::<Vec<_>>().join(", ");
        warn!(
            took_ms = millis(self.took),
            waited_ms = millis(waited),
            waits = (!waits.is_empty()).then_some(waits),
            level = self.level,
            user = self.user,
            client = self.client,
            table = self.table,
            rows_read = self.rows_read,
            rows_returned = self.rows_returned,
            conflicts = self.conflicts,
            outcome = self.outcome,
            trace = self.trace,
            not_logged,
            statement = self.statement,
            "a statement was slow"
        );
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns milliseconds with one digit behind the point.
fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e4).round() / 10.0
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use carnet::{Db, Uuid, block_on};

    use super::*;
    use crate::system::NodeInfo;
    use crate::{Executor, Parameters, Session};

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            lock(&self.0).write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Returns the lines about statements of an executor with a threshold.
    fn logged(threshold: Option<Duration>, statements: &[&str]) -> Vec<String> {
        let executor = Executor::new(Db::builder().in_memory(), NodeInfo::local(Uuid::nil()));
        executor.log_slow(threshold);
        let (session, parameters) = (Session::new(), Parameters::default());
        let lines = Lines::default();
        let writer = lines.clone();
        let log = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
        tracing::subscriber::with_default(log.finish(), || {
            for text in statements {
                let _ = block_on(executor.query(&session, text, &parameters));
            }
        });
        let said = String::from_utf8(lock(&lines.0).clone()).unwrap();
        said.lines().map(str::to_owned).collect()
    }

    const SCHEMA: [&str; 2] = [
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE k.t (a int PRIMARY KEY, b text)",
    ];

    #[test]
    fn slow_statement_has_a_line_without_values() {
        let [keyspace, table] = SCHEMA;
        let insert = "INSERT INTO k.t (a, b) VALUES (1, 'geheim')";
        let all = [keyspace, table, insert, "SELECT b FROM k.t WHERE a = 7", "SELECT x FROM k.t"];
        let lines = logged(Some(Duration::ZERO), &all);
        assert_eq!(lines.len(), 5, "{lines:#?}");
        assert!(!lines.concat().contains("geheim"), "{lines:#?}");
        let read = &lines[3];
        for part in [
            " WARN ",
            "a statement was slow",
            "took_ms=",
            "level=\"default\"",
            "client=\"local\"",
            "table=\"k.t\"",
            "rows_returned=0",
            "outcome=\"ok\"",
            "statement=\"SELECT b FROM k.t WHERE a = ?\"",
        ] {
            assert!(read.contains(part), "{part:?} in {read}");
        }
        assert!(lines[4].contains("outcome=\"error\""), "{}", lines[4]);
    }

    #[test]
    fn fast_statement_has_no_line() {
        assert_eq!(logged(Some(Duration::from_secs(3600)), &SCHEMA), Vec::<String>::new());
        assert_eq!(logged(None, &SCHEMA), Vec::<String>::new());
    }

    #[test]
    fn slow_statements_have_a_rate() {
        let all = ["SELECT key FROM system.local"; 500];
        let lines = logged(Some(Duration::ZERO), &all).len();
        assert!((10..250).contains(&lines), "{lines}");
    }
}
