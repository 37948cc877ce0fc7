//! Requests to key-value services.

use serde_json::{Value, json};

use super::interface::error;

/// A request to a key-value service.
pub(super) enum KvRequest<'b> {
    Read,
    Write(&'b Value),
    Cas { from: &'b Value, to: &'b Value, creates: bool },
}

/// Decodes a request: its key, as JSON, and the operation.
pub(super) fn request(body: &Value) -> Option<(String, KvRequest<'_>)> {
    let request = match body["type"].as_str()? {
        "read" => KvRequest::Read,
        "write" => KvRequest::Write(body.get("value")?),
        "cas" => KvRequest::Cas {
            from: body.get("from")?,
            to: body.get("to")?,
            creates: body["create_if_not_exists"] == true,
        },
        _ => return None,
    };
    Some((body.get("key")?.to_string(), request))
}

/// Applies a request to the value that its key holds; returns the answer and the new value.
pub(super) fn decide(held: Option<&Value>, request: &KvRequest<'_>) -> (Value, Option<Value>) {
    let missing = || error(20, "key does not exist");
    match (request, held) {
        (KvRequest::Read, Some(value)) => (json!({"type": "read_ok", "value": value}), None),
        (KvRequest::Read, None) | (KvRequest::Cas { creates: false, .. }, None) => {
            (missing(), None)
        }
        (KvRequest::Write(value), _) => (json!({"type": "write_ok"}), Some((*value).clone())),
        (KvRequest::Cas { from, .. }, Some(value)) if *from != value => {
            (error(22, "the key holds something else"), None)
        }
        (KvRequest::Cas { to, .. }, _) => (json!({"type": "cas_ok"}), Some((*to).clone())),
    }
}
