//! Backups and migrations beside all clients.
//!
//! ```text
//!  seal ── wait for the flush ── a file, other work, a file, … ── B
//!    │                                                            │
//!    │ invoked: every acknowledged commit is in the backup        ▼
//!    └───────────────────────────────  restore, open, read all ── recorded as one transaction
//!                                                                 at snapshot B
//! ```
//!
//! A read of a restored copy is judged like a read of any snapshot at B, replayed in the order of
//! commits: it must show exactly the commits up to B. A restore as of an earlier T is judged at T.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use carnet::Db;
use carnet_base::{Encoding, Result, Timestamp};
use carnet_storage::TableOptionsOf;
use carnet_storage::backup::sim::SimVault;
use carnet_storage::backup::{Backup, verify};
use carnet_storage::disk::Disk;
use carnet_storage::disk::sim::SimDisk;
use carnet_store::{CommitLog, Context, LogStart};
use carnet_store_local::{DEFAULT_ENCODING, LocalStore};
use carnet_txn::{CommitChecker, IdleLimits, Limits, VersionOrder};

use super::open::facade;
use super::store::Store;
use super::world::World;
use crate::client::Client;
use crate::database::{Bare, Database};
use crate::executor::Process;
use crate::mutant::Mutant;
use crate::random::Random;
use crate::run_record::{Part, RecordId, Reported};
use crate::workload;

/// The process that has a restored copy open.
pub(super) const COPY: Process = Process(2);

/// Time without progress after which a backup is given up: the store has stopped.
const PATIENCE: Duration = Duration::from_millis(100);

/// A database that can be administered.
pub(super) trait Administered: Database {
    /// Database type of a restored copy.
    type Copy: Database;

    /// Installs another encoding of the commit table.
    fn migrate(&self, to: Encoding) -> Result<Option<Timestamp>>;

    fn local(&self) -> &LocalStore;

    /// Opens a restored copy; also returns P.
    fn open_copy(world: &World, disk: &SimDisk) -> Result<(Self::Copy, Timestamp)>;
}

impl Administered for Db {
    type Copy = Self;

    fn migrate(&self, to: Encoding) -> Result<Option<Timestamp>> {
        Self::migrate(self, to)
    }

    fn local(&self) -> &LocalStore {
        self.local_store().expect("it was opened on a disk")
    }

    fn open_copy(world: &World, disk: &SimDisk) -> Result<(Self, Timestamp)> {
        let copy = facade(world, COPY, IdleLimits::NONE).open_on(Arc::new(disk.clone()))?;
        let published = copy.published();
        Ok((copy, published))
    }
}

impl Administered for Bare<Store> {
    type Copy = Bare<LocalStore>;

    fn migrate(&self, to: Encoding) -> Result<Option<Timestamp>> {
        self.store.inner.migrate(to)
    }

    fn local(&self) -> &LocalStore {
        &self.store.inner
    }

    fn open_copy(world: &World, disk: &SimDisk) -> Result<(Bare<LocalStore>, Timestamp)> {
        let order = |incarnation: LogStart| {
            Box::new(CommitChecker::resuming(incarnation).with_version_order(VersionOrder::Commit))
                as _
        };
        let store = LocalStore::open(
            Arc::new(disk.clone()),
            Arc::new(world.clock.clone()),
            &world.executor.spawner(COPY),
            world.setup.options.clone(),
            world.setup.retention,
            DEFAULT_ENCODING,
            order,
        )?;
        store.row_tables().set_raw(workload::raw_tables());
        let published = store.published();
        let (context, limits) = (Context::unbounded(), Limits::default());
        Ok((Bare { store: Arc::new(store), context, limits, idle: None }, published))
    }
}

/// Administrator of a database for one incarnation.
pub(super) struct Administrator<D> {
    pub(super) world: Rc<World>,
    pub(super) db: D,
    pub(super) vault: SimVault,
    /// P at the begin: right after a start it lies above the last commit.
    pub(super) first: Timestamp,
    pub(super) random: Random,
}

impl<D: Administered> Administrator<D> {
    pub(super) async fn work(mut self) {
        loop {
            let pause = self.random.micros(100, 20_000);
            self.world.executor.sleep(pause).await;
            if self.random.percent(30) {
                let to = self.random.pick(&[Encoding::V1, Encoding::V2, Encoding::V3]);
                self.hear(self.db.migrate(to));
            }
            if self.random.percent(40) {
                self.back_up().await;
            }
        }
    }

    /// Returns the value of a result. The store may have stopped; other errors are recorded as
    /// wrong.
    fn hear<T>(&self, result: Result<T>) -> Option<T> {
        let client = self.client(&self.db);
        result.inspect_err(|error| client.judge(error)).ok()
    }

