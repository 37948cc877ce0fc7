//! Each answer repeats its request.

use std::collections::HashMap;

use carnet_base::{Moment, Rng, SeededRng};
use carnet_checker::Model;
use serde_json::{Value, json};

use crate::workload::{CallId, ClientAnswer, Verdict, Workload};

#[derive(Default)]
pub(crate) struct Echo {
    asked: HashMap<CallId, Value>,
    findings: Vec<String>,
}

impl Workload for Echo {
    fn invoke(&mut self, call: CallId, _: i64, _: Moment, rng: &mut SeededRng) -> Value {
        let value = json!(format!("please echo {} \u{263a}\n", rng.below(128)));
        self.asked.insert(call, value.clone());
        json!({"type": "echo", "echo": value})
    }

    fn complete(&mut self, call: CallId, _: Moment, answer: ClientAnswer) {
        let asked = self.asked.remove(&call);
        if let (Some(asked), ClientAnswer::Ok(body)) = (asked, answer)
            && (body["type"] != "echo_ok" || body["echo"] != asked)
        {
            self.findings.push(format!("{asked} was answered by {body}"));
        }
    }

    fn verdict(self: Box<Self>, _: Model) -> Verdict {
        Verdict::from_anomalies(self.findings)
    }
}
