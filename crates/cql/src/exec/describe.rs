//! Execution of `DESCRIBE`.

use super::executor::Executor;
use super::run::Run;
use crate::ast::Describe;
use crate::cql_error::CqlError;
use crate::describe;
use crate::result::Response;

impl Executor {
    pub(super) async fn describe(
        &self,
        statement: &Describe,
        run: &Run<'_>,
    ) -> Result<Response, CqlError> {
        let tx = self.shared.db.snapshot_async().await?;
        let current = run.keyspace.as_deref();
        let (node, peers) = (&self.shared.node, self.peers());
        let rows = describe::describe(&tx, node, &peers, statement, current).await?;
        Ok(Response::Rows(rows))
    }
}
