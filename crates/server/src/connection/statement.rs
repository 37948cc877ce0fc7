//! Runs the statement of a request: waits for its admission, runs it, and encodes its answer.

use std::future;
use std::mem::take;
use std::panic::{self, AssertUnwindSafe};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use carnet_admission::diagnosis::Why;
use carnet_admission::{Arrived, Class, LevelId, Permit, Witness, Workload};
use carnet_base::{Charge, Moment};
use carnet_cql::result::Response as Outcome;
use carnet_cql::{AnswerMemory, Grant, RequestTimes, RunningStatement, Terms, Trace};
use tokio::select;
use tokio::time::timeout;

use super::backlog::{Backlog, InQueue};
use super::shared::Shared;
use super::state::Job;
use super::unsent::Unsent;
use crate::backend::{Backend, StatementResult};
use crate::failure::{Failure, FailureKind};
use crate::long::{Slices, begins_long, yield_now};
use crate::metrics::Metrics;
use crate::protocol::encoder::Encoding;
use crate::protocol::error::{ErrorCode, ErrorResponse};
use crate::protocol::event::Event;
use crate::protocol::response::{MetadataForm, Notes, Response};
use crate::protocol::statement::{Batch, Statement};
use crate::protocol::types::Consistency;

/// Time after which a query that found no memory for answers may be retried.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// Time that a killed statement has to end by itself.
const KILL_PATIENCE: Duration = Duration::from_secs(1);

/// Interval at which the diagnosis is told of clients that do not read their answers.
const TELL_EVERY: Duration = Duration::from_millis(500);

/// Encoded answer of a statement, with its memory.
pub(super) struct Answer {
    pub(super) frame: Bytes,
    pub(super) held: Charge,
}

/// Request of a statement, from its arrival to its answer.
pub(super) struct Request<B: Backend> {
    pub(super) shared: Arc<Shared<B>>,
    pub(super) session: Arc<B::Session>,
    pub(super) encoding: Encoding,
    pub(super) job: Job,
    /// Time at which it reached the machine.
    pub(super) began: Moment,
    /// What its arrival has found; the rest is added when it begins.
    pub(super) grant: Grant,
}

/// Statement that was not refused on its arrival and has not begun.
pub(super) struct Arriving<B: Backend> {
    pub(super) request: Request<B>,
    pub(super) times: RequestTimes,
    pub(super) admission: Option<Arrived>,
    pub(super) terms: Option<Terms>,
    pub(super) unsent: Arc<Unsent>,
    pub(super) backlog: Arc<Backlog>,
    pub(super) in_queue: Option<InQueue>,
}

/// Statement that has begun.
struct Running {
    slices: Slices<Answer>,
    reply: Reply,
    began: Moment,
}

/// Form of the answer to a request.
#[derive(Clone, Copy)]
struct Reply {
    stream: i16,
    encoding: Encoding,
    consistency: Consistency,
}

/// Statement that was polled on its connection's task and did not end.
pub(super) struct Waiting<B: Backend>(Stage<B>);

enum Stage<B: Backend> {
    Arriving(Box<Arriving<B>>),
    Running(Running),
}

impl<B: Backend> Arriving<B> {
    /// Polls the statement once on the caller's task. It goes on in [`Waiting::finish`] if it waits
    /// for its admission, for its client or for data, or belongs on the long threads.
    pub(super) fn poll_once(mut self, shared: &Shared<B>) -> Result<Answer, Waiting<B>> {
        let bytes = self.request.job.charges.0.bytes();
        if !runs_at_once(self.admission.as_ref(), bytes) || !self.unsent.has_room() {
            return Err(self.wait());
        }
        let permit = match self.admission.take() {
            Some(Arrived::Admitted(permit)) => Some(Arc::new(permit)),
            _ => None,
        };
        if let Some(permit) = &permit {
            permit.begin();
        }
        let mut running = match self.start(Ok(permit)) {
            Ok(running) => running,
            Err(answer) => return Ok(answer),
        };
        let in_flight = shared.metrics.requests_in_flight.enter();
        // A task of its own polls it again with that task's waker.
        let mut context = Context::from_waker(Waker::noop());
        let polled = shared.long.poll_once(&mut running.slices, &mut context);
        drop(in_flight);
        match polled {
            Poll::Ready(answer) => Ok(answer),
            Poll::Pending => Err(Waiting(Stage::Running(running))),
        }
    }

