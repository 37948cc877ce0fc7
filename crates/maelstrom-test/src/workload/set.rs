//! A set that only grows: a read contains every element that was added before it, and every element
//! of every earlier read.

use std::collections::{BTreeMap, BTreeSet};

use carnet_base::{Moment, Rng, SeededRng};
use carnet_checker::Model;
use serde_json::{Value, json};

use crate::workload::{CallId, ClientAnswer, Verdict, Workload};

#[derive(Default)]
pub(crate) struct GSet {
    added: u64,
    adding: BTreeMap<CallId, u64>,
    /// The elements that a read that begins now must contain.
    certain: BTreeSet<u64>,
    /// Elements that were refused, and must not be read.
    refused: BTreeSet<u64>,
    /// Reads in progress, each with the elements that it must contain.
    reading: BTreeMap<CallId, BTreeSet<u64>>,
    findings: Vec<String>,
}

impl GSet {
    fn read(&mut self, call: CallId) -> Value {
        self.reading.insert(call, self.certain.clone());
        json!({"type": "read"})
    }

    fn judge(&mut self, expected: &BTreeSet<u64>, body: &Value) {
        let Some(list) = body["value"].as_array() else {
            return self.findings.push(format!("an answer that does not fit its request: {body}"));
        };
        let elements: BTreeSet<u64> = list.iter().filter_map(Value::as_u64).collect();
        if elements.len() != list.len() {
            self.findings.push("a duplicate or an invalid element".to_owned());
        }
        if let Some(lost) = expected.difference(&elements).next() {
            self.findings
                .push(format!("a read lacks {lost}, which was present before the read began"));
        }
        let never = |element: &&u64| **element >= self.added || self.refused.contains(element);
        if let Some(never) = elements.iter().find(never) {
            self.findings.push(format!("a read has {never}, which was never added"));
        }
        self.certain.extend(elements);
    }
}

impl Workload for GSet {
    fn invoke(&mut self, call: CallId, _: i64, _: Moment, rng: &mut SeededRng) -> Value {
        if rng.chance(500) {
            return self.read(call);
        }
        self.adding.insert(call, self.added);
        self.added += 1;
        json!({"type": "add", "element": self.added - 1})
    }

    fn complete(&mut self, call: CallId, _: Moment, answer: ClientAnswer) {
        let (element, expected) = (self.adding.remove(&call), self.reading.remove(&call));
        match (answer, element, expected) {
            (ClientAnswer::Ok(body), _, Some(expected)) => self.judge(&expected, &body),
            (ClientAnswer::Ok(_), Some(element), _) => drop(self.certain.insert(element)),
            (ClientAnswer::Fail(_), Some(element), _) => drop(self.refused.insert(element)),
            _ => {}
        }
    }

    fn finish(&mut self, call: CallId, _: i64, _: Moment) -> Option<Value> {
        Some(self.read(call))
    }

    fn verdict(self: Box<Self>, _: Model) -> Verdict {
        Verdict::from_anomalies(self.findings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(reads: &[Value]) -> Vec<String> {
        let mut set = GSet { added: 3, ..GSet::default() };
        set.adding = (0..3).map(|element| (CallId(element), element)).collect();
        set.complete(CallId(0), Moment::default(), ClientAnswer::Ok(json!({"type": "add_ok"})));
        set.complete(CallId(1), Moment::default(), ClientAnswer::Fail(11));
        for (call, read) in (10..).map(CallId).zip(reads) {
            set.finish(call, 0, Moment::default());
            let body = json!({"type": "read_ok", "value": read});
            set.complete(call, Moment::default(), ClientAnswer::Ok(body));
        }
        set.findings
    }

    #[test]
    fn reads_are_judged() {
        assert!(findings(&[json!([0]), json!([0, 2]), json!([2, 0])]).is_empty());
        for (reads, what) in [
            (vec![json!([])], "lacks 0"),
            (vec![json!([0, 2]), json!([0])], "lacks 2"),
            (vec![json!([0, 1])], "never added"),
            (vec![json!([0, 7])], "never added"),
            (vec![json!([0, 0])], "duplicate"),
            (vec![json!(null)], "not fit"),
        ] {
            let findings = findings(&reads);
            assert!(findings.iter().any(|finding| finding.contains(what)), "{findings:?}");
        }
    }
}
