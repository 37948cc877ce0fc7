//! Target of the rows: a CQL database, within this process or behind a server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use carnet::{Db, block_on};
use carnet_cql::ast::BatchKind;
use carnet_cql::result::Response;
use carnet_cql::system::NodeInfo;
use carnet_cql::{
    BatchItem, Bound, CqlError, CqlErrorKind, Executor, Parameters, Prepared, Session, Timestamps,
    Values,
};

use super::row::{Field, Row};

/// Statement that is prepared once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Statement {
    /// Sets columns of a row, and its marker.
    Row,
    /// Sets columns of a row that have other times.
    More,
    /// Adds elements to the collection that is the column of this number.
    Append(usize),
    /// Sets static columns of a partition.
    Statics,
    /// Removes the counters of a row.
    Clear,
    /// Adds to the counters of a row.
    Count,
    /// Removes the static counters of a partition.
    ClearStatics,
    /// Adds to the static counters of a partition.
    CountStatics,
    /// Stores the progress of a range.
    Range,
    /// Stores the plan.
    Job,
}

impl Statement {
    /// Returns `true` for a statement on counters, which a batch cannot mix with others.
    pub(super) const fn is_on_counters(self) -> bool {
        matches!(self, Self::Clear | Self::Count | Self::ClearStatics | Self::CountStatics)
    }
}

/// A statement and its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) statement: Statement,
    pub(super) values: Vec<Field>,
}

impl Write {
    /// Makes a write of values that are all set or null.
    pub(super) fn whole(statement: Statement, row: Row) -> Self {
        Self { statement, values: row.into_iter().map(Field::from).collect() }
    }
}

/// Reason why a transaction did not commit.
#[derive(Debug)]
pub(super) enum CommitError {
    /// A retry may succeed, and is harmless if the transaction did commit.
    Passing { retry_after: Duration, error: anyhow::Error },
    /// Every retry would fail.
    Lasting(anyhow::Error),
}

/// A database that rows are copied into.
pub(super) trait Target: Sync {
    /// Runs a statement without values, and returns its rows.
    ///
    /// # Errors
    ///
    /// Any error of the database.
    fn query(&self, text: &str) -> Result<Vec<Row>>;

    /// Prepares a statement for [`Target::commit`].
    ///
    /// # Errors
    ///
    /// See [`Target::query`].
    fn prepare(&mut self, statement: Statement, text: &str) -> Result<()>;

    /// Runs prepared statements as one transaction. Either all or none of them are on counters.
    ///
    /// # Errors
    ///
    /// Whether a retry may succeed.
    fn commit(&self, writes: &[Write]) -> Result<(), CommitError>;
}

/// A database within this process.
pub(super) struct Embedded {
    executor: Executor,
    session: Session,
    prepared: BTreeMap<Statement, Arc<Prepared>>,
}

impl Embedded {
    pub(super) fn new(db: Db) -> Self {
        let node = NodeInfo::local(carnet::Uuid::nil());
        let executor = Executor::with_timestamps(db, node, Timestamps::Overwrite);
        Self { executor, session: Session::with_name("carnet import"), prepared: BTreeMap::new() }
    }
}

impl Target for Embedded {
    fn query(&self, text: &str) -> Result<Vec<Row>> {
        let parameters = Parameters::default();
        match block_on(self.executor.query(&self.session, text, &parameters))? {
            Response::Rows(rows) => Ok(rows.values()),
            _ => Ok(Vec::new()),
        }
    }

    fn prepare(&mut self, statement: Statement, text: &str) -> Result<()> {
        let prepared = block_on(self.executor.prepare(&self.session, text, None))?;
        self.prepared.insert(statement, prepared);
        Ok(())
    }

    fn commit(&self, writes: &[Write]) -> Result<(), CommitError> {
        let item = |write: &Write| {
            let prepared = Arc::clone(&self.prepared[&write.statement]);
            let bound = |field: &Field| match field {
                Field::Value(value) => Bound::Bytes(value.clone()),
                Field::Null => Bound::Null,
                Field::Unset => Bound::Unset,
            };
            let values = Values::Positional(write.values.iter().map(bound).collect());
            BatchItem::Prepared { prepared, values }
        };
        let (items, parameters) = (writes.iter().map(item).collect(), Parameters::default());
        let is_on_counters = writes.iter().any(|write| write.statement.is_on_counters());
        let kind = if is_on_counters { BatchKind::Counter } else { BatchKind::Unlogged };
        let batch = self.executor.batch(&self.session, kind, items, &parameters);
        block_on(batch).map(|_| ()).map_err(commit_error)
    }
}

fn commit_error(error: CqlError) -> CommitError {
    let retry_after = match error.kind() {
        CqlErrorKind::Overloaded { retry_after } => *retry_after,
        // A retry writes the same values again.
        CqlErrorKind::Conflict
        | CqlErrorKind::Unknown { .. }
        | CqlErrorKind::Timeout
        | CqlErrorKind::Unavailable => Duration::ZERO,
        _ => return CommitError::Lasting(error.into()),
    };
    CommitError::Passing { retry_after, error: error.into() }
}
