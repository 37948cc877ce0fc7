//! Target that uses servers over CQL.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use scylla::client::session::{Session, TlsContext};
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::serialize::row::SerializeRow;
use scylla::statement::prepared::PreparedStatement;
use tokio::runtime::Handle;

use super::super::remote::Remote;
use super::load_target::{Done, LoadTarget};
use super::operation::{MULTI_GET, Operation, READ, SCAN, TABLES, WRITE, WRITE_ROW};

/// Servers of one database; clients are divided among them.
pub(in crate::commands::stress) struct Servers {
    servers: Vec<Server>,
    runtime: Handle,
    next: AtomicUsize,
}

struct Server {
    session: Arc<Session>,
    read: PreparedStatement,
    write: PreparedStatement,
    write_row: PreparedStatement,
    scan: PreparedStatement,
    multi_get: PreparedStatement,
}

impl Servers {
    /// Connects to servers, and creates the tables anew.
    pub(in crate::commands::stress) fn connect(
        addresses: &[String],
        tls: Option<&TlsContext>,
        runtime: &Handle,
    ) -> Result<Self> {
        let remotes = Remote::connect_all(addresses, tls, runtime)?;
        if let Some(first) = remotes.first() {
            for text in TABLES {
                let session = first.session();
                let made = runtime.block_on(session.query_unpaged(text, &[]));
                made.with_context(|| format!("{} refuses {text}", addresses[0]))?;
            }
        }
        let prepare_all = |remote: &Remote| {
            let session = remote.session();
            let prepare = |text: &str| {
                let mut prepared = runtime.block_on(session.prepare(text))?;
                prepared.set_page_size(5_000);
                Ok::<_, anyhow::Error>(prepared)
            };
            Ok(Server {
                read: prepare(READ)?,
                write: prepare(WRITE)?,
                write_row: prepare(WRITE_ROW)?,
                scan: prepare(SCAN)?,
                multi_get: prepare(MULTI_GET)?,
                session: Arc::clone(&session),
            })
        };
        let servers = remotes.iter().map(prepare_all).collect::<Result<_>>()?;
        Ok(Self { servers, runtime: runtime.clone(), next: AtomicUsize::new(0) })
    }

    fn execute(
        &self,
        server: &Server,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<Done> {
        match self.runtime.block_on(server.session.execute_unpaged(statement, values)) {
            Ok(result) if result.is_rows() => {
                Ok(Done::Rows(result.into_rows_result()?.rows_num() as u64))
            }
            Ok(_) => Ok(Done::Rows(1)),
            Err(error) => meaning(error),
        }
    }
}

impl LoadTarget for Servers {
    fn run(&self, operation: &Operation) -> Result<Done> {
        let at = self.next.fetch_add(1, Ordering::Relaxed) % self.servers.len();
        let server = &self.servers[at];
        match operation {
            Operation::Read(key) => self.execute(server, &server.read, (key,)),
            Operation::Write(key, value) => self.execute(server, &server.write, (key, value)),
            Operation::WriteRow(partition, key, value) => {
                self.execute(server, &server.write_row, (partition, key, value))
            }
            Operation::MultiGet(keys) => self.execute(server, &server.multi_get, (keys,)),
            Operation::Scan(partition, first, rows) => {
                self.execute(server, &server.scan, (partition, first, rows))
            }
        }
    }
}

fn meaning(error: ExecutionError) -> Result<Done> {
    match &error {
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(answer, _)) => match answer {
            DbError::Overloaded | DbError::IsBootstrapping => Ok(Done::Refused),
            DbError::SyntaxError | DbError::Invalid | DbError::Unauthorized => {
                Err(error).context("the server refuses the statement")
            }
            _ => Ok(Done::Failed),
        },
        _ => Ok(Done::Failed),
    }
}
