//! Takes a backup: holds the sweep and draws and checks the label's numbers around a copy that
//! other tools make.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use carnet_base::{Bytes, EncodingMap, Error, Result, TableId, Timestamp, WallTime};
use carnet_store::cluster::{Cluster, Register};

use super::label::{Label, LeasePoint};
use super::registers::{change, read, retry};
use crate::commit_table::CommitTable;
use crate::environment::Environment;
use crate::lease::Lease;
use crate::sweep::{HOLD_TIMEOUT, Hold, Marks};

/// Interval at which a hold must be renewed; after a minute without a renewal it is taken away.
pub const RENEW_EVERY: Duration = Duration::from_secs(10);

/// A backup that has begun: the tables may be copied between now and [`Backup::finish`].
///
/// If it is dropped without an end, the sweep stays held for about a minute.
pub struct Backup<C> {
    held: Held<C>,
    commit: Timestamp,
    seen: Seen,
    begun: WallTime,
}

/// Values that are compared before and after the copy.
struct Seen {
    lease: Lease,
    map: EncodingMap,
    tables: Vec<TableId>,
}

/// A hold on the sweep.
pub(crate) struct Held<C> {
    table: Arc<CommitTable<C>>,
    environment: Environment,
    id: u64,
    /// Last renewal that was acknowledged. A lower number in the register means that a write in
    /// flight put the hold back after it was taken away.
    renewal: AtomicU64,
}

impl<C: Cluster> Held<C> {
    /// Holds the sweep of any leader, from the moment this returns.
    pub(crate) async fn take(
        table: Arc<CommitTable<C>>,
        environment: Environment,
        id: u64,
    ) -> Result<Self> {
        let this = Self { table, environment, id, renewal: AtomicU64::new(0) };
        if let Some(other) = this.marks().await?.hold {
            tracing::info!("another backup holds the sweep: waiting to see whether it is alive");
            this.environment.timer.wait(HOLD_TIMEOUT).await;
            this.place(Some(other)).await?;
        } else {
            this.place(None).await?;
        }
        // From now on the write that placed the hold is recognized by its number, should it be
        // applied twice.
        match this.renew().await {
            Ok(()) => Ok(this),
            Err(error) => {
                this.give_up().await;
                Err(error)
            }
        }
    }

    async fn place(&self, instead_of: Option<Hold>) -> Result<()> {
        self.change(|marks| match marks.hold {
            Some(hold) if hold.id == self.id => Ok(None),
            other if other == instead_of || other.is_none() => {
                Ok(Some(Some(Hold { id: self.id, renewal: 0 })))
            }
            _ => Err(Error::unavailable("another backup of this database is under way")),
        })
        .await
    }

    /// Changes the hold to the result of `to`; `None` leaves it as it is.
    async fn change(
        &self,
        to: impl Fn(&Marks) -> Result<Option<Option<Hold>>> + Send,
    ) -> Result<()> {
        let cluster = self.table.cluster();
        change(&**cluster, &*self.environment.timer, Register::SweepMark, |stored| {
            let marks = stored.map_or(Ok(Marks::default()), |bytes| Marks::decode(bytes))?;
            Ok(to(&marks)?.map(|hold| Marks { hold, ..marks }.encode()))
        })
        .await
    }

    async fn marks(&self) -> Result<Marks> {
        self.read(Register::SweepMark)
            .await?
            .map_or(Ok(Marks::default()), |bytes| Marks::decode(&bytes))
    }

    /// Returns the marks. If the hold is still there, they have not moved since it began.
    async fn check(&self) -> Result<Marks> {
        let marks = self.marks().await?;
        if marks.hold.is_some_and(|hold| self.is_own(hold)) {
            return Ok(marks);
        }
        Err(lost())
    }

    fn is_own(&self, hold: Hold) -> bool {
        hold.id == self.id && hold.renewal >= self.renewal.load(Ordering::Acquire)
    }

