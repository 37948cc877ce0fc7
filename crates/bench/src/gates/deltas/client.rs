//! A client of the tables, in the process.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use carnet::{Bytes, Db, Durability, Error, Result, Uuid, block_on};
use carnet_cql::system::NodeInfo;
use carnet_cql::{Bound, CqlError, Executor, Parameters, Prepared, Session, Values};

/// An executor on a database.
#[derive(Clone)]
pub(super) struct Client {
    executor: Executor,
    session: Arc<Session>,
}

impl Client {
    pub(super) fn open(dir: &Path) -> Result<Self> {
        // Compaction merges deltas once no reader of the past needs them.
        let builder = Db::builder().durability(Durability::None).retention(Duration::ZERO);
        Ok(Self::on(builder.open(dir)?))
    }

    pub(super) fn on(db: Db) -> Self {
        let executor = Executor::new(db, NodeInfo::local(Uuid::from_u64_pair(1, 2)));
        Self { executor, session: Arc::new(Session::new()) }
    }

    pub(super) fn db(&self) -> &Db {
        self.executor.db()
    }

    pub(super) fn create_tables(&self) -> Result<()> {
        let columns: Vec<String> = (0..10).map(|column| format!("c{column} int")).collect();
        for statement in [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}".to_owned(),
            format!("CREATE TABLE ks.t (k int PRIMARY KEY, {})", columns.join(", ")),
            format!("CREATE TABLE ks.s (p int, c int, {}, PRIMARY KEY (p, c))", columns.join(", ")),
            "CREATE TABLE ks.n (k int PRIMARY KEY, n counter)".to_owned(),
        ] {
            let parameters = Parameters::default();
            block_on(self.executor.query(&self.session, &statement, &parameters))
                .map_err(failed)?;
        }
        Ok(())
    }

    pub(super) fn insert_rows(&self, rows: u32) -> Result<()> {
        let columns: Vec<String> = (0..10).map(|column| format!("c{column}")).collect();
        let markers = ["?"; 11].join(", ");
        let insert = format!("INSERT INTO ks.t (k, {}) VALUES ({markers})", columns.join(", "));
        self.repeat(&insert, 0..rows, |k| vec![int(k); 11])
    }

    pub(super) fn prepare(&self, statement: &str) -> Result<Arc<Prepared>> {
        block_on(self.executor.prepare(&self.session, statement, None)).map_err(failed)
    }

    pub(super) async fn execute(
        &self,
        prepared: &Prepared,
        values: Vec<Vec<u8>>,
    ) -> Result<(), CqlError> {
        let values = values.into_iter().map(|value| Bound::Bytes(Bytes::from(value))).collect();
        let parameters = Parameters { values: Values::Positional(values), ..Parameters::default() };
        self.executor.execute(&self.session, prepared, &parameters).await.map(drop)
    }

    /// Runs a statement for each key, with values made of it.
    pub(super) fn repeat(
        &self,
        statement: &str,
        keys: impl Iterator<Item = u32>,
        values: impl Fn(u32) -> Vec<Vec<u8>>,
    ) -> Result<()> {
        let prepared = self.prepare(statement)?;
        for key in keys {
            block_on(self.execute(&prepared, values(key))).map_err(failed)?;
        }
        Ok(())
    }
}

pub(super) fn int(number: u32) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

pub(super) fn long(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn failed(error: CqlError) -> Error {
    Error::unavailable(format!("a statement failed: {error}"))
}
