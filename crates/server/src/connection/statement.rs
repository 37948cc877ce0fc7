//! Runs the statement of a request: waits for its admission, runs it, and encodes its answer.

use std::future;
use std::panic::{self, AssertUnwindSafe};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use carnet::admission::{Arrived, Class, Permit};
use carnet::diagnosis::Why;
use carnet_base::Charge;
use carnet_cql::{AnswerMemory, Grant};
use tracing::error;

use super::shared::Shared;
use super::state::Job;
use super::unsent::Unsent;
use crate::backend::{Backend, Outcome, StatementResult};
use crate::events::Event;
use crate::failure::{Failure, FailureKind};
use crate::long::yield_now;
use crate::metrics::Metrics;
use crate::protocol::encoder::Encoding;
use crate::protocol::error::{ErrorCode, ErrorDetail, ErrorResponse};
use crate::protocol::peek::Peek;
use crate::protocol::request::Statement;
use crate::protocol::response::{MetadataForm, Notes, Response};
use crate::protocol::types::Consistency;

/// Time after which a query that found no memory for answers may be retried.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// Runs a statement, and encodes its answer.
pub(super) async fn answer<B: Backend>(
    shared: Arc<Shared<B>>,
    session: Arc<B::Session>,
    encoding: Encoding,
    unsent: &Unsent,
    job: Job,
    arrived: Option<Arrived>,
) -> (Bytes, Charge) {
    let Job { stream, opcode, statement, tracing, charge } = job;
    let _in_flight = shared.metrics.requests_in_flight.enter();
    let started = shared.clock.now();
    let bytes = charge.bytes();
    // The permit is held until the answer is encoded.
    let waiting = Waiting { session: &*session, statement: &statement, bytes };
    let memory = AnswerMemory::new(&shared.answers, shared.answers.max() / 2);
    let admitted = admitted(&shared, unsent, waiting, arrived).await;
    let permit = match admitted.and_then(|permit| check_answers(&shared, permit)) {
        Ok(permit) => permit,
        Err(failure) => {
            let response = Response::Error(failure.into_response(consistency_of(&statement)));
            let frame = encode(&shared.metrics, encoding, stream, response, Notes::default());
            memory.set(frame.len());
            return (frame, memory.take_charge());
        }
    };
    let memory = Arc::new(memory);
    let trace =
        if tracing { shared.backend.begin_trace(&session, &statement, started) } else { None };
    if let (Some(trace), Some(permit)) = (&trace, &permit) {
        let now = shared.clock.now();
        let waited = now.since(started).as_micros();
        let class = permit.class().name();
        trace.note(now, format!("Admitted after {waited} µs in the queue of class {class}"));
    }
    let grant = Grant {
        arrived: Some(started),
        permit: permit.clone(),
        memory: Some(Arc::clone(&memory)),
        trace: trace.clone(),
        yield_now: Some(yield_now),
    };
    let (of_work, of_answer) = (Arc::clone(&shared), permit.clone());
    // In memory of its own, which a refused statement does not need: its task is small.
    let work = Box::pin(async move {
        let (response, mut warnings) = respond(&of_work, &session, statement, grant).await;
        warnings.extend(memory.take_warnings().into_iter().map(String::from));
        if tracing && trace.is_none() {
            warnings.push("not supported yet: tracing; the statement ran without".into());
        }
        let id = trace.as_ref().map(|trace| trace.id);
        if let Some(trace) = trace {
            of_work.backend.end_trace(trace, of_answer.as_deref());
        }
        if let Response::SchemaChange(change) = &response {
            of_work.events.publish(Event::Schema(change.clone()));
        }
        if let Some(bytes) = memory.beyond_soft_limit() {
            warnings.push(soft_limit(bytes));
        }
        if let Some(permit) = of_answer {
            note_end(&permit, &response);
        }
        let notes = Notes { trace: id, warnings: &warnings };
        let frame = encode(&of_work.metrics, encoding, stream, response, notes);
        memory.set(frame.len());
        (frame, memory.take_charge())
    });
    let (frame, held) = shared.long.run(work, permit, bytes).await;
    drop(charge);
    let took = shared.clock.now().since(started);
    shared.metrics.request_duration.get(opcode).record(took);
    (frame, held)
}

