//! The wire: TCP between the processes of one database over a cluster.
//!
//! # The problem
//!
//! Followers send thousands of requests a second to the leader, and each waits for its answer. The
//! leader may be slow, stopped, cut off, or deposed by now, and its followers must find out soon.
//! Every request may be sent again (`message`), so a lost answer costs only time.
//!
//! # A connection
//!
//! ```text
//!   follower                                            leader
//!   TLS, if configured ───────────────────────────────▶
//!   greeting, proof of the secret ◀───────────────────▶ the same         handshake
//!   frames: begin 1, begin 2, commit 3, … ────────────▶ each answered by a task
//!           ◀──────────────────────────────────────────  2, 1, 3, …      as they are ready
//!   ping, after 250 ms of silence ────────────────────▶
//! ```
//!
//! A process has one connection to each process that it sends requests to, and that connection
//! carries all its calls. Statements that it forwards have a connection of their own, so that long
//! ones do not delay the calls to the leader. Requests flow in one direction only. All frames that wait to be sent go
//! in one write.
//!
//! # Promises
//!
//! * A call gets the answer to its own request, or it is [`Unanswered`]: the connection broke or
//!   cannot be made, the peer was silent for about a second despite pings, or the connection has no
//!   room for another request.
//! * The wire refuses only requests that were certainly never sent: claims too large for a frame.
//!   Any request that may have arrived is `Unanswered`, so that no caller takes it for not done.
//! * Requests begin in the order in which they were sent: the end of a snapshot takes effect before
//!   the begin of the next one.
//! * Neither side trusts the other before both have proved themselves, and a server keeps next to
//!   nothing for an unproved client: a greeting has 51 bytes and two seconds.
//! * Everything is bounded: connections, handshakes, frames, requests in flight and their bytes.
//!
//! # Modules
//!
//! [`codec`] (bytes), `handshake` (identity), `security` and `tls` (its proofs), `stream` (both
//! directions of a connection), `link` and `peers` (client), `listener` (server). Timers are the
//! runtime's: no decision of the protocol depends on them.

mod address;
mod binding;
pub mod codec;
mod handshake;
mod limits;
mod link;
mod listener;
mod pause;
mod peers;
mod refusal;
mod security;
mod stream;
#[cfg(test)]
mod tests;
mod tls;
mod version;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use carnet_base::{EndOnPanic, Error, Result};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::lease::Address;
use crate::message::{LeaderRequest, Response};
use crate::transport::{Handler, Transport, Unanswered};
use limits::Limits;
use listener::Served;
use peers::{Peers, keep};
pub use security::{Secret, Security};
pub use tls::Tls;

/// The network between the processes of a database. Clones share it; when the last clone is
/// dropped, the port and all connections are closed.
///
/// Calls may be made from any executor; the network's own work runs on the runtime.
#[derive(Clone)]
pub struct TcpNetwork {
    address: Address,
    listens_on: SocketAddr,
    runtime: Handle,
    peers: Arc<Peers>,
    /// Connections for forwarded bytes: long ones do not delay the requests to the leader.
    forwards: Arc<Peers>,
    served: Arc<Served>,
    /// Dropped with the last clone, which ends all tasks of the network.
    open: Arc<watch::Sender<()>>,
}

impl TcpNetwork {
    /// Opens a port; requests are answered once [`TcpNetwork::serve`] has set a handler.
    ///
    /// `advertise` is the host and port by which the other processes reach this one, if they differ
    /// from the address it listens on; port 0 stands for the port it listens on.
    ///
    /// # Errors
    ///
    /// `Invalid` if `advertise` is not a host and port, or is needed and missing, or if the
    /// security admits any client without being called insecure; `Unavailable` if the port cannot
    /// be opened.
    pub fn bind(
        listen: SocketAddr,
        advertise: Option<String>,
        security: Security,
        runtime: Handle,
    ) -> Result<Self> {
        Self::bind_within(listen, advertise, security, runtime, Limits::default())
    }

    fn bind_within(
        listen: SocketAddr,
        advertise: Option<String>,
        security: Security,
        runtime: Handle,
        limits: Limits,
    ) -> Result<Self> {
        security.check()?;
        let cannot = |e: std::io::Error| {
            Error::unavailable(format!("cannot listen on {listen} for other processes"))
                .with_source(e)
        };
        let listener = std::net::TcpListener::bind(listen).map_err(cannot)?;
        listener.set_nonblocking(true).map_err(cannot)?;
        let listener = {
            let _guard = runtime.enter();
            tokio::net::TcpListener::from_std(listener).map_err(cannot)?
        };
        let bound = listener.local_addr().map_err(cannot)?;
        let mut incarnation = [0; 8];
        handshake::random(&mut incarnation).map_err(cannot)?;
        let address = address::advertised(bound, advertise, incarnation)?;
        if matches!(security, Security::Insecure) && !bound.ip().to_canonical().is_loopback() {
            tracing::warn!(%bound, "any process that reaches this port can commit and read \
                                    timestamps");
        }

        let served = Served::new(security.clone(), limits, incarnation);
        let (open, closed) = watch::channel(());
        let listening = until_closed(closed, listener::listen(Arc::clone(&served), listener));
        runtime.spawn(async move {
            let _guard = EndOnPanic::new("listener of other processes");
            listening.await;
        });
        let peers = Arc::new(Peers::new(security.clone(), limits));
        let forwards = Arc::new(Peers::new(security, limits));
        let open = Arc::new(open);
        Ok(Self { address, listens_on: bound, runtime, peers, forwards, served, open })
    }

    /// Returns the address by which others reach this process; the lease has it while this process
    /// leads.
    #[must_use]
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// Returns the address it listens on, with the port that was picked.
    #[must_use]
    pub const fn listens_on(&self) -> SocketAddr {
        self.listens_on
    }

    /// Sets the handler of requests, for as long as the handler lives.
    pub fn serve(&self, handler: &Arc<dyn Handler>) {
        self.served.serve(handler);
    }
}

impl Transport for TcpNetwork {
    async fn call(&self, to: &Address, request: LeaderRequest) -> Result<Response, Unanswered> {
        let connect = |kept, link| {
            let keeping = until_closed(self.open.subscribe(), keep(kept, link));
            self.runtime.spawn(async move {
                let _guard = EndOnPanic::new("connection to another process");
                keeping.await;
            });
        };
        let peers = match &request {
            LeaderRequest::Forward { .. } => &self.forwards,
            _ => &self.peers,
        };
        peers.ask(to, request, connect).await
    }
}

impl fmt::Debug for TcpNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpNetwork").field("address", &self.address).finish_non_exhaustive()
    }
}

async fn until_closed(mut closed: watch::Receiver<()>, work: impl Future<Output = ()>) {
    tokio::select! {
        // No value is ever sent: this completes when the sender is dropped.
        _ = closed.changed() => {}
        () = work => {}
    }
}
