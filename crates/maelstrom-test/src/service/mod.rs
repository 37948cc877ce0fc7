//! Maelstrom's services and their faults. No I/O.

mod interface;
mod kv;
mod lww;
mod request;
mod sequential;

use std::collections::BTreeMap;
use std::time::Duration;

use carnet_base::{Rng, SeededRng};
use serde_json::{Value, json};

use crate::service::interface::unsupported;
use crate::service::kv::Kv;
use crate::service::lww::Lww;
use crate::service::sequential::Sequential;

pub(crate) use interface::{Service, error};

/// Faults between nodes and services, and their rates.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Number of requests that reach the service late, per 1000.
    pub late_requests: u64,
    /// Number of answers that are late, per 1000.
    pub late_answers: u64,
    /// Maximum delay of late messages.
    pub lateness_max: Duration,
    /// Number of requests that are never answered, per 1000; half of them are executed.
    pub lost: u64,
    /// Number of requests that get an indefinite error, per 1000; half of them are executed.
    pub errors: u64,
}

/// The faults drawn for one request.
pub(crate) struct RequestFaults {
    /// Additional delay before the request arrives.
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
    pub(crate) fn draw(&self, rng: &mut SeededRng) -> RequestFaults {
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
        RequestFaults { delay, answer_delay, end }
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

    /// Handles a request; `None` if there is no such service.
    pub(crate) fn handle(
        &mut self,
        name: &str,
        client: &str,
        body: &Value,
        rng: &mut SeededRng,
    ) -> Option<Value> {
        Some(self.0.get_mut(name)?.handle(client, body, rng))
    }

    /// Returns the length of the longest value that `lin-kv` has held: the root, if it is kept
    /// there.
    pub(crate) fn root_bytes_max(&self) -> usize {
        self.0["lin-kv"].value_bytes_max()
    }
}

/// `lin-tso`: increasing timestamps.
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
