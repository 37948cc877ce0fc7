//! Transport of requests between processes.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};

use bytes::Bytes;
use carnet_base::Tasks;
use carnet_base::sync::lock;

use crate::lease::Address;
use crate::message::{LeaderRequest, Response};
use crate::oneshot::channel;

/// No answer arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// Nothing was sent.
    NotSent,
    /// Whether the request arrived is not known.
    Lost,
}

/// Carries requests to other processes.
///
/// A transport may lose, delay, repeat and reorder requests. An answer always belongs to its
/// request.
pub trait Transport: Send + Sync + 'static {
    /// Sends a request and waits for its answer.
    fn call(
        &self,
        to: &Address,
        request: LeaderRequest,
    ) -> impl Future<Output = Result<Response, Unanswered>> + Send;
}

/// An answer in progress.
pub type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;

/// Handler of other processes' requests.
pub trait Handler: Send + Sync + 'static {
    /// Answers a request.
    fn handle(self: Arc<Self>, request: LeaderRequest) -> Answering;
}

/// Maximum length of forwarded bytes, and of the answer to them.
pub const FORWARD_BYTES_MAX: usize = 32 << 20;

/// An answer to forwarded bytes, in progress.
pub type Forwarding = Pin<Box<dyn Future<Output = Bytes> + Send>>;

/// Handler of the bytes that other processes forward to this one.
pub trait ForwardHandler: Send + Sync + 'static {
    /// Answers forwarded bytes. The call returns at once, and the answer goes on when the process
    /// that waits for it is gone.
    fn answer(self: Arc<Self>, request: Bytes) -> Forwarding;
}

/// A network within one process. Clones share the network.
#[derive(Clone)]
pub struct LocalNetwork {
    tasks: Arc<dyn Tasks>,
    handlers: Arc<Mutex<BTreeMap<Address, Weak<dyn Handler>>>>,
}

impl LocalNetwork {
    /// Creates a network whose requests are answered by tasks.
    #[must_use]
    pub fn new(tasks: Arc<dyn Tasks>) -> Self {
        Self { tasks, handlers: Arc::default() }
    }

    /// Registers the handler of an address, as long as the handler lives.
    pub fn listen(&self, address: Address, handler: &Arc<dyn Handler>) {
        lock(&self.handlers).insert(address, Arc::downgrade(handler));
    }

    /// Disconnects an address.
    pub fn cut(&self, address: &Address) {
        lock(&self.handlers).remove(address);
    }
}

impl Transport for LocalNetwork {
    async fn call(&self, to: &Address, request: LeaderRequest) -> Result<Response, Unanswered> {
        let handler = lock(&self.handlers).get(to).and_then(Weak::upgrade);
        let handler = handler.ok_or(Unanswered::NotSent)?;
        let (sender, receiver) = channel();
        // A task of its own, as in another process: it goes on when the caller is gone.
        self.tasks.spawn(Box::pin(async move { sender.send(handler.handle(request).await) }));
        receiver.await.ok_or(Unanswered::Lost)
    }
}

impl fmt::Debug for LocalNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(lock(&self.handlers).keys()).finish()
    }
}
