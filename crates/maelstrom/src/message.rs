//! The protocol's messages.

use serde_json::{Map, Value};

/// Identifies a request among those of its sender. The protocol allows any JSON, but uses integers.
pub type MessageId = u64;

/// A message: `{"src": …, "dest": …, "body": {"type": …, "msg_id"?: …, "in_reply_to"?: …, …}}`.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Name of the sender.
    pub src: String,
    /// Name of the receiver.
    pub dest: String,
    /// The kind of the message.
    pub kind: String,
    /// The identifier by which an answer refers to the message, if an answer is expected.
    pub id: Option<MessageId>,
    /// The identifier of the message that this one answers.
    pub in_reply_to: Option<MessageId>,
    /// All other fields of the body.
    pub fields: Map<String, Value>,
}

impl Message {
    /// Decodes a message. JSON that nests deeper than 128 levels is rejected.
    ///
    /// # Errors
    ///
    /// A sentence that describes why the line is not a message.
    pub fn decode(line: &[u8]) -> Result<Self, String> {
        let value: Value =
            serde_json::from_slice(line).map_err(|error| format!("it is no JSON: {error}"))?;
        let Value::Object(mut message) = value else {
            return Err("it is no JSON object".to_owned());
        };
        let Some(Value::Object(mut fields)) = message.remove("body") else {
            return Err("its body is no JSON object".to_owned());
        };
        Ok(Self {
            src: string(&mut message, "src")?,
            dest: string(&mut message, "dest")?,
            kind: string(&mut fields, "type")?,
            id: id(&mut fields, "msg_id")?,
            in_reply_to: id(&mut fields, "in_reply_to")?,
            fields,
        })
    }

    /// Encodes a message, without the end of the line.
    #[must_use]
    pub fn encode(self) -> String {
        let mut body = self.fields;
        body.insert("type".to_owned(), Value::String(self.kind));
        for (name, id) in [("msg_id", self.id), ("in_reply_to", self.in_reply_to)] {
            if let Some(id) = id {
                body.insert(name.to_owned(), Value::from(id));
            }
        }
        let message = [
            ("src", Value::String(self.src)),
            ("dest", Value::String(self.dest)),
            ("body", Value::Object(body)),
        ];
        let message = message.map(|(name, value)| (name.to_owned(), value));
        Value::Object(message.into_iter().collect()).to_string()
    }
}

fn string(object: &mut Map<String, Value>, name: &str) -> Result<String, String> {
    match object.remove(name) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(format!("its {name} is no string")),
        None => Err(format!("it has no {name}")),
    }
}

fn id(object: &mut Map<String, Value>, name: &str) -> Result<Option<MessageId>, String> {
    match object.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_u64() {
            Some(id) => Ok(Some(id)),
            None => Err(format!("its {name} is no number of zero or more")),
        },
    }
}

/// Creates the fields of a body.
pub(crate) fn fields<const COUNT: usize>(fields: [(&str, Value); COUNT]) -> Map<String, Value> {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_back() {
        let line = r#"{"src":"c1","dest":"n1","id":7,
            "body":{"type":"read","msg_id":3,"key":[1,"a"]}}"#;
        let message = Message::decode(line.as_bytes()).unwrap();
        assert_eq!(
            (message.kind.as_str(), message.id, message.in_reply_to),
            ("read", Some(3), None)
        );
        assert_eq!(message.fields["key"], serde_json::json!([1, "a"]));
        let again = Message::decode(message.clone().encode().as_bytes()).unwrap();
        assert_eq!(again, message);
    }

    #[test]
    fn invalid_messages_are_rejected_with_the_reason() {
        for (line, what) in [
            ("", "no JSON"),
            ("[]", "no JSON object"),
            (r#"{"src":"a","dest":"b"}"#, "body"),
            (r#"{"src":1,"dest":"b","body":{"type":"x"}}"#, "src"),
            (r#"{"src":"a","body":{"type":"x"}}"#, "dest"),
            (r#"{"src":"a","dest":"b","body":{}}"#, "type"),
            (r#"{"src":"a","dest":"b","body":{"type":"x","msg_id":-1}}"#, "msg_id"),
            (r#"{"src":"a","dest":"b","body":{"type":"x","in_reply_to":"y"}}"#, "in_reply_to"),
        ] {
            let error = Message::decode(line.as_bytes()).unwrap_err();
            assert!(error.contains(what), "{line}: {error}");
        }
        let deep = "[".repeat(100_000);
        assert!(Message::decode(deep.as_bytes()).is_err());
    }
}
