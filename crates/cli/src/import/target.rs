//! Where rows go: a database that speaks CQL, within this process or behind a server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use carnet::{Db, block_on};
use carnet_cql::ast::BatchKind;
use carnet_cql::result::Response;
use carnet_cql::system::NodeInfo;
use carnet_cql::{
    BatchItem, Bound, CqlError, CqlErrorKind, Executor, Parameters, Prepared, Session, Values,
};

use super::Row;

/// A statement that is prepared once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Statement {
    /// Sets every column of a row but the static ones.
    Row,
    /// Sets every static column of a partition.
    Statics,
    /// Says how far a range is copied.
    Range,
    /// Says what is copied.
    Job,
}

/// A statement with its values.
#[derive(Clone, Debug)]
pub(super) struct Write {
    pub(super) statement: Statement,
    pub(super) values: Row,
}

/// Why a transaction did not commit, as far as is known.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The same again may go well, and does no harm if it went well already.
    Passing { retry_after: Duration, error: anyhow::Error },
    /// It would fail each time.
    Lasting(anyhow::Error),
}

/// A database.
pub(super) trait Target: Sync {
    /// Runs a statement without values, and returns its rows.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    fn query(&self, text: &str) -> Result<Vec<Row>>;

    /// Prepares a statement for [`Target::commit`].
    ///
    /// # Errors
    ///
    /// As [`Target::query`].
    fn prepare(&mut self, statement: Statement, text: &str) -> Result<()>;

    /// Runs prepared statements as one transaction.
    ///
    /// # Errors
    ///
    /// Says whether to try again.
    fn commit(&self, writes: &[Write]) -> Result<(), Trouble>;
}

/// A database within this process.
pub(super) struct Embedded {
    executor: Executor,
    session: Session,
    prepared: BTreeMap<Statement, Arc<Prepared>>,
}

impl Embedded {
    pub(super) fn new(db: Db) -> Self {
        let executor = Executor::new(db, NodeInfo::local(carnet::Uuid::nil()));
        Self { executor, session: Session::of("carnet import"), prepared: BTreeMap::new() }
    }
}

impl Target for Embedded {
    fn query(&self, text: &str) -> Result<Vec<Row>> {
        let parameters = Parameters::default();
        match block_on(self.executor.query(&self.session, text, &parameters))? {
            Response::Rows(rows) => Ok(rows.rows),
            _ => Ok(Vec::new()),
        }
    }

    fn prepare(&mut self, statement: Statement, text: &str) -> Result<()> {
        let prepared = block_on(self.executor.prepare(&self.session, text, None))?;
        self.prepared.insert(statement, prepared);
        Ok(())
    }

    fn commit(&self, writes: &[Write]) -> Result<(), Trouble> {
        let item = |write: &Write| {
            let prepared = Arc::clone(&self.prepared[&write.statement]);
            let value = |value: &Option<_>| value.clone().map_or(Bound::Null, Bound::Bytes);
            let values = Values::Positional(write.values.iter().map(value).collect());
            BatchItem::Prepared { prepared, values }
        };
        let (items, parameters) = (writes.iter().map(item).collect(), Parameters::default());
        let batch = self.executor.batch(&self.session, BatchKind::Unlogged, items, &parameters);
        block_on(batch).map(|_| ()).map_err(trouble)
    }
}

fn trouble(error: CqlError) -> Trouble {
    let retry_after = match error.kind() {
        CqlErrorKind::Overloaded { retry_after } => *retry_after,
        // What was written then is written once more: it says the same.
        CqlErrorKind::Conflict
        | CqlErrorKind::Unknown { .. }
        | CqlErrorKind::Timeout
        | CqlErrorKind::Unavailable => Duration::ZERO,
        _ => return Trouble::Lasting(error.into()),
    };
    Trouble::Passing { retry_after, error: error.into() }
}
