//! `carnet serve`: serves a database on network ports.

use std::fmt;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use carnet::{Builder, Db, Durability, block_on};
use carnet_base::{Clock, SystemClock};
use carnet_cql::Executor;
use carnet_cql::system::NodeInfo;
use carnet_server::{
    Audit, Authenticator, ChangeLog, Clients, Config, CqlBackend, Dashboard, Drain, Exposure,
    HttpToken, Limits, Server, Tls,
};
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use super::reloads::Reloads;
use super::tls_options::TlsOptions;
use crate::first_superuser;
use crate::http_token;
use crate::logging::{LEVELS, Logging};
use crate::place::{Place, refuse_secret};
use crate::settings::{self, Http, Memory, Settings};
use crate::system_memory::system_memory_bytes;
use crate::users::UsersFile;

/// Minimum idle time after which the database ends transactions that the server has forgotten.
const IDLE_TIMEOUT_MIN: Duration = Duration::from_secs(600);
const SNAPSHOT_IDLE_TIMEOUT_MIN: Duration = Duration::from_secs(3600);

/// Maximum time for which the end waits for threads of statements.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(1);

const DIRECTORY: &str = "carnet-data";
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9042);
const HTTP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9180);

/// Serve a database to cqlsh and drivers over the native protocol v4 and v5.
///
/// SIGTERM and Ctrl-C drain: the server answers the requests in progress, then ends. Requests that
/// take longer than server.shutdown_timeout are cut off, and the exit code is 3. SIGHUP loads the TLS
/// certificates, the users file and the levels of the log again.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Serve {
    /// The database's directory; created if missing.
    ///
    /// Default: carnet-data
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
    /// A database on a Cassandra or ScyllaDB cluster, which any number of servers may serve at
    /// once: cassandra://user@host1,host2/keyspace?option=value. See `docs/cassandra.md`; the error
    /// for an unknown option lists all options.
    #[arg(long, value_name = "URL", conflicts_with_all = ["directory", "durability"])]
    store: Option<String>,
    /// Address for CQL; port 0 picks a free one. An address beyond loopback requires --users or
    /// --roles, and TLS.
    ///
    /// Default: 127.0.0.1:9042
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Address that drivers are given for this server, if it differs from the listen address.
    /// Servers of one database on a cluster exchange their addresses, and their clients discover
    /// all of them.
    #[arg(long, value_name = "ADDRESS", value_parser = settings::advertise)]
    advertise: Option<SocketAddr>,
    /// Address for /livez, /readyz, /metrics and the dashboard, or "off". An address beyond loopback requires
    /// --http-token-file, and TLS.
    ///
    /// Default: 127.0.0.1:9180
    #[arg(long, value_name = "ADDRESS", value_parser = settings::http)]
    http: Option<Http>,
    /// File with a token of 16 characters or more, which clients of the HTTP port show in the header
    /// Authorization: Bearer TOKEN.
    #[arg(long, value_name = "FILE")]
    http_token_file: Option<PathBuf>,
    #[command(flatten)]
    tls: TlsOptions,
    /// Guarantee of an acknowledgement: "always" synced, synced every "interval:MILLISECONDS",
    /// "none": written, not synced, or "memory": no log, so that a crash loses everything since the
    /// last flush.
    ///
    /// Default: always
    #[arg(long, value_name = "WHEN", value_parser = settings::durability)]
    durability: Option<Durability>,
    /// Settings file, as `carnet config init` writes it. Options on the command line override it.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// File with a line NAME:HASH for each user, as `carnet hash-password` prints it. With it,
    /// clients have to log in. Only its owner may be able to write it, and only the owner should be
    /// able to read it.
    #[arg(long, value_name = "FILE")]
    users: Option<PathBuf>,
    /// Clients log in as roles of the database, also without --users. The first start makes a first
    /// superuser, and writes its random password to the file first-superuser in the directory.
    #[arg(long)]
    roles: bool,
}

