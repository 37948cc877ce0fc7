//! The steps of a statement in its trace.

use std::borrow::Cow;
use std::sync::Arc;

use carnet::Tx;
use carnet_admission::Permit;
use carnet_base::Moment;

use super::executor::Executor;
use super::grant::Grant;
use super::parameters::Session;
use crate::cql_error::CqlError;
use crate::redact::redacted;
use crate::trace::Trace;

impl Executor {
    /// Begins the trace of a statement that arrived at a moment. `request` says what kind of statement
    /// it is.
    #[must_use]
    pub fn begin_trace(
        &self,
        session: &Session,
        request: &'static str,
        mut parameters: Vec<(&'static str, String)>,
        arrived: Moment,
    ) -> Arc<Trace> {
        let wall = self.shared.db.wall_time();
        let id = self.shared.uuids.time_based(wall);
        for (_, value) in &mut parameters {
            if let Cow::Owned(covered) = redacted(value) {
                *value = covered;
            }
        }
        let who = (session.address(), session.user().map(Arc::from));
        Arc::new(Trace::new(id, who, request, parameters, (wall, arrived)))
    }

    /// Ends a trace with the waits of the statement. It is then listed in `system_traces`.
    pub fn end_trace(&self, trace: Arc<Trace>, permit: Option<&Permit>) {
        let now = self.shared.db.now();
        if let Some(permit) = permit {
            for (why, waited) in permit.waits().list() {
                let micros = waited.as_micros();
                trace.note(now, format!("Waited {micros} µs for {}", why.explanation()));
            }
        }
        trace.note(now, "Request complete");
        self.shared.traces.keep(trace, now);
    }

    /// Notes the beginning of a transaction, which is repeated after a conflict.
    pub(super) fn note_begin(&self, grant: &Grant, tx: &Tx) {
        self.note(grant, || format!("Began a transaction at timestamp {}", tx.read_timestamp()));
    }

    pub(super) fn note_end<T>(&self, grant: &Grant, result: &Result<T, CqlError>) {
        self.note(grant, || match result {
            Ok(_) => "Committed".to_owned(),
            Err(error) => format!("Failed: {}", error.message()),
        });
    }

    /// Adds a step to the trace of a statement, if it has one.
    pub(super) fn note(&self, grant: &Grant, activity: impl FnOnce() -> String) {
        if let Some(trace) = &grant.trace {
            trace.note(self.shared.db.now(), activity());
        }
    }
}
