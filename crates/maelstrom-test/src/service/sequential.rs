//! `seq-kv`: all clients observe the same states in the same order, but not at the same time.

use std::collections::HashMap;

use carnet_base::{Rng, SeededRng};
use serde_json::Value;

use super::interface::{Service, unsupported};
use super::request::{KvRequest, decide, request};

/// Number of states that a reader may be behind.
const STATES: u64 = 32;

#[derive(Default)]
pub(crate) struct Sequential {
    /// For each key, its values with the numbers of the states that introduced them.
    values: HashMap<String, Vec<(u64, Value)>>,
    state: u64,
    /// The newest state that each client has read.
    seen: HashMap<String, u64>,
}

impl Sequential {
    fn get(&self, key: &str, state: u64) -> Option<&Value> {
        let values = self.values.get(key)?;
        values.iter().rev().find(|(since, _)| *since <= state).map(|(_, value)| value)
    }
}

impl Service for Sequential {
    fn handle(&mut self, client: &str, body: &Value, rng: &mut SeededRng) -> Value {
        let Some((key, request)) = request(body) else { return unsupported() };
        let oldest = self.state.saturating_sub(STATES - 1);
        let seen = self.seen.get(client).copied().unwrap_or(0).max(oldest);
        // Operations that change the state apply to the newest one.
        let state = match request {
            KvRequest::Read => seen + rng.below(self.state - seen + 1),
            KvRequest::Write(_) | KvRequest::Cas { .. } => self.state,
        };
        let (answer, value) = decide(self.get(&key, state), &request);
        self.seen.insert(client.to_owned(), state);
        if let Some(value) = value {
            self.state += 1;
            self.seen.insert(client.to_owned(), self.state);
            let values = self.values.entry(key).or_default();
            values.push((self.state, value));
            // The newest of the outdated values is still visible to the oldest reader.
            let state = self.state.saturating_sub(STATES - 1);
            let is_over = |(since, _): &(u64, Value)| *since <= state;
            let over = values.iter().take_while(|value| is_over(value)).count();
            values.drain(..over.saturating_sub(1));
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reader_may_be_behind_but_never_goes_back() {
        let (mut service, mut rng) = (Sequential::default(), SeededRng::new(1));
        let (mut last, mut stale) = (0, 0);
        for value in 1..500 {
            service.handle("n0", &json!({"type": "write", "key": 1, "value": value}), &mut rng);
            let own = service.handle("n0", &json!({"type": "read", "key": 1}), &mut rng);
            assert_eq!(own["value"], value);
            let read = service.handle("n1", &json!({"type": "read", "key": 1}), &mut rng);
            let read = read["value"].as_u64().unwrap_or(0);
            assert!(read >= last, "{read} after {last}");
            stale += u64::from(read < value);
            last = read;
        }
        assert!(stale > 100, "{stale}");
    }
}
