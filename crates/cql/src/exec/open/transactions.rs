//! Open transactions of an executor: the registry with the database's transactions.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use carnet::{Db, Tx, Uuid, WallTime};
use carnet_admission::diagnosis::Named;
use carnet_base::{Rng, SeededRng, lock};

use super::id;
use super::registry::{End, Open, OpenLimits, OpenTotals, Owner, Refusal, Registry};
use crate::system::OpenTransaction;

/// Open transactions of an executor.
pub(in crate::exec) struct OpenTransactions {
    db: Db,
    /// Tag of this server in the ids.
    tag: u16,
    registry: Mutex<Registry<Tx>>,
    rng: Mutex<SeededRng>,
}

impl OpenTransactions {
    pub(in crate::exec) fn new(db: Db, host_id: Uuid) -> Self {
        let registry = Mutex::new(Registry::new(OpenLimits::default()));
        let rng = Mutex::new(SeededRng::from_entropy());
        Self { db, tag: id::tag(host_id), registry, rng }
    }

    pub(in crate::exec) fn set_limits(&self, limits: OpenLimits) {
        lock(&self.registry).set_limits(limits);
    }

    /// Returns the number of open transactions, and the totals.
    pub(in crate::exec) fn totals(&self) -> (usize, OpenTotals) {
        let registry = lock(&self.registry);
        (registry.open().count(), registry.totals())
    }

    /// Returns `true` if a transaction is open here, or its end is remembered.
    pub(in crate::exec) fn is_known(&self, id: Uuid) -> bool {
        lock(&self.registry).is_known(id)
    }

    /// Returns the tag of this server if the database may have several, and otherwise 0.
    pub(in crate::exec) fn tag_among_others(&self) -> u16 {
        self.db.forward_address().map_or(0, |_| self.tag)
    }

    /// Returns `true` if this server's transactions have the tag.
    pub(in crate::exec) const fn has_tag(&self, tag: u16) -> bool {
        self.tag == tag
    }

    /// Takes a place for a transaction that is about to start.
    pub(in crate::exec) fn reserve(self: &Arc<Self>, owner: Owner) -> Result<Place, Refusal> {
        self.expire();
        lock(&self.registry).reserve(&owner.client)?;
        Ok(Place { open: Arc::clone(self), owner: Some(owner) })
    }

    /// Begins a statement of a transaction.
    pub(in crate::exec) fn enter(
        self: &Arc<Self>,
        id: Uuid,
        user: Option<&str>,
        statement: Arc<Named>,
    ) -> Result<Joined, Refusal> {
        self.expire_one(id);
        let now = self.db.now();
        let tx = lock(&self.registry).enter(id, user, statement, now)?;
        let changes = tx.changes();
        Ok(Joined { open: Arc::clone(self), id, tx, changes, is_over: false })
    }

    /// Begins the commit of a transaction.
    pub(in crate::exec) fn commit(
        self: &Arc<Self>,
        id: Uuid,
        user: Option<&str>,
    ) -> Result<Committing, Refusal> {
        self.expire_one(id);
        let tx = lock(&self.registry).commit(id, user, self.db.now())?;
        Ok(Committing { open: Arc::clone(self), id, tx })
    }

    /// Checks that a transaction is open and that the user may use it.
    pub(in crate::exec) fn check(&self, id: Uuid, user: Option<&str>) -> Result<(), Refusal> {
        self.expire_one(id);
        lock(&self.registry).check(id, user)
    }

    /// Fails if a transaction is not open.
    pub(in crate::exec) fn find(&self, id: Uuid) -> Result<(), Refusal> {
        self.expire_one(id);
        lock(&self.registry).find(id)
    }

    /// Returns how a transaction ended; `None` if it is open or not known.
    pub(in crate::exec) fn end_of(&self, id: Uuid, user: Option<&str>) -> Option<End> {
        match lock(&self.registry).check(id, user) {
            Err(Refusal::NotOpen(end)) => end,
            _ => None,
        }
    }

    /// Rolls a transaction back whose commit is not in progress.
    pub(in crate::exec) fn roll_back(&self, id: Uuid, end: End) -> Result<(), Refusal> {
        let mut registry = lock(&self.registry);
        if registry.is_committing(id) {
            return Err(Refusal::Committing);
        }
        let ended = registry.end(id, end);
        drop(registry);
        if let Some(tx) = ended {
            tx.rollback();
        }
        Ok(())
    }

    /// Rolls back the transactions that have been idle for too long.
    pub(in crate::exec) fn expire(&self) {
        let expired = lock(&self.registry).expire(self.db.now());
        expired.iter().for_each(Tx::rollback);
    }

    fn expire_one(&self, id: Uuid) {
        let expired = lock(&self.registry).expire_one(id, self.db.now());
        if let Some(tx) = expired {
            tx.rollback();
        }
    }

