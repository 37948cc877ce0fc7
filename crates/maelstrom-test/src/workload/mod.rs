//! Requests that clients make, their answers, and the verdict on both. No I/O.

mod echo;
mod kv;
mod set;
mod txn;

use std::collections::HashMap;

use carnet_base::{Moment, SeededRng};
use carnet_checker::{Model, Outcome, Recorder, check};
use serde_json::Value;

/// A workload, named as Maelstrom does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Transactions that read and append to lists.
    TxnListAppend,
    /// Transactions that read and write registers.
    TxnRwRegister,
    /// A register for each key: read, write, compare-and-set.
    LinKv,
    /// A set that only grows.
    GSet,
    /// Returns the request's value.
    Echo,
}

/// An answer as a client classifies it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ClientAnswer {
    /// The body of an answer that is not an error.
    Ok(Value),
    /// The request did not take effect and never will, with the error's code.
    Fail(u64),
    /// The outcome is unknown.
    Info,
}

impl ClientAnswer {
    /// Classifies the body of an answer.
    pub(crate) fn from_body(body: Value) -> Self {
        /// The codes that promise that the request did not take effect.
        const DEFINITE: [u64; 9] = [1, 10, 11, 12, 14, 20, 21, 22, 30];
        if body["type"] != "error" {
            return Self::Ok(body);
        }
        match body["code"].as_u64() {
            Some(code) if DEFINITE.contains(&code) => Self::Fail(code),
            _ => Self::Info,
        }
    }

    pub(crate) const fn outcome(&self) -> Outcome {
        match self {
            Self::Ok(_) => Outcome::Committed,
            Self::Fail(_) => Outcome::Aborted,
            Self::Info => Outcome::Unknown,
        }
    }
}

/// The verdict on a run.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Whether no anomaly was found.
    pub is_valid: bool,
    /// Names of the anomalies that were found.
    pub anomalies: Vec<String>,
    /// The same for a person, with a proof.
    pub explanation: String,
    /// The history for other checkers, if they support the workload.
    pub history: Option<carnet_checker::History>,
    /// The shortest anomaly that the model forbids, as the checker found it.
    pub anomaly: Option<carnet_checker::Anomaly>,
}

impl Verdict {
    fn from_anomalies(mut anomalies: Vec<String>) -> Self {
        anomalies.truncate(10);
        let explanation = anomalies.join("\n");
        Self {
            is_valid: anomalies.is_empty(),
            anomalies,
            explanation,
            history: None,
            anomaly: None,
        }
    }
}

/// Identifies a request of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CallId(pub(crate) u64);

pub(crate) trait Workload {
    /// Draws a request: the body of a message, without its number.
    fn invoke(&mut self, call: CallId, process: i64, now: Moment, rng: &mut SeededRng) -> Value;
    /// Takes an answer. An answer that does not fit is recorded as a finding, or as an unknown
    /// outcome.
    fn complete(&mut self, call: CallId, now: Moment, answer: ClientAnswer);
    /// Begins the last request of a client, after all others; `None` if the workload has none.
    fn finish(&mut self, _call: CallId, _process: i64, _now: Moment) -> Option<Value> {
        None
    }
    fn verdict(self: Box<Self>, model: Model) -> Verdict;
}

pub(crate) fn new(kind: Kind) -> Box<dyn Workload> {
    match kind {
        Kind::TxnListAppend => Box::new(txn::Txn::lists()),
        Kind::TxnRwRegister => Box::new(txn::Txn::registers()),
        Kind::LinKv => Box::new(kv::LinKv::default()),
        Kind::GSet => Box::new(set::GSet::default()),
        Kind::Echo => Box::new(echo::Echo::default()),
    }
}

fn nanos(now: Moment) -> i64 {
    i64::try_from(now.0.as_nanos()).unwrap_or(i64::MAX)
}

/// A history that is being recorded.
#[derive(Default)]
struct History {
    recorder: Recorder,
    calls: HashMap<CallId, carnet_checker::Call>,
    /// Answers that do not fit their requests.
    nonsense: Vec<String>,
}

impl History {
    fn invoke(&mut self, call: CallId, process: i64, now: Moment, ops: Vec<carnet_checker::Op>) {
        self.calls.insert(call, self.recorder.invoke(process, nanos(now), ops));
    }

    fn complete(
        &mut self,
        call: CallId,
        now: Moment,
        outcome: Outcome,
        ops: Option<Vec<carnet_checker::Op>>,
    ) {
        if let Some(call) = self.calls.remove(&call) {
            self.recorder.complete(call, nanos(now), outcome, ops);
        }
    }

    fn verdict(self, model: Model) -> Verdict {
        let judged = self.recorder.finish().and_then(|history| {
            let report = check(&history, &carnet_checker::Options::default())?;
            Ok((history, report))
        });
        let (history, report) = match judged {
            Ok(judged) => judged,
            Err(bad) => return Verdict::from_anomalies(vec![bad.to_string()]),
        };
        let kinds = report.counts().iter();
        let kinds = kinds.map(|(kind, count)| format!("{kind} × {count}"));
        Verdict {
            is_valid: report.allows(model) && self.nonsense.is_empty(),
            explanation: format!("{}{}", report.explain(&history), self.nonsense.join("\n")),
            anomalies: kinds.chain(self.nonsense).collect(),
            anomaly: report.counterexample(model).cloned(),
            history: Some(history),
        }
    }
}
