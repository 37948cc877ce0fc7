//! The database of this process.

use std::cell::Cell;
use std::future::Future;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use carnet::{Uuid, block_on};
use carnet_base::MemoryBudget;
use carnet_cql::ast::BatchKind;
use carnet_cql::result::{Response, Rows};
use carnet_cql::{
    AnswerMemory, BatchItem, Bound, CqlError, Executor, Grant, Parameters, Session, Trace, Values,
};

use super::answer::{Answer, Handle, Page, Prepared};
use crate::interrupt::{self, until_pressed};

/// Database of this process, and the state of its one connection.
pub(crate) struct Local {
    executor: Executor,
    session: Session,
    pub(super) traces: Cell<bool>,
    /// Trace of the last traced statement.
    pub(super) last_trace: Cell<Option<Uuid>>,
}

impl Local {
    pub(crate) fn new(executor: Executor) -> Self {
        Self {
            executor,
            session: Session::new(),
            traces: Cell::new(false),
            last_trace: Cell::new(None),
        }
    }

    pub(super) fn query(&self, text: &str, page: &Page) -> Result<Answer> {
        let mut parameters = parameters(&[], page);
        // Warnings are told with the memory of the answer, which is not limited here.
        let memory = Arc::new(AnswerMemory::new(&MemoryBudget::new(usize::MAX), usize::MAX));
        parameters.grant.memory = Some(Arc::clone(&memory));
        let trace = self.traces.get().then(|| self.begin_trace(text, page));
        parameters.grant.trace.clone_from(&trace);
        let result = self.run(self.executor.query(&self.session, text, &parameters));
        let id = trace.as_ref().map(|trace| trace.id);
        if let Some(trace) = trace {
            self.executor.end_trace(trace, None);
            self.last_trace.set(id);
        }
        let warnings = memory.take_warnings().into_iter().map(String::from).collect();
        Ok(Answer { response: result?, warnings, trace: id })
    }

    fn begin_trace(&self, text: &str, page: &Page) -> Arc<Trace> {
        let mut given = vec![("query", text.to_owned())];
        given.extend(page.rows.map(|rows| ("page_size", rows.to_string())));
        let now = self.executor.db().now();
        self.executor.begin_trace(&self.session, "Execute CQL3 query", given, now)
    }

    pub(super) fn prepare(&self, text: &str) -> Result<Prepared> {
        let prepared = self.run(self.executor.prepare(&self.session, text, None))?;
        Ok(Prepared { columns: prepared.result.clone(), handle: Handle::Local(prepared) })
    }

    pub(super) fn execute(
        &self,
        prepared: &carnet_cql::Prepared,
        values: &[Bound],
        page: &Page,
    ) -> Result<Rows> {
        let parameters = parameters(values, page);
        match self.run(self.executor.execute(&self.session, prepared, &parameters))? {
            Response::Rows(rows) => Ok(rows),
            _ => bail!("the statement returned no rows"),
        }
    }

    pub(super) fn batch(
        &self,
        kind: BatchKind,
        prepared: &Arc<carnet_cql::Prepared>,
        rows: Vec<Vec<Bound>>,
    ) -> Result<()> {
        let item = |values| BatchItem::Prepared {
            prepared: Arc::clone(prepared),
            values: Values::Positional(values),
        };
        let items = rows.into_iter().map(item).collect();
        let parameters = parameters(&[], &Page::default());
        self.run(self.executor.batch(&self.session, kind, items, &parameters)).map(|_| ())
    }

    /// Runs a statement. If Ctrl-C ends it, the open transaction is rolled back.
    fn run<T>(&self, statement: impl Future<Output = Result<T, CqlError>>) -> Result<T> {
        interrupt::check()?;
        let error = match block_on(until_pressed(statement)) {
            Ok(result) => return Ok(result?),
            Err(error) => error,
        };
        if !self.is_in_transaction() {
            return Err(error);
        }
        let rollback = block_on(self.executor.query(
            &self.session,
            "ROLLBACK",
            &parameters(&[], &Page::default()),
        ));
        rollback.context("interrupted, and the transaction could not be rolled back")?;
        Err(error.context("the transaction was rolled back"))
    }

    pub(super) fn keyspace(&self) -> Option<String> {
        self.session.keyspace()
    }

    pub(super) fn is_in_transaction(&self) -> bool {
        self.session.is_in_transaction()
    }
}

fn parameters(values: &[Bound], page: &Page) -> Parameters {
    Parameters {
        values: Values::Positional(values.to_vec()),
        page_rows: page.rows,
        paging_state: page.state.clone(),
        // A long statement has to yield for Ctrl-C to be seen.
        grant: Grant { yield_now: Some(interrupt::yield_now), ..Grant::default() },
        ..Parameters::default()
    }
}
