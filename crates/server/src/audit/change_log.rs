//! Log lines about statements that change the schema, roles or the server, with or without an audit log.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use carnet_base::{Clock, LogRate, lock};
use carnet_cql::{AuditCategory, AuditEntry, AuditLog};
use tracing::info;

use super::Audit;

/// Maximum burst of lines, and the interval after which one more may be written.
const BURST: u32 = 100;
const INTERVAL: Duration = Duration::from_millis(100);

/// Tells the server's log of changes, and the audit log of all that it wants.
pub struct ChangeLog {
    audit: Option<Arc<Audit>>,
    clock: Arc<dyn Clock>,
    /// Rates of changes that were made, and of refused ones: a client without permissions does not keep the former
    /// out of the log.
    rates: Mutex<[LogRate; 2]>,
}

impl ChangeLog {
    /// Creates a log of changes in front of an audit log, if there is one.
    #[must_use]
    pub fn new(audit: Option<Arc<Audit>>, clock: Arc<dyn Clock>) -> Self {
        let rates = [LogRate::new(BURST, INTERVAL), LogRate::new(BURST, INTERVAL)];
        Self { audit, clock, rates: Mutex::new(rates) }
    }

    fn log(&self, entry: &AuditEntry) {
        let now = self.clock.now();
        let rate = usize::from(entry.error.is_some());
        let Some(not_logged) = lock(&self.rates)[rate].admit(now) else { return };
        info!(
            user = entry.user.as_deref(),
            client = entry.client,
            statement = entry.statement,
            error = entry.error,
            not_logged,
            "administration: {}",
            entry.operation
        );
    }
}

impl AuditLog for ChangeLog {
    fn wants(&self, category: AuditCategory, user: Option<&str>) -> bool {
        is_of_changes(category)
            || self.audit.as_ref().is_some_and(|audit| audit.wants(category, user))
    }

    fn write(&self, entry: AuditEntry) {
        let (category, user) = (entry.category, entry.user.as_deref());
        let audit = self.audit.as_ref().filter(|audit| audit.wants(category, user));
        // An entry that goes to the server's log has all of the line.
        let is_told = audit.is_some_and(|audit| audit.logs(&entry));
        if is_change(&entry) && !is_told {
            self.log(&entry);
        }
        if let Some(audit) = audit {
            audit.write(entry);
        }
    }
}

const fn is_of_changes(category: AuditCategory) -> bool {
    matches!(category, AuditCategory::Ddl | AuditCategory::Dcl | AuditCategory::Admin)
}

fn is_change(entry: &AuditEntry) -> bool {
    // The text of an unsupported statement is not redacted, and it changes nothing.
    let is_none =
        ["LIST", "SHOW", "unsupported"].iter().any(|word| entry.operation.starts_with(word));
    is_of_changes(entry.category) && !is_none
}

#[cfg(test)]
mod tests {
    use std::io;

    use carnet_base::SystemClock;

    use super::*;
    use crate::audit::{Destination, Filter};

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

    fn entry(category: AuditCategory, operation: &'static str) -> AuditEntry {
        AuditEntry {
            category,
            operation,
            user: Some("ann".into()),
            client: "10.0.0.7:1".to_owned(),
            keyspaces: Vec::new(),
            statement: format!("{operation} x"),
            error: None,
        }
    }

    /// Returns the lines of entries that are told to a log of changes.
    fn told(audit: Option<Arc<Audit>>, entries: Vec<AuditEntry>) -> String {
        let log = ChangeLog::new(audit, Arc::new(SystemClock));
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
        tracing::subscriber::with_default(subscriber.finish(), || {
            for entry in entries {
                assert!(log.wants(entry.category, None) || entry.category == AuditCategory::Dml);
                log.write(entry);
            }
        });
        String::from_utf8(lock(&lines.0).clone()).unwrap()
    }

    #[test]
    fn changes_are_told_and_reads_are_not() {
        let failed =
            AuditEntry { error: Some("no".into()), ..entry(AuditCategory::Ddl, "DROP TABLE") };
        let said = told(
            None,
            vec![
                entry(AuditCategory::Ddl, "CREATE TABLE"),
                failed,
                entry(AuditCategory::Dcl, "GRANT"),
                entry(AuditCategory::Admin, "KILL STATEMENT"),
                entry(AuditCategory::Dcl, "LIST ROLES"),
                entry(AuditCategory::Admin, "SHOW BOTTLENECK"),
                entry(AuditCategory::Dml, "INSERT"),
                entry(AuditCategory::Ddl, "unsupported"),
            ],
        );
        assert_eq!(said.lines().count(), 4, "{said}");
        let first = said.lines().next().unwrap();
        for part in ["administration: CREATE TABLE", "user=\"ann\"", "client=\"10.0.0.7:1\""] {
            assert!(first.contains(part), "{first}");
        }
        assert!(said.contains("DROP TABLE") && said.contains("error=\"no\""), "{said}");
    }

    /// An audit log in the server's log has the entry already.
    #[test]
    fn change_has_one_line() {
        let of = |destination| {
            let filter = Filter::default();
            let audit = Audit::open(destination, filter, Arc::new(SystemClock)).unwrap();
            told(Some(Arc::new(audit)), vec![entry(AuditCategory::Ddl, "CREATE TABLE")])
        };
        assert_eq!(of(Destination::Log), "", "the audit log's thread has another subscriber");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let file = Destination::File { path: path.clone(), len_max: 1 << 20, files_max: 2 };
        assert_eq!(of(file).lines().count(), 1);
        assert!(std::fs::read_to_string(path).unwrap().contains("CREATE TABLE"));
    }

    #[test]
    fn lines_of_changes_have_a_rate() {
        let entries = (0..1_000).map(|_| entry(AuditCategory::Ddl, "CREATE TABLE")).collect();
        let lines = told(None, entries).lines().count();
        assert!((100..500).contains(&lines), "{lines}");
    }

    #[test]
    fn refused_changes_leave_the_others_in_the_log() {
        let refused =
            || AuditEntry { error: Some("no".into()), ..entry(AuditCategory::Ddl, "DROP TABLE") };
        let mut entries: Vec<_> = (0..1_000).map(|_| refused()).collect();
        entries.push(entry(AuditCategory::Ddl, "DROP KEYSPACE"));
        assert!(told(None, entries).contains("DROP KEYSPACE"));
    }
}
