//! Ports, limits and drain of a server.

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

/// Estimated bytes of a connection without requests and answers: its buffers and its task.
const CONNECTION_BYTES: usize = 48 << 10;

/// Addresses and limits of a server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Address for CQL; port 0 picks a free one.
    pub listen: SocketAddr,
    /// Address for `/livez`, `/readyz` and `/metrics`; `None` for no HTTP port. It requires no
    /// password: it exposes only health and counts.
    pub http: Option<SocketAddr>,
    /// Limits of the server.
    pub limits: Limits,
    /// List of the server's connections.
    pub clients: Clients,
}

impl Config {
    /// Creates a configuration with this CQL address, without HTTP, and with the default limits.
    #[must_use]
    pub fn new(listen: SocketAddr) -> Self {
        Self { listen, http: None, limits: Limits::default(), clients: Clients::default() }
    }
}

/// Limits of a server. The defaults suit a machine with a few GiB.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Maximum number of CQL connections; more are closed at once. Each may hold
    /// [`unsent_bytes_max`](Self::unsent_bytes_max) of answers. Default: 4096.
    pub connections_max: usize,
    /// Maximum number of CQL connections from one address, or one /64 network of IPv6; more are
    /// closed at once. Default: half of [`connections_max`](Self::connections_max).
    pub connections_per_address_max: Option<usize>,
    /// Maximum length of a request's body, in bytes, compressed and uncompressed. A longer body
    /// ends the connection. Default: 16 MiB, the same as Cassandra's.
    pub body_bytes_max: usize,
    /// Maximum bytes of all requests that have arrived and are not answered yet, on all
    /// connections. Further requests are refused as overloaded. A higher limit admits more large
    /// requests; a lower one saves memory. Default: 256 MiB.
    pub request_bytes_max: usize,
    /// Maximum bytes of requests from one address. Default: half of
    /// [`request_bytes_max`](Self::request_bytes_max), and at least one request of maximum length.
    pub request_bytes_per_address_max: Option<usize>,
    /// Maximum number of statements in progress per connection; more stay unread. Default: 1024.
    pub requests_per_connection_max: usize,
    /// Maximum bytes of answers that wait to be sent on one connection; above it, nothing is read
    /// from the connection. Default: 1 MiB.
    pub unsent_bytes_max: usize,
    /// Maximum bytes of requests, answers and connections together. While they are used up,
    /// requests are refused and connections closed at once. Default: 512 MiB.
    pub memory_bytes_max: usize,
    /// Maximum bytes of all answers that are being made or wait to be sent. Above three quarters of
    /// it queries are refused as overloaded; one answer may have half of it. At most half of
    /// [`memory_bytes_max`](Self::memory_bytes_max). Default: 128 MiB.
    pub answer_bytes_max: usize,
    /// Timeout for a client's log-in. Default: 10 s.
    pub greeting_timeout: Duration,
    /// Maximum time for which a client may stop in the middle of a request, or not read its
    /// answers. Default: 30 s.
    pub stall_timeout: Duration,
    /// Maximum time for the arrival of a request, in addition to one second for each 64 KiB of it.
    /// Default: 30 s.
    pub frame_timeout: Duration,
    /// Maximum idle time of a client between requests; zero for no limit. Drivers send a heartbeat
    /// every 30 s. Default: 10 min.
    pub idle_timeout: Duration,
    /// Maximum wait of a drain for requests in progress, before it cuts them off. Default: 10 s.
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
    /// Returns the maximum number of connections per address.
    fn connections_per_address(&self) -> usize {
        self.connections_per_address_max.unwrap_or_else(|| half(self.connections_max))
    }

    /// Divides this memory among requests, answers and connections: requests and answers may each
    /// have at most half, and a request of maximum length fits.
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

    /// Returns the maximum bytes of answers.
    fn answer_bytes(&self) -> usize {
        self.answer_bytes_max.min(half(self.memory_bytes_max))
    }

    /// Returns the maximum bytes of requests per address.
    fn request_bytes_per_address(&self) -> usize {
        self.request_bytes_per_address_max.unwrap_or_else(|| {
            half(self.request_bytes_max).max(self.body_bytes_max).min(self.request_bytes_max)
        })
    }
}

const fn half(of: usize) -> usize {
    of.div_ceil(2)
}

/// A server with open ports that serves no clients yet.
pub struct Server<B: Backend> {
    shared: Arc<Shared<B>>,
    listener: TcpListener,
    http: Option<TcpListener>,
}

impl<B: Backend> Server<B> {
    /// Opens the server's ports.
    ///
    /// # Errors
    ///
    /// Invalid, if the CQL address is reachable from other machines and there is no
    /// `authenticator`; unavailable, if a port or threads cannot be created.
    pub async fn bind(
        config: Config,
        backend: B,
        authenticator: Option<Authenticator>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        // An IPv4 address may have the form of an IPv6 one.
        let is_loopback = config.listen.ip().to_canonical().is_loopback();
        if !is_loopback && authenticator.is_none() {
            return Err(Error::invalid(format!(
                "refusing to listen on {} without passwords: any client that reaches this machine \
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

    /// Returns the address for CQL, with the picked port.
    ///
    /// # Errors
    ///
    /// Unavailable, if the system does not report it.
    pub fn local_addr(&self) -> Result<SocketAddr> {
        address(&self.listener)
    }

    /// Returns the address for HTTP, with the picked port.
    ///
    /// # Errors
    ///
    /// Unavailable, if the system does not report it.
    pub fn http_addr(&self) -> Result<Option<SocketAddr>> {
        self.http.as_ref().map(address).transpose()
    }

    /// Returns the publisher of events from outside of the server.
    #[must_use]
    pub fn events(&self) -> Events {
        self.shared.events.clone()
    }

    /// Returns the server's metrics.
    #[must_use]
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.shared.metrics)
    }

    /// Serves until `shutdown` is ready, then drains: takes no more connections and requests,
    /// answers the requests in progress, and returns.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let Self { shared, listener, http } = self;
        let (drain, draining) = watch::channel(false);
        // These tasks end with this function.
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
        // All receivers are in this function's own tasks: their absence is no error.
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

/// Publishes the events of the backend.
async fn tell_news<B: Backend>(shared: Arc<Shared<B>>) {
    loop {
        let news = shared.backend.news().await;
        news.into_iter().for_each(|event| shared.events.publish(event));
    }
}

/// Starts serving a client, if there is room.
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
    // Without this option small answers would wait for acknowledgements. A failure to set it is
    // harmless.
    let _ = stream.set_nodelay(true);
    let (shared, draining) = (Arc::clone(shared), draining.clone());
    connections.spawn(async move {
        let metrics = Arc::clone(&shared.metrics);
        let (_open, _charge) = (metrics.connections.enter(), charge);
        connection::serve(shared, stream, peer, place, draining).await;
    });
}

/// Takes a slot for a connection, or returns the reason why there is none.
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

/// Waits before the next attempt: the usual reason is too many open files, which an immediate retry
/// does not fix.
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