    /// Lets the statement begin in [`Waiting::finish`].
    pub(super) fn wait(self) -> Waiting<B> {
        Waiting(Stage::Arriving(Box::new(self)))
    }

    /// Waits for the admission, and begins the statement.
    async fn begin(mut self, entry: Option<&RunningStatement>) -> Result<Running, Answer> {
        let permit = self.admitted().await;
        if let (Some(entry), Ok(permit)) = (entry, &permit) {
            entry.begin(permit.as_ref());
        }
        self.start(permit)
    }

    fn start(self, permit: Result<Option<Arc<Permit>>, Failure>) -> Result<Running, Answer> {
        let workload = self.terms.map_or(Workload::Unspecified, |terms| terms.workload);
        self.request.start(permit, self.times.timeout_begin(workload))
    }

    /// Waits for the admission of a statement that was not refused on its arrival, and until the
    /// client has taken earlier answers. If both waits alternate, the statement arrives anew.
    async fn admitted(&mut self) -> Result<Option<Arc<Permit>>, Failure> {
        loop {
            let permit = match self.admission.take() {
                None => None,
                Some(Arrived::Admitted(permit)) => Some(Arc::new(permit)),
                Some(Arrived::Waits(place)) => Some(Arc::new(place.await?)),
            };
            self.in_queue = None;
            if self.unsent.has_room() {
                if let Some(permit) = &permit {
                    begin(permit).await;
                }
                return Ok(permit);
            }
            let witness = permit.as_deref().map(Permit::witness);
            drop(permit);
            let Request { shared, session, job, .. } = &self.request;
            wait_for_room(shared, &self.unsent, witness).await;
            if let (Some(terms), Some(gate)) = (&self.terms, shared.backend.admission()) {
                let terms = shared.backend.renewed(session, terms);
                let (bytes, times) = (job.charges.0.bytes(), RequestTimes::at(shared.clock.now()));
                self.admission = Some(terms.arrive(gate, bytes, times)?);
                self.in_queue = self.backlog.count(self.admission.as_ref());
            }
        }
    }
}

impl<B: Backend> Request<B> {
    fn reply(&self) -> Reply {
        let (stream, encoding) = (self.job.stream, self.encoding);
        Reply { stream, encoding, consistency: consistency_of(&self.job.statement) }
    }

    /// Begins the statement, whose timeout counts from a time. Returns the answer of a statement that is
    /// refused.
    fn start(
        mut self,
        permit: Result<Option<Arc<Permit>>, Failure>,
        timeout_begin: Moment,
    ) -> Result<Running, Answer> {
        let (reply, began) = (self.reply(), self.began);
        let shared = &self.shared;
        let permit = match permit.and_then(|permit| check_answers(shared, permit)) {
            Ok(permit) => permit,
            Err(failure) => return Err(failed(shared, reply, failure)),
        };
        let memory = Arc::new(AnswerMemory::new(&shared.answers, shared.answers.max() / 2));
        self.grant.trace = self.begin_trace(permit.as_deref());
        self.grant.arrived = Some(timeout_begin);
        self.grant.permit.clone_from(&permit);
        self.grant.memory = Some(Arc::clone(&memory));
        self.grant.yield_now = Some(yield_now);
        let bytes = self.job.charges.0.bytes();
        let slices = Slices::new(Box::pin(self.run(memory)), permit, bytes);
        Ok(Running { slices, reply, began })
    }

    /// Begins the trace of the statement if the client requested one.
    fn begin_trace(&self, permit: Option<&Permit>) -> Option<Arc<Trace>> {
        if !self.job.tracing {
            return None;
        }
        let Self { shared, session, job, grant, .. } = self;
        let (statement, began) = ((&job.statement, &grant.found), self.began);
        let trace = shared.backend.begin_trace(session, statement, began)?;
        if let Some(permit) = permit {
            let now = shared.clock.now();
            let waited = now.since(began).as_micros();
            let class = permit.class().name();
            trace.note(now, format!("Admitted after {waited} µs in the queue of class {class}"));
        }
        Some(trace)
    }

