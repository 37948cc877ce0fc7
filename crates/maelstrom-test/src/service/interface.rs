//! The interface of services, and their errors.

use carnet_base::SeededRng;
use serde_json::{Value, json};

/// Handles the body of a request and returns that of the answer.
pub(crate) trait Service {
    fn handle(&mut self, client: &str, body: &Value, rng: &mut SeededRng) -> Value;
    /// Returns the length of the longest value that it has held, in bytes of a string.
    fn value_bytes_max(&self) -> usize {
        0
    }
}

pub(crate) fn error(code: u64, text: &str) -> Value {
    json!({"type": "error", "code": code, "text": text})
}

pub(super) fn unsupported() -> Value {
    error(10, "there is no such request")
}