    fn client<E: Database>(&self, db: &E) -> Client<E> {
        let world = &self.world;
        Client {
            executor: world.executor.clone(),
            db: db.clone(),
            run_record: world.run_record.clone(),
            isolation: world.setup.isolation,
            may_expire: false,
            random: Random::new(0),
            process: 0,
        }
    }

    async fn back_up(&mut self) {
        let page = self.world.run_record.invoke(Part::Other, 0);
        let seen = match self.take().await {
            Some((backup, at)) => self.bring_back(page, &backup, at).await,
            None => None,
        };
        let reported = seen.map_or(Reported::Aborted, Reported::Committed);
        self.world.run_record.edit(page, |record| record.read = seen);
        self.world.run_record.end(page, reported);
    }

    /// Takes a backup; returns it and its timestamp.
    async fn take(&mut self) -> Option<(Backup, Timestamp)> {
        let world = Rc::clone(&self.world);
        let sealed = self.db.local().seal();
        let until = world.executor.now() + PATIENCE;
        while self.db.local().flushed() < sealed {
            if world.executor.now() > until {
                return None;
            }
            world.executor.sleep(Duration::from_micros(100)).await;
        }
        let begun = self.db.local().begin_backup(&self.vault, "sim", Duration::ZERO);
        let mut job = self.hear(begun)?;
        let backup = loop {
            if let Some(backup) = self.hear(job.step())? {
                break backup;
            }
            let pause = self.random.micros(0, 500);
            world.executor.sleep(pause).await;
        };
        let at = match world.order.mutant {
            Some(Mutant::BackupNamedAfterItsEnd) => self.db.local().published(),
            _ => backup.label.commit,
        };
        if backup.label.commit < sealed {
            world.run_record.wrong(format!("a backup ends before {sealed}, which was asked for"));
        }
        Some((backup, at))
    }

    /// Restores a backup and records a read of it; returns the snapshot.
    async fn bring_back(
        &mut self,
        page: RecordId,
        backup: &Backup,
        at: Timestamp,
    ) -> Option<Timestamp> {
        let world = Rc::clone(&self.world);
        let from: Arc<dyn Disk> = Arc::new(self.vault.disk(&backup.name)?);
        if let Err(error) = verify(&from, |_| {}) {
            world.run_record.wrong(format!("a backup is damaged: {error}"));
        }
        let oldest = backup.label.swept.min(backup.label.commit).get();
        let as_of = self.random.percent(50).then(|| self.random.between(oldest, at.get()));
        let as_of = as_of.filter(|_| at == backup.label.commit).and_then(Timestamp::new);
        let disk = self.restore(&from, as_of)?;
        let copy = D::open_copy(&world, &disk);
        let copy = copy.inspect_err(|error| {
            world.run_record.wrong(format!("a copy cannot be opened: {error}"));
        });
        let (copy, published) = copy.ok()?;
        // Builds of indexes would write to the copy, and old snapshots of it be swept.
        world.executor.stall_workers(COPY, "carnet-build", Duration::from_secs(3600));
        let client = &mut self.client(&copy);
        let read = workload::read_all_on(client, page, published).await;
        world.executor.kill(COPY);
        match read {
            Ok(()) => world.run_record.read_copy(),
            Err(error) => world.run_record.wrong(format!("a copy cannot be read: {error}")),
        }
        // A restore as of an earlier moment may lack commits acknowledged since.
        world.run_record.edit(page, |record| record.invoked *= u64::from(as_of.is_none()));
        Some(as_of.unwrap_or(at.max(self.first)))
    }

    /// Restores a backup, sometimes after attempts that lost power halfway.
    fn restore(&mut self, from: &Arc<dyn Disk>, as_of: Option<Timestamp>) -> Option<SimDisk> {
        let mut disk = SimDisk::new(self.random.seed());
        let asked = match self.world.order.mutant {
            Some(Mutant::RestoreForgetsToCut) => None,
            _ => as_of,
        };
        loop {
            let fails = self.random.percent(20);
            if fails {
                disk.halt_at(disk.operations() + self.random.between(1, 60));
            }
            let to: Arc<dyn Disk> = Arc::new(disk.clone());
            let layout = TableOptionsOf::clone(&self.world.setup.options.table_options);
            match LocalStore::restore(from, &to, asked, false, layout, self.random.rng(), |_| {}) {
                Ok(_) if fails => {
                    // Acknowledged: it is durable, even without power.
                    return Some(disk.crash(self.random.rng()));
                }
                Ok(_) => return Some(disk),
                Err(_) if fails => disk = disk.crash(self.random.rng()),
                Err(error) => {
                    // The previous attempt succeeded, but its answer was lost.
                    if disk.contents("MANIFEST").is_some() && disk.contents("RESTORE").is_none() {
                        return Some(disk);
                    }
                    self.world.run_record.wrong(format!("a backup cannot be restored: {error}"));
                    return None;
                }
            }
        }
    }
}