    /// Runs the statement, encodes its answer, and records its duration.
    async fn run(mut self, memory: Arc<AnswerMemory>) -> Answer {
        // The permit is held until the answer is encoded.
        let (permit, trace) = (self.grant.permit.clone(), self.grant.trace.clone());
        let shared = &self.shared;
        let Reply { stream, encoding, consistency } = self.reply();
        let running = run(&shared.backend, &self.session, &mut self.job.statement, &mut self.grant);
        let answer = unless_panicked(pin!(running)).await;
        let answer = answered(shared, permit.as_deref(), &memory, answer);
        let (response, mut warnings) = answer.unwrap_or_else(|failure| {
            (Response::Error(failure.into_response(consistency)), Vec::new())
        });
        warnings.extend(memory.take_warnings().into_iter().map(String::from));
        if self.job.tracing && trace.is_none() {
            warnings.push("not supported yet: tracing; the statement ran without".into());
        }
        let id = trace.as_ref().map(|trace| trace.id);
        if let Some(trace) = trace {
            shared.backend.end_trace(trace, permit.as_deref());
        }
        if let Some((bytes, limit)) = memory.beyond_soft_limit() {
            warnings.push(soft_limit(bytes, limit));
        }
        let notes = Notes { trace: id, warnings: &warnings };
        let frame = encode(&shared.metrics, encoding, stream, response, notes);
        memory.set(frame.len());
        let took = shared.clock.now().since(self.began);
        shared.metrics.request_duration.get(self.job.opcode).record(took);
        Answer { frame, held: memory.take_charge() }
    }
}

impl<B: Backend> Waiting<B> {
    /// Runs the statement to its end, or until it is killed.
    pub(super) async fn finish(self, shared: &Shared<B>, session: &B::Session) -> Answer {
        let reply = match &self.0 {
            Stage::Arriving(arriving) => arriving.request.reply(),
            Stage::Running(running) => running.reply,
        };
        let Some(entry) = self.enter(shared, session) else {
            return self.run_to_end(shared, None).await;
        };
        let answer = unless_killed(&entry, self.run_to_end(shared, Some(&entry))).await;
        answer.unwrap_or_else(|killed| failed(shared, reply, killed))
    }

    /// Registers the statement, so that operators see it and may kill it.
    fn enter(&self, shared: &Shared<B>, session: &B::Session) -> Option<RunningStatement> {
        match &self.0 {
            Stage::Arriving(arriving) => {
                let Request { job, grant, began, .. } = &arriving.request;
                let statement = Some((&job.statement, &grant.found));
                let admission = arriving.admission.as_ref().map(admission_of);
                shared.backend.enter(session, statement, *began, admission, None)
            }
            Stage::Running(Running { slices, began, .. }) => {
                let permit = slices.permit();
                let admission = permit.map(|permit| (permit.class(), permit.level().0));
                let entry = shared.backend.enter(session, None, *began, admission, permit)?;
                entry.begin(permit);
                Some(entry)
            }
        }
    }

    async fn run_to_end(self, shared: &Shared<B>, entry: Option<&RunningStatement>) -> Answer {
        let _in_flight = shared.metrics.requests_in_flight.enter();
        let running = match self.0 {
            Stage::Running(running) => running,
            Stage::Arriving(arriving) => match arriving.begin(entry).await {
                Ok(running) => running,
                Err(answer) => return answer,
            },
        };
        shared.long.run(running.slices).await
    }
}

/// Returns the class and level of a statement that has arrived.
pub(crate) fn admission_of(arrived: &Arrived) -> (Class, LevelId) {
    match arrived {
        Arrived::Admitted(permit) => (permit.class(), permit.level().0),
        Arrived::Waits(place) => (place.class(), place.level()),
    }
}

/// Runs a statement to its end, or until it is killed. It is dropped then, as after the disconnect of its
/// client: a transaction that is not being committed is rolled back.
pub(crate) async fn unless_killed<T>(
    entry: &RunningStatement,
    running: impl Future<Output = T>,
) -> Result<T, Failure> {
    let running = pin!(running);
    select! {
        biased;
        answer = running => Ok(answer),
        failure = cut_off(entry) => Err(failure),
    }
}

/// Waits until a statement was killed and has to be dropped; returns its failure. A statement that has
/// begun has time to end by itself: only then is it known that it wrote nothing.
#[expect(clippy::disallowed_methods, reason = "its tasks run on the runtime")]
async fn cut_off(entry: &RunningStatement) -> Failure {
    entry.killed().await;
    if entry.has_begun() {
        tokio::time::sleep(KILL_PATIENCE).await;
    }
    if entry.is_without_effect() || !entry.has_begun() {
        return Failure::new(FailureKind::Killed, "the statement was killed; nothing was written");
    }
    Failure::new(
        FailureKind::Unknown,
        "the statement was killed while it waited for its commit or for another server: whether it took \
         effect is not known",
    )
}