/// Records the outcome of the statement in its permit.
fn note_end(permit: &Permit, response: &Response) {
    match response {
        Response::Error(ErrorResponse { detail: ErrorDetail::ReadTimeout { .. }, .. }) => {
            permit.timed_out();
        }
        _ => permit.answered(),
    }
}

/// Refuses a query while answers that wait to be sent hold most of their memory. Queries that
/// drivers need to connect, and writes, whose answers are short, proceed.
fn check_answers<B: Backend>(
    shared: &Shared<B>,
    permit: Option<Arc<Permit>>,
) -> Result<Option<Arc<Permit>>, Failure> {
    let is_query = permit.as_ref().is_none_or(|permit| permit.class() == Class::Read);
    let (used, most) = (shared.answers.used(), shared.answers.max());
    let is_full = used >= most - most / 4 || !shared.memory.fits(shared.memory.max() / 8);
    if !is_query || !is_full {
        return Ok(permit);
    }
    match &permit {
        Some(permit) => permit.refused_for_memory(),
        None => shared.metrics.requests_shed_by_answers.add(1),
    }
    let (ms, mib) = (RETRY_AFTER.as_millis(), used >> 20);
    Err(Failure::new(
        FailureKind::Overloaded { retry_after: RETRY_AFTER },
        format!(
            "the statement was refused, since {mib} MiB of answers are being made or wait for clients to \
             read them; nothing was done, try again after {ms} ms"
        ),
    ))
}

fn soft_limit(bytes: usize) -> String {
    format!("the result takes {bytes} bytes of the server's memory; ask for it in smaller pages")
}

/// Statement that waits for its admission.
struct Waiting<'w, S> {
    session: &'w S,
    statement: &'w Statement,
    bytes: usize,
}

/// Begins an admitted statement, after other statements that have arrived if levels compete.
async fn begin(permit: &Permit) {
    if permit.yields() {
        // The runtime polls the sockets first, so that requests that have arrived join the gate.
        tokio::task::yield_now().await;
    }
    permit.begin();
}

/// Waits for the admission of a statement that was not refused on its arrival, and until the client
/// has taken earlier answers. If both waits alternate, the statement arrives anew.
async fn admitted<B: Backend>(
    shared: &Shared<B>,
    unsent: &Unsent,
    waiting: Waiting<'_, B::Session>,
    mut arrived: Option<Arrived>,
) -> Result<Option<Arc<Permit>>, Failure> {
    let mut waited = Duration::ZERO;
    loop {
        let permit = match arrived {
            None => None,
            Some(Arrived::Admitted(permit)) => Some(Arc::new(permit)),
            Some(Arrived::Waits(place)) => Some(Arc::new(place.await?)),
        };
        if unsent.has_room() {
            if let Some(permit) = &permit {
                begin(permit).await;
                permit.waits().add(Why::Socket, waited);
            }
            return Ok(permit);
        }
        drop(permit);
        let since = shared.clock.now();
        unsent.wait_for_room().await;
        waited += shared.clock.now().since(since);
        let Waiting { session, statement, bytes } = waiting;
        let statement = Peek::from(statement);
        arrived = shared.backend.arrive(session, statement, bytes, shared.clock.now())?;
    }
}

/// Encodes a response; one that exceeds the protocol's limits becomes an error.
pub(super) fn encode(
    metrics: &Metrics,
    encoding: Encoding,
    stream: i16,
    response: Response,
    notes: Notes<'_>,
) -> Bytes {
    if let Response::Error(e) = &response {
        metrics.errors.get(e.code(encoding.version)).add(1);
    }
    encoding.frame(stream, response, notes).unwrap_or_else(|oversize| {
        metrics.errors.get(ErrorCode::Invalid).add(1);
        let why = format!("{oversize}: ask for fewer rows or columns at a time");
        let instead = Response::Error(ErrorResponse::plain(ErrorCode::Invalid, why));
        encoding.frame(stream, instead, Notes::default()).expect("a short error fits")
    })
}

