//! Requests of clients, decoded from messages. No I/O.

use carnet_base::Bytes;
use serde_json::{Map, Value};

use crate::code::Code;

/// Reason why a request is answered with an error.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The error code.
    pub code: Code,
    /// A sentence for a person.
    pub text: String,
}

impl Refusal {
    pub(crate) fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    fn malformed(text: impl Into<String>) -> Self {
        Self::new(Code::MalformedRequest, text)
    }
}

/// An operation of a transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// `["r", key, null]`: reads a register or a list.
    Read(Value),
    /// `["w", key, value]`: writes a register.
    Write(Value, Value),
    /// `["append", key, element]`: adds an element to the end of a list.
    Append(Value, Value),
}

impl Op {
    /// Returns the key of the operation.
    #[must_use]
    pub const fn key(&self) -> &Value {
        match self {
            Self::Read(key) | Self::Write(key, _) | Self::Append(key, _) => key,
        }
    }
}

/// A request of a client, of any workload.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkloadRequest {
    /// Request of the workload `echo`.
    Echo(Value),
    /// Workloads `txn-list-append` and `txn-rw-register`.
    Txn(Vec<Op>),
    /// Workload `lin-kv`: reads a key.
    Read(Value),
    /// Workload `lin-kv`: writes a key.
    Write(Value, Value),
    /// Workload `lin-kv`: sets a key that holds a value.
    Cas {
        /// Key of the register.
        key: Value,
        /// The expected value.
        from: Value,
        /// The new value.
        to: Value,
        /// Whether a missing key is set, too.
        create: bool,
    },
    /// Workload `g-set`: adds an element.
    Add(Value),
    /// Workload `g-set`: reads all elements.
    ReadSet,
}

impl WorkloadRequest {
    /// Decodes a request.
    ///
    /// # Errors
    ///
    /// The refusal that is the answer to it.
    pub fn decode(kind: &str, mut fields: Map<String, Value>) -> Result<Self, Refusal> {
        let mut field = |name: &str| {
            let missing = || Refusal::malformed(format!("{kind} takes a field {name}"));
            fields.remove(name).ok_or_else(missing)
        };
        match kind {
            "echo" => field("echo").map(Self::Echo),
            "txn" => match field("txn")? {
                Value::Array(ops) => {
                    ops.into_iter().map(op).collect::<Result<_, _>>().map(Self::Txn)
                }
                _ => Err(Refusal::malformed("txn is no list of operations")),
            },
            // Two workloads use this kind; only one of them has keys.
            "read" => Ok(field("key").map_or(Self::ReadSet, Self::Read)),
            "write" => Ok(Self::Write(field("key")?, field("value")?)),
            "cas" => Ok(Self::Cas {
                key: field("key")?,
                from: field("from")?,
                to: field("to")?,
                create: field("create_if_not_exists").is_ok_and(|create| create == true),
            }),
            "add" => field("element").map(Self::Add),
            _ => Err(Refusal::new(Code::NotSupported, format!("not supported: {kind}"))),
        }
    }

    /// Returns the keys in the tree that the request needs.
    pub(crate) fn reads(&self) -> Vec<Bytes> {
        match self {
            Self::Txn(ops) => {
                let reads = ops.iter().filter(|op| !matches!(op, Op::Write(..)));
                reads.map(|op| name(op.key())).collect()
            }
            Self::Read(key) | Self::Cas { key, .. } => vec![name(key)],
            Self::Echo(_) | Self::Write(..) | Self::Add(_) | Self::ReadSet => Vec::new(),
        }
    }
}

fn op(op: Value) -> Result<Op, Refusal> {
    let Value::Array(parts) = op else {
        return Err(Refusal::malformed(format!("{op} is no operation")));
    };
    let Ok([kind, key, value]) = <[Value; 3]>::try_from(parts) else {
        return Err(Refusal::malformed("an operation has three parts"));
    };
    match (kind.as_str(), value) {
        (Some("r"), Value::Null) => Ok(Op::Read(key)),
        (Some("r"), _) => Err(Refusal::malformed("the value of a read is null")),
        (Some("w"), value) => Ok(Op::Write(key, value)),
        (Some("append"), element) => Ok(Op::Append(key, element)),
        _ => Err(Refusal::malformed(format!("there is no operation {kind}"))),
    }
}

/// Returns the tree's key for a client's key: its JSON, so that 1 is not "1".
pub(crate) fn name(key: &Value) -> Bytes {
    Bytes::from(format!("k{key}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn decode(kind: &str, fields: Value) -> Result<WorkloadRequest, Refusal> {
        let Value::Object(fields) = fields else { panic!("{fields} is no object") };
        WorkloadRequest::decode(kind, fields)
    }

    #[test]
    fn requests_of_all_workloads_are_read() {
        let txn = json!({"txn": [["r", 1, null], ["append", "1", 2], ["w", 3, null]]});
        let ops = vec![
            Op::Read(json!(1)),
            Op::Append(json!("1"), json!(2)),
            Op::Write(json!(3), json!(null)),
        ];
        let request = decode("txn", txn).unwrap();
        assert_eq!(request.reads(), [Bytes::from("k1"), Bytes::from("k\"1\"")]);
        assert_eq!(request, WorkloadRequest::Txn(ops));
        assert_eq!(decode("read", json!({"key": 5})).unwrap(), WorkloadRequest::Read(json!(5)));
        assert_eq!(decode("read", json!({})).unwrap(), WorkloadRequest::ReadSet);
        let cas = json!({"key": 1, "from": 2, "to": 3});
        let plain =
            WorkloadRequest::Cas { key: json!(1), from: json!(2), to: json!(3), create: false };
        assert_eq!(decode("cas", cas).unwrap(), plain);
    }

    #[test]
    fn malformed_requests_get_a_definite_error() {
        for (kind, fields) in [
            ("txn", json!({})),
            ("txn", json!({"txn": 1})),
            ("txn", json!({"txn": [1]})),
            ("txn", json!({"txn": [["r", 1]]})),
            ("txn", json!({"txn": [["r", 1, 2]]})),
            ("txn", json!({"txn": [["x", 1, 2]]})),
            ("write", json!({"key": 1})),
            ("cas", json!({"key": 1, "from": 1})),
            ("add", json!({})),
        ] {
            let refusal = decode(kind, fields.clone()).unwrap_err();
            assert_eq!(refusal.code, Code::MalformedRequest, "{kind} {fields}");
        }
        assert_eq!(decode("dance", json!({})).unwrap_err().code, Code::NotSupported);
    }
}
