//! Requests to services, and the calls that wait for their answers.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use carnet_base::sync::lock;
use serde_json::{Map, Value};

use crate::message::{Message, MessageId};
use crate::output::Output;

/// An answer of a service.
#[derive(Debug, PartialEq)]
pub(crate) enum Reply {
    Ok(Map<String, Value>),
    /// An error and its code; `None` if it has no code, or the answer does not fit the request.
    Error(Option<u64>),
}

/// Sends requests as one node. Clones share the numbers of requests.
#[derive(Clone)]
pub(crate) struct Rpc {
    node: Arc<str>,
    output: Arc<dyn Output>,
    calls: Arc<Mutex<Calls>>,
}

#[derive(Default)]
struct Calls {
    last: MessageId,
    waiting: HashMap<MessageId, Call>,
}

struct Call {
    /// The service that may answer.
    dest: String,
    kind: String,
    reply: Option<Reply>,
    waker: Option<Waker>,
}

/// Removes a call that its caller dropped, so that a late answer is ignored.
struct Ticket {
    id: MessageId,
    calls: Arc<Mutex<Calls>>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        lock(&self.calls).waiting.remove(&self.id);
    }
}

impl Rpc {
    pub(crate) fn new(node: &str, output: Arc<dyn Output>) -> Self {
        Self { node: node.into(), output, calls: Arc::default() }
    }

    /// Sends a message without an answer.
    pub(crate) fn tell(&self, dest: &str, kind: &str, fields: Map<String, Value>) {
        self.send(dest, kind, None, fields);
    }

    /// Sends a request, and waits for the answer until the future is dropped. The caller sets the
    /// timeout, since a late answer is still useful.
    pub(crate) fn call(
        &self,
        dest: &str,
        kind: &str,
        fields: Map<String, Value>,
    ) -> impl Future<Output = Reply> + Send + use<> {
        let id = {
            let mut calls = lock(&self.calls);
            calls.last += 1;
            let id = calls.last;
            let (dest, kind) = (dest.to_owned(), format!("{kind}_ok"));
            calls.waiting.insert(id, Call { dest, kind, reply: None, waker: None });
            id
        };
        self.send(dest, kind, Some(id), fields);
        let ticket = Ticket { id, calls: Arc::clone(&self.calls) };
        poll_fn(move |context| {
            let mut calls = lock(&ticket.calls);
            let call = calls.waiting.get_mut(&ticket.id).expect("only its ticket removes it");
            if let Some(reply) = call.reply.take() {
                return Poll::Ready(reply);
            }
            call.waker = Some(context.waker().clone());
            Poll::Pending
        })
    }

    /// Takes an answer. An answer that no call waits for is dropped, and so is one whose sender is
    /// not the receiver of the request.
    pub(crate) fn take(&self, id: MessageId, mut answer: Message) {
        let waker = lock(&self.calls).waiting.get_mut(&id).and_then(|call| {
            if call.dest != answer.src {
                return None;
            }
            call.reply = Some(if answer.kind == call.kind {
                Reply::Ok(answer.fields)
            } else {
                let code = answer.fields.remove("code").filter(|_| answer.kind == "error");
                Reply::Error(code.as_ref().and_then(Value::as_u64))
            });
            call.waker.take()
        });
        waker.into_iter().for_each(Waker::wake);
    }

    fn send(&self, dest: &str, kind: &str, id: Option<MessageId>, fields: Map<String, Value>) {
        let message = Message {
            src: self.node.to_string(),
            dest: dest.to_owned(),
            kind: kind.to_owned(),
            id,
            in_reply_to: None,
            fields,
        };
        self.output.send(message);
    }
}
