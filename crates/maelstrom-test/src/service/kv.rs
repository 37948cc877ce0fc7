//! `lin-kv`: one copy.

use std::collections::HashMap;

use carnet_base::SeededRng;
use serde_json::Value;

use super::interface::{Service, unsupported};
use super::request::{decide, request};

#[derive(Default)]
pub(crate) struct Kv {
    values: HashMap<String, Value>,
    value_bytes_max: usize,
}

impl Service for Kv {
    fn handle(&mut self, _: &str, body: &Value, _: &mut SeededRng) -> Value {
        let Some((key, request)) = request(body) else { return unsupported() };
        let (answer, value) = decide(self.values.get(&key), &request);
        if let Some(value) = value {
            let bytes = value.as_str().map_or(0, str::len);
            self.value_bytes_max = self.value_bytes_max.max(bytes);
            self.values.insert(key, value);
        }
        answer
    }

    fn value_bytes_max(&self) -> usize {
        self.value_bytes_max
    }
}
