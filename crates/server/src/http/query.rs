//! Statements of the dashboard: admitted, run, limited and audited like statements of CQL clients.

#![expect(clippy::disallowed_methods, reason = "its tasks run on the runtime")]

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use carnet_admission::Arrived;
use carnet_base::{Charge, Moment};
use carnet_cql::{AnswerMemory, Grant, RequestTimes, RunningStatement};
use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::header::HeaderMap;
use serde::Deserialize;

use super::answer::{Answer, json as answer_json, refusal};
use super::body::receive;
use super::ends::Ends;
use super::login::find;
use super::page_statement::is_of_a_page;
use super::rows::{AnswerText, failed, result_text};
use super::sessions::STATEMENTS_MAX;
use super::site::Site;
use crate::backend::{Arrival, Backend};
use crate::connection::{
    Shared, admission_of, answered, begin, check_answers, run, unless_killed, unless_panicked,
};
use crate::failure::Failure;
use crate::in_progress::InProgressGuard;
use crate::long::{AbortOnDrop, Slices, yield_now};
use crate::monitoring::Dashboard;
use crate::protocol::head::Peek;
use crate::protocol::response::Response;
use crate::protocol::statement::{QueryParams, Statement};
use crate::protocol::types::Consistency;
use crate::protocol::{Opcode, Version};

/// Maximum length of a request in bytes.
const BODY_LEN_MAX: usize = 1 << 20;
/// Maximum bytes of an answer's rows, and of its text.
const ANSWER_BYTES_MAX: usize = 4 << 20;
const CONSOLE_OFF: &str = "the console is off (server.http_console = false): the dashboard runs the statements of its \
                           pages only; use carnet shell --server";
const PAGE_ROWS: u32 = 100;
const PAGE_ROWS_MAX: u32 = 5_000;

/// Body of a request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    statement: String,
    /// Maximum number of rows; further ones are on the next page.
    #[serde(default)]
    rows: Option<u32>,
    /// State of the next page, from an earlier answer.
    #[serde(default)]
    next: Option<String>,
    /// Whether it is a statement of the console, rather than of a page.
    #[serde(default)]
    console: bool,
}

