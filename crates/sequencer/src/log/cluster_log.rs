//! The handle of a database over a cluster.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use carnet_base::{Encoding, Error, Result, Rng, TableId, Timestamp};
use carnet_store::cluster::Cluster;
use carnet_store::{BeginKind, CommitLog, Context, RowTables};

use super::inner::Inner;
use crate::backup::{Backup, Held};
use crate::cells::CellCache;
use crate::commit_table::CommitTable;
use crate::environment::{Environment, MakeOrder};
use crate::futures::first;
use crate::leader::Leader;
use crate::lease::{Address, Owner};
use crate::message::ClientId;
use crate::node::{Node, Role};
use crate::options::Options;
use crate::shared_read::SharedRead;
use crate::sweep::{Holder, SweepReport};
use crate::sweeper::{sweep_now, sweep_past_retention};
use crate::transport::{Handler, Transport};

/// A database over a cluster.
pub struct ClusterLog<C: Cluster, T: Transport> {
    pub(super) inner: Arc<Inner<C, T>>,
}

impl<C: Cluster, T: Transport> ClusterLog<C, T> {
    /// Opens a database over a cluster, as a process that others reach at an address.
    ///
    /// `make_order` creates the commit order when this process starts to lead. The caller connects
    /// [`ClusterLog::handler`] to the address.
    #[must_use]
    pub fn open(
        cluster: Arc<C>,
        transport: T,
        address: Address,
        environment: Environment,
        rng: &mut dyn Rng,
        options: Options,
        make_order: MakeOrder,
    ) -> Self {
        let timer = Arc::clone(&environment.timer);
        let table = Arc::new(CommitTable::new(Arc::clone(&cluster), timer, &options));
        let owner = Owner { nonce: rng.next_u64(), address };
        let client = ClientId(rng.next_u64());
        let sweep_mark = {
            let table = Arc::clone(&table);
            SharedRead::new(Arc::clone(&environment.tasks), move || {
                let table = Arc::clone(&table);
                Box::pin(async move {
                    let marks = table.sweep_marks().await;
                    marks.map(|marks| marks.versions).map_err(|error| error.to_string())
                })
            })
        };
        let cells =
            (options.cell_cache_bytes > 0).then(|| CellCache::new(options.cell_cache_bytes));
        let node = Node::start(owner, table, environment, options, make_order);
        let inner = Arc::new(Inner {
            cluster,
            node,
            transport,
            client,
            open: Mutex::default(),
            epochs: Mutex::default(),
            published: AtomicU64::new(0),
            sweep_mark,
            cells,
            announced: Mutex::default(),
        });
        let weak = Arc::downgrade(&inner);
        let (tasks, timer) =
            (&inner.node.environment().tasks, Arc::clone(&inner.node.environment().timer));
        let every = options.client_timeout / 4;
        tasks.spawn(Box::pin(async move {
            loop {
                timer.wait(every).await;
                let Some(inner) = weak.upgrade() else { return };
                inner.keep_alive().await;
            }
        }));
        Self { inner }
    }

    /// Returns the handler of other processes' requests.
    #[must_use]
    pub fn handler(&self) -> Arc<dyn Handler> {
        Arc::clone(&self.inner.node) as Arc<dyn Handler>
    }

    /// Returns the set of the tables of rows. Until it is known, this process writes no deltas.
    #[must_use]
    pub fn row_tables(&self) -> Arc<RowTables> {
        Arc::clone(&self.inner.node.environment().row_tables)
    }

    /// Returns the commit table, for scans and migrations.
    #[must_use]
    pub fn commit_table(&self) -> &CommitTable<C> {
        self.inner.node.table()
    }

    /// Returns the estimated memory of the cell cache, in bytes; `None` if there is none.
    #[must_use]
    pub fn cell_cache_bytes(&self) -> Option<usize> {
        self.inner.cells.as_ref().map(CellCache::bytes)
    }

