//! Maelstrom's services, and what goes wrong with them. No I/O.

mod kv;
mod lww;
mod sequential;

use std::collections::BTreeMap;
use std::time::Duration;

use carnet_base::{Rng, SeededRng};
use serde_json::{Value, json};

use crate::service::kv::Kv;
use crate::service::lww::Lww;
use crate::service::sequential::Sequential;

/// What goes wrong between nodes and services, and how often.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// How many of 1000 requests reach the service late.
    pub late_requests: u64,
    /// How many of 1000 answers are late.
    pub late_answers: u64,
    /// How late at most.
    pub lateness_max: Duration,
    /// How many of 1000 requests are never answered, half of them done all the same.
    pub lost: u64,
    /// How many of 1000 requests are answered with an indefinite error, half of them done all the
    /// same.
    pub errors: u64,
}

/// What becomes of one request.
pub(crate) struct Fate {
    /// The request arrives so much later.
    pub(crate) delay: Duration,
    pub(crate) answer_delay: Duration,
    pub(crate) end: End,
}

/// How a request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Answered,
    Lost { is_done: bool },
    Error { is_done: bool },
}

impl Faults {
    pub(crate) fn draw(&self, rng: &mut SeededRng) -> Fate {
        let nanos = u64::try_from(self.lateness_max.as_nanos()).unwrap_or(u64::MAX);
        let mut delay = |per_mille| {
            let is_late = rng.chance(per_mille);
            Duration::from_nanos(if is_late { rng.below(nanos) } else { 0 })
        };
        let (delay, answer_delay) = (delay(self.late_requests), delay(self.late_answers));
        let is_done = rng.chance(500);
        let end = if rng.chance(self.lost) {
            End::Lost { is_done }
        } else if rng.chance(self.errors) {
            End::Error { is_done }
        } else {
            End::Answered
        };
        Fate { delay, answer_delay, end }
    }
}

/// What a service does with the body of a request.
pub(crate) trait Service {
    fn handle(&mut self, client: &str, body: &Value, rng: &mut SeededRng) -> Value;
    /// Returns the longest value that it has held, in bytes of a string.
    fn value_bytes_max(&self) -> usize {
        0
    }
}

/// All services, by name.
pub(crate) struct Services(BTreeMap<&'static str, Box<dyn Service>>);

impl Services {
    pub(crate) fn new() -> Self {
        Self(BTreeMap::from([
            ("lin-kv", Box::new(Kv::default()) as Box<dyn Service>),
            ("seq-kv", Box::new(Sequential::default())),
            ("lww-kv", Box::new(Lww::default())),
            ("lin-tso", Box::new(Oracle(0))),
        ]))
    }

    /// Handles a request; `None` where there is no such service.
    pub(crate) fn handle(
        &mut self,
        name: &str,
        client: &str,
        body: &Value,
        rng: &mut SeededRng,
    ) -> Option<Value> {
        Some(self.0.get_mut(name)?.handle(client, body, rng))
    }

    /// Returns the longest value that `lin-kv` has held: where the root is kept, it is the root.
    pub(crate) fn root_bytes_max(&self) -> usize {
        self.0["lin-kv"].value_bytes_max()
    }
}

/// `lin-tso`: timestamps in their order.
struct Oracle(u64);

impl Service for Oracle {
    fn handle(&mut self, _: &str, body: &Value, _: &mut SeededRng) -> Value {
        if body["type"] != "ts" {
            return unsupported();
        }
        self.0 += 1;
        json!({"type": "ts_ok", "ts": self.0 - 1})
    }
}

pub(crate) fn error(code: u64, text: &str) -> Value {
    json!({"type": "error", "code": code, "text": text})
}

fn unsupported() -> Value {
    error(10, "there is no such request")
}

/// What a request of a key-value service asks for.
enum Request<'b> {
    Read,
    Write(&'b Value),
    Cas { from: &'b Value, to: &'b Value, creates: bool },
}

/// Reads a request: its key, as JSON, and what to do with it.
fn request(body: &Value) -> Option<(String, Request<'_>)> {
    let request = match body["type"].as_str()? {
        "read" => Request::Read,
        "write" => Request::Write(body.get("value")?),
        "cas" => Request::Cas {
            from: body.get("from")?,
            to: body.get("to")?,
            creates: body["create_if_not_exists"] == true,
        },
        _ => return None,
    };
    Some((body.get("key")?.to_string(), request))
}

/// What a request does with the value that its key holds: the answer, and a new value.
fn decide(held: Option<&Value>, request: &Request<'_>) -> (Value, Option<Value>) {
    let missing = || error(20, "key does not exist");
    match (request, held) {
        (Request::Read, Some(value)) => (json!({"type": "read_ok", "value": value}), None),
        (Request::Read, None) | (Request::Cas { creates: false, .. }, None) => (missing(), None),
        (Request::Write(value), _) => (json!({"type": "write_ok"}), Some((*value).clone())),
        (Request::Cas { from, .. }, Some(value)) if *from != value => {
            (error(22, "the key holds something else"), None)
        }
        (Request::Cas { to, .. }, _) => (json!({"type": "cas_ok"}), Some((*to).clone())),
    }
}
