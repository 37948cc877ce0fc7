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

    /// Returns the trace of a traced statement that has failed.
    pub(crate) fn failed_trace(&self, text: &str) -> Result<Option<Uuid>> {
        match self {
            Self::Local(local) => Ok(local.last_trace.get()),
            Self::Remote(_) => newest_trace(&self.rows(TRACED)?, text),
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

/// Returns the newest trace of a statement.
fn newest_trace(traces: &Rows, text: &str) -> Result<Option<Uuid>> {
    let text = redacted(text);
    let id = |row: Vec<Option<&[u8]>>| match row.as_slice() {
        [Some(id), Some(traced)] if *traced == text.as_bytes() => Some(Uuid::from_slice(id)),
        _ => None,
    };
    let ids: Vec<Uuid> = traces.rows.iter().filter_map(id).collect::<Result<_, _>>()?;
    // The ids are of version 1: they have the times of the traces.
    Ok(ids.into_iter().max_by_key(|id| id.get_timestamp().map(|time| time.to_gregorian())))
}
