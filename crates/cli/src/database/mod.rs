//! A database that statements of the shell and `COPY` run on: of this process, or behind a server.
//!
//! Every wait ends early if Ctrl-C is pressed (see [`crate::interrupt`]). The statement is dropped
//! then, and with it a transaction that was open on the connection: half of a statement must not
//! be committed with it.

mod answer;
mod local;
mod remote;
mod types;

use std::cell::Cell;

use anyhow::Result;
use carnet::Uuid;
use carnet_cql::ast::BatchKind;
use carnet_cql::result::{Response, Rows};
use carnet_cql::{Bound, redacted};

use answer::Handle;
pub(crate) use answer::{Answer, Page, Prepared};
pub(crate) use local::Local;
pub(crate) use remote::{Remote, Server};

/// Query of the traces that a server has: the driver does not tell the trace of a statement that has
/// failed.
const TRACED: &str = "SELECT session_id, parameters['query'] FROM system_traces.sessions";

/// Query of the server's time, in the form of the ids of traces.
const NOW: &str = "SELECT now() FROM system.local";

/// Database of this process, or one behind a server.
pub(crate) enum Database {
    Local(Local),
    Remote(Box<Remote>),
}

impl Database {
    /// Runs a statement.
    pub(crate) fn query(&self, text: &str, page: &Page) -> Result<Answer> {
        match self {
            Self::Local(local) => local.query(text, page),
            Self::Remote(remote) => remote.query(text, page),
        }
    }

    /// Reads all rows of a query.
    pub(crate) fn rows(&self, text: &str) -> Result<Rows> {
        match self.query(text, &Page::default())?.response {
            Response::Rows(rows) => Ok(rows),
            _ => Ok(Rows::default()),
        }
    }

    /// Prepares a statement.
    pub(crate) fn prepare(&self, text: &str) -> Result<Prepared> {
        match self {
            Self::Local(local) => local.prepare(text),
            Self::Remote(remote) => remote.prepare(text),
        }
    }

    /// Runs a prepared query.
    pub(crate) fn execute(
        &self,
        prepared: &Prepared,
        values: &[Bound],
        page: &Page,
    ) -> Result<Rows> {
        match (self, &prepared.handle) {
            (Self::Local(local), Handle::Local(prepared)) => local.execute(prepared, values, page),
            (Self::Remote(remote), Handle::Remote(prepared)) => {
                remote.execute(prepared, values, page)
            }
            _ => anyhow::bail!("the statement was prepared for another database"),
        }
    }

    /// Runs a prepared write once for each row of values, as one batch.
    pub(crate) fn batch(
        &self,
        kind: BatchKind,
        prepared: &Prepared,
        rows: Vec<Vec<Bound>>,
    ) -> Result<()> {
        match (self, &prepared.handle) {
            (Self::Local(local), Handle::Local(prepared)) => local.batch(kind, prepared, rows),
            (Self::Remote(remote), Handle::Remote(prepared)) => remote.batch(kind, prepared, &rows),
            _ => anyhow::bail!("the statement was prepared for another database"),
        }
    }

    /// Returns the current keyspace.
    pub(crate) fn keyspace(&self) -> Option<String> {
        match self {
            Self::Local(local) => local.keyspace(),
            Self::Remote(remote) => remote.keyspace(),
        }
    }

    /// Returns `true` if statements are part of an open transaction.
    pub(crate) fn is_in_transaction(&self) -> bool {
        match self {
            Self::Local(local) => local.is_in_transaction(),
            Self::Remote(remote) => remote.is_in_transaction(),
        }
    }

    /// Returns the setting whether statements are traced.
    pub(crate) fn traces(&self) -> &Cell<bool> {
        match self {
            Self::Local(local) => &local.traces,
            Self::Remote(remote) => &remote.traces,
        }
    }

    /// Returns the time of a server before a statement whose trace may be looked for; `None` for a
    /// database of this process.
    pub(crate) fn time_before(&self) -> Result<Option<Uuid>> {
        let Self::Remote(_) = self else { return Ok(None) };
        let now = self.rows(NOW)?;
        let id = now
            .rows
            .iter()
            .next()
            .and_then(|row| row.first().copied().flatten().map(Uuid::from_slice));
        Ok(id.transpose()?)
    }

    /// Returns the trace of a traced statement that has failed, and began after a time of the server.
    pub(crate) fn failed_trace(&self, text: &str, before: Option<Uuid>) -> Result<Option<Uuid>> {
        match (self, before) {
            (Self::Local(local), _) => Ok(local.last_trace.get()),
            (Self::Remote(_), Some(before)) => only_trace(&self.rows(TRACED)?, text, before),
            (Self::Remote(_), None) => Ok(None),
        }
    }

    /// Returns the server, if there is one.
    pub(crate) fn remote(&self) -> Option<&Remote> {
        match self {
            Self::Local(_) => None,
            Self::Remote(remote) => Some(remote),
        }
    }
}

/// Returns the trace of a statement that began after a time; `None` if there is none, and if there are
/// several, because another client runs the same text.
fn only_trace(traces: &Rows, text: &str, before: Uuid) -> Result<Option<Uuid>> {
    let text = redacted(text);
    // The ids are of version 1: they have the times of the traces.
    let time = |id: Uuid| id.get_timestamp().map(|time| time.to_gregorian());
    let mut found = None;
    for row in traces.rows.iter() {
        let [Some(id), Some(traced)] = row.as_slice() else { continue };
        let id = Uuid::from_slice(id)?;
        if *traced == text.as_bytes() && time(id) > time(before) && found.replace(id).is_some() {
            return Ok(None);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use carnet_cql::result::RowSet;

    use super::*;

    /// Returns an id of version 1 with a time.
    fn id(ticks: u64) -> Uuid {
        Uuid::from_u64_pair(ticks << 32 | 0x1000, 1 << 63)
    }

    fn traces(all: &[(Uuid, &str)]) -> Rows {
        let mut rows = RowSet::default();
        for (id, text) in all {
            rows.push([Some(&id.as_bytes()[..]), Some(text.as_bytes())]);
        }
        Rows { rows, ..Rows::default() }
    }

    #[test]
    fn trace_of_an_earlier_statement_is_not_taken() {
        let (early, before, late) = (id(5), id(6), id(7));
        let found = |all: &[(Uuid, &str)]| only_trace(&traces(all), "SELECT 1", before).unwrap();
        assert_eq!(found(&[(early, "SELECT 1"), (late, "SELECT 1")]), Some(late));
        assert_eq!(found(&[(early, "SELECT 1"), (late, "SELECT 2")]), None, "it was not traced");
        assert_eq!(found(&[(before, "SELECT 1")]), None);
        let twice = [(late, "SELECT 1"), (id(8), "SELECT 1")];
        assert_eq!(found(&twice), None, "one of them is another client's");
    }
}
