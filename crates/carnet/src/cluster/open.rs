//! Opening a database over a cluster.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use carnet_base::{Clock, Error, Result, SeededRng, Spawn, Tasks, ThreadTimer, WorkerTasks};
use carnet_sequencer::{
    Address, ClusterLog, Environment, Handler, LocalNetwork, MakeOrder, Options,
    Secret as PeerSecret, Security, TcpNetwork, Tls, Transport,
};
use carnet_store::cluster::Cluster;
use carnet_store::{BeginKind, CommitLog as _, Context};
use carnet_store_cql::{CqlCluster, CqlOptions, RequestCounters};
use carnet_txn::CommitChecker;

use super::peers::{Peers, Secret};
use super::store::ClusterStore;
use super::url::ClusterUrl;
use crate::schema::TABLES_OF_THE_SYSTEM;

/// Settings of a process.
pub(crate) struct Settings {
    pub(crate) options: Options,
    /// Memory for recent commits, which commits are checked against while this process leads.
    pub(crate) conflict_bytes: usize,
}

/// Connects to the cluster of a URL, listens on the address in it, and waits for a leader. Returns
/// the store with its request counters.
pub(crate) async fn connect(
    url: &ClusterUrl,
    retention: Duration,
    conflict_bytes: usize,
    clock: &Arc<dyn Clock>,
    spawn: &dyn Spawn,
) -> Result<(Arc<dyn ClusterStore>, Arc<RequestCounters>)> {
    let options = cql_options(url)?;
    url.misordered_timeouts(None).iter().for_each(|why| tracing::warn!("{why}"));
    let cluster = Arc::new(Box::pin(CqlCluster::connect(&options, Arc::clone(clock))).await?);
    let (environment, requests) = (environment(clock, spawn), cluster.requests());
    let mut settings = Settings { options: url.sequencer, conflict_bytes };
    settings.options.sweep.retention = retention;
    if let Some(peers) = &url.peers {
        let (listen, advertise) = (peers.listen, peers.advertise.clone());
        let network = TcpNetwork::bind(listen, advertise, security(peers)?, cluster.runtime())?;
        let (address, serving) = (network.address().clone(), network.clone());
        tracing::info!(%address, "listening for other processes of this database");
        let listen = move |handler: &_| serving.serve(handler);
        let store = open(cluster, network, address, environment, settings, listen).await?;
        return Ok((store, requests));
    }
    let network = LocalNetwork::new(Arc::clone(&environment.tasks));
    let address = Address::new(format!("process {}, which listens nowhere", std::process::id()))?;
    let store = open(cluster, network, address, environment, settings, |_| ()).await?;
    Ok((store, requests))
}

/// Returns the options for connecting to a cluster, with the password read from its file.
pub(super) fn cql_options(url: &ClusterUrl) -> Result<CqlOptions> {
    let mut options = url.cql.clone();
    if let (Some(path), Some(credentials)) = (&url.password_file, &mut options.credentials) {
        credentials.password = read_secret(path)?;
    }
    Ok(options)
}

impl ClusterUrl {
    /// Reads the files that the URL names, and checks its secrets, without connecting.
    ///
    /// # Errors
    ///
    /// Those of opening the database: a file that cannot be read, or a secret that is too short.
    pub fn check(&self) -> Result<()> {
        cql_options(self)?;
        self.peers.as_ref().map(security).transpose()?;
        Ok(())
    }
}

/// Opens a database over a cluster, as a process at `address`; `listen` connects its handler.
pub(crate) async fn open<C: Cluster, T: Transport>(
    cluster: Arc<C>,
    network: T,
    address: Address,
    environment: Environment,
    settings: Settings,
    listen: impl FnOnce(&Arc<dyn Handler>) + Send,
) -> Result<Arc<dyn ClusterStore>> {
    let mut rng = SeededRng::from_entropy();
    let Settings { options, conflict_bytes } = settings;
    let order = make_order(conflict_bytes);
    let log = ClusterLog::open(cluster, network, address, environment, &mut rng, options, order);
    listen(&log.handler());
    // Wait for a leader, so that an opened database answers. This also sets the published timestamp
    // P.
    let context = Context::unbounded();
    log.end(log.begin(&context, BeginKind::ReadOnly).await?);
    for table in TABLES_OF_THE_SYSTEM {
        log.create_table(table).await?;
    }
    Ok(Arc::new(log))
}

/// Makes the environment of a process: a timer thread, and a worker thread for background tasks.
pub(crate) fn environment(clock: &Arc<dyn Clock>, spawn: &dyn Spawn) -> Environment {
    let tasks: Arc<dyn Tasks> = Arc::new(WorkerTasks::new("carnet-sequencer", spawn));
    let timer = Arc::new(ThreadTimer::new(Arc::clone(clock), spawn));
    Environment { timer, clock: Arc::clone(clock), tasks, row_tables: Arc::default() }
}

fn make_order(conflict_bytes: usize) -> MakeOrder {
    // The new leader reads outcomes of earlier leaders from the commit table instead of restoring
    // them.
    Arc::new(move |life| Box::new(CommitChecker::with_conflict_bytes(life, conflict_bytes)))
}

fn security(peers: &Peers) -> Result<Security> {
    let secret = peers.secret.as_ref().map(|secret| match secret {
        Secret::Text(text) => PeerSecret::new(text),
        Secret::File(path) => PeerSecret::new(read_secret(path)?),
    });
    let secret = secret.transpose()?;
    Ok(match (&peers.tls, secret) {
        (Some(files), secret) => {
            let tls = Tls::from_files(&files.cert, &files.key, files.ca.as_deref())?;
            Security::Tls { tls, secret }
        }
        (None, Some(secret)) => Security::Secret(secret),
        (None, None) => Security::Insecure,
    })
}

pub(super) fn read_secret(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Error::unavailable(format!("cannot read the secret in {}", path.display()))
            .with_source(error)
    })?;
    let secret = text.trim();
    if secret.is_empty() {
        return Err(Error::invalid(format!("the secret in {} is empty", path.display())));
    }
    Ok(secret.to_owned())
}