    /// Returns `true` if this process leads, as far as it knows.
    #[must_use]
    pub fn is_leading(&self) -> bool {
        matches!(self.inner.node.role(), Role::Leading(leader) if !leader.is_over())
    }

    /// Leaves the database: a leader releases its lease, so that other processes need not wait for
    /// it to expire. Later calls on this process fail.
    pub async fn leave(&self) {
        self.inner.withdraw().await;
        self.inner.node.close();
        let timeout =
            self.inner.node.environment().timer.wait(self.inner.node.options().call_timeout);
        first(self.inner.node.ended(), timeout).await;
    }

    /// Creates storage for the cells of a table that is about to be created.
    ///
    /// # Errors
    ///
    /// `Unavailable`.
    pub async fn create_table(&self, table: TableId) -> Result<()> {
        Ok(self.inner.cluster.create_table(table).await?)
    }

    /// Installs another encoding for the starts that are not decided yet, and returns the first of
    /// them.
    ///
    /// # Errors
    ///
    /// See [`CommitTable::migrate`].
    pub async fn migrate(&self, to: Encoding) -> Result<Option<Timestamp>> {
        self.commit_table().migrate(to).await
    }

    /// Begins a backup: the tables of the cluster may be copied until it is finished. The sweep is
    /// held, on any leader. `id` names the backup, and must never have been used before.
    ///
    /// # Errors
    ///
    /// `Unavailable`, also if another backup is under way.
    pub async fn begin_backup(&self, id: u64) -> Result<Backup<C>> {
        let node = &self.inner.node;
        let held = Held::take(Arc::clone(node.table()), node.environment().clone(), id).await?;
        // The snapshot sees only final commits, and it is drawn while the sweep is held.
        match self.begin(&Context::unbounded(), BeginKind::ReadOnly).await {
            Ok(begun) => {
                self.end(begun);
                held.starting_at(begun.read).await
            }
            Err(error) => {
                held.give_up().await;
                Err(error)
            }
        }
    }

    /// Sweeps now, without regard to the retention: deletes versions that no snapshot sees
    /// (overwritten or aborted), and the commit entries of stamped versions.
    ///
    /// # Errors
    ///
    /// `Unavailable` if another process leads, a sweep is under way, or a replica is away.
    /// Completed work stays done, and the next sweep goes on from there.
    pub async fn sweep(&self) -> Result<SweepReport> {
        let leader = self.leader_for_sweep()?;
        sweep_now(&leader).await
    }

    /// Like [`ClusterLog::sweep`], but deletes only versions that became invisible before the
    /// retention began. In a term younger than the retention it deletes nothing.
    ///
    /// # Errors
    ///
    /// See [`ClusterLog::sweep`].
    pub async fn sweep_past_retention(&self) -> Result<SweepReport> {
        let leader = self.leader_for_sweep()?;
        sweep_past_retention(&leader).await
    }

    fn leader_for_sweep(&self) -> Result<Arc<Leader<C>>> {
        match self.inner.node.role() {
            Role::Leading(leader) => Ok(leader),
            Role::Following(address, _) => {
                Err(Error::unavailable(format!("only the leader can sweep; it is at {address}")))
            }
            Role::Unknown | Role::Stopped(_) => Err(self.inner.no_leader()),
        }
    }

    /// Returns the oldest snapshot in use that the leader knows, which holds the sweep back; `None`
    /// if there is none or this process does not lead.
    #[must_use]
    pub fn oldest_snapshot(&self) -> Option<Holder> {
        match self.inner.node.role() {
            Role::Leading(leader) => leader.oldest_snapshot(),
            Role::Unknown | Role::Following(..) | Role::Stopped(_) => None,
        }
    }
}

impl<C: Cluster, T: Transport> Drop for ClusterLog<C, T> {
    fn drop(&mut self) {
        self.inner.node.close();
    }
}