const EXAMPLES: &str = "\
Examples:
  carnet serve
  carnet serve /srv/bank --listen 127.0.0.1:9043 --http off
  carnet serve --store 'cassandra://10.0.0.1,10.0.0.2/bank?listen=10.0.0.9:9044&secret_file=secret'
  carnet config init carnet.toml && carnet serve --config carnet.toml
  carnet hash-password ann >> users && carnet serve --users users
  carnet config tls-init tls --name db1.example.com &&
    carnet serve --listen 0.0.0.0:9042 --users users --tls-cert tls/server.crt --tls-key tls/server.key
  carnet serve --roles && cat carnet-data/first-superuser
  curl http://127.0.0.1:9180/metrics
  xdg-open http://127.0.0.1:9180/      the dashboard";

impl Serve {
    pub(crate) fn run(self) -> Result<()> {
        let config = self.config.clone();
        let settings = self.settings()?;
        let logging = Logging::start(&settings.log)?;
        if let Some(path) = &config {
            settings.warn_of_readers(path);
        }
        let checked = Checked::new(&settings)?;
        let Checked { place, listen, http, users, http_token, tls, memory } = checked;
        if let Place::Cluster(url) = &place {
            // Opening the database warns of the timeouts within it.
            let within = url.misordered_timeouts(None).len();
            let statement = settings.limits.timeouts().statement;
            let all = url.misordered_timeouts(Some(statement));
            all.iter().skip(within).for_each(|why| tracing::warn!("{why}"));
        }
        let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
        let builder = builder(&settings, memory).control(true);
        let builder = builder.admission(settings.limits.admission());
        let db = place.open(builder)?;
        let mut effective = settings.effective(&memory, &place);
        if let Some(levels) = Logging::levels_in_effect(&settings.log) {
            let shown = effective.iter_mut().find(|(name, _)| name == LEVELS);
            shown.into_iter().for_each(|(_, value)| value.clone_from(&levels));
        }
        log_start(config.as_deref(), &place, &effective, &db);
        // Over a cluster, the process that was building an index may have ended.
        db.build_derived();
        let authenticator = match &users {
            Some(file) => {
                Some(Authenticator::of_users(Arc::clone(file.users())).with_roles(db.clone()))
            }
            None if settings.roles == Some(true) => {
                first_superuser::make(&db, &place)?;
                Some(Authenticator::of_roles(db.clone())?)
            }
            None => None,
        };
        let listen = with_port(listen)?;
        let shown = effective.iter_mut().find(|(name, _)| name == "server.listen");
        shown.into_iter().for_each(|(_, value)| *value = listen.to_string());
        let clients = Clients::default();
        let mut node = node_info(&place, advertised_address(&place, listen, settings.advertise));
        if let Some(name) = &settings.data_center {
            node = node.in_data_center(name);
        }
        node.clients = Some(Arc::new(clients.clone()));
        if place.peers().is_some() {
            node = node.among_others();
        }
        let prepared_bytes = memory.prepared;
        let executor = executor(&db, &settings, prepared_bytes, users.as_ref(), node);
        executor.set_settings(effective);
        let audit = audit(&settings)?;
        executor.set_audit(Arc::new(ChangeLog::new(audit.clone(), Arc::new(SystemClock))));
        let mut backend = backend(&place, executor.clone())?;
        if let Some(tables) = settings.table_metrics {
            backend = backend.table_metrics_max(tables);
        }
        let users = users.map(|file| Arc::new(Mutex::new(file)));
        let reloads = Reloads { tls: tls.clone(), users, executor, log: logging, settings: config };
        let config = Config {
            listen,
            http,
            dashboard: dashboard(&settings),
            http_hosts: settings.http_hosts.iter().cloned().collect(),
            http_token,
            tls,
            insecure_plaintext: settings.tls.insecure_plaintext(),
            limits: limits(&settings, memory),
            clients,
            audit: audit.clone(),
        };
        let ended = runtime.block_on(async {
            let server = (config, backend, authenticator);
            let served = Box::pin(serve(&db, server, reloads, &place, memory)).await;
            db.leave().await;
            served
        })?;
        // Statements that are cut off end here, and are told to the audit log.
        runtime.shutdown_timeout(STATEMENT_TIMEOUT);
        db.close().context("the database could not be closed cleanly")?;
        if let Some(audit) = audit {
            audit.close();
        }
        say("stopped");
        match ended {
            Drain::Answered => Ok(()),
            Drain::CutOff => Err(RequestsCutOff.into()),
        }
    }
}

