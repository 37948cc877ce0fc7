//! Backups and migrations beside all clients.
//!
//! ```text
//!  seal ── wait for the flush ── a file, others at work, a file, … ── B
//!    │                                                              │
//!    │ invoked: all that was acknowledged is in it                  ▼
//!    └───────────────────────────────  restore, open, read all ── written down as one
//!                                                                 transaction at snapshot B
//! ```
//!
//! What is read of a restored copy is judged as what any snapshot at B would have read, replayed in
//! the order of commits: exactly the commits up to B, neither fewer nor more. As of an earlier T it
//! is judged at T.

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
use carnet_store::{CommitLog, Context, Life};
use carnet_store_local::{DEFAULT_ENCODING, LocalStore};
use carnet_txn::{IdleLimits, Limits, Sequencer, VersionOrder};

use super::store::Store;
use super::{World, facade};
use crate::client::Client;
use crate::database::{Bare, Database};
use crate::dice::Dice;
use crate::executor::Process;
use crate::ledger::{Page, Part, Told};
use crate::mutant::Mutant;
use crate::workload;

/// The process that has a restored copy open.
pub(super) const COPY: Process = Process(2);

/// A backup that does not come forward for so long is given up: the store has stopped.
const PATIENCE: Duration = Duration::from_millis(100);

/// What administers a database.
pub(super) trait Administered: Database {
    /// What a restored copy is read through.
    type Copy: Database;

    /// Lets another encoding of the commit table begin.
    fn migrate(&self, to: Encoding) -> Result<Option<Timestamp>>;

    fn local(&self) -> &LocalStore;

    /// Opens what was restored; returns P as well.
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
        let order = |life: Life| {
            Box::new(Sequencer::resuming(life).with_version_order(VersionOrder::Commit)) as _
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
        let published = store.published();
        let (context, limits) = (Context::unbounded(), Limits::default());
        Ok((Bare { store: Arc::new(store), context, limits, idle: None }, published))
    }
}

/// Who administers a database for one life.
pub(super) struct Administrator<D> {
    pub(super) world: Rc<World>,
    pub(super) db: D,
    pub(super) vault: SimVault,
    /// P at its first day: where a life has just begun, above the last commit.
    pub(super) first: Timestamp,
    pub(super) dice: Dice,
}

impl<D: Administered> Administrator<D> {
    pub(super) async fn work(mut self) {
        loop {
            let pause = self.dice.micros(100, 20_000);
            self.world.executor.sleep(pause).await;
            if self.dice.percent(30) {
                let to = self.dice.pick(&[Encoding::V1, Encoding::V2, Encoding::V3]);
                self.hear(self.db.migrate(to));
            }
            if self.dice.percent(40) {
                self.back_up().await;
            }
        }
    }

    /// The store may have stopped; nothing else may go wrong.
    fn hear<T>(&self, result: Result<T>) -> Option<T> {
        let client = self.client(&self.db);
        result.inspect_err(|error| client.judge(error)).ok()
    }

    fn client<E: Database>(&self, db: &E) -> Client<E> {
        let world = &self.world;
        Client {
            executor: world.executor.clone(),
            db: db.clone(),
            ledger: world.ledger.clone(),
            isolation: world.setup.isolation,
            may_expire: false,
            dice: Dice::new(0),
            process: 0,
        }
    }

    async fn back_up(&mut self) {
        let page = self.world.ledger.invoke(Part::Other, 0);
        let seen = match self.take().await {
            Some((backup, at)) => self.bring_back(page, &backup, at).await,
            None => None,
        };
        let told = seen.map_or(Told::Aborted, Told::Committed);
        self.world.ledger.edit(page, |record| record.read = seen);
        self.world.ledger.end(page, told);
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
        let begun = self.db.local().begin_backup(&self.vault, "sim");
        let mut job = self.hear(begun)?;
        let backup = loop {
            if let Some(backup) = self.hear(job.step())? {
                break backup;
            }
            let pause = self.dice.micros(0, 500);
            world.executor.sleep(pause).await;
        };
        let at = match world.order.mutant {
            Some(Mutant::BackupNamedAfterItsEnd) => self.db.local().published(),
            _ => backup.label.commit,
        };
        if backup.label.commit < sealed {
            world.ledger.wrong(format!("a backup ends before {sealed}, which was asked for"));
        }
        Some((backup, at))
    }

    /// Reads what was restored of a backup into the ledger; returns at which snapshot.
    async fn bring_back(
        &mut self,
        page: Page,
        backup: &Backup,
        at: Timestamp,
    ) -> Option<Timestamp> {
        let world = Rc::clone(&self.world);
        let from: Arc<dyn Disk> = Arc::new(self.vault.disk(&backup.name)?);
        if let Err(error) = verify(&from, |_| {}) {
            world.ledger.wrong(format!("a backup is damaged: {error}"));
        }
        let oldest = backup.label.swept.min(backup.label.commit).get();
        let as_of = self.dice.percent(50).then(|| self.dice.between(oldest, at.get()));
        let as_of = as_of.filter(|_| at == backup.label.commit).and_then(Timestamp::new);
        let disk = self.restore(&from, as_of)?;
        let copy = D::open_copy(&world, &disk);
        let copy = copy
            .inspect_err(|error| world.ledger.wrong(format!("a copy cannot be opened: {error}")));
        let (copy, published) = copy.ok()?;
        let client = &mut self.client(&copy);
        let read = workload::read_all_on(client, page, published).await;
        world.executor.kill(COPY);
        match read {
            Ok(()) => world.ledger.read_copy(),
            Err(error) => world.ledger.wrong(format!("a copy cannot be read: {error}")),
        }
        // Of an earlier moment it may lack what was acknowledged since.
        world.ledger.edit(page, |record| record.invoked *= u64::from(as_of.is_none()));
        Some(as_of.unwrap_or(at.max(self.first)))
    }

    /// Restores, sometimes after attempts in whose middle the power went.
    fn restore(&mut self, from: &Arc<dyn Disk>, as_of: Option<Timestamp>) -> Option<SimDisk> {
        let mut disk = SimDisk::new(self.dice.seed());
        let asked = match self.world.order.mutant {
            Some(Mutant::RestoreForgetsToCut) => None,
            _ => as_of,
        };
        loop {
            let fails = self.dice.percent(20);
            if fails {
                disk.halt_at(disk.operations() + self.dice.between(1, 60));
            }
            let to: Arc<dyn Disk> = Arc::new(disk.clone());
            let layout = TableOptionsOf::clone(&self.world.setup.options.table_options);
            match LocalStore::restore(from, &to, asked, layout, self.dice.rng(), |_| {}) {
                Ok(_) if fails => {
                    // Acknowledged: it is there, whatever happens to the power.
                    return Some(disk.crash(self.dice.rng()));
                }
                Ok(_) => return Some(disk),
                Err(_) if fails => disk = disk.crash(self.dice.rng()),
                Err(error) => {
                    // The attempt before came through, but for its answer.
                    if disk.contents("MANIFEST").is_some() && disk.contents("RESTORE").is_none() {
                        return Some(disk);
                    }
                    self.world.ledger.wrong(format!("a backup cannot be restored: {error}"));
                    return None;
                }
            }
        }
    }
}
