//! Registers with compare-and-set. Each value is written once, so that a history is judged as
//! transactions of one key: a successful compare-and-set is a read of the expected value and a
//! write.

use std::collections::HashMap;

use carnet_base::{Moment, Rng, SeededRng};
use carnet_checker::{Key, Model, Op, Outcome};
use serde_json::{Value, json};

use crate::workload::{CallId, ClientAnswer, History, Verdict, Workload};

const KEYS: u64 = 5;

#[derive(Default)]
pub(crate) struct LinKv {
    next_value: i64,
    /// The last known value of each key, read or written by any client.
    seen: HashMap<i64, i64>,
    asked: HashMap<CallId, Asked>,
    history: History,
}

struct Asked {
    key: i64,
    kind: Kind,
}

enum Kind {
    Read,
    Write(i64),
    Cas { from: i64, to: i64 },
}

impl Workload for LinKv {
    fn invoke(&mut self, call: CallId, process: i64, now: Moment, rng: &mut SeededRng) -> Value {
        let key = i64::try_from(rng.below(KEYS)).unwrap_or_default();
        let mut fresh = || {
            self.next_value += 1;
            self.next_value
        };
        let (kind, body, ops) = match (rng.below(3), self.seen.get(&key)) {
            (0, _) => {
                let op = Op::ReadRegister { key: key.into(), value: None };
                (Kind::Read, json!({"type": "read", "key": key}), vec![op])
            }
            (1, Some(from)) => {
                let (from, to) = (*from, fresh());
                let body = json!({"type": "cas", "key": key, "from": from, "to": to});
                (Kind::Cas { from, to }, body, cas(&key.into(), from, to))
            }
            _ => {
                let value = fresh();
                let body = json!({"type": "write", "key": key, "value": value});
                (Kind::Write(value), body, vec![Op::Write { key: key.into(), value }])
            }
        };
        self.history.invoke(call, process, now, ops);
        self.asked.insert(call, Asked { key, kind });
        body
    }

    fn complete(&mut self, call: CallId, now: Moment, answer: ClientAnswer) {
        let Some(Asked { key, kind }) = self.asked.remove(&call) else { return };
        let key_of = Key::from(key);
        let read = |value| vec![Op::ReadRegister { key: key_of.clone(), value }];
        let (outcome, ops) = match (&kind, &answer) {
            (Kind::Read, ClientAnswer::Fail(20)) => (Outcome::Committed, Some(read(None))),
            (Kind::Read, ClientAnswer::Ok(body)) if body["type"] == "read_ok" => {
                (Outcome::Committed, body["value"].as_i64().map(|value| read(Some(value))))
            }
            (Kind::Write(value), ClientAnswer::Ok(body)) if body["type"] == "write_ok" => {
                (Outcome::Committed, Some(vec![Op::Write { key: key_of, value: *value }]))
            }
            (Kind::Cas { from, to }, ClientAnswer::Ok(body)) if body["type"] == "cas_ok" => {
                (Outcome::Committed, Some(cas(&key_of, *from, *to)))
            }
            (_, ClientAnswer::Ok(_)) => (Outcome::Committed, None),
            (_, answer) => (answer.outcome(), None),
        };
        if outcome == Outcome::Committed && ops.is_none() {
            self.history
                .nonsense
                .push(format!("an answer that does not fit its request: {answer:?}"));
            return self.history.complete(call, now, Outcome::Unknown, None);
        }
        let newest = ops.iter().flatten().last();
        if let Some(Op::Write { value, .. } | Op::ReadRegister { value: Some(value), .. }) =
            newest.filter(|_| outcome == Outcome::Committed)
        {
            self.seen.insert(key, *value);
        }
        self.history.complete(call, now, outcome, ops);
    }

    fn verdict(self: Box<Self>, model: Model) -> Verdict {
        self.history.verdict(model)
    }
}

fn cas(key: &Key, from: i64, to: i64) -> Vec<Op> {
    let read = Op::ReadRegister { key: key.clone(), value: Some(from) };
    vec![read, Op::Write { key: key.clone(), value: to }]
}
