//! Ports, limits and drain of a server.

#![expect(clippy::disallowed_methods, reason = "its tasks run on the runtime")]

use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use carnet_base::{
    AddressLimit, AddressPlace, Charge, Clock, EndOnPanic, Error, MemoryBudget, Places, Result,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{error, info, warn};

use crate::accept::pause_after;
use crate::accounts::Accounts;
use crate::audit::Audit;
use crate::auth::Authenticator;
use crate::backend::Backend;
use crate::clients::Clients;
use crate::connection::{self, Backlogs, Lag, Shared};
use crate::descriptors::Descriptors;
use crate::events::Events;
use crate::exposure::Exposure;
use crate::forwarded::ForwardedStatements;
use crate::http::HttpService;
use crate::limited_log::LimitedLog;
use crate::limits::{Limits, connection_bytes};
use crate::long::LongThreads;
use crate::metrics::Metrics;
use crate::monitoring::{Dashboard, HttpToken, Monitoring};
use crate::tls::{Handshakes, Tls};

/// Addresses and limits of a server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Address for CQL; port 0 picks a free one.
    pub listen: SocketAddr,
    /// Address for `/livez`, `/readyz`, `/metrics` and the dashboard; `None` for no HTTP port.
    pub http: Option<SocketAddr>,
    /// Part of the dashboard that the HTTP port has.
    pub dashboard: Dashboard,
    /// Names by which browsers reach the dashboard, beside `localhost` and addresses.
    pub http_hosts: Vec<String>,
    /// Token that clients of the HTTP port show; required beyond loopback.
    pub http_token: Option<HttpToken>,
    /// Certificates: with them, CQL is over TLS, and so is HTTP beyond loopback.
    pub tls: Option<Arc<Tls>>,
    /// Whether ports beyond loopback may be without TLS, so that passwords cross the network in clear.
    pub insecure_plaintext: bool,
    /// Limits of the server.
    pub limits: Limits,
    /// List of the server's connections.
    pub clients: Clients,
    /// Audit log of log-ins. The [executor](carnet_cql::Executor::set_audit) tells it of statements.
    pub audit: Option<Arc<Audit>>,
}

impl Config {
    /// Creates a configuration with this CQL address, without HTTP and TLS, and with the default limits.
    #[must_use]
    pub fn new(listen: SocketAddr) -> Self {
        let (limits, clients) = (Limits::default(), Clients::default());
        Self {
            listen,
            http: None,
            dashboard: Dashboard::default(),
            http_hosts: Vec::new(),
            http_token: None,
            tls: None,
            insecure_plaintext: false,
            limits,
            clients,
            audit: None,
        }
    }
}

/// A server with open ports that serves no clients yet.
pub struct Server<B: Backend> {
    shared: Arc<Shared<B>>,
    listener: TcpListener,
    http: Option<TcpListener>,
    descriptors: Descriptors,
}

impl<B: Backend> Server<B> {
    /// Opens the server's ports.
    ///
    /// # Errors
    ///
    /// Invalid, if an address is reachable from other machines and lacks the protection that this
    /// requires ([`Exposure`]); unavailable, if a port or threads cannot be created.
    pub async fn bind(
        config: Config,
        backend: B,
        authenticator: Option<Authenticator>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let exposure = Exposure {
            listen: config.listen,
            http: config.http,
            has_users: authenticator.is_some(),
            has_tls: config.tls.is_some(),
            has_http_token: config.http_token.is_some(),
            insecure_plaintext: config.insecure_plaintext,
        };
        exposure.check()?;
        let listener = bind(config.listen, "CQL").await?;
        if let Err(error) = connection::request_stamps(&listener) {
            warn!(%error, "the kernel does not tell when requests arrive; they count as younger than they are");
        }
        let http = match config.http {
            Some(address) => Some(bind(address, "HTTP").await?),
            None => None,
        };
        let descriptors = Descriptors::of_process();
        let mut limits = config.limits;
        let connection_bytes = connection_bytes(config.tls.is_some());
        fit(&mut limits, descriptors, &listener, connection_bytes);
        let metrics = Arc::new(Metrics::default());
        let long =
            LongThreads::start(Arc::clone(&clock), Arc::clone(&metrics)).map_err(|error| {
                Error::unavailable("threads for long statements cannot be had").with_source(error)
            })?;
        let memory = MemoryBudget::new(limits.memory_bytes_max);
        let queue_max =
            backend.admission().map_or(usize::MAX, |gates| gates.limits().statements.queue_max);
        let shared = Arc::new(Shared {
            backend,
            authenticator: authenticator.map(Arc::new),
            audit: config.audit,
            budget: memory.child(limits.request_bytes_max),
            answers: memory.child(limits.answer_bytes()),
            connections: memory.child(limits.connection_bytes()),
            monitoring: Monitoring::new(
                config.http,
                config.tls.is_some(),
                config.http_token,
                (config.http_hosts, config.dashboard),
            ),
            handshakes: Handshakes::new(),
            tls: config.tls,
            places: AddressLimit::of(Places {
                total: limits.connections_max,
                per_client_max: limits.connections_per_address(),
            }),
            accounts: Accounts::new(limits.accounts(), Arc::clone(&clock)),
            log: LimitedLog::new(Arc::clone(&clock)),
            limits,
            clients: config.clients,
            metrics,
            events: Events::new(),
            long,
            backlogs: Arc::new(Backlogs::new(queue_max)),
            lag: Lag::new(Arc::clone(&clock)),
            clock,
        });
        Ok(Self { shared, listener, http, descriptors })
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
    /// answers the requests in progress for [`Limits::drain_timeout`], and returns how that ended.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Drain {
        let Self { shared, listener, http, descriptors } = self;
        let (drain, draining) = watch::channel(false);
        // These tasks end with this function.
        let mut beside = JoinSet::new();
        let mut http = http.and_then(|http| {
            HttpService::start(Arc::clone(&shared), http, draining.clone())
                .inspect_err(|error| error!(%error, "the HTTP port is not answered"))
                .ok()
        });
        beside.spawn(tell_news(Arc::clone(&shared)));
        if let Some(tls) = &shared.tls {
            beside.spawn(watch_certificates(Arc::clone(tls), shared.limits.certificate_interval));
        }
        let mut forwarded = ForwardedStatements::serve(&shared);
        let mut connections = JoinSet::new();
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => {
                        admit(&shared, &mut connections, stream, peer, descriptors, &draining);
                    }
                    Err(e) => pause_after(&e).await,
                },
                Some(_) = connections.join_next() => {}
            }
        }
        drop(listener);
        info!(connections = connections.len(), "draining");
        // All receivers are in this function's own tasks: their absence is no error.
        let _ = drain.send(true);
        let drain_timeout = shared.limits.drain_timeout;
        let until = Instant::now() + drain_timeout;
        let all = async { while connections.join_next().await.is_some() {} };
        let mut ended = Drain::Answered;
        let in_time = timeout_at(until, all).await.is_ok();
        let requests = shared.metrics.requests_in_flight.get();
        // Clients that only have to close their connections lose nothing.
        if !in_time && (requests > 0 || shared.answers.used() > 0) {
            let connections = connections.len();
            warn!(connections, requests, ?drain_timeout, "cut off: they did not end in time");
            ended = Drain::CutOff;
        }
        drop(connections);
        if timeout_at(until, forwarded.drain()).await.is_err() {
            warn!(
                ?drain_timeout,
                "statements of other servers are cut off: they did not end in time"
            );
            ended = Drain::CutOff;
        }
        if let Some(http) = &mut http
            && timeout_at(until, http.drain()).await.is_err()
        {
            warn!(
                ?drain_timeout,
                "statements of the dashboard are cut off: they did not end in time"
            );
            ended = Drain::CutOff;
        }
        shared.backend.drained();
        if let Some(http) = http {
            http.end().await;
        }
        ended
    }
}

