//! A node: takes lines, and returns the work that they ask for.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock};

use carnet_base::sync::lock;
use carnet_base::{Error, Result, Rng};
use carnet_tree::{Timer, TransactorId, Tree};
use serde_json::{Map, Value};

use crate::code::Code;
use crate::execute::{Outcome, execute};
use crate::message::{Message, MessageId, fields};
use crate::options::Options;
use crate::output::Output;
use crate::request::{Refusal, WorkloadRequest};
use crate::rpc::Rpc;
use crate::services::{HINT, Nodes, Root, bytes};

/// The work for a message; the caller polls it to its end.
pub type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A node of a cluster. Clones refer to the same node.
#[derive(Clone)]
pub struct Node(Arc<Shared>);

struct Shared {
    options: Options,
    output: Arc<dyn Output>,
    timer: Arc<dyn Timer>,
    rng: Mutex<Box<dyn Rng>>,
    member: OnceLock<Member>,
}

/// The part of a node that exists once its name is known.
struct Member {
    id: String,
    rpc: Rpc,
    tree: Tree<Nodes, Root>,
}

impl Node {
    /// Creates a node that does not know its name yet.
    #[must_use]
    pub fn new(
        options: Options,
        output: Arc<dyn Output>,
        timer: Arc<dyn Timer>,
        rng: Box<dyn Rng>,
    ) -> Self {
        let (rng, member) = (Mutex::new(rng), OnceLock::new());
        Self(Arc::new(Shared { options, output, timer, rng, member }))
    }

    /// Takes a line. A line that is not a message is logged and dropped.
    #[must_use = "a transaction is run by polling what this returns"]
    pub fn receive(&self, line: &[u8]) -> Option<Work> {
        match Message::decode(line) {
            Ok(message) => self.take(message),
            Err(error) => {
                tracing::warn!("dropped a message: {error}");
                None
            }
        }
    }

    fn take(&self, message: Message) -> Option<Work> {
        let member = self.0.member.get();
        if let (Some(id), Some(member)) = (message.in_reply_to, member) {
            member.rpc.take(id, message);
            return None;
        }
        if message.in_reply_to.is_some() {
            return None;
        }
        match (message.kind.as_str(), member) {
            ("init", None) => self.join(message),
            (HINT, Some(member)) => member.suggest(&message),
            (_, Some(_)) => return Some(self.serve(message)),
            (_, None) => {
                let refusal = Refusal::new(Code::TemporarilyUnavailable, "init comes first");
                self.answer(&message.dest, &message.src, message.id, Err(refusal));
            }
        }
        None
    }

    /// Takes the node's name and peers from an `init` message.
    fn join(&self, message: Message) {
        let Message { src, dest, id, mut fields, .. } = message;
        let (node, nodes) = (fields.remove("node_id"), fields.remove("node_ids"));
        let names = |nodes: Vec<Value>| nodes.into_iter().map(string).collect::<Option<Vec<_>>>();
        let members = match nodes {
            Some(Value::Array(nodes)) => names(nodes),
            _ => None,
        };
        let (Some(node), Some(members)) = (node.and_then(string), members) else {
            let text = "init takes a node_id and a list of node_ids";
            let refusal = Refusal::new(Code::MalformedRequest, text);
            return self.answer(&dest, &src, id, Err(refusal));
        };
        let peers = members.into_iter().filter(|member| *member != node).collect();
        let member = self.0.member.get_or_init(|| self.0.member(node, peers));
        self.answer(&member.id, &src, id, Ok(("init_ok", Map::new())));
    }

    /// Runs a request of a client.
    fn serve(&self, message: Message) -> Work {
        let node = self.clone();
        let Message { src, id, kind, fields, .. } = message;
        let outcome = WorkloadRequest::decode(&kind, fields).map(|request| self.start(request));
        Box::pin(async move {
            let outcome = match outcome {
                Ok(run) => run.await.unwrap_or_else(|error| Err(refused(&error))),
                Err(refusal) => Err(refusal),
            };
            let member = node.0.member.get().expect("it serves requests since it has a name");
            node.answer(&member.id, &src, id, outcome);
        })
    }

    /// Begins a transaction.
    fn start(
        &self,
        request: WorkloadRequest,
    ) -> Pin<Box<dyn Future<Output = Result<Outcome>> + Send>> {
        if let WorkloadRequest::Echo(value) = request {
            let outcome = Ok(("echo_ok", fields([("echo", value)])));
            return Box::pin(async { Ok(outcome) });
        }
        let member = self.0.member.get().expect("it serves requests since it has a name");
        let keys = request.reads();
        Box::pin(member.tree.update(keys, move |view| execute(&request, view)))
    }

    /// Answers a message; a message without an identifier gets no answer.
    fn answer(&self, src: &str, dest: &str, id: Option<MessageId>, outcome: Outcome) {
        if id.is_none() {
            return;
        }
        let (kind, fields) = outcome.unwrap_or_else(|Refusal { code, text }| {
            let code = Value::from(code.number());
            ("error", fields([("code", code), ("text", Value::String(text))]))
        });
        let (src, dest, kind) = (src.to_owned(), dest.to_owned(), kind.to_owned());
        self.0.output.send(Message { src, dest, kind, id: None, in_reply_to: id, fields });
    }

    /// Returns the statistics of its tree; `None` before it knows its name.
    #[must_use]
    pub fn stats(&self) -> Option<carnet_tree::Stats> {
        self.0.member.get().map(|member| member.tree.stats())
    }
}

impl Shared {
    fn member(&self, id: String, peers: Vec<String>) -> Member {
        let Self { options, output, timer, rng, .. } = self;
        let (output, timer) = (Arc::clone(output), Arc::clone(timer));
        let rpc = Rpc::new(&id, output);
        let nodes = Nodes { rpc: rpc.clone(), service: options.nodes_in.clone() };
        let peers = if peers.len() <= options.hint_peers_max { peers } else { Vec::new() };
        let root = Root { rpc: rpc.clone(), service: options.root_in.clone(), peers };
        let (transactor, seed) = {
            let mut rng = lock(rng);
            (TransactorId(rng.next_u64()), rng.next_u64())
        };
        let rng = Box::new(carnet_base::SeededRng::new(seed));
        let tree = Tree::open_as(transactor, nodes, root, timer, rng, options.tree.clone());
        Member { id, rpc, tree }
    }
}

impl Member {
    fn suggest(&self, message: &Message) {
        let root = bytes(message.fields.get("value"));
        if let Err(error) = root.and_then(|root| self.tree.suggest_root(root)) {
            tracing::warn!("{} sent an invalid root: {error}", message.src);
        }
    }
}

fn refused(error: &Error) -> Refusal {
    tracing::warn!("a transaction ended with an error: {error}");
    Refusal::new(Code::from_error(error), error.to_string())
}

fn string(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        _ => None,
    }
}
