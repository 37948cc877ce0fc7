//! Forwarding of statements to the servers that hold their transactions.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Waker};
use std::time::Duration;

use carnet::cluster::{Address, Unanswered};
use carnet::{Db, Uuid};
use carnet_admission::Permit;
use carnet_base::Moment;

use super::lost::{Absence, Step};
use crate::ast::BatchKind;
use crate::bound::Bound;
use crate::cql_error::{CqlError, CqlErrorKind};
use crate::exec::batch::BatchPart;
use crate::exec::executor::Executor;
use crate::exec::grant::Grant;
use crate::exec::parameters::{Parameters, Session};
use crate::exec::prepared::Statements;
use crate::exec::run::Run;
use crate::forward::{Answer, Caller, Request, Statement, Task};
use crate::result::Response;
use crate::system::Peer;

/// A statement that is forwarded.
struct Forwarded<'f> {
    id: Uuid,
    step: Step,
    grant: &'f Grant,
    deadline: Option<Moment>,
    task: Task,
}

impl Executor {
    /// Returns the numbers of statements that this server has forwarded to other servers, and run for
    /// other servers.
    #[must_use]
    pub fn forwarded_statements(&self) -> (u64, u64) {
        self.shared.forward.totals()
    }

    /// Returns the servers that may hold a transaction; `None` if its statements run here, or are
    /// refused here.
    pub(in crate::exec) fn holders(&self, session: &Session, id: Uuid) -> Option<Vec<Peer>> {
        let is_bound = session.transaction() == Some(id);
        if is_bound || session.is_forwarded() || self.shared.open.is_known(id) {
            return None;
        }
        // An embedded database has one server.
        self.shared.db.forward_address()?;
        let holders = self.peers_with_tag(id)?;
        let is_older = !holders.is_empty() && holders.iter().all(|peer| peer.forward.is_none());
        (!is_older).then_some(holders)
    }

    /// Forwards a statement, and returns the answer of the server that holds its transaction.
    pub(in crate::exec) async fn forward(
        &self,
        session: &Session,
        id: Uuid,
        holders: &[Peer],
        statements: &Statements,
        run: &Run<'_>,
    ) -> Result<Response, CqlError> {
        let Parameters { page_rows, paging_state, now, grant, .. } = run.parameters;
        let task = Task::Statement {
            statement: statement(statements, run.keyspace.as_deref(), &run.bound),
            page_rows: page_rows.map(|rows| rows as u64),
            paging_state: paging_state.clone(),
            now: *now,
        };
        let step = Step::of(&statements.parsed.statement);
        let forwarded = Forwarded { id, step, grant, deadline: run.deadline, task };
        self.send(session, holders, forwarded).await
    }

    /// Like [`Executor::forward`], for a batch of the protocol.
    pub(in crate::exec) async fn forward_batch(
        &self,
        session: &Session,
        id: Uuid,
        holders: &[Peer],
        kind: BatchKind,
        parts: &[BatchPart],
        (parameters, deadline): (&Parameters, Option<Moment>),
    ) -> Result<Response, CqlError> {
        let statements = parts
            .iter()
            .map(|part| statement(&part.statements, part.keyspace.as_deref(), &part.bound));
        let task = Task::Batch { kind, statements: statements.collect(), now: parameters.now };
        let grant = &parameters.grant;
        let forwarded = Forwarded { id, step: Step::Inside, grant, deadline, task };
        self.send(session, holders, forwarded).await
    }

    async fn send(
        &self,
        session: &Session,
        holders: &[Peer],
        forwarded: Forwarded<'_>,
    ) -> Result<Response, CqlError> {
        let Forwarded { id, step, grant, deadline, task } = forwarded;
        let left = deadline.map(|deadline| deadline.since(self.shared.db.now()));
        if left == Some(Duration::ZERO) {
            let message =
                "the deadline passed before the statement was forwarded; nothing was done";
            return Err(CqlError::new(CqlErrorKind::Timeout, message));
        }
        let caller = Caller {
            name: (*session.name()).to_owned(),
            user: session.user().map(str::to_owned),
            is_role: session.role().is_some(),
            address: session.address(),
        };
        let call = self.shared.forward.name();
        let mut request = Request { call, transaction: id, caller, left, task };
        let bytes = request.encode();
        request.task = Task::Cancel;
        for (peer, to) in holders.iter().filter_map(|peer| Some((peer, peer.forward.as_ref()?))) {
            self.note(grant, || format!("Forwarding to the server {}", peer.address));
            self.shared.forward.sent.fetch_add(1, Ordering::Relaxed);
            // A commit goes on: its client may ask for it again.
            let cancel = (step == Step::Inside).then(|| request.clone());
            let mut cancel = CancelOnDrop { db: &self.shared.db, to, cancel };
            let paused = grant.permit.as_deref().map(Permit::pause);
            let answer = self.shared.db.forward(to, bytes.clone()).await;
            drop(paused);
            cancel.cancel = None;
            drop(cancel);
            let refused = |why: String| {
                format!("the server {}, which holds transaction {id}, refused: {why}", peer.address)
            };
            let answer = match answer {
                Err(Unanswered::NotSent) => {
                    return self.lost(id, Absence::NotReached(peer.address), step).await;
                }
                Err(Unanswered::Lost) => {
                    return self.lost(id, Absence::Silent(peer.address), step).await;
                }
                // The commit table answers instead.
                Ok(Err(_)) if step == Step::Outcome => continue,
                Ok(Err(error)) => {
                    let message = refused(error.to_string());
                    return Err(CqlError::new(CqlError::from(error).kind().clone(), message));
                }
                Ok(Ok(answer)) => answer,
            };
            if let Some(memory) = &grant.memory {
                memory.grow_to(answer.len(), 0)?;
            }
            match Answer::decode(answer) {
                Ok(Answer::NotHeld) => {}
                Ok(Answer::Refused(_)) if step == Step::Outcome => {}
                Ok(Answer::Refused(why)) => {
                    return Err(CqlError::new(CqlErrorKind::Unsupported, refused(why)));
                }
                Ok(Answer::Done { result, warnings }) => {
                    if let Some(memory) = &grant.memory {
                        warnings.into_iter().for_each(|warning| memory.warn(warning));
                    }
                    return result;
                }
                Err(why) => {
                    tracing::warn!(server = %peer.address, %why, "an answer cannot be decoded");
                    return self.lost(id, Absence::Silent(peer.address), step).await;
                }
            }
        }
        self.lost(id, Absence::Unknown, step).await
    }
}

fn statement(statements: &Statements, keyspace: Option<&str>, bound: &[Bound]) -> Statement {
    Statement {
        text: statements.text().to_owned(),
        keyspace: keyspace.map(str::to_owned),
        values: bound.to_vec(),
        preparation: statements.preparation(),
    }
}

/// Cancels a forwarded statement whose client is gone.
struct CancelOnDrop<'d> {
    db: &'d Db,
    to: &'d Address,
    /// The request to cancel; `None` once the answer has arrived.
    cancel: Option<Request>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(request) = self.cancel.take() {
            // The first poll sends it. The answer does not matter.
            let sending = pin!(self.db.forward(self.to, request.encode()));
            let _ = sending.poll(&mut Context::from_waker(Waker::noop()));
        }
    }
}
