//! Running of the statements that other servers forward to this one.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use carnet::Bytes;
use carnet::cluster::{FORWARD_BYTES_MAX, ForwardHandler, Forwarding};
use carnet_admission::{AdmissionRequest, Arrived, Permit};

use super::lost::Step;
use crate::bound::Values;
use crate::cql_error::{CqlError, CqlErrorKind};
use crate::exec::batch::BatchPart;
use crate::exec::executor::Executor;
use crate::exec::grant::Grant;
use crate::exec::outline::Outline;
use crate::exec::parameters::{Parameters, Session};
use crate::exec::prepared::Statements;
use crate::exec::terms::Terms;
use crate::forward::{Answer, Request, Statement, Task};
use crate::result::Response;
use crate::system;

impl Executor {
    /// Runs a statement that another server has forwarded, and returns the encoded answer. If the
    /// grant has no permit, the statement asks for one.
    pub async fn answer_forwarded(&self, request: Bytes, grant: Grant) -> Bytes {
        let bytes = request.len();
        let answer = match Request::decode(request) {
            Ok(request) => self.serve(request, bytes, grant).await,
            Err(why) => {
                Answer::Refused(format!("the forwarded statement is not understood: {why}"))
            }
        };
        let encoded = answer.encode();
        if encoded.len() <= FORWARD_BYTES_MAX {
            return encoded;
        }
        let error = CqlError::invalid(format!(
            "the answer takes {} bytes; at most {FORWARD_BYTES_MAX} are forwarded from another server: \
             ask for it in pages; the transaction is still open",
            encoded.len()
        ));
        Answer::Done { result: Err(error), warnings: Vec::new() }.encode()
    }

    /// Returns a handler that runs forwarded statements where the network polls it. A server has one
    /// of its own, with its threads and memory.
    #[must_use]
    pub fn forward_handler(&self) -> Arc<dyn ForwardHandler> {
        Arc::new(Handler(self.clone()))
    }

    async fn serve(&self, request: Request, bytes: usize, grant: Grant) -> Answer {
        let Request { call, transaction, caller, left, task } = request;
        if task == Task::Cancel {
            self.shared.forward.calls.cancel(call);
            return Answer::Done { result: Ok(Response::Void), warnings: Vec::new() };
        }
        if task == Task::Transactions {
            let rows = system::open_transactions(&self.open_list());
            return Answer::Done { result: Ok(Response::Rows(rows)), warnings: Vec::new() };
        }
        if !self.shared.open.is_known(transaction) {
            return Answer::NotHeld;
        }
        self.shared.forward.served.fetch_add(1, Ordering::Relaxed);
        let deadline = left.map(|left| self.shared.db.now().after(left));
        let session = Session::of_caller(caller, deadline);
        let memory = grant.memory.clone();
        let run = self.run_task(&session, task, bytes, grant);
        let result = self.shared.forward.calls.run(call, Box::pin(run)).await;
        let result = result.unwrap_or_else(|| {
            Err(CqlError::new(CqlErrorKind::Aborted, "the statement was cancelled by its client"))
        });
        let warnings = memory.map_or_else(Vec::new, |memory| memory.take_warnings());
        let warnings = warnings.into_iter().map(String::from).collect();
        Answer::Done { result, warnings }
    }

    async fn run_task(
        &self,
        session: &Session,
        task: Task,
        bytes: usize,
        grant: Grant,
    ) -> Result<Response, CqlError> {
        match task {
            Task::Statement { statement, page_rows, paging_state, now } => {
                let Statement { text, keyspace, values, preparation } = statement;
                let outline = Outline::of_text(&text);
                let grant = self.admit(session, &outline, bytes, grant).await?;
                let permit = grant.permit.clone();
                let statements = Statements::parse(&text)?;
                if let Some(preparation) = preparation {
                    statements.promise(preparation);
                }
                check(&statements)?;
                let values = Values::Positional(values);
                let page_rows = page_rows.and_then(|rows| usize::try_from(rows).ok());
                let parameters =
                    Parameters { values, page_rows, paging_state, keyspace: None, now, grant };
                let result = self.run(session, &statements, keyspace, &parameters).await;
                note_end(permit.as_deref(), &result);
                result
            }
            Task::Batch { kind, statements, now } => {
                let outline = Outline::of_class(carnet_admission::Class::Write);
                let grant = self.admit(session, &outline, bytes, grant).await?;
                let permit = grant.permit.clone();
                let steps = self.count_steps(session.deadline());
                let mut slice = self.time_slice(&grant);
                let mut parts = Vec::with_capacity(statements.len());
                for statement in statements {
                    let part = part(statement)?;
                    steps.take(part.statements.parsed.steps)?;
                    parts.push(part);
                    steps.pace(&mut slice).await?;
                }
                let parameters = Parameters { now, grant, ..Parameters::default() };
                let result = self.run_parts(session, kind, &parts, &parameters).await;
                note_end(permit.as_deref(), &result);
                result
            }
            Task::Cancel | Task::Transactions => Ok(Response::Void),
        }
    }

    /// Waits for a permit, unless the grant has one.
    async fn admit(
        &self,
        session: &Session,
        outline: &Outline<'_>,
        bytes: usize,
        grant: Grant,
    ) -> Result<Grant, CqlError> {
        let Some(admission) = self.shared.db.admission().filter(|_| grant.permit.is_none()) else {
            return Ok(grant);
        };
        let Terms { class, level, workload, tenant, .. } = self.terms(session, outline);
        let level = &level.level;
        let deadline = session.deadline();
        let request = AdmissionRequest { level, class, workload, bytes, deadline, tenant };
        let admitted = match admission.arrive(request) {
            Ok(Arrived::Admitted(permit)) => Ok(permit),
            Ok(Arrived::Waits(place)) => place.await,
            Err(error) => Err(error),
        };
        let permit = admitted.map_err(|error| {
            let message = format!("{error}; the transaction is still open");
            CqlError::new(CqlError::from(error).kind().clone(), message)
        })?;
        permit.begin();
        Ok(Grant { permit: Some(Arc::new(permit)), ..grant })
    }
}

/// Records the outcome of the statement in its permit.
fn note_end(permit: Option<&Permit>, result: &Result<Response, CqlError>) {
    match (permit, result) {
        (Some(permit), Err(error)) if *error.kind() == CqlErrorKind::Timeout => permit.timed_out(),
        (Some(permit), _) => permit.answered(),
        (None, _) => {}
    }
}

/// Refuses a statement that names no transaction.
fn check(statements: &Statements) -> Result<(), CqlError> {
    if statements.has_text() {
        return Ok(());
    }
    Err(CqlError::invalid("a forwarded statement names no transaction"))
}

fn part(statement: Statement) -> Result<BatchPart, CqlError> {
    let Statement { text, keyspace, values, preparation } = statement;
    let statements = Statements::parse(&text)?;
    check(&statements)?;
    if Step::of(&statements.parsed.statement) != Step::Inside {
        return Err(CqlError::invalid("a forwarded batch holds a statement that changes no rows"));
    }
    if let Some(preparation) = preparation {
        statements.promise(preparation);
    }
    let bound = Values::Positional(values).into_resolved(&statements.parsed.markers)?;
    Ok(BatchPart { statements: Arc::new(statements), keyspace, bound })
}

struct Handler(Executor);

impl ForwardHandler for Handler {
    fn answer(self: Arc<Self>, request: Bytes) -> Forwarding {
        Box::pin(async move { self.0.answer_forwarded(request, Grant::default()).await })
    }
}
