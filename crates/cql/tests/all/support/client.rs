//! A client of a database in this process.

use carnet::{Db, Uuid, block_on};
use carnet_cql::result::{Response, Rows};
use carnet_cql::system::NodeInfo;
use carnet_cql::{CqlError, Executor, Parameters, Session};

pub(crate) struct Client {
    pub(crate) executor: Executor,
    pub(crate) session: Session,
}

impl Client {
    /// Makes a client without a keyspace.
    pub(crate) fn on(db: Db) -> Self {
        let executor = Executor::new(db, NodeInfo::local(Uuid::from_u64_pair(1, 2)));
        Self { executor, session: Session::new() }
    }

    /// Makes a client that uses the keyspace `ks`, which it creates.
    pub(crate) fn new(db: Db) -> Self {
        let client = Self::on(db);
        client
            .run("CREATE KEYSPACE IF NOT EXISTS ks WITH replication = {'class': 'SimpleStrategy'}");
        client.run("USE ks");
        client
    }

    pub(crate) fn query(&self, text: &str, parameters: &Parameters) -> Result<Response, CqlError> {
        block_on(self.executor.query(&self.session, text, parameters))
    }

    pub(crate) fn try_run(&self, text: &str) -> Result<Response, CqlError> {
        self.query(text, &Parameters::default())
    }

    pub(crate) fn run(&self, text: &str) -> Response {
        self.try_run(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// Returns the rows of a query without paging.
    pub(crate) fn rows(&self, text: &str) -> Rows {
        let Response::Rows(rows) = self.run(text) else { panic!("{text}: rows") };
        rows
    }

    /// Returns the message with which a statement is refused.
    pub(crate) fn refused(&self, text: &str) -> String {
        self.try_run(text).expect_err(text).message().to_owned()
    }
}
