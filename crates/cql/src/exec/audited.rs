//! Entries of the audit log about statements.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use super::batch::BatchPart;
use super::executor::Executor;
use super::parameters::Session;
use crate::ast::Statement;
use crate::audit::{AuditCategory, AuditEntry, AuditLog, keyspaces};
use crate::cql_error::CqlError;
use crate::cut::beginning;
use crate::result::Response;

/// Maximum bytes of a statement's text in an entry.
const TEXT_LEN_MAX: usize = 4 << 10;
/// Maximum bytes of an error in an entry.
const ERROR_LEN_MAX: usize = 1 << 10;
/// Maximum number of keyspaces in an entry, and maximum bytes of each name. Names of existing keyspaces are
/// shorter.
const KEYSPACES_MAX: usize = 32;
const KEYSPACE_LEN_MAX: usize = 64;
/// Operation of several statements that a driver sends as one.
const BATCH: &str = "BATCH";

/// Outcome of a statement that is dropped before its end.
const CUT_OFF: &str = "the client disconnected, the statement was killed, or the server ended: whether \
                       it took effect is not known";

/// The entry of a statement in progress. A statement that is cut off is told when it is dropped.
pub(super) struct Audited {
    log: Arc<dyn AuditLog>,
    entry: Option<AuditEntry>,
}

impl Executor {
    /// Sets the log that is told of statements. Only the first call counts.
    ///
    /// Default: none.
    pub fn set_audit(&self, log: Arc<dyn AuditLog>) {
        self.shared.audit.get_or_init(|| log);
    }

    /// Begins the entry of a statement; `None` if it is not wanted.
    pub(super) fn audited(
        &self,
        session: &Session,
        statement: &Statement,
        keyspace: Option<&str>,
    ) -> Option<Box<Audited>> {
        let log = self.audit(session)?;
        let category = AuditCategory::of(statement);
        if !log.wants(category, session.user()) {
            return None;
        }
        let keyspaces = keyspaces(statement, keyspace);
        Some(begin(log, session, (category, statement.kind()), keyspaces, statement))
    }

    /// Begins the entry of a driver's batch; `None` if it is not wanted.
    pub(super) fn audited_batch(
        &self,
        session: &Session,
        parts: &[BatchPart],
    ) -> Option<Box<Audited>> {
        let log = self.audit(session)?;
        let category = AuditCategory::Dml;
        if !log.wants(category, session.user()) {
            return None;
        }
        let keyspaces = parts.iter().flat_map(|part| {
            keyspaces(&part.statements.parsed.statement, part.keyspace.as_deref())
        });
        let keyspaces: BTreeSet<String> = keyspaces.collect();
        let text = fmt::from_fn(|f| {
            parts.iter().try_for_each(|part| write!(f, "{}; ", part.statements.parsed.statement))
        });
        let keyspaces = keyspaces.into_iter().collect();
        Some(begin(log, session, (category, BATCH), keyspaces, text))
    }

    fn audit(&self, session: &Session) -> Option<&Arc<dyn AuditLog>> {
        // The server to which the client is connected tells of the statement.
        self.shared.audit.get().filter(|_| !session.is_forwarded())
    }
}

fn begin(
    log: &Arc<dyn AuditLog>,
    session: &Session,
    (category, operation): (AuditCategory, &'static str),
    mut keyspaces: Vec<String>,
    text: impl fmt::Display,
) -> Box<Audited> {
    let statement = cut(text, TEXT_LEN_MAX);
    keyspaces.truncate(KEYSPACES_MAX);
    keyspaces.iter_mut().for_each(|name| *name = cut(&name, KEYSPACE_LEN_MAX));
    let user = session.user_name().cloned();
    let client = session.client_address();
    let entry = AuditEntry { category, operation, user, client, keyspaces, statement, error: None };
    Box::new(Audited { log: Arc::clone(log), entry: Some(entry) })
}

/// Returns a text, or its beginning with an ellipsis if it is longer than a maximum.
fn cut(text: impl fmt::Display, len_max: usize) -> String {
    let (mut text, is_longer) = beginning(text, len_max);
    if is_longer {
        text.push('…');
    }
    text
}

impl Audited {
    /// Writes the entry, with the statement's outcome.
    pub(super) fn end(mut self, result: &Result<Response, CqlError>) {
        self.write(result.as_ref().err().map(CqlError::message));
    }

    fn write(&mut self, error: Option<&str>) {
        if let Some(entry) = self.entry.take() {
            let error = error.map(|error| cut(error, ERROR_LEN_MAX));
            self.log.write(AuditEntry { error, ..entry });
        }
    }
}

impl Drop for Audited {
    fn drop(&mut self) {
        self.write(Some(CUT_OFF));
    }
}
