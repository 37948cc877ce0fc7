//! A database behind a server, over CQL.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use carnet_base::{Clock, SystemClock};
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::cluster::metadata::ColumnType;
use scylla::deserialize::row::ColumnIterator;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::serialize::SerializationError;
use scylla::serialize::value::SerializeValue;
use scylla::serialize::writers::{CellWriter, WrittenCellProof};
use scylla::statement::batch::{Batch, BatchStatement, BatchType};
use scylla::statement::prepared::PreparedStatement;
use tokio::runtime::Runtime;

use super::row::{Field, Row};
use super::target::{CommitError, Statement, Target, Write};
use crate::database::Server;

/// Timeout for a server's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Time for which a read is repeated while the server does not answer it: a server restarts meanwhile.
const READ_PATIENCE: Duration = Duration::from_secs(20);
const READ_INTERVAL: Duration = Duration::from_millis(250);

pub(super) struct Remote {
    session: Session,
    prepared: BTreeMap<Statement, PreparedStatement>,
    /// Last field: dropped after the session.
    runtime: Runtime,
}

impl Remote {
    pub(super) fn connect(server: &Server) -> Result<Self> {
        let runtime = Runtime::new().context("cannot start the runtime")?;
        // The caller knows which failures may be retried, so the driver retries none.
        let profile = ExecutionProfile::builder()
            .retry_policy(Arc::new(FallthroughRetryPolicy::new()))
            .request_timeout(Some(ANSWER_TIMEOUT))
            .build();
        let mut builder = SessionBuilder::new()
            .known_node(&server.address)
            .tls_context(server.tls.clone())
            .default_execution_profile_handle(profile.into_handle());
        if let Some((user, password)) = &server.credentials {
            builder = builder.user(user, password);
        }
        let session = runtime
            .block_on(builder.build())
            .map_err(|error| anyhow!("cannot connect to {}: {error}", server.address))?;
        Ok(Self { session, prepared: BTreeMap::new(), runtime })
    }
}

impl Target for Remote {
    #[expect(clippy::disallowed_methods, reason = "the command waits for a server's restart")]
    fn query(&self, text: &str) -> Result<Vec<Row>> {
        let given_up = SystemClock.now().after(READ_PATIENCE);
        let result = loop {
            let error = match self.runtime.block_on(self.session.query_unpaged(text, ())) {
                Ok(result) => break result,
                Err(error) => error,
            };
            let is_passing = matches!(commit_error(&error), CommitError::Passing { .. });
            if !is_passing || !text.starts_with("SELECT ") || SystemClock.now() >= given_up {
                return Err(anyhow!("the server refuses {text}: {error}"));
            }
            thread::sleep(READ_INTERVAL);
        };
        if !result.is_rows() {
            return Ok(Vec::new());
        }
        let result = result.into_rows_result()?;
        let row = |row: ColumnIterator<'_, '_>| -> Result<Row> {
            row.map(|column| Ok(column?.slice.map(|slice| slice.to_bytes()))).collect()
        };
        result.rows::<ColumnIterator<'_, '_>>()?.map(|columns| row(columns?)).collect()
    }

    fn prepare(&mut self, statement: Statement, text: &str) -> Result<()> {
        let prepared = self
            .runtime
            .block_on(self.session.prepare(text))
            .map_err(|error| anyhow!("the server refuses {text}: {error}"))?;
        self.prepared.insert(statement, prepared);
        Ok(())
    }

    fn commit(&self, writes: &[Write]) -> Result<(), CommitError> {
        let is_on_counters = writes.iter().any(|write| write.statement.is_on_counters());
        let kind = if is_on_counters { BatchType::Counter } else { BatchType::Unlogged };
        let mut batch = Batch::new(kind);
        for write in writes {
            let prepared = self.prepared[&write.statement].clone();
            batch.append_statement(BatchStatement::PreparedStatement(prepared));
        }
        let values: Vec<Vec<Raw<'_>>> =
            writes.iter().map(|write| write.values.iter().map(Raw).collect()).collect();
        let committed = self.runtime.block_on(self.session.batch(&batch, values));
        committed.map(|_| ()).map_err(|error| commit_error(&error))
    }
}

/// Classifies an error for retries. A missing answer may be retried.
fn commit_error(error: &ExecutionError) -> CommitError {
    let is_lasting = match error {
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(answer, _)) => matches!(
            answer,
            DbError::SyntaxError
                | DbError::Invalid
                | DbError::Unauthorized
                | DbError::AuthenticationError
                | DbError::ProtocolError
        ),
        ExecutionError::LastAttemptError(
            RequestAttemptError::SerializationError(_)
            | RequestAttemptError::CqlRequestSerialization(_)
            | RequestAttemptError::RepreparedIdChanged { .. },
        )
        | ExecutionError::BadQuery(_) => true,
        _ => false,
    };
    // The driver's errors contain their causes in their texts.
    let error = anyhow!("{error}");
    if is_lasting {
        CommitError::Lasting(error)
    } else {
        CommitError::Passing { retry_after: Duration::ZERO, error }
    }
}

/// Bytes of a value of any type.
struct Raw<'a>(&'a Field);

impl SerializeValue for Raw<'_> {
    fn serialize<'b>(
        &self,
        _: &ColumnType<'_>,
        writer: CellWriter<'b>,
    ) -> Result<WrittenCellProof<'b>, SerializationError> {
        match self.0 {
            Field::Value(bytes) => writer.set_value(bytes).map_err(SerializationError::new),
            Field::Null => Ok(writer.set_null()),
            Field::Unset => Ok(writer.set_unset()),
        }
    }
}
