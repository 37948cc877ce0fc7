//! A proxy in front of a node, which knows Carnet's requests by name and disturbs one of them.
//!
//! ```text
//!   servers ──▶ requests: named by the text they were prepared with ──▶ node
//!           ◀── answers: those of disturbed requests held or replaced ◀──
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use carnet_base::{Clock, Moment, SystemClock};

use super::fault::{Fault, NodeError};
use super::frames::{BATCH, Body, EXECUTE, Frame, PREPARE, QUERY, RESULT};
use crate::support::{pause, spawn};

/// Name of the preparation of any statement, and of changes of the schema.
pub(super) const PREPARATION: &str = "prepare";
pub(super) const SCHEMA_CHANGE: &str = "schema change";
/// Name of the driver's reads of a node's version of the schema.
pub(super) const AGREEMENT: &str = "schema agreement";

pub(super) struct Proxy {
    pub(super) address: String,
    shared: Arc<Shared>,
}

struct Shared {
    node: String,
    /// Name by text, without numbers.
    names: BTreeMap<String, String>,
    /// Time after which every client has given a request up.
    late: Duration,
    state: Mutex<State>,
    hit: Condvar,
    reads_again: Condvar,
}

#[derive(Default)]
struct State {
    rule: Option<Rule>,
    /// Name by id of a prepared statement.
    prepared: HashMap<Vec<u8>, String>,
    /// Statements that no name is known of.
    unknown: BTreeSet<String>,
    refuses: bool,
    /// Whether the node reads no request.
    is_silent: bool,
}

struct Rule {
    request: String,
    fault: Fault,
    during: Duration,
    /// Name of requests that are refused until the first hit.
    refused: Option<String>,
    hit: Option<Moment>,
}

impl State {
    fn was_hit(&self) -> bool {
        self.rule.as_ref().is_some_and(|rule| rule.hit.is_some())
    }
}

impl Proxy {
    /// Starts a proxy for a node and statements by their names.
    pub(super) fn start(node: &str, statements: Vec<(String, String)>, late: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let names = statements.into_iter().map(|(name, text)| (numberless(&text), name)).collect();
        let (state, hit, reads_again) = (Mutex::default(), Condvar::new(), Condvar::new());
        let shared =
            Arc::new(Shared { node: node.to_owned(), names, late, state, hit, reads_again });
        let connections = Arc::clone(&shared);
        spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if !connections.state().refuses {
                    serve(&connections, client);
                }
            }
        });
        Self { address, shared }
    }

    /// Disturbs the next request of a name, and all further ones for a while; until then, all
    /// requests of another name are refused.
    pub(super) fn disturb(
        &self,
        (request, fault): (&str, Fault),
        during: Duration,
        until_then: Option<&str>,
    ) {
        let (request, refused) = (request.to_owned(), until_then.map(str::to_owned));
        self.shared.state().rule = Some(Rule { request, fault, during, refused, hit: None });
    }

    /// Lets all requests pass.
    pub(super) fn heal(&self) {
        self.shared.state().rule = None;
    }

    /// Waits until the disturbed request was seen; returns `false` if it was not in time.
    pub(super) fn was_hit(&self, within: Duration) -> bool {
        let state = self.shared.state();
        let waited = self.shared.hit.wait_timeout_while(state, within, |state| !state.was_hit());
        waited.unwrap_or_else(PoisonError::into_inner).0.was_hit()
    }

    /// Refuses new connections, or accepts them again.
    pub(super) fn refuse(&self, refuses: bool) {
        self.shared.state().refuses = refuses;
    }

    /// Lets the node read no request, as a stopped process does, or all of them again.
    ///
    /// Requests wait rather than being lost: a living connection delivers all bytes, and the driver
    /// would wait for ever for a lost answer to the first request of a connection.
    pub(super) fn silence(&self, is_silent: bool) {
        self.shared.state().is_silent = is_silent;
        self.shared.reads_again.notify_all();
    }

    /// Returns the texts of requests that have no name.
    pub(super) fn unknown(&self) -> BTreeSet<String> {
        self.shared.state().unknown.clone()
    }
}

/// Returns a text without the numbers of tables.
fn numberless(text: &str) -> String {
    let words = text.split(' ').map(|word| match word.split_once('.') {
        Some((_, table)) if table.starts_with("cells_") => "cells",
        Some((_, table)) if table.starts_with("commits") => "commits",
        Some((_, "registers")) => "registers",
        _ => word,
    });
    words.collect::<Vec<_>>().join(" ")
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the node reads requests; returns the fault of a request.
    fn fault_of(&self, request: &Frame) -> Option<Fault> {
        let state = self.reads_again.wait_while(self.state(), |state| state.is_silent);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        let asked = self.names_of(&mut state, request);
        let rule = state.rule.as_mut()?;
        let is_first = rule.hit.is_none();
        if is_first && rule.refused.as_ref().is_some_and(|name| asked.contains(name)) {
            return Some(Fault::Refused(NodeError::WriteTimeout));
        }
        let now = SystemClock.now();
        let is_over = rule.hit.is_some_and(|hit| now.since(hit) >= rule.during);
        if is_over || !asked.contains(&rule.request) {
            return None;
        }
        rule.hit.get_or_insert(now);
        self.hit.notify_all();
        Some(rule.fault)
    }

    fn names_of(&self, state: &mut State, request: &Frame) -> Vec<String> {
        let mut body = request.body();
        match request.opcode() {
            PREPARE => vec![PREPARATION.to_owned()],
            QUERY => name_of_text(&body.long_text()).map(str::to_owned).into_iter().collect(),
            EXECUTE => {
                let name = state.prepared.get(body.short_bytes()).cloned().unwrap_or_default();
                vec![with_register(name, &mut body)]
            }
            BATCH => batch(state, &mut body),
            _ => Vec::new(),
        }
    }

    fn prepared(&self, text: &str, answer: &Frame) {
        const PREPARED: i32 = 4;
        let mut body = answer.body();
        if answer.opcode() != RESULT || body.int() != PREPARED {
            return;
        }
        let id = body.short_bytes().to_vec();
        let mut state = self.state();
        match self.names.get(&numberless(text)) {
            Some(name) => {
                state.prepared.insert(id, name.clone());
            }
            // The driver's own, and the probe of a new table.
            None if text.contains("FROM system") || text.ends_with(" LIMIT 1") => {}
            None => {
                state.unknown.insert(text.to_owned());
            }
        }
    }
}

