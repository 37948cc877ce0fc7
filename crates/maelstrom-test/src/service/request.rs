//! Requests to key-value services.

use serde_json::{Value, json};

use super::interface::error;

/// A request to a key-value service.
pub(super) enum Request<'b> {
    Read,
    Write(&'b Value),
    Cas { from: &'b Value, to: &'b Value, creates: bool },
}

/// Decodes a request: its key, as JSON, and the operation.
pub(super) fn request(body: &Value) -> Option<(String, Request<'_>)> {
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

/// Applies a request to the value that its key holds; returns the answer and the new value.
pub(super) fn decide(held: Option<&Value>, request: &Request<'_>) -> (Value, Option<Value>) {
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
