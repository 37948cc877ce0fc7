//! Recorded messages and requests of a run.

use carnet_base::Moment;
use carnet_checker::Outcome;
use serde_json::Value;

/// Maximum number of recorded messages; later ones are only counted.
const MESSAGES_MAX: usize = 500_000;
/// Maximum length of a message's text, in characters.
const TEXT_CHARS_MAX: usize = 60;

/// Messages and requests of a run, from the moment at which the clients began.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Messages in the order in which they were sent.
    pub messages: Vec<Sent>,
    /// Requests of clients in the order of their answers.
    pub requests: Vec<Request>,
}

/// A message of the network, with its times.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Moment at which it was sent.
    pub at: Moment,
    /// Moment at which it arrives; `None` if it was lost.
    pub arrives: Option<Moment>,
    /// Name of the sender.
    pub src: String,
    /// Name of the receiver.
    pub dest: String,
    /// Type of the message, and the beginning of its other fields.
    pub text: String,
}

/// A request of a client, and its result.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Number of the client.
    pub process: i64,
    /// The node that was asked.
    pub node: usize,
    /// Moment of the request.
    pub since: Moment,
    /// Moment of the answer, or of the client's timeout.
    pub until: Moment,
    /// Result of the request.
    pub outcome: Outcome,
}

impl Trace {
    /// Adds a message; returns its number, or `None` if the trace is full.
    pub(crate) fn add(
        &mut self,
        (src, dest): (&str, &str),
        body: &Value,
        at: Moment,
        arrives: Option<Moment>,
    ) -> Option<usize> {
        if self.messages.len() >= MESSAGES_MAX {
            return None;
        }
        let (src, dest, text) = (src.to_owned(), dest.to_owned(), text(body));
        self.messages.push(Sent { at, arrives, src, dest, text });
        Some(self.messages.len() - 1)
    }
}

/// Returns the type of a message, and its other fields except the protocol's.
fn text(body: &Value) -> String {
    let mut text = body["type"].as_str().unwrap_or("?").to_owned();
    for (name, value) in body.as_object().into_iter().flatten() {
        if ["type", "msg_id", "in_reply_to", "is_late"].contains(&name.as_str()) {
            continue;
        }
        // Operations are longest, and clear without a name.
        text.push(' ');
        match name.as_str() {
            "txn" | "key" => text.push_str(&value.to_string()),
            _ => text.push_str(&format!("{name} {value}")),
        }
        if text.chars().count() > TEXT_CHARS_MAX {
            text = text.chars().take(TEXT_CHARS_MAX).chain(['…']).collect();
            break;
        }
    }
    text
}