fn name_of_text(text: &str) -> Option<&'static str> {
    let is_agreement = text.starts_with("SELECT schema_version FROM system.local");
    let other = is_agreement.then_some(AGREEMENT);
    text.starts_with("CREATE ").then_some(SCHEMA_CHANGE).or(other)
}

/// Adds the register's name, which is the only text among the values.
fn with_register(name: String, body: &mut Body<'_>) -> String {
    if !name.starts_with("register") {
        return name;
    }
    let _consistency = body.short();
    let flags = body.byte();
    assert!(flags & 1 != 0, "a request of a register has values");
    let values = body.values();
    let register = ["lease", "coordination", "sweep_mark"]
        .into_iter()
        .find(|register| values.contains(&register.as_bytes()))
        .unwrap_or("unknown");
    format!("{name} {register}")
}

fn batch(state: &State, body: &mut Body<'_>) -> Vec<String> {
    let _kind = body.byte();
    let count = body.short();
    let mut names = Vec::new();
    for _ in 0..count {
        if body.byte() == 0 {
            body.long_text();
        } else {
            let name = state.prepared.get(body.short_bytes()).cloned();
            // An epoch is moved alone. The same text in a batch is the fence of the others.
            names.extend(name.map(|name| name.replace("MoveEpoch", "Fence")));
        }
        body.values();
    }
    names.sort();
    names.dedup();
    names
}

/// What happens to the answer of a request.
enum Answer {
    Replaced(Frame),
    Held,
    Closes,
    IsPrepared(String),
}

struct Connection {
    shared: Arc<Shared>,
    client: Mutex<TcpStream>,
    node: Mutex<TcpStream>,
    answers: Mutex<HashMap<[u8; 2], Answer>>,
}

fn serve(shared: &Arc<Shared>, client: TcpStream) {
    let Ok(node) = TcpStream::connect(&shared.node) else { return };
    for stream in [&client, &node] {
        stream.set_nodelay(true).unwrap();
    }
    let (requests, answers) = (client.try_clone().unwrap(), node.try_clone().unwrap());
    let connection = Arc::new(Connection {
        shared: Arc::clone(shared),
        client: Mutex::new(client),
        node: Mutex::new(node),
        answers: Mutex::default(),
    });
    let other = Arc::clone(&connection);
    spawn(move || connection.requests(requests));
    spawn(move || other.answers(answers));
}

impl Connection {
    fn requests(self: Arc<Self>, mut from: TcpStream) {
        while let Ok(request) = Frame::read(&mut from) {
            let stream = request.stream();
            let fault = self.shared.fault_of(&request);
            if request.opcode() == PREPARE {
                self.expect(stream, Answer::IsPrepared(request.body().long_text()));
            }
            match fault {
                None => send(&self.node, &request),
                Some(Fault::Refused(error)) => {
                    self.answered(stream);
                    send(&self.client, &error.answer(stream));
                }
                Some(Fault::RunThen(error)) => {
                    self.expect(stream, Answer::Replaced(error.answer(stream)));
                    send(&self.node, &request);
                }
                Some(Fault::ClosedBefore) => break,
                Some(Fault::ClosedAfter) => {
                    self.expect(stream, Answer::Closes);
                    send(&self.node, &request);
                }
                Some(Fault::Late) => {
                    let held = Arc::clone(&self);
                    spawn(move || {
                        pause(held.shared.late);
                        send(&held.node, &request);
                    });
                }
                Some(Fault::AnsweredLate) => {
                    self.expect(stream, Answer::Held);
                    send(&self.node, &request);
                }
                Some(Fault::Lost) => {}
            }
        }
        self.close();
    }

    fn answers(self: Arc<Self>, mut from: TcpStream) {
        while let Ok(answer) = Frame::read(&mut from) {
            match self.answered(answer.stream()) {
                Some(Answer::Replaced(error)) => send(&self.client, &error),
                Some(Answer::Closes) => break,
                Some(Answer::Held) => {
                    let held = Arc::clone(&self);
                    spawn(move || {
                        pause(held.shared.late);
                        send(&held.client, &answer);
                    });
                }
                Some(Answer::IsPrepared(text)) => {
                    self.shared.prepared(&text, &answer);
                    send(&self.client, &answer);
                }
                None => send(&self.client, &answer),
            }
        }
        self.close();
    }

    fn expect(&self, stream: [u8; 2], answer: Answer) {
        lock(&self.answers).insert(stream, answer);
    }

    fn answered(&self, stream: [u8; 2]) -> Option<Answer> {
        lock(&self.answers).remove(&stream)
    }

    fn close(&self) {
        for stream in [&self.client, &self.node] {
            // The other side may have closed it.
            let _ = lock(stream).shutdown(Shutdown::Both);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn send(to: &Mutex<TcpStream>, frame: &Frame) {
    // A connection that closed meanwhile ends its threads.
    let _ = lock(to).write_all(&frame.bytes);
}
