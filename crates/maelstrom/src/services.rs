//! Maelstrom's services as the node store and the root pointer of a tree.

use base64ct::{Base64Unpadded, Encoding};
use carnet_base::{Bytes, Error, Result};
use carnet_tree::{NodeId, NodeStore, RootPointer, Swap};
use serde_json::{Map, Value, json};

use crate::code::Code;
use crate::message::fields;
use crate::rpc::{Reply, Rpc};

/// The key of the root. No node has this name.
const ROOT_KEY: &str = "root";
/// Kind of the message in which a node sends others a root that it has set.
pub(crate) const HINT: &str = "root";

/// Nodes in a key-value service that may be only eventually consistent.
pub(crate) struct Nodes {
    pub(crate) rpc: Rpc,
    pub(crate) service: String,
}

/// The root in a linearizable key-value service.
pub(crate) struct Root {
    pub(crate) rpc: Rpc,
    pub(crate) service: String,
    /// The nodes that get a hint when the root moves.
    pub(crate) peers: Vec<String>,
}

pub(crate) fn text(bytes: &[u8]) -> Value {
    Value::String(Base64Unpadded::encode_string(bytes))
}

/// Decodes a value that [`text`] encoded, from any source.
pub(crate) fn bytes(value: Option<&Value>) -> Result<Bytes> {
    let text = value.and_then(Value::as_str).and_then(|text| Base64Unpadded::decode_vec(text).ok());
    text.map(Bytes::from)
        .ok_or_else(|| Error::corrupted("a value in a service was not written by this program"))
}

fn unavailable(service: &str, reply: &Reply) -> Error {
    Error::unavailable(match reply {
        Reply::Ok(_) => format!("{service} sent an unexpected answer"),
        Reply::Error(Some(code)) => format!("{service} answers with error {code}"),
        Reply::Error(None) => format!("{service} answers with an error of no known kind"),
    })
}

async fn read(rpc: &Rpc, service: &str, key: String) -> Result<Option<Bytes>> {
    match rpc.call(service, "read", fields([("key", Value::String(key))])).await {
        Reply::Ok(fields) => bytes(fields.get("value")).map(Some),
        Reply::Error(Some(code)) if code == Code::KeyDoesNotExist.number() => Ok(None),
        reply => Err(unavailable(service, &reply)),
    }
}

impl NodeStore for Nodes {
    async fn put(&self, id: NodeId, bytes: Bytes) -> Result<()> {
        let fields = fields([("key", json!(id.to_string())), ("value", text(&bytes))]);
        match self.rpc.call(&self.service, "write", fields).await {
            Reply::Ok(_) => Ok(()),
            reply => Err(unavailable(&self.service, &reply)),
        }
    }

    async fn get(&self, id: NodeId) -> Result<Option<Bytes>> {
        read(&self.rpc, &self.service, id.to_string()).await
    }
}

impl RootPointer for Root {
    async fn read(&self) -> Result<Option<Bytes>> {
        read(&self.rpc, &self.service, ROOT_KEY.to_owned()).await
    }

    async fn compare_and_set(&self, from: Option<Bytes>, to: Bytes) -> Result<Swap> {
        match self.rpc.call(&self.service, "cas", swap(from.as_deref(), &to)).await {
            Reply::Ok(_) => {
                for peer in &self.peers {
                    self.rpc.tell(peer, HINT, fields([("value", text(&to))]));
                }
                Ok(Swap::Done)
            }
            Reply::Error(Some(code)) if is_mismatch(code) => Ok(Swap::Mismatch),
            reply => Err(unavailable(&self.service, &reply)),
        }
    }
}

/// Returns the body of a compare-and-set. No root is null, so a move from no root fails if a root
/// exists.
fn swap(from: Option<&[u8]>, to: &[u8]) -> Map<String, Value> {
    let mut body = fields([
        ("key", Value::String(ROOT_KEY.to_owned())),
        ("from", from.map_or(Value::Null, text)),
        ("to", text(to)),
    ]);
    if from.is_none() {
        body.insert("create_if_not_exists".to_owned(), Value::Bool(true));
    }
    body
}

const fn is_mismatch(code: u64) -> bool {
    code == Code::KeyDoesNotExist.number() || code == Code::PreconditionFailed.number()
}