/// Returns the answer of a statement that failed without an answer from its execution.
fn failed<B>(shared: &Shared<B>, reply: Reply, failure: Failure) -> Answer {
    let Reply { stream, encoding, consistency } = reply;
    let response = Response::Error(failure.into_response(consistency));
    let frame = encode(&shared.metrics, encoding, stream, response, Notes::default());
    let memory = AnswerMemory::new(&shared.answers, 0);
    memory.set(frame.len());
    Answer { frame, held: memory.take_charge() }
}

/// Returns `true` if a statement may run as soon as it has arrived.
fn runs_at_once(arrived: Option<&Arrived>, bytes: usize) -> bool {
    match arrived {
        None => !begins_long(None, bytes),
        Some(Arrived::Admitted(permit)) => !permit.yields() && !begins_long(Some(permit), bytes),
        Some(Arrived::Waits(_)) => false,
    }
}

/// Records the outcome of a statement in its permit, and tells other clients of a change of the schema. `None` is the
/// outcome of a statement that has panicked: an error of the server.
pub(crate) fn answered<B: Backend>(
    shared: &Shared<B>,
    permit: Option<&Permit>,
    memory: &AnswerMemory,
    outcome: Option<Result<(Response, Vec<String>), Failure>>,
) -> Result<(Response, Vec<String>), Failure> {
    let outcome = outcome.unwrap_or_else(|| Err(panicked()));
    match &outcome {
        Err(failure) if failure.kind == FailureKind::Server => {
            shared.log.fault(failure);
        }
        Ok((Response::SchemaChange(change), _)) if !shared.backend.reports_change() => {
            shared.events.publish(Event::Schema(change.clone()));
        }
        _ => {}
    }
    if let Some(permit) = permit {
        // A page that ends early is an answer.
        if let (Err(_), Some(retry_after)) = (&outcome, memory.refused()) {
            permit.lacked_memory(retry_after);
        }
        match &outcome {
            Err(failure) if failure.kind == FailureKind::Timeout => permit.timed_out(),
            _ => permit.answered(),
        }
    }
    outcome
}

/// Refuses a query while there is no memory for a small answer: answers that are being made or wait
/// to be sent hold all of it. Queries that drivers need to connect, and writes, whose answers are
/// short, proceed.
pub(crate) fn check_answers<B: Backend>(
    shared: &Shared<B>,
    permit: Option<Arc<Permit>>,
) -> Result<Option<Arc<Permit>>, Failure> {
    let is_query = permit.as_ref().is_none_or(|permit| permit.class() == Class::Read);
    if !is_query || AnswerMemory::fits_small(&shared.answers) {
        return Ok(permit);
    }
    match &permit {
        Some(permit) => permit.refused_for_memory(RETRY_AFTER),
        None => shared.metrics.requests_shed_by_answers.add(1),
    }
    let (ms, mib) = (RETRY_AFTER.as_millis(), shared.answers.used() >> 20);
    Err(Failure::new(
        FailureKind::Overloaded { retry_after: RETRY_AFTER },
        format!(
            "the statement was refused, since {mib} MiB of answers are being made or wait for clients to \
             read them; nothing was done, try again after {ms} ms"
        ),
    ))
}

fn soft_limit(bytes: usize, limit: usize) -> String {
    format!(
        "the answer takes {bytes} bytes of the server's memory, more than {limit} (memory_soft of the service level); \
         ask for it in pages, or select fewer columns of long rows"
    )
}

/// Waits until a client has read enough of its earlier answers. The diagnosis is told meanwhile: the client may never
/// read them.
#[expect(clippy::disallowed_methods, reason = "its tasks run on the runtime")]
async fn wait_for_room<B: Backend>(shared: &Shared<B>, unsent: &Unsent, witness: Option<Witness>) {
    let mut has_room = false;
    while !has_room {
        let since = shared.clock.now();
        has_room = timeout(TELL_EVERY, unsent.wait_for_room()).await.is_ok();
        if let Some(witness) = &witness {
            witness.waited(Why::Socket, shared.clock.now().since(since));
        }
    }
}