impl Serve {
    /// Merges the command line over the settings file.
    fn settings(self) -> Result<Settings> {
        let file = self.config.as_deref().map(Settings::read).transpose()?.unwrap_or_default();
        self.store.as_deref().map_or(Ok(()), refuse_secret)?;
        if let (Some(directory), true) = (&self.directory, file.store.is_some()) {
            bail!(
                "the settings file has a database on a cluster, and {} names another one: leave the directory \
                 out, or the section [cluster]",
                directory.display()
            );
        }
        let has_place = self.directory.is_some() || self.store.is_some();
        let (directory, store) =
            if has_place { (self.directory, self.store) } else { (file.directory, file.store) };
        Ok(Settings {
            listen: self.listen.or(file.listen),
            advertise: self.advertise.or(file.advertise),
            http: self.http.or(file.http),
            http_token_file: self.http_token_file.or(file.http_token_file),
            http_hosts: file.http_hosts,
            http_dashboard: file.http_dashboard,
            http_console: file.http_console,
            table_metrics: file.table_metrics,
            tls: self.tls.over(file.tls),
            users: self.users.or(file.users),
            roles: if self.roles { Some(true) } else { file.roles },
            directory,
            store,
            durability: self.durability.or(file.durability),
            ..file
        })
    }

    /// Returns the place of the database that settings name, and the address that it is served on.
    pub(crate) fn described(settings: &Settings) -> Result<(Place, SocketAddr)> {
        let Checked { place, listen, .. } = Checked::new(settings)?;
        Ok((place, listen))
    }
}

/// Settings that passed every check which needs neither the database nor a port. `carnet serve`
/// and `carnet config check` both begin with it.
struct Checked {
    place: Place,
    listen: SocketAddr,
    http: Option<SocketAddr>,
    users: Option<UsersFile>,
    http_token: Option<HttpToken>,
    tls: Option<Arc<Tls>>,
    memory: Memory,
}

impl Checked {
    fn new(settings: &Settings) -> Result<Self> {
        let users = settings.users.as_deref().map(UsersFile::read).transpose()?;
        let listen = settings.listen.unwrap_or(LISTEN);
        let http = settings.http.unwrap_or(Http(Some(HTTP))).0;
        let http_token = settings.http_token_file.as_deref().map(http_token::read).transpose()?;
        let tls_files = settings.tls.files()?;
        let exposure = Exposure {
            listen,
            http,
            has_users: users.is_some() || settings.roles == Some(true),
            has_tls: tls_files.is_some(),
            has_http_token: http_token.is_some(),
            insecure_plaintext: settings.tls.insecure_plaintext(),
        };
        exposure.check()?;
        let tls = tls_files.map(Tls::read).transpose()?.map(Arc::new);
        let place = place(settings)?;
        if let Place::Cluster(url) = &place {
            url.check()?;
        }
        let memory = Memory::divide(settings, system_memory_bytes())?;
        Ok(Self { place, listen, http, users, http_token, tls, memory })
    }
}

/// Logs the start of the server, and the recovery of its database.
fn log_start(config: Option<&Path>, place: &Place, effective: &[(String, String)], db: &Db) {
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        process = std::process::id(),
        database = %place,
        file = config.map(|path| path.display().to_string()),
        settings = settings::changed(effective),
        "carnet serve starts"
    );
    if let Some(metrics) = db.metrics() {
        tracing::info!(
            records = metrics.recovered_records,
            cut_bytes = metrics.recovered_cut_bytes,
            "the database is open; its log was read"
        );
    }
}

fn place(settings: &Settings) -> Result<Place> {
    let directory = settings.directory.clone().unwrap_or_else(|| DIRECTORY.into());
    Place::from_settings(Some(directory), settings.store.as_deref())?
        .context("a directory has a default")
}

