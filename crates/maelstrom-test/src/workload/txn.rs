//! Transactions over lists or registers, drawn as in Elle: a few keys at a time, some much more
//! often than others, each up to a fixed number of writes.

use std::collections::HashMap;

use carnet_base::{Moment, Rng, SeededRng};
use carnet_checker::{Model, Op, Outcome};
use serde_json::{Value, json};

use crate::workload::{CallId, ClientAnswer, History, Verdict, Workload};

const KEYS: usize = 10;
const WRITES_PER_KEY_MAX: i64 = 16;
const OPS_MAX: u64 = 4;

pub(crate) struct Txn {
    is_lists: bool,
    /// The keys in use: number, and number of writes.
    keys: Vec<(i64, i64)>,
    next_key: i64,
    asked: HashMap<CallId, Vec<Op>>,
    history: History,
}

impl Txn {
    pub(crate) fn lists() -> Self {
        let keys: Vec<(i64, i64)> = (0..).map(|key| (key, 0)).take(KEYS).collect();
        let next_key = keys.last().map_or(0, |(key, _)| key + 1);
        let (asked, history) = (HashMap::new(), History::default());
        Self { is_lists: true, keys, next_key, asked, history }
    }

    pub(crate) fn registers() -> Self {
        Self { is_lists: false, ..Self::lists() }
    }

    fn op(&mut self, rng: &mut SeededRng) -> Op {
        // The last of the keys is drawn half of the time, and each one before it half as often.
        let place = (1..KEYS).find(|_| rng.chance(500)).unwrap_or(KEYS);
        let (number, writes) = &mut self.keys[KEYS - place];
        let key = (*number).into();
        match (rng.chance(500), self.is_lists) {
            (true, true) => return Op::ReadList { key, list: Vec::new() },
            (true, false) => return Op::ReadRegister { key, value: None },
            _ => {}
        }
        *writes += 1;
        let value = *writes;
        if value == WRITES_PER_KEY_MAX {
            (*number, *writes) = (self.next_key, 0);
            self.next_key += 1;
        }
        if self.is_lists { Op::Append { key, element: value } } else { Op::Write { key, value } }
    }
}

fn request(op: &Op) -> Value {
    let key = op.key().to_string().parse::<i64>().unwrap_or_default();
    match op {
        Op::Append { element, .. } => json!(["append", key, element]),
        Op::Write { value, .. } => json!(["w", key, value]),
        Op::ReadList { .. } | Op::ReadRegister { .. } => json!(["r", key, null]),
    }
}

/// Decodes an operation of an answer, which must fit the request.
fn answered(op: &Op, answer: &Value) -> Option<Op> {
    let key = op.key().clone();
    let asked = request(op);
    let value = &answer[2];
    if answer.as_array()?.len() != 3 || answer[0] != asked[0] || answer[1] != asked[1] {
        return None;
    }
    match op {
        Op::ReadList { .. } if value.is_null() => Some(Op::ReadList { key, list: Vec::new() }),
        Op::ReadList { .. } => {
            let list = value.as_array()?.iter().map(Value::as_i64).collect::<Option<_>>()?;
            Some(Op::ReadList { key, list })
        }
        Op::ReadRegister { .. } if value.is_null() => Some(Op::ReadRegister { key, value: None }),
        Op::ReadRegister { .. } => Some(Op::ReadRegister { key, value: Some(value.as_i64()?) }),
        Op::Append { .. } | Op::Write { .. } => (*value == asked[2]).then(|| op.clone()),
    }
}

fn all_answered(asked: &[Op], body: &Value) -> Option<Vec<Op>> {
    let answers = body["txn"].as_array().filter(|_| body["type"] == "txn_ok")?;
    if answers.len() != asked.len() {
        return None;
    }
    asked.iter().zip(answers).map(|(op, answer)| answered(op, answer)).collect()
}

impl Workload for Txn {
    fn invoke(&mut self, call: CallId, process: i64, now: Moment, rng: &mut SeededRng) -> Value {
        let count = 1 + rng.below(OPS_MAX);
        let ops: Vec<Op> = (0..count).map(|_| self.op(rng)).collect();
        let body = json!({"type": "txn", "txn": ops.iter().map(request).collect::<Vec<_>>()});
        self.history.invoke(call, process, now, ops.clone());
        self.asked.insert(call, ops);
        body
    }

    fn complete(&mut self, call: CallId, now: Moment, answer: ClientAnswer) {
        let asked = self.asked.remove(&call).unwrap_or_default();
        let (mut outcome, mut ops) = (answer.outcome(), None);
        if let ClientAnswer::Ok(body) = answer {
            ops = all_answered(&asked, &body);
            if ops.is_none() {
                outcome = Outcome::Unknown;
                self.history
                    .nonsense
                    .push(format!("an answer that does not fit its request: {body}"));
            }
        }
        self.history.complete(call, now, outcome, ops);
    }

    fn verdict(self: Box<Self>, model: Model) -> Verdict {
        self.history.verdict(model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_to_fit_its_request() {
        let append = Op::Append { key: 1.into(), element: 2 };
        let read = Op::ReadList { key: 3.into(), list: Vec::new() };
        let ops = [append.clone(), read];
        let answer = |txn: Value| all_answered(&ops, &json!({"type": "txn_ok", "txn": txn}));
        let list = Op::ReadList { key: 3.into(), list: vec![5] };
        assert_eq!(answer(json!([["append", 1, 2], ["r", 3, [5]]])), Some(vec![append, list]));
        for wrong in [
            json!([["append", 1, 2]]),
            json!([["append", 1, 3], ["r", 3, [5]]]),
            json!([["append", 1, 2], ["r", 4, [5]]]),
            json!([["append", 1, 2], ["r", 3, 5]]),
            json!([["append", 1, 2], ["r", 3, ["x"]]]),
        ] {
            assert_eq!(answer(wrong.clone()), None, "{wrong}");
        }
    }
}