    async fn renew(&self) -> Result<()> {
        let before = self.check().await?;
        let renewed = before.hold.map(|Hold { id, renewal }| Hold { id, renewal: renewal + 1 });
        self.change(|marks| match marks.hold {
            hold if hold == before.hold => Ok(Some(renewed)),
            hold if hold == renewed => Ok(None),
            _ => Err(lost()),
        })
        .await?;
        let renewal = renewed.map_or(0, |hold| hold.renewal);
        self.renewal.fetch_max(renewal, Ordering::AcqRel);
        Ok(())
    }

    /// Releases the sweep.
    pub(crate) async fn give_up(&self) {
        let gone = self.change(|marks| match marks.hold {
            Some(hold) if hold.id == self.id => Ok(Some(None)),
            _ => Ok(None),
        });
        if let Err(error) = gone.await {
            tracing::warn!(%error, "the sweep is held for another minute");
        }
    }

    /// Begins a backup of all commits up to a timestamp; every one of them is final.
    pub(crate) async fn starting_at(self, commit: Timestamp) -> Result<Backup<C>> {
        match self.see().await {
            Ok(seen) => {
                let begun = self.environment.clock.wall();
                Ok(Backup { held: self, commit, seen, begun })
            }
            Err(error) => {
                self.give_up().await;
                Err(error)
            }
        }
    }

    async fn see(&self) -> Result<Seen> {
        let missing = || Error::unavailable("the database has not been started yet");
        let lease = self.read(Register::Lease).await?;
        let lease = Lease::decode(&lease.ok_or_else(missing)?)?;
        let map = self.read(Register::Coordination).await?;
        let map = EncodingMap::decode(&map.ok_or_else(missing)?)?;
        let tables = retry(&*self.environment.timer, || self.table.cluster().tables()).await?;
        Ok(Seen { lease, map, tables })
    }

    async fn read(&self, register: Register) -> Result<Option<Bytes>> {
        read(&**self.table.cluster(), &*self.environment.timer, register).await
    }
}

impl<C: Cluster> Backup<C> {
    /// Returns B: the backup has every commit up to it, and none after.
    pub const fn commit(&self) -> Timestamp {
        self.commit
    }

    /// Renews the hold. Call it every [`RENEW_EVERY`].
    ///
    /// # Errors
    ///
    /// `Conflict` if the hold was lost: the backup cannot succeed any more. `Unavailable`: the next
    /// call tries again.
    pub async fn renew(&self) -> Result<()> {
        self.held.renew().await
    }

    /// Ends the backup, after the copy has ended, and returns the label that a restore needs; the
    /// sweep goes on. `store` and `program` are for people.
    ///
    /// # Errors
    ///
    /// `Conflict` if the hold was lost, or the commit table was migrated meanwhile: the copy is not
    /// a backup, take another one. `Unavailable`.
    pub async fn finish(self, store: &str, program: &str) -> Result<Label> {
        let label = self.label(store, program).await;
        self.held.give_up().await;
        label
    }

    /// Gives the backup up: releases the sweep without a label.
    pub async fn give_up(self) {
        self.held.give_up().await;
    }

    async fn label(&self, store: &str, program: &str) -> Result<Label> {
        let after = self.held.see().await?;
        let marks = self.held.check().await?;
        let before = &self.seen;
        if !before.map.spans().eq(after.map.spans()) {
            return Err(Error::conflict(
                "the commit table was migrated while its tables were copied; take another backup",
            ));
        }
        let new = after.tables.into_iter().filter(|table| !before.tables.contains(table));
        let label = Label {
            id: self.held.id,
            store: store.to_owned(),
            commit: self.commit,
            bound: after.lease.bound,
            leases: (LeasePoint::from_lease(&before.lease), LeasePoint::from_lease(&after.lease)),
            fence_from: before.lease.fence_from,
            marks: Marks { hold: None, ..marks },
            map: after.map,
            tables: before.tables.clone(),
            new_tables: new.collect(),
            walls: (self.begun, self.held.environment.clock.wall()),
            program: program.to_owned(),
        };
        // Reject now a label that a restore would reject.
        Label::decode(label.encode().as_bytes())?;
        Ok(label)
    }
}

fn lost() -> Error {
    Error::conflict(
        "the sweep was not held all the time: this process was silent for a minute, and versions \
         that the copy needs may have been deleted; take another backup",
    )
}