/// How a drain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drain {
    /// All requests in progress were answered.
    Answered,
    /// Requests were cut off: their clients do not know the effect.
    CutOff,
}

/// Publishes the events of the backend.
async fn tell_news<B: Backend>(shared: Arc<Shared<B>>) {
    let _guard = EndOnPanic::new("events for clients");
    loop {
        let news = shared.backend.news().await;
        news.into_iter().for_each(|event| shared.events.publish(event));
    }
}

/// Loads certificates whose files have changed.
async fn watch_certificates(tls: Arc<Tls>, interval: Duration) {
    let _guard = EndOnPanic::new("the reload of certificates");
    loop {
        sleep(interval).await;
        let tls = Arc::clone(&tls);
        // Files may be on a slow disk.
        match spawn_blocking(move || tls.reload_if_changed()).await {
            Ok(Ok(true)) => {
                info!("the TLS certificates have changed; new connections use the new ones");
            }
            Ok(Ok(false)) => {}
            Ok(Err(error)) => error!(%error, "{}", Tls::KEPT),
            Err(error) => error!(%error, "the reload of certificates broke"),
        }
    }
}

/// Starts serving a client, if there is room.
fn admit<B: Backend>(
    shared: &Arc<Shared<B>>,
    connections: &mut JoinSet<()>,
    stream: TcpStream,
    peer: SocketAddr,
    descriptors: Descriptors,
    draining: &watch::Receiver<bool>,
) {
    let placed = if descriptors.leaves_reserve(stream.as_raw_fd()) {
        place(shared, connections.len(), peer)
    } else {
        Err("the process has too few file descriptors; raise its limit of open files (`ulimit -n`)")
    };
    let (place, charge) = match placed {
        Ok(placed) => placed,
        Err(why) => {
            shared.metrics.connections_refused.add(1);
            shared.log.connection(peer, why);
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

/// Lowers the limit of connections to the file descriptors of the process, and to the memory. The listener is one of
/// the newest.
fn fit(
    limits: &mut Limits,
    descriptors: Descriptors,
    listener: &TcpListener,
    connection_bytes: usize,
) {
    let room = descriptors.room(listener.as_raw_fd()).max(1);
    if room < limits.connections_max {
        warn!(
            open_files_max = descriptors.limit(),
            connections_max = limits.connections_max,
            "the limit of open files permits {room} connections beside the files of the database; \
             raise it (`ulimit -n`, LimitNOFILE) or lower server.connections"
        );
        limits.connections_max = room;
    }
    if limits.fit_connections(connection_bytes) {
        info!(
            connections_max = limits.connections_max,
            "the server's memory permits fewer connections than server.connections; a larger \
             server.memory permits more"
        );
    }
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
    let place = place.ok_or(
        "its address has too many connections; the last eighth of all is for addresses with few",
    )?;
    let charge = shared.connections.charge(connection_bytes(shared.tls.is_some()));
    Ok((place, charge.ok_or("the server's memory is used up")?))
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

#[cfg(test)]
mod tests;