/// Begins an admitted statement, after other statements that have arrived if levels compete.
pub(crate) async fn begin(permit: &Permit) {
    if permit.yields() {
        // The runtime polls the sockets first, so that requests that have arrived join the gate.
        tokio::task::yield_now().await;
    }
    permit.begin();
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

const fn consistency_of(statement: &Statement) -> Consistency {
    match statement {
        Statement::Query { params, .. } | Statement::Execute { params, .. } => params.consistency,
        Statement::Batch(batch) => batch.params.consistency,
        Statement::Prepare { .. } => Consistency::Quorum,
    }
}

/// Runs a statement. Its values are moved out of it: they would be twice in the future otherwise.
pub(crate) async fn run<B: Backend>(
    backend: &B,
    session: &B::Session,
    statement: &mut Statement,
    grant: &mut Grant,
) -> Result<(Response, Vec<String>), Failure> {
    match statement {
        Statement::Query { text, params } => {
            let skip = params.skip_metadata;
            let answer = backend.query(session, text, take(params), take(grant)).await?;
            Ok(response(answer, skip, None))
        }
        Statement::Execute { id, result_id, params } => {
            let skip = params.skip_metadata;
            let answer = backend.execute(session, id, take(params), take(grant)).await?;
            Ok(response(answer, skip, result_id.as_deref()))
        }
        Statement::Prepare { text, keyspace } => {
            let prepared = Box::pin(backend.prepare(session, text, keyspace.as_deref())).await?;
            Ok((Response::Prepared(prepared), Vec::new()))
        }
        Statement::Batch(batch) => {
            let Batch { kind, items, params } = batch;
            let batch = Batch { kind: *kind, items: take(items), params: take(params) };
            let answer = Box::pin(backend.batch(session, batch, take(grant))).await?;
            Ok(response(answer, false, None))
        }
    }
}

fn response(answer: StatementResult, skip: bool, known: Option<&[u8]>) -> (Response, Vec<String>) {
    let response = match answer.response {
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
pub(crate) async fn unless_panicked<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    future::poll_fn(|context| {
        // After a panic the future is not polled again, so its broken state is never observed.
        let polled = panic::catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
        polled.map_or(Poll::Ready(None), |polled| polled.map(Some))
    })
    .await
}

#[cfg(test)]
mod tests {
    use carnet::Db;
    use carnet_admission::{AdmissionLimits, AdmissionRequest, Level, LevelId, Workload};

    use super::*;
    use crate::executor::CqlBackend;

    /// Maximum size of the future of a statement, in bytes.
    const FUTURE_BYTES_MAX: usize = 2_560;

    fn size_of_output<T, F>(_: impl FnOnce(T) -> F) -> usize {
        size_of::<F>()
    }

    /// Each level of nested futures moves the ones below it, so that large ones are slow as well.
    #[test]
    fn future_of_a_statement_is_small() {
        let run = |request: Request<CqlBackend>| {
            let memory = Arc::new(AnswerMemory::new(&request.shared.answers, 0));
            request.run(memory)
        };
        let size = size_of_output(run);
        assert!(size <= FUTURE_BYTES_MAX, "{size} bytes");
    }

    #[test]
    fn statement_lets_others_arrive_while_levels_compete() {
        let db = Db::builder().admission(AdmissionLimits::of_server(1)).in_memory();
        let admission = db.admission().unwrap();
        let polls = |id| {
            let level = Level { id: LevelId(id), ..Level::default() };
            let (class, workload) = (Class::Read, Workload::Interactive);
            let request = AdmissionRequest::new(&level, class, workload, 1);
            let Ok(Arrived::Admitted(permit)) = admission.arrive(request) else {
                panic!("there is room")
            };
            let arrived = Arrived::Admitted(permit);
            let is_first = runs_at_once(Some(&arrived), 1);
            let Arrived::Admitted(permit) = arrived else { panic!("it was admitted") };
            let mut begins = pin!(begin(&permit));
            let mut context = Context::from_waker(Waker::noop());
            (is_first, (1..3).find(|_| begins.as_mut().poll(&mut context).is_ready()))
        };
        assert_eq!(polls(1), (true, Some(1)), "one level alone");
        assert_eq!(polls(2), (false, Some(2)), "another level has begun to send");
    }
}
