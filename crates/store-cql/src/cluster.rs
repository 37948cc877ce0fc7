//! A cluster, and the creation of its tables.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, RwLock};

use carnet_base::sync::{lock, read, write};
use carnet_base::{Clock, Error, Result, TableId};
use carnet_store::cluster::{Fault, Faulty};
use futures::future::join_all;
use scylla::cluster::Node;

use crate::loads::Loads;
use crate::options::CqlOptions;
use crate::requests::RequestCounters;
use crate::schema::{NewTable, keyspace_text};
use crate::session::{Bind, Session};
use crate::statement::Statement;

/// A keyspace of a Cassandra or ScyllaDB cluster.
///
/// Its calls may be polled on any executor: the driver has its own threads.
pub struct CqlCluster {
    pub(crate) session: Arc<Session>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Tables of cells that every node knows.
    tables: RwLock<HashSet<TableId>>,
    /// Held while this process waits for the creation of a table.
    creating: tokio::sync::Mutex<()>,
    /// Held, by table, while this process waits until an existing table can be used.
    awaited: Mutex<HashMap<TableId, Arc<tokio::sync::Mutex<()>>>>,
    /// Tuners of reads of many cells.
    pub(crate) loads: Loads,
}

impl CqlCluster {
    /// Connects to a cluster, and creates the keyspace and its tables if they are absent.
    ///
    /// # Errors
    ///
    /// `Invalid` for invalid options; `Unavailable` if no node answers or accepts the schema.
    pub async fn connect(options: &CqlOptions, clock: Arc<dyn Clock>) -> Result<Self> {
        let cluster = Self::reach(options, clock).await?;
        // A role without the right to create keyspaces can use an existing one.
        if cluster.names(Statement::KeyspaceName).await?.is_empty() {
            let text = keyspace_text(&options.keyspace, &options.replication);
            cluster.session.create(&text).await?;
        }
        let known = cluster.names(Statement::TableNames).await?;
        for table in NewTable::of_every_database() {
            cluster.need(&table, &known).await?;
        }
        cluster.session.learn_replicas().await?;
        cluster.session.prepare_ahead().await;
        cluster.warn_of_settings().await;
        Ok(cluster)
    }

    /// Connects to a cluster with an existing database, and creates nothing.
    ///
    /// # Errors
    ///
    /// See [`CqlCluster::connect`]; also `Invalid` if the keyspace lacks a table of a database.
    pub async fn connect_to_existing(options: &CqlOptions, clock: Arc<dyn Clock>) -> Result<Self> {
        let cluster = Self::reach(options, clock).await?;
        let known = cluster.names(Statement::TableNames).await?;
        for table in NewTable::of_every_database() {
            if !known.contains(&table.name) {
                let (keyspace, name) = (cluster.session.keyspace(), &table.name);
                return Err(Error::invalid(format!(
                    "there is no table {keyspace}.{name}: the keyspace has no complete Carnet \
                     database"
                )));
            }
            cluster.session.await_table(&table.name).await?;
        }
        cluster.session.learn_replicas().await?;
        cluster.session.prepare_ahead().await;
        cluster.warn_of_settings().await;
        Ok(cluster)
    }

    /// Logs what the nodes do not promise. A node of ScyllaDB tells no settings.
    async fn warn_of_settings(&self) {
        if !self.session.is_scylla() {
            let nodes = self.session.nodes();
            join_all(nodes.iter().map(|node| self.warn_of_node(node))).await;
        }
    }

    async fn warn_of_node(&self, node: &Arc<Node>) {
        let sync = self.session.setting(node, "commitlog_sync").await;
        if sync.as_deref() != Some("periodic") {
            return;
        }
        self.session.requests.note_syncs_later();
        let period = self.session.setting(node, "commitlog_sync_period").await;
        tracing::warn!(
            node = %node.address,
            period = period.unwrap_or_default(),
            "a node acknowledges writes before they are on its disk (commitlog_sync: periodic): a \
             kill or a power cut of a majority of replicas within this period loses acknowledged \
             commits; set commitlog_sync to batch or group"
        );
    }

