//! The wire: processes of one database over a cluster talk over TCP.
//!
//! # The problem
//!
//! Followers ask the leader thousands of times a second, and every answer is waited for. Who leads
//! may be slow, stopped, cut off, or another one by now, and who asks must find out soon; what is
//! asked may be asked again (`message`), so losing an answer costs time and nothing else.
//!
//! # A connection
//!
//! ```text
//!   follower                                            leader
//!   TLS, where it is set ─────────────────────────────▶
//!   greeting, proof of the secret ◀───────────────────▶ the same         handshake
//!   frames: begin 1, begin 2, commit 3, … ────────────▶ each answered by a task
//!           ◀──────────────────────────────────────────  2, 1, 3, …      as they are ready
//!   ping, where it was not heard of for 250 ms ───────▶
//! ```
//!
//! A process has one connection to each process that it asks, which carries all its calls; who
//! answers never asks on it. Whatever waits to be sent goes in one write.
//!
//! # Promises
//!
//! * A call is answered by the answer to that request, or it is [`Unanswered`]:
//!   when the connection breaks, when nothing was heard for about a second although it was asked
//!   for, when it cannot be made, or when as much is under way on it as may be.
//! * Only what certainly was never sent is refused here: a claim too large for a frame. Whatever
//!   may have arrived is `Unanswered`, so that nobody takes it for not done.
//! * Requests begin in the order in which they were sent: who gives a snapshot back and asks for
//!   the next one is not heard the other way round.
//! * Nothing is believed before both sides have proved themselves, and nothing is kept for whoever
//!   has not: a greeting has 51 bytes and two seconds.
//! * Everything is bounded: connections, greetings, frames, requests under way and their bytes.
//!
//! # The rooms
//!
//! [`codec`] (bytes), `handshake` (who is it), `security` and `tls` (what proves it), `stream`
//! (both directions of a connection), `link` and `peers` (who asks), `listener` (who answers).
//! Waiting is the runtime's: no decision of the protocol rests on it.

mod address;
pub mod codec;
mod handshake;
mod limits;
mod link;
mod listener;
mod peers;
mod security;
mod stream;
#[cfg(test)]
mod tests;
mod tls;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use carnet_base::{Error, Result};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::lease::Address;
use crate::message::{Request, Response};
use crate::transport::{Handler, Transport, Unanswered};
use limits::Limits;
use listener::Served;
use peers::{Peers, keep};
pub use security::{Secret, Security};
pub use tls::Tls;

/// The network between the processes of a database. Clones are the same one; when the last is
/// dropped, its port and its connections are closed.
///
/// Calls may be made from any executor; the network's own work is done on the runtime.
#[derive(Clone)]
pub struct TcpNetwork {
    address: Address,
    listens_on: SocketAddr,
    runtime: Handle,
    peers: Arc<Peers>,
    served: Arc<Served>,
    /// Dropped with the last clone, which everybody notices.
    open: Arc<watch::Sender<()>>,
}

impl TcpNetwork {
    /// Opens a port, on which nobody answers until [`TcpNetwork::serve`] says who does.
    ///
    /// `advertise` is the host and port by which the other processes reach it, where those are not
    /// the ones that it listens on; its port 0 is the one that it listens on.
    ///
    /// # Errors
    ///
    /// `Invalid` where `advertise` is no host and port, or is needed and missing, and where the
    /// security lets everybody in without saying so; `Unavailable` where the port cannot be had.
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
        let address = address::of(bound, advertise, incarnation)?;
        if matches!(security, Security::Insecure) && !bound.ip().to_canonical().is_loopback() {
            tracing::warn!(%bound, "whoever reaches this port may commit and read timestamps");
        }

        let served = Served::new(security.clone(), limits, incarnation);
        let (open, closed) = watch::channel(());
        runtime.spawn(until_closed(closed, listener::listen(Arc::clone(&served), listener)));
        let peers = Arc::new(Peers::new(security, limits));
        Ok(Self { address, listens_on: bound, runtime, peers, served, open: Arc::new(open) })
    }

    /// Returns how the others reach this process: what stands in the lease while it leads.
    #[must_use]
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// Returns where it listens, with the port that was picked.
    #[must_use]
    pub const fn listens_on(&self) -> SocketAddr {
        self.listens_on
    }

    /// Says who answers requests, from now on and for as long as he lives.
    pub fn serve(&self, handler: &Arc<dyn Handler>) {
        self.served.serve(handler);
    }
}

impl Transport for TcpNetwork {
    async fn call(&self, to: &Address, request: Request) -> Result<Response, Unanswered> {
        let connect = |kept, link| {
            self.runtime.spawn(until_closed(self.open.subscribe(), keep(kept, link)));
        };
        self.peers.ask(to, request, connect).await
    }
}

impl fmt::Debug for TcpNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpNetwork").field("address", &self.address).finish_non_exhaustive()
    }
}

async fn until_closed(mut closed: watch::Receiver<()>, work: impl Future<Output = ()>) {
    tokio::select! {
        // Nothing is ever sent: it ends when the sender is gone.
        _ = closed.changed() => {}
        () = work => {}
    }
}

#[expect(clippy::disallowed_methods, reason = "the wire's waiting is the runtime's")]
async fn pause(wait: Duration) {
    tokio::time::sleep(wait).await;
}
