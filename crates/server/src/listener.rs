//! The ports, the limits, and the drain.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use carnet_base::{AddressLimit, AddressPlace, Charge, Clock, Error, MemoryBudget, Result};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{error, info, warn};

use crate::auth::Authenticator;
use crate::backend::Backend;
use crate::clients::Clients;
use crate::connection::{self, Shared};
use crate::events::Events;
use crate::http::Monitors;
use crate::long::LongThreads;
use crate::metrics::Metrics;
use crate::refusals::Refusals;

/// Estimated bytes of a connection without requests and answers: the buffers that it keeps, and its task.
const CONNECTION_BYTES: usize = 48 << 10;

/// Where a server listens, and how much it takes on.
#[derive(Clone, Debug)]
pub struct Config {
    /// The address for CQL; port 0 picks a free one.
    pub listen: SocketAddr,
    /// The address for `/livez`, `/readyz` and `/metrics`, `None` for no such port. It asks nobody
    /// for a password: what it tells is health and counts.
    pub http: Option<SocketAddr>,
    /// How much the server takes on.
    pub limits: Limits,
    /// Where the server lists its connections.
    pub clients: Clients,
}

impl Config {
    /// Listens for CQL there, without HTTP, with the default limits.
    #[must_use]
    pub fn new(listen: SocketAddr) -> Self {
        Self { listen, http: None, limits: Limits::default(), clients: Clients::default() }
    }
}

/// How much a server takes on. The defaults suit a machine with a few GiB.
#[derive(Clone, Debug)]
pub struct Limits {
    /// CQL connections at a time; more are closed at once. Each may hold
    /// [`unsent_bytes_max`](Self::unsent_bytes_max) of answers. Default: 4096.
    pub connections_max: usize,
    /// CQL connections at a time from one address, or one /64 network of IPv6; more are closed at
    /// once. Default: half of [`connections_max`](Self::connections_max).
    pub connections_per_address_max: Option<usize>,
    /// The longest body of a request, in bytes, compressed and not. A larger one ends the
    /// connection. Default: 16 MiB, as Cassandra's.
    pub body_bytes_max: usize,
    /// The bytes of all requests that have arrived and are not answered yet, on all connections.
    /// What does not fit is refused as overloaded. More lets more large requests in; less bounds
    /// memory better. Default: 256 MiB.
    pub request_bytes_max: usize,
    /// The same, for the connections of one address. Default: half of
    /// [`request_bytes_max`](Self::request_bytes_max), and at least one request of the longest body.
    pub request_bytes_per_address_max: Option<usize>,
    /// Statements under way on one connection; further ones wait unread. Default: 1024.
    pub requests_per_connection_max: usize,
    /// Bytes of answers that wait to be sent on one connection; while there are more, nothing is
    /// read from it. Default: 1 MiB.
    pub unsent_bytes_max: usize,
    /// The bytes of requests, answers and connections together. While it is used up, requests are refused
    /// and connections closed at once. Default: 512 MiB.
    pub memory_bytes_max: usize,
    /// The bytes of all answers that are being made or wait to be sent. Beyond three quarters of it queries
    /// are refused as overloaded; one answer may have half of it. At most half of
    /// [`memory_bytes_max`](Self::memory_bytes_max). Default: 128 MiB.
    pub answer_bytes_max: usize,
    /// How long a client may take to say who it is. Default: 10 s.
    pub greeting_timeout: Duration,
    /// How long a client may stop in the middle of a request, or not read its answers.
    /// Default: 30 s.
    pub stall_timeout: Duration,
    /// How long a request may take to arrive as a whole, beside one second for each 64 KiB of it.
    /// Default: 30 s.
    pub frame_timeout: Duration,
    /// How long a client may be silent between requests; zero is for ever. Drivers send a heartbeat
    /// every 30 s. Default: 10 min.
    pub idle_timeout: Duration,
    /// How long a drain waits for requests under way, before it cuts them off. Default: 10 s.
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 4096,
            connections_per_address_max: None,
            body_bytes_max: 16 << 20,
            request_bytes_max: 256 << 20,
            request_bytes_per_address_max: None,
            requests_per_connection_max: 1024,
            unsent_bytes_max: 1 << 20,
            memory_bytes_max: 512 << 20,
            answer_bytes_max: 128 << 20,
            greeting_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(30),
            frame_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(600),
            drain_timeout: Duration::from_secs(10),
        }
    }
}