fn dashboard(settings: &Settings) -> Dashboard {
    match (settings.http_dashboard, settings.http_console) {
        (Some(false), _) => Dashboard::Off,
        (_, Some(false)) => Dashboard::WithoutConsole,
        _ => Dashboard::Full,
    }
}

fn limits(settings: &Settings, memory: Memory) -> Limits {
    let default = Limits::of_memory(memory.shared);
    Limits {
        connections_max: settings.connections.unwrap_or(default.connections_max),
        connections_per_address_max: settings.connections_per_address,
        connections_per_user_max: settings.connections_per_user,
        requests_per_client_max: settings.limits.requests_per_client,
        request_bytes_max: memory.requests,
        request_bytes_per_address_max: settings.request_bytes_per_address,
        answer_bytes_max: memory.answers,
        idle_timeout: settings.idle_timeout.unwrap_or(default.idle_timeout),
        drain_timeout: settings.shutdown_timeout.unwrap_or(default.drain_timeout),
        ..default
    }
}

fn builder(settings: &Settings, memory: Memory) -> Builder {
    let mut builder =
        Db::builder().io(settings.io.options()).transaction_memory_bytes(memory.transactions);
    // A cluster has no storage engine.
    if memory.engine > 0 {
        builder = builder.memory_bytes(memory.engine);
    }
    if let Some(durability) = settings.durability {
        builder = builder.durability(durability);
    }
    if let Some(retention) = settings.retention {
        builder = builder.retention(retention);
    }
    // The server ends idle transactions itself, and says so to their clients.
    let idle_timeout = 2 * settings.limits.open_transactions().idle_timeout;
    builder = builder.idle_timeout(idle_timeout.max(IDLE_TIMEOUT_MIN));
    builder = builder.snapshot_idle_timeout(idle_timeout.max(SNAPSHOT_IDLE_TIMEOUT_MIN));
    if let Some(isolation) = settings.isolation {
        builder = builder.isolation(isolation);
    }
    builder
}

fn audit(settings: &Settings) -> Result<Option<Arc<Audit>>> {
    let Some((destination, filter)) = settings.audit.log() else { return Ok(None) };
    Ok(Some(Arc::new(Audit::open(destination, filter, Arc::new(SystemClock))?)))
}

/// Failure of a server that ended before it had answered all requests.
#[derive(Debug)]
pub(crate) struct RequestsCutOff;

impl RequestsCutOff {
    /// Exit code that tells this from other failures.
    pub(crate) const CODE: u8 = 3;
}

impl fmt::Display for RequestsCutOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "requests were cut off: they did not end within server.shutdown_timeout; acknowledged \
             commits are stored",
        )
    }
}

impl std::error::Error for RequestsCutOff {}

async fn serve(
    db: &Db,
    (config, backend, authenticator): (Config, CqlBackend, Option<Authenticator>),
    reloads: Reloads,
    place: &Place,
    memory: Memory,
) -> Result<Drain> {
    // Before the ports are open, so that no early signal is missed.
    let mut terminate = signal(SignalKind::terminate()).context("cannot watch for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot watch for Ctrl-C")?;
    let hangup = signal(SignalKind::hangup()).context("cannot watch for SIGHUP")?;
    let server = Server::bind(config, backend, authenticator, Arc::new(SystemClock)).await?;
    let mut line = format!("serving {place}: CQL on {}", server.local_addr()?);
    if let Some(http) = server.http_addr()? {
        line.push_str(&format!(", HTTP on {http}"));
    }
    say(&line);
    let http = server.http_addr()?.map(|http| http.to_string());
    tracing::info!(cql = %server.local_addr()?, http, "listening");
    memory.log();
    let shutdown = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        // While this server drains, its clients go to the others.
        db.withdraw();
    };
    tokio::select! {
        ended = server.run(shutdown) => Ok(ended),
        never = reloads.run(hangup) => match never {},
    }
}