    async fn reach(options: &CqlOptions, clock: Arc<dyn Clock>) -> Result<Self> {
        options.check()?;
        let session = Arc::new(Session::connect(options, Arc::clone(&clock)).await?);
        let weak = Arc::downgrade(&session);
        session.requests.count_nodes(move || weak.upgrade().map(|session| session.count_nodes()));
        let (creating, awaited) = (tokio::sync::Mutex::new(()), Mutex::default());
        let (tables, loads) = (RwLock::default(), Loads::default());
        Ok(Self { session, clock, tables, creating, awaited, loads })
    }

    /// Returns the runtime of the driver, for other tasks of the same database.
    ///
    /// The runtime ends when this value is dropped.
    #[must_use]
    pub fn runtime(&self) -> tokio::runtime::Handle {
        self.session.runtime()
    }

    /// Returns the counters of requests to the cluster.
    #[must_use]
    pub fn requests(&self) -> Arc<RequestCounters> {
        Arc::clone(&self.session.requests)
    }

    /// Creates the cluster's table for a table's cells if it is absent, and waits until every
    /// reachable node knows it. Reads and writes of a new table do this themselves.
    ///
    /// # Errors
    ///
    /// `Unavailable`.
    pub async fn create_table(&self, table: TableId) -> Result<()> {
        if read(&self.tables).contains(&table) {
            return Ok(());
        }
        // The first statements after a start use the same table. The creation of another table may take
        // long, and they do not wait for it.
        let turn = Arc::clone(lock(&self.awaited).entry(table).or_default());
        let _turn = turn.lock().await;
        if read(&self.tables).contains(&table) {
            return Ok(());
        }
        let new = NewTable::of_cells(table);
        let known = self.names(Statement::TableNames).await?;
        if known.contains(&new.name) {
            Box::pin(self.session.await_table(&new.name)).await?;
        } else {
            let _creating = self.creating.lock().await;
            let known = self.names(Statement::TableNames).await?;
            Box::pin(self.need(&new, &known)).await?;
        }
        write(&self.tables).insert(table);
        lock(&self.awaited).remove(&table);
        Ok(())
    }

    /// Creates a table unless it is among the known ones; a role without the right to create tables
    /// can use existing ones.
    async fn need(&self, table: &NewTable, known: &HashSet<String>) -> Result<()> {
        if known.contains(&table.name) {
            return self.session.await_table(&table.name).await;
        }
        tracing::info!(table = table.name, "creating a table");
        self.session.create(&table.text(self.session.keyspace())).await
    }

    /// Like [`create_table`](Self::create_table), but fails with a certain fault, for use before a
    /// call, and takes no longer than a request.
    pub(crate) async fn need_table(&self, table: TableId) -> Faulty<()> {
        if read(&self.tables).contains(&table) {
            return Ok(());
        }
        match self.session.in_request_time(Box::pin(self.create_table(table))).await {
            Some(created) => created.map_err(Fault::Failed),
            None => Err(Fault::Failed(Error::unavailable(format!(
                "the table {} cannot be used yet: no node knows it, or the nodes do not agree on the schema; repeat the \
                 statement",
                NewTable::of_cells(table).name
            )))),
        }
    }

    /// Returns the names that a statement about the schema selects.
    pub(crate) async fn names(&self, of: Statement) -> Result<HashSet<String>> {
        self.session.retry(|| self.names_once(of)).await
    }

    async fn names_once(&self, of: Statement) -> Result<HashSet<String>> {
        let keyspace = [Bind::Text(self.session.keyspace())];
        let how = self.session.read_any();
        let rows = self.session.rows(how, of, &keyspace).await?;
        let unclear = |error: &dyn std::fmt::Display| {
            Error::unavailable(format!("cannot read the schema: {error}"))
        };
        let names = rows.rows::<(String,)>().map_err(|error| unclear(&error))?;
        names.map(|name| name.map(|(name,)| name).map_err(|error| unclear(&error))).collect()
    }
}

impl std::fmt::Debug for CqlCluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CqlCluster").field("keyspace", &self.session.keyspace()).finish()
    }
}