impl Limits {
    /// Returns the connections that one address may have.
    fn connections_per_address(&self) -> usize {
        self.connections_per_address_max.unwrap_or_else(|| half(self.connections_max))
    }

    /// Divides so many bytes among requests, answers and connections: a half at most for requests and for
    /// answers, and room for a request of the longest body.
    #[must_use]
    pub fn of_memory(memory_bytes_max: usize) -> Self {
        let default = Self::default();
        let requests = half(memory_bytes_max).max(default.body_bytes_max).min(memory_bytes_max);
        Self {
            memory_bytes_max,
            request_bytes_max: requests,
            answer_bytes_max: half(memory_bytes_max),
            ..default
        }
    }

    /// Returns the bytes that answers may have.
    fn answer_bytes(&self) -> usize {
        self.answer_bytes_max.min(half(self.memory_bytes_max))
    }

    /// Returns the bytes of requests that one address may have.
    fn request_bytes_per_address(&self) -> usize {
        self.request_bytes_per_address_max.unwrap_or_else(|| {
            half(self.request_bytes_max).max(self.body_bytes_max).min(self.request_bytes_max)
        })
    }
}

const fn half(of: usize) -> usize {
    of.div_ceil(2)
}

/// A server that has its ports and serves nobody yet.
pub struct Server<B: Backend> {
    shared: Arc<Shared<B>>,
    listener: TcpListener,
    http: Option<TcpListener>,
}

impl<B: Backend> Server<B> {
    /// Opens the ports.
    ///
    /// # Errors
    ///
    /// Invalid, where the address for CQL can be reached from other machines and there is no
    /// `authenticator`; unavailable, where a port or threads cannot be had.
    pub async fn bind(
        config: Config,
        backend: B,
        authenticator: Option<Authenticator>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        // A name's IPv4 address may come as an IPv6 one.
        let is_loopback = config.listen.ip().to_canonical().is_loopback();
        if !is_loopback && authenticator.is_none() {
            return Err(Error::invalid(format!(
                "refusing to listen on {} without passwords: everybody who reaches this machine \
                 could read and write the database; name a password file, or listen on 127.0.0.1",
                config.listen
            )));
        }
        let listener = bind(config.listen, "CQL").await?;
        let http = match config.http {
            Some(address) => Some(bind(address, "HTTP").await?),
            None => None,
        };
        let metrics = Arc::new(Metrics::default());
        let long =
            LongThreads::start(Arc::clone(&clock), Arc::clone(&metrics)).map_err(|error| {
                Error::unavailable("threads for long statements cannot be had").with_source(error)
            })?;
        let memory = MemoryBudget::new(config.limits.memory_bytes_max);
        let shared = Arc::new(Shared {
            backend,
            authenticator: authenticator.map(Arc::new),
            budget: memory.child(config.limits.request_bytes_max),
            answers: memory.child(config.limits.answer_bytes()),
            connections: memory.child(usize::MAX),
            memory,
            places: AddressLimit::new(config.limits.connections_per_address()),
            refusals: Refusals::new(Arc::clone(&clock)),
            limits: config.limits,
            clients: config.clients,
            metrics,
            events: Events::new(),
            long,
            clock,
        });
        Ok(Self { shared, listener, http })
    }

    /// Returns the address for CQL, with the port that was picked.
    ///
    /// # Errors
    ///
    /// Unavailable, where the system does not know it.
    pub fn local_addr(&self) -> Result<SocketAddr> {
        address(&self.listener)
    }

    /// Returns the address for HTTP, with the port that was picked.
    ///
    /// # Errors
    ///
    /// Unavailable, where the system does not know it.
    pub fn http_addr(&self) -> Result<Option<SocketAddr>> {
        self.http.as_ref().map(address).transpose()
    }

    /// Returns where to tell what happens beside the server.
    #[must_use]
    pub fn events(&self) -> Events {
        self.shared.events.clone()
    }