/// Runs a statement.
async fn respond<B: Backend>(
    shared: &Shared<B>,
    session: &B::Session,
    statement: Statement,
    grant: Grant,
) -> (Response, Vec<String>) {
    let consistency = consistency_of(&statement);
    let answer = unless_panicked(run(&shared.backend, session, statement, grant)).await;
    match answer.unwrap_or_else(|| Err(panicked())) {
        Ok(answer) => answer,
        Err(failure) => {
            if failure.kind == FailureKind::Server {
                error!(error = %failure, "a statement failed by the server's fault");
            }
            (Response::Error(failure.into_response(consistency)), Vec::new())
        }
    }
}

const fn consistency_of(statement: &Statement) -> Consistency {
    match statement {
        Statement::Query { params, .. } | Statement::Execute { params, .. } => params.consistency,
        Statement::Batch(batch) => batch.params.consistency,
        Statement::Prepare { .. } => Consistency::Quorum,
    }
}

async fn run<B: Backend>(
    backend: &B,
    session: &B::Session,
    statement: Statement,
    grant: Grant,
) -> Result<(Response, Vec<String>), Failure> {
    match statement {
        Statement::Query { text, params } => {
            let skip = params.skip_metadata;
            let answer = backend.query(session, &text, params, grant).await?;
            Ok(response(answer, skip, None))
        }
        Statement::Execute { id, result_id, params } => {
            let skip = params.skip_metadata;
            let answer = backend.execute(session, &id, params, grant).await?;
            Ok(response(answer, skip, result_id.as_deref()))
        }
        Statement::Prepare { text, keyspace } => {
            let prepared = backend.prepare(session, &text, keyspace.as_deref()).await?;
            Ok((Response::Prepared(prepared), Vec::new()))
        }
        Statement::Batch(batch) => {
            backend.batch(session, batch, grant).await.map(|answer| response(answer, false, None))
        }
    }
}

fn response(answer: StatementResult, skip: bool, known: Option<&[u8]>) -> (Response, Vec<String>) {
    let response = match answer.outcome {
        Outcome::Void => Response::Void,
        Outcome::Rows(rows) => {
            let form = MetadataForm::choose(skip, known, &rows.columns);
            Response::Rows(rows, form)
        }
        Outcome::SetKeyspace(keyspace) => Response::SetKeyspace(keyspace),
        Outcome::SchemaChange(change) => Response::SchemaChange(change),
    };
    (response, answer.warnings)
}

fn panicked() -> Failure {
    Failure::new(FailureKind::Server, "the server failed at this statement; its log says where")
}

/// Runs a future to its end or to its panic, so that a panic fails one statement and not its
/// connection.
async fn unless_panicked<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    future::poll_fn(|context| {
        // After a panic the future is not polled again, so its broken state is never observed.
        let polled = panic::catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
        polled.map_or(Poll::Ready(None), |polled| polled.map(Some))
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use carnet::Db;
    use carnet::admission::{AdmissionLimits, AdmissionRequest, Level, LevelId, Workload};

    use super::*;

    #[test]
    fn statement_lets_others_arrive_while_levels_compete() {
        let db = Db::builder().admission(AdmissionLimits::of_server(1)).in_memory();
        let admission = db.admission().unwrap();
        let polls = |id| {
            let level = Level { id: LevelId(id), ..Level::default() };
            let (class, workload) = (Class::Read, Workload::Interactive);
            let request =
                AdmissionRequest { level: &level, class, workload, bytes: 1, deadline: None };
            let Ok(Arrived::Admitted(permit)) = admission.arrive(request) else {
                panic!("there is room")
            };
            let mut begins = pin!(begin(&permit));
            let mut context = Context::from_waker(Waker::noop());
            (1..3).find(|_| begins.as_mut().poll(&mut context).is_ready())
        };
        assert_eq!(polls(1), Some(1), "one level alone");
        assert_eq!(polls(2), Some(2), "another level has begun to send");
    }
}