/// Prints a line for the process that started the server. A closed output is no reason to end.
fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// Picks the port now if it is 0: drivers learn the port before it is opened.
fn with_port(mut listen: SocketAddr) -> Result<SocketAddr> {
    if listen.port() == 0 {
        let probe = TcpListener::bind(listen).with_context(|| format!("cannot use {listen}"))?;
        listen = probe.local_addr().context("the port's address is not known")?;
    }
    Ok(listen)
}

/// Returns the address that drivers connect to.
fn advertised_address(
    place: &Place,
    listen: SocketAddr,
    advertise: Option<SocketAddr>,
) -> SocketAddr {
    if let Some(address) = advertise {
        return address;
    }
    if !listen.ip().is_unspecified() {
        return listen;
    }
    // Drivers cannot connect to the unspecified address. If other servers reach this one at an
    // address, its clients may too.
    let peers = place.peers().map(|peers| peers.listen.ip());
    let address = peers.filter(|address| !address.is_unspecified());
    SocketAddr::new(address.unwrap_or(Ipv4Addr::LOCALHOST.into()), listen.port())
}

/// Makes the executor of a database's statements.
fn executor(
    db: &Db,
    settings: &Settings,
    prepared_bytes: usize,
    users: Option<&UsersFile>,
    node: NodeInfo,
) -> Executor {
    let timestamps = settings.timestamps.unwrap_or_default();
    let executor = Executor::with_timestamps(db.clone(), node, timestamps);
    executor.log_slow(settings.log.slow);
    executor.set_timeouts(settings.limits.timeouts());
    executor.set_warn_thresholds(settings.limits.warn_thresholds());
    executor.set_open_limits(settings.limits.open_transactions());
    executor.set_prepared_bytes_max(prepared_bytes);
    if let Some(file) = users {
        executor.set_users(file.users().names());
    }
    executor
}

/// Serves a database, as one of several servers if others can reach this one.
fn backend(place: &Place, executor: Executor) -> Result<CqlBackend> {
    // Later changes are noticed as they occur.
    block_on(executor.db().refresh_levels())?;
    block_on(executor.db().refresh_roles())?;
    let Some(peers) = place.peers() else {
        return Ok(CqlBackend::new(executor));
    };
    let advertised = executor.node();
    let advertised = SocketAddr::new(advertised.address, advertised.port);
    if advertised.ip().is_loopback() && !peers.listen.ip().is_loopback() {
        tracing::warn!(
            address = %advertised,
            "drivers find this server by its address alone, and no other by it: only this machine \
             reaches it; say with --listen or --advertise where they do"
        );
    } else {
        executor.announce()?;
    }
    Ok(block_on(CqlBackend::among_others(executor)))
}

fn node_info(place: &Place, advertised: SocketAddr) -> NodeInfo {
    let mut info = NodeInfo::local(place.host_id(&advertised.to_string()));
    info.address = advertised.ip();
    info.port = advertised.port();
    info.started_secs =
        i32::try_from(SystemClock.wall().millis().div_euclid(1_000)).unwrap_or(i32::MAX);
    info
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advertised_at(store: &str, listen: &str, advertise: Option<&str>) -> String {
        let place = Place::from_settings(None, Some(store)).unwrap().unwrap();
        let advertise = advertise.map(|text| text.parse().unwrap());
        advertised_address(&place, listen.parse().unwrap(), advertise).to_string()
    }

    #[test]
    fn drivers_are_told_a_reachable_address() {
        let peers = "cassandra://h/k?listen=10.0.0.9:9044&secret=sixteen-letters-or-more";
        assert_eq!(advertised_at(peers, "10.0.0.7:9042", None), "10.0.0.7:9042");
        assert_eq!(advertised_at(peers, "0.0.0.0:9042", None), "10.0.0.9:9042");
        assert_eq!(advertised_at(peers, "0.0.0.0:9042", Some("192.0.2.1:1")), "192.0.2.1:1");
        assert_eq!(advertised_at("cassandra://h/k", "0.0.0.0:9042", None), "127.0.0.1:9042");
        let everywhere = "cassandra://h/k?listen=0.0.0.0:9044&advertise=db1:9044&secret_file=s";
        assert_eq!(advertised_at(everywhere, "[::]:9042", None), "127.0.0.1:9042");
    }
}