    /// Returns the server's figures.
    #[must_use]
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.shared.metrics)
    }

    /// Serves until `shutdown` is ready, then drains: takes no more connections and no more
    /// requests, answers those under way, and returns.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let Self { shared, listener, http } = self;
        let (drain, draining) = watch::channel(false);
        // They end with this function.
        let mut beside = JoinSet::new();
        let monitors = http.and_then(|http| {
            Monitors::start(Arc::clone(&shared), http, draining.clone())
                .inspect_err(|error| error!(%error, "monitors are not answered"))
                .ok()
        });
        beside.spawn(tell_news(Arc::clone(&shared)));
        let mut connections = JoinSet::new();
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => {
                        admit(&shared, &mut connections, stream, peer, &draining);
                    }
                    Err(e) => pause_after(&e).await,
                },
                Some(_) = connections.join_next() => {}
                Some(ended) = beside.join_next() => error!(?ended, "a task beside the connections ended"),
            }
        }
        drop(listener);
        info!(connections = connections.len(), "draining");
        // The receivers are in this function's own tasks: that there is none is no error.
        let _ = drain.send(true);
        let all = async { while connections.join_next().await.is_some() {} };
        if timeout(shared.limits.drain_timeout, all).await.is_err() {
            warn!(connections = connections.len(), "cut off: they did not end in time");
        }
        drop(connections);
        if let Some(monitors) = monitors {
            monitors.end().await;
        }
    }
}

/// Tells clients what the backend hears from elsewhere.
async fn tell_news<B: Backend>(shared: Arc<Shared<B>>) {
    loop {
        let news = shared.backend.news().await;
        news.into_iter().for_each(|event| shared.events.publish(event));
    }
}

/// Starts serving a client, where there is room.
fn admit<B: Backend>(
    shared: &Arc<Shared<B>>,
    connections: &mut JoinSet<()>,
    stream: TcpStream,
    peer: SocketAddr,
    draining: &watch::Receiver<bool>,
) {
    let (place, charge) = match place(shared, connections.len(), peer) {
        Ok(placed) => placed,
        Err(why) => {
            shared.metrics.connections_refused.add(1);
            shared.refusals.connection(peer, why);
            return;
        }
    };
    shared.metrics.connections_accepted.add(1);
    // Without it small answers would wait for acknowledgements. Where it cannot be set, they do.
    let _ = stream.set_nodelay(true);
    let (shared, draining) = (Arc::clone(shared), draining.clone());
    connections.spawn(async move {
        let metrics = Arc::clone(&shared.metrics);
        let (_open, _charge) = (metrics.connections.enter(), charge);
        connection::serve(shared, stream, peer, place, draining).await;
    });
}

/// Takes a place for a connection, or says why there is none.
fn place<B>(
    shared: &Shared<B>,
    connections: usize,
    peer: SocketAddr,
) -> std::result::Result<(AddressPlace<MemoryBudget>, Charge), &'static str> {
    if connections >= shared.limits.connections_max {
        return Err("there are too many connections");
    }
    let bytes_max = shared.limits.request_bytes_per_address();
    let place = shared.places.enter(peer.ip(), || shared.budget.child(bytes_max));
    let place = place.ok_or("its address has too many connections")?;
    let charge = shared.connections.charge(CONNECTION_BYTES);
    Ok((place, charge.ok_or("the server's memory is used up")?))
}

/// Waits before the next attempt: the usual reason is that there are too many open files, which
/// trying at once again does not mend.
#[expect(clippy::disallowed_methods, reason = "the server owns a runtime")]
pub(crate) async fn pause_after(e: &io::Error) {
    warn!(error = %e, "cannot accept a connection");
    tokio::time::sleep(Duration::from_millis(100)).await;
}

async fn bind(address: SocketAddr, what: &str) -> Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|e| {
        Error::unavailable(format!("cannot listen for {what} on {address}")).with_source(e)
    })
}

fn address(listener: &TcpListener) -> Result<SocketAddr> {
    listener
        .local_addr()
        .map_err(|e| Error::unavailable("the port's address is not known").with_source(e))
}
