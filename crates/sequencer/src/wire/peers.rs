//! The client's side of the network: a connection to each process that this one calls.
//!
//! ```text
//!   first call ──▶ connecting ──────▶ connected ──┐ breaks
//!                   calls wait   │                ▼
//!                                └─ fails ──▶ lost: calls are not answered,
//!                                             reconnect now and then
//! ```
//!
//! Calls to a lost process fail at once until it is connected again, so that their callers look for
//! the next leader instead of waiting.

#![expect(clippy::disallowed_methods, reason = "its tasks run on the runtime")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use carnet_base::sync::lock;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::address::Reached;
use super::handshake::greet;
use super::limits::Limits;
use super::link::{Asked, Link};
use super::pause::pause;
use super::refusal::Refusal;
use super::security::Security;
use super::stream::{Broken, Stream};
use crate::lease::Address;
use crate::message::LeaderRequest;

/// The processes that this one calls.
#[derive(Debug)]
pub(super) struct Peers {
    pub(super) security: Security,
    pub(super) limits: Limits,
    known: Mutex<HashMap<Address, Peer>>,
}

#[derive(Debug)]
struct Peer {
    /// `None` while the peer is lost.
    link: Option<Arc<Link>>,
    was_called: bool,
}

impl Peers {
    pub(super) fn new(security: Security, limits: Limits) -> Self {
        Self { security, limits, known: Mutex::default() }
    }

    /// Sends a request immediately. A new peer is handed to [`keep`].
    pub(super) fn ask(
        self: &Arc<Self>,
        to: &Address,
        request: LeaderRequest,
        connect: impl FnOnce(Kept, Arc<Link>),
    ) -> Asked {
        let mut known = lock(&self.known);
        let (link, is_new) = match known.get_mut(to) {
            Some(peer) => {
                peer.was_called = true;
                (peer.link.clone(), false)
            }
            None => {
                let link = Link::new(self.limits);
                let peer = Peer { link: Some(Arc::clone(&link)), was_called: true };
                known.insert(to.clone(), peer);
                (Some(link), true)
            }
        };
        drop(known);
        let Some(link) = link else { return Asked::NOT_SENT };
        let asked = link.ask(request);
        if is_new {
            connect(Kept { peers: Arc::clone(self), address: to.clone() }, link);
        }
        asked
    }

    #[cfg(test)]
    pub(super) fn calls_under_way(&self, to: &Address) -> usize {
        let known = lock(&self.known);
        let link = known.get(to).and_then(|peer| peer.link.as_ref());
        link.map_or(0, |link| link.calls_under_way())
    }

    async fn connect(&self, to: &Address) -> Result<Box<dyn Stream>, Refusal> {
        let connecting = async {
            let Reached { host, port, incarnation } = Reached::parse(to)?;
            let stream = TcpStream::connect((host, port)).await?;
            stream.set_nodelay(true)?;
            let (mut stream, binding): (Box<dyn Stream>, _) = match self.security.tls() {
                None => (Box::new(stream), None),
                Some(tls) => {
                    let (stream, binding) = tls.connect(stream, host).await?;
                    (Box::new(stream), binding)
                }
            };
            greet(&mut stream, self.security.secret(), incarnation, binding).await?;
            Ok(stream)
        };
        match timeout(self.limits.greeting_timeout, Box::pin(connecting)).await {
            Ok(connected) => connected,
            Err(_) => Err(Refusal::Slow),
        }
    }
}

/// A peer whose connection is maintained. When this is dropped, for any reason, its callers stop
/// waiting.
pub(super) struct Kept {
    peers: Arc<Peers>,
    address: Address,
}

impl Kept {
    /// Sets the link for calls; returns `true` if there were any calls since the last change.
    fn set(&self, link: Option<&Arc<Link>>) -> bool {
        let mut known = lock(&self.peers.known);
        known.get_mut(&self.address).is_some_and(|peer| {
            peer.link = link.map(Arc::clone);
            std::mem::take(&mut peer.was_called)
        })
    }
}

/// Maintains a connection to a process as long as it is called.
pub(super) async fn keep(kept: Kept, first: Arc<Link>) {
    let (to, limits) = (&kept.address, kept.peers.limits);
    let (mut link, mut wait, mut unused) = (first, limits.retry_min, 0);
    let mut complaint = String::new();
    loop {
        match kept.peers.connect(to).await {
            Ok(stream) => {
                tracing::debug!(peer = %to, "connected");
                kept.set(Some(&link));
                let began = Instant::now();
                let broken = link.run(stream).await;
                if matches!(broken, Broken::Idle) {
                    return;
                }
                tracing::warn!(peer = %to, why = %broken, "lost the connection to a process");
                complaint.clear();
                if began.elapsed() > limits.retry_max {
                    wait = limits.retry_min;
                }
            }
            Err(refusal) => {
                let why = refusal.to_string();
                // Log a repeated reason only once.
                if why != complaint {
                    tracing::warn!(peer = %to, %why, "cannot connect to a process");
                    complaint = why;
                }
            }
        }
        link.close();
        unused = if kept.set(None) { 0 } else { unused + 1 };
        if unused > limits.retries_unused_max {
            return;
        }
        pause(wait).await;
        wait = (wait * 2).min(limits.retry_max);
        link = Link::new(limits);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let peer = lock(&self.peers.known).remove(&self.address);
        if let Some(link) = peer.and_then(|peer| peer.link) {
            link.close();
        }
    }
}