    /// Rolls back all transactions; returns their number.
    pub(in crate::exec) fn close(&self) -> usize {
        let open = lock(&self.registry).close();
        open.iter().for_each(Tx::rollback);
        open.len()
    }

    /// Lists the open transactions for people.
    pub(in crate::exec) fn list(&self) -> Vec<OpenTransaction> {
        let (now, wall) = (self.db.now(), self.db.wall_time());
        let registry = lock(&self.registry);
        let listed = registry.open().map(|(id, open)| {
            let Open { owner, kept: tx, began, statement, .. } = open;
            OpenTransaction {
                id: Some(*id),
                client: Some(Arc::clone(&owner.name)),
                statement: statement.as_ref().map(|named| named.statement().into()),
                isolation: Some(match tx.start_timestamp() {
                    Some(_) => tx.isolation().to_string(),
                    None => "read only".to_owned(),
                }),
                since: before(wall, now.since(*began)),
                age: now.since(*began),
                idle: Some(open.idle(now)),
                read: tx.read_timestamp(),
                start: tx.start_timestamp(),
            }
        });
        listed.collect()
    }
}

/// Returns the wall time that lies `age` before another.
fn before(wall: WallTime, age: Duration) -> WallTime {
    WallTime(wall.0.saturating_sub(i64::try_from(age.as_micros()).unwrap_or(i64::MAX)))
}

/// Place of a transaction that is about to start; given back on drop.
pub(in crate::exec) struct Place {
    open: Arc<OpenTransactions>,
    owner: Option<Owner>,
}

impl Place {
    /// Adds the transaction that has started, and returns its id.
    pub(in crate::exec) fn fill(mut self, tx: Tx) -> Uuid {
        let random = lock(&self.open.rng).next_u64();
        let id = id::id(tx.start_timestamp(), self.open.tag, random);
        if let Some(owner) = self.owner.take() {
            lock(&self.open.registry).insert(id, owner, tx, self.open.db.now());
        }
        id
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(owner) = &self.owner {
            lock(&self.open.registry).cancel(&owner.client);
        }
    }
}

/// Statement of a transaction. Dropping it before its end is that of a statement that is cut off.
pub(in crate::exec) struct Joined {
    open: Arc<OpenTransactions>,
    id: Uuid,
    pub(in crate::exec) tx: Tx,
    /// Changes of the transaction before the statement.
    changes: u64,
    is_over: bool,
}

impl Joined {
    /// Ends a statement that succeeded.
    pub(in crate::exec) fn succeed(mut self) {
        self.is_over = true;
        self.open.leave(self.id);
    }

    /// Ends a statement that failed. Returns how the transaction has ended, or `None` if it stays
    /// open: the statement has changed nothing.
    pub(in crate::exec) fn fail(mut self, user: Option<&str>, is_too_old: bool) -> Option<End> {
        self.is_over = true;
        self.settle(if is_too_old { End::TooOld } else { End::Failed }, is_too_old);
        self.open.end_of(self.id, user)
    }

    fn settle(&self, end: End, is_lost: bool) {
        if is_lost || self.tx.has_ended() || self.tx.changes() != self.changes {
            // It may have been killed meanwhile, and never be committed, as it is running.
            let _ = self.open.roll_back(self.id, end);
        } else {
            self.open.leave(self.id);
        }
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        if !self.is_over {
            self.settle(End::CutOff, false);
        }
    }
}

/// Commit of a transaction that is in progress.
pub(in crate::exec) struct Committing {
    open: Arc<OpenTransactions>,
    id: Uuid,
    pub(in crate::exec) tx: Tx,
}

impl Committing {
    /// Ends the commit.
    pub(in crate::exec) fn end(self, end: End) {
        lock(&self.open.registry).end(self.id, end);
    }
}

impl Drop for Committing {
    fn drop(&mut self) {
        // Without effect after `end`. Otherwise the commit was cut off, and may be in force.
        lock(&self.open.registry).end(self.id, End::Unknown);
    }
}

/// Transaction of a connection, which ends with the connection.
pub(in crate::exec) struct Binding {
    open: Arc<OpenTransactions>,
    id: Uuid,
}

impl Binding {
    pub(in crate::exec) const fn new(open: Arc<OpenTransactions>, id: Uuid) -> Self {
        Self { open, id }
    }

    /// Returns the id of the transaction.
    pub(in crate::exec) const fn id(&self) -> Uuid {
        self.id
    }

    /// Returns `true` if the transaction has not ended.
    pub(in crate::exec) fn is_open(&self) -> bool {
        lock(&self.open.registry).is_open(self.id)
    }
}

impl Drop for Binding {
    fn drop(&mut self) {
        // A commit in progress goes on.
        let _ = self.open.roll_back(self.id, End::Disconnected);
    }
}

impl OpenTransactions {
    fn leave(&self, id: Uuid) {
        lock(&self.registry).leave(id, self.db.now());
    }
}