/// Answers `/api/query`: runs a statement of a session.
pub(super) async fn query<B: Backend>(
    site: &Arc<Site<B>>,
    headers: &HeaderMap,
    body: Incoming,
    ends: Ends,
) -> Answer {
    let Some(opened) = find(site, headers, ends) else { return no_session() };
    let received = match receive::<Asked>(body, BODY_LEN_MAX, &site.shared.budget).await {
        Ok(received) => received,
        Err(answer) => return answer,
    };
    let Asked { statement, rows, next, console } = received.value;
    // The client's word alone would hide statements from the figures.
    let console = console || !is_of_a_page(&statement);
    if console && site.shared.monitoring.dashboard != Dashboard::Full {
        return refusal(StatusCode::FORBIDDEN, CONSOLE_OFF);
    }
    let Some(paging_state) =
        next.as_deref().map(from_hex).map_or(Some(None), |state| state.map(Some))
    else {
        return refusal(StatusCode::BAD_REQUEST, "next should be the value of an earlier answer");
    };
    let Ok(_place) = opened.statements.try_acquire() else {
        let why =
            format!("the session runs {STATEMENTS_MAX} statements already: wait for their answers");
        return refusal(StatusCode::TOO_MANY_REQUESTS, &why);
    };
    let working = site.working.begin().filter(|_| !site.is_draining());
    let Some(working) = working else {
        return refusal(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down");
    };
    let shared = Arc::clone(&site.shared);
    let wait = opened.account.wait(|| shared.clock.now());
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
    // The session may have ended while the body arrived.
    if find(site, headers, ends).is_none() {
        return no_session();
    }
    let now = shared.clock.now();
    opened.account.take(now);
    if console {
        opened.registration.count_request();
    }
    let page_size = Some(rows.unwrap_or(PAGE_ROWS).clamp(1, PAGE_ROWS_MAX));
    let params = QueryParams { page_size, paging_state, ..QueryParams::default() };
    let session = Arc::clone(if console { &opened.console } else { &opened.pages });
    let charge = received.charge;
    let statement = Statement::Query { text: statement, params };
    let running = Running { shared, session, statement, arrived: now, charge, console };
    // The service's thread waits for no statement. If the client is gone, the statement ends.
    let task = site.runtime.spawn(running.run());
    match AbortOnDrop(task).await {
        Ok(bytes) => {
            answer_json(StatusCode::OK, Bytes::from_owner(Sending { bytes, _working: working }))
        }
        // The server has ended.
        Err(_) => refusal(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down"),
    }
}

fn no_session() -> Answer {
    refusal(StatusCode::UNAUTHORIZED, "log in first: there is no session, or it has ended")
}

/// Answer of a statement that is in progress until it is sent: a drain waits for it.
struct Sending {
    bytes: Bytes,
    _working: InProgressGuard,
}

impl AsRef<[u8]> for Sending {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

struct Running<B: Backend> {
    shared: Arc<Shared<B>>,
    session: Arc<B::Session>,
    statement: Statement,
    arrived: Moment,
    /// Charge of the request to the server's budget until it is answered.
    charge: Charge,
    /// Whether it is a person's statement: others watch the server, and are counted apart.
    console: bool,
}

impl<B: Backend> Running<B> {
    /// Runs the statement and returns its answer as JSON, whose memory is charged until it is sent.
    async fn run(self) -> Bytes {
        let (shared, arrived, console) = (Arc::clone(&self.shared), self.arrived, self.console);
        let metrics = Arc::clone(&shared.metrics);
        let _in_flight = console.then(|| metrics.requests_in_flight.enter());
        let requests =
            if console { metrics.requests.get(Opcode::Query) } else { &metrics.requests_watching };
        requests.add(1);
        let answer = self.run_until_killed().await.unwrap_or_else(|failure| {
            if console {
                let response = failure.clone().into_response(Consistency::default());
                metrics.errors.get(response.code(Version::HIGHEST)).add(1);
            }
            failed(&failure).into()
        });
        if console {
            metrics.request_duration.get(Opcode::Query).record(shared.clock.now().since(arrived));
        }
        answer
    }

    /// Returns what admission needs of the statement, which is a query.
    fn peek(&self) -> Peek<'_> {
        match &self.statement {
            Statement::Query { text, .. } => Peek::of_text(text.as_bytes()),
            Statement::Batch(_) => Peek::Batch,
            Statement::Prepare { .. } | Statement::Execute { .. } => Peek::Prepare,
        }
    }

    /// Runs the statement to its end, or until it is killed. Operators see it meanwhile.
    async fn run_until_killed(self) -> Result<Bytes, Failure> {
        let (shared, session) = (Arc::clone(&self.shared), Arc::clone(&self.session));
        let (bytes, times) = (self.charge.bytes(), RequestTimes::at(self.arrived));
        let arrival = shared.backend.arrive(&session, self.peek(), bytes, times)?;
        let admission = arrival.admission.as_ref().map(|(arrived, _)| admission_of(arrived));
        let statement = Some((&self.statement, &arrival.found));
        match shared.backend.enter(&session, statement, self.arrived, admission, None) {
            None => self.admit_and_run(arrival, None).await,
            Some(entry) => {
                unless_killed(&entry, self.admit_and_run(arrival, Some(&entry))).await.flatten()
            }
        }
    }

    async fn admit_and_run(
        self,
        arrival: Arrival,
        entry: Option<&RunningStatement>,
    ) -> Result<Bytes, Failure> {
        let Self { shared, session, mut statement, arrived, charge, .. } = self;
        let bytes = charge.bytes();
        let permit = match arrival.admission {
            None => None,
            Some((Arrived::Admitted(permit), _)) => Some(Arc::new(permit)),
            Some((Arrived::Waits(place), _)) => Some(Arc::new(place.await?)),
        };
        if let Some(permit) = &permit {
            begin(permit).await;
        }
        if let Some(entry) = entry {
            entry.begin(permit.as_ref());
        }
        let permit = check_answers(&shared, permit)?;
        let bytes_max = ANSWER_BYTES_MAX.min(shared.answers.max() / 2);
        let memory = AnswerMemory::new(&shared.answers, bytes_max);
        let memory = Arc::new(memory.limited_by("that of an answer to the dashboard"));
        let mut grant = Grant {
            found: arrival.found,
            arrived: Some(arrived),
            permit: permit.clone(),
            memory: Some(Arc::clone(&memory)),
            trace: None,
            yield_now: Some(yield_now),
        };
        let (of_work, of_permit) = (Arc::clone(&shared), permit.clone());
        let work = Box::pin(async move {
            let running = run(&of_work.backend, &session, &mut statement, &mut grant);
            let outcome = unless_panicked(pin!(running)).await;
            encode(answered(&of_work, of_permit.as_deref(), &memory, outcome)?, &memory)
        });
        let answer = shared.long.run(Slices::new(work, permit, bytes)).await;
        drop(charge);
        answer
    }
}

/// Returns the answer of a statement as JSON.
fn encode(
    (response, mut warnings): (Response, Vec<String>),
    memory: &AnswerMemory,
) -> Result<Bytes, Failure> {
    warnings.extend(memory.take_warnings().into_iter().map(String::from));
    let text = result_text(&response, &warnings, memory)?;
    drop(response);
    memory.set(text.len());
    Ok(Bytes::from_owner(AnswerText { text, _held: memory.take_charge() }))
}

fn from_hex(text: &str) -> Option<Bytes> {
    if !text.bytes().all(|byte| byte.is_ascii_hexdigit()) || !text.len().is_multiple_of(2) {
        return None;
    }
    let digits = (0..text.len()).step_by(2).map(|at| text.get(at..at + 2));
    digits.map(|digits| u8::from_str_radix(digits?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_pages_are_hexadecimal() {
        assert_eq!(from_hex("00ffA0").unwrap()[..], [0, 255, 160]);
        assert!(from_hex("").unwrap().is_empty());
        for wrong in ["0", "0g", "é", "+1"] {
            assert!(from_hex(wrong).is_none(), "{wrong}");
        }
    }
}
