//! Registry of open transactions: who may enter one, which have been idle for too long, and how each
//! ended. It has no clock and does no I/O; callers pass the time, and end the
//! transactions that it returns.

use std::collections::hash_map::Entry as MapEntry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use carnet::{Timestamp, Uuid};
use carnet_admission::diagnosis::Named;
use carnet_base::{Moment, Places};

/// Maximum number of ended transactions whose end is remembered.
const ENDED_MAX: usize = 10_000;

/// Limits of the transactions that stay open between statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenLimits {
    /// Maximum number of open transactions. Default: 1000.
    pub transactions_max: usize,
    /// Maximum number of open transactions of one user, or of one address if clients do not log in.
    /// Default: half of [`transactions_max`](Self::transactions_max).
    pub per_client_max: Option<usize>,
    /// Time without a statement after which a transaction is rolled back. Default: 5 min.
    pub idle_timeout: Duration,
}

impl Default for OpenLimits {
    fn default() -> Self {
        Self {
            transactions_max: 1000,
            per_client_max: None,
            idle_timeout: Duration::from_secs(300),
        }
    }
}

impl OpenLimits {
    fn places(&self) -> Places {
        let total = self.transactions_max;
        match self.per_client_max {
            Some(per_client_max) => Places { total, per_client_max },
            None => Places::shared(total),
        }
    }
}

/// Numbers of transactions that stayed open, by their end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenTotals {
    /// Transactions that were started.
    pub started: u64,
    /// Transactions that were refused at a limit.
    pub refused: u64,
    /// Transactions that committed.
    pub committed: u64,
    /// Transactions that were rolled back by their client.
    pub rolled_back: u64,
    /// Transactions that lost a conflict, or whose commit had no effect for another reason.
    pub aborted: u64,
    /// Transactions whose commit has an unknown outcome.
    pub unknown: u64,
    /// Transactions that were rolled back because a statement failed or was cut off.
    pub failed: u64,
    /// Transactions that were rolled back because they were idle.
    pub expired: u64,
    /// Transactions that were rolled back by `KILL TRANSACTION`.
    pub killed: u64,
    /// Transactions that were rolled back because their connection or the server ended.
    pub disconnected: u64,
}

/// Way in which a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exec) enum End {
    /// Its commit is at this timestamp.
    Committed(Timestamp),
    /// Its client sent `COMMIT`, and it had written nothing: no commit table knows it. All of it
    /// happened at this timestamp.
    OnlyRead(Timestamp),
    /// Its client sent `ROLLBACK`.
    RolledBack,
    /// Another transaction committed first; nothing was written.
    Conflict,
    /// Its commit failed without effect.
    NotCommitted,
    /// The outcome of its commit is not known.
    Unknown,
    /// A statement failed after it had made some of its changes.
    Failed,
    /// The transaction can no longer read, because its snapshot is too old or its tables changed.
    TooOld,
    /// A statement was cut off before its end, after it had made some of its changes.
    CutOff,
    /// No statement came for this time.
    Expired(Duration),
    /// A client sent `KILL TRANSACTION`.
    Killed,
    /// With the connection that it was bound to.
    Disconnected,
    /// With the server.
    Shutdown,
}

/// Reason why a transaction is not started, entered or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exec) enum Refusal {
    /// As many transactions as this are open.
    TooMany(usize),
    /// The client has this number of open transactions, and may have no more.
    TooManyOfClient(usize),
    /// It is not open; its end, if that is known.
    NotOpen(Option<End>),
    /// Another user started it.
    OtherUser,
    /// A statement of it is running.
    Busy,
    /// Its commit is in progress.
    Committing,
}

/// Client of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::exec) struct Owner {
    /// Key of the limit for one client: a user or an address.
    pub(in crate::exec) client: Arc<str>,
    /// User that the client logged in as.
    pub(in crate::exec) user: Option<Arc<str>>,
    /// Name for people.
    pub(in crate::exec) name: Arc<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Running,
    Committing,
}

/// An open transaction, with what its holder keeps for it.
#[derive(Clone, Debug)]
pub(in crate::exec) struct Open<T> {
    pub(in crate::exec) owner: Owner,
    pub(in crate::exec) kept: T,
    pub(in crate::exec) began: Moment,
    /// Begin or end of the last statement.
    pub(in crate::exec) touched: Moment,
    /// Last statement, without its values.
    pub(in crate::exec) statement: Option<Arc<Named>>,
    phase: Phase,
}

impl<T> Open<T> {
    fn is_due(&self, limit: Duration, now: Moment) -> bool {
        self.phase == Phase::Idle && self.idle(now) >= limit
    }

    /// Returns the time since the last statement; zero while one is running.
    pub(in crate::exec) fn idle(&self, now: Moment) -> Duration {
        if self.phase == Phase::Idle { now.since(self.touched) } else { Duration::ZERO }
    }
}

/// Registry of open transactions.
pub(in crate::exec) struct Registry<T> {
    limits: OpenLimits,
    open: HashMap<Uuid, Open<T>>,
    /// Number of open and reserved transactions, as a whole and of each client.
    count: usize,
    counts: HashMap<Arc<str>, usize>,
    /// Ends of the last transactions, with their users, the oldest first.
    ended: HashMap<Uuid, (End, Option<Arc<str>>)>,
    ended_order: VecDeque<Uuid>,
    totals: OpenTotals,
}

impl<T: Clone> Registry<T> {
    pub(in crate::exec) fn new(limits: OpenLimits) -> Self {
        Self {
            limits,
            open: HashMap::new(),
            count: 0,
            counts: HashMap::new(),
            ended: HashMap::new(),
            ended_order: VecDeque::new(),
            totals: OpenTotals::default(),
        }
    }

    pub(in crate::exec) const fn set_limits(&mut self, limits: OpenLimits) {
        self.limits = limits;
    }

    pub(in crate::exec) const fn totals(&self) -> OpenTotals {
        self.totals
    }

    pub(in crate::exec) fn open(&self) -> impl Iterator<Item = (&Uuid, &Open<T>)> {
        self.open.iter()
    }

    /// Takes a place for a transaction that is about to start; [`Registry::insert`] or
    /// [`Registry::cancel`] follows.
    pub(in crate::exec) fn reserve(&mut self, client: &Arc<str>) -> Result<(), Refusal> {
        let of_client = self.counts.get(client).copied().unwrap_or_default();
        let refusal = if self.count >= self.limits.transactions_max {
            Refusal::TooMany(self.limits.transactions_max)
        } else if !self.limits.places().admits(self.count, of_client) {
            Refusal::TooManyOfClient(of_client)
        } else {
            self.count += 1;
            *self.counts.entry(Arc::clone(client)).or_default() += 1;
            return Ok(());
        };
        self.totals.refused += 1;
        Err(refusal)
    }

    /// Gives a place back.
    pub(in crate::exec) fn cancel(&mut self, client: &Arc<str>) {
        self.count -= 1;
        if let MapEntry::Occupied(mut count) = self.counts.entry(Arc::clone(client)) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// Adds a transaction that has started, in the place that it has reserved.
    pub(in crate::exec) fn insert(&mut self, id: Uuid, owner: Owner, kept: T, now: Moment) {
        self.totals.started += 1;
        let (began, touched) = (now, now);
        let open = Open { owner, kept, began, touched, statement: None, phase: Phase::Idle };
        self.open.insert(id, open);
    }

    /// Begins a statement of a transaction.
    pub(in crate::exec) fn enter(
        &mut self,
        id: Uuid,
        user: Option<&str>,
        statement: Arc<Named>,
        now: Moment,
    ) -> Result<T, Refusal> {
        let open = self.enter_as(id, user, Phase::Running, now)?;
        open.statement = Some(statement);
        Ok(open.kept.clone())
    }

    /// Begins the commit of a transaction, which [`Registry::end`] ends.
    pub(in crate::exec) fn commit(
        &mut self,
        id: Uuid,
        user: Option<&str>,
        now: Moment,
    ) -> Result<T, Refusal> {
        Ok(self.enter_as(id, user, Phase::Committing, now)?.kept.clone())
    }

    fn enter_as(
        &mut self,
        id: Uuid,
        user: Option<&str>,
        phase: Phase,
        now: Moment,
    ) -> Result<&mut Open<T>, Refusal> {
        self.check(id, user)?;
        let open = self.open.get_mut(&id).ok_or(Refusal::NotOpen(None))?;
        match open.phase {
            Phase::Running => return Err(Refusal::Busy),
            Phase::Committing => return Err(Refusal::Committing),
            Phase::Idle => {}
        }
        (open.phase, open.touched) = (phase, now);
        Ok(open)
    }

    /// Checks that a transaction is open and that the user may use it.
    pub(in crate::exec) fn check(&self, id: Uuid, user: Option<&str>) -> Result<(), Refusal> {
        let is_other = |owner: &Option<Arc<str>>| owner.as_deref() != user;
        match (self.open.get(&id), self.ended.get(&id)) {
            (Some(open), _) if is_other(&open.owner.user) => Err(Refusal::OtherUser),
            (Some(_), _) => Ok(()),
            (None, Some((_, owner))) if is_other(owner) => Err(Refusal::OtherUser),
            (None, ended) => Err(Refusal::NotOpen(ended.map(|(end, _)| *end))),
        }
    }

    /// Fails if a transaction is not open.
    pub(in crate::exec) fn find(&self, id: Uuid) -> Result<(), Refusal> {
        if self.is_open(id) {
            return Ok(());
        }
        Err(Refusal::NotOpen(self.ended.get(&id).map(|(end, _)| *end)))
    }

    /// Returns `true` if a transaction is open, or its end is remembered.
    pub(in crate::exec) fn is_known(&self, id: Uuid) -> bool {
        self.open.contains_key(&id) || self.ended.contains_key(&id)
    }

    /// Returns `true` if a transaction has not ended.
    pub(in crate::exec) fn is_open(&self, id: Uuid) -> bool {
        self.open.contains_key(&id)
    }

    /// Returns `true` if the commit of a transaction is in progress.
    pub(in crate::exec) fn is_committing(&self, id: Uuid) -> bool {
        self.open.get(&id).is_some_and(|open| open.phase == Phase::Committing)
    }

    /// Ends a statement of a transaction, if the transaction is still open.
    pub(in crate::exec) fn leave(&mut self, id: Uuid, now: Moment) {
        if let Some(open) = self.open.get_mut(&id) {
            (open.phase, open.touched) = (Phase::Idle, now);
        }
    }

    /// Removes a transaction that ends, and returns the holder's part of it; `None` if it
    /// had ended before.
    pub(in crate::exec) fn end(&mut self, id: Uuid, end: End) -> Option<T> {
        let Open { owner, kept, .. } = self.open.remove(&id)?;
        self.cancel(&owner.client);
        self.count_end(end);
        self.ended.insert(id, (end, owner.user));
        self.ended_order.push_back(id);
        if self.ended_order.len() > ENDED_MAX
            && let Some(oldest) = self.ended_order.pop_front()
        {
            self.ended.remove(&oldest);
        }
        Some(kept)
    }

    /// Removes a transaction if it has been idle for too long, and returns the holder's part of it.
    pub(in crate::exec) fn expire_one(&mut self, id: Uuid, now: Moment) -> Option<T> {
        let limit = self.limits.idle_timeout;
        let is_due = self.open.get(&id).is_some_and(|open| open.is_due(limit, now));
        if is_due { self.end(id, End::Expired(limit)) } else { None }
    }

    /// Removes the transactions that have been idle for too long, and returns the holder's parts.
    pub(in crate::exec) fn expire(&mut self, now: Moment) -> Vec<T> {
        let limit = self.limits.idle_timeout;
        let due = self.open.iter().filter(|(_, open)| open.is_due(limit, now));
        let due: Vec<Uuid> = due.map(|(id, _)| *id).collect();
        due.into_iter().filter_map(|id| self.end(id, End::Expired(limit))).collect()
    }

    /// Removes all transactions whose commit is not in progress, and returns the holder's parts.
    pub(in crate::exec) fn close(&mut self) -> Vec<T> {
        let is_left = |open: &Open<T>| open.phase != Phase::Committing;
        let left: Vec<Uuid> =
            self.open.iter().filter(|(_, open)| is_left(open)).map(|(id, _)| *id).collect();
        left.into_iter().filter_map(|id| self.end(id, End::Shutdown)).collect()
    }

    fn count_end(&mut self, end: End) {
        let totals = &mut self.totals;
        *match end {
            End::Committed(_) | End::OnlyRead(_) => &mut totals.committed,
            End::RolledBack => &mut totals.rolled_back,
            End::Conflict | End::NotCommitted | End::TooOld => &mut totals.aborted,
            End::Unknown => &mut totals.unknown,
            End::Failed | End::CutOff => &mut totals.failed,
            End::Expired(_) => &mut totals.expired,
            End::Killed => &mut totals.killed,
            End::Disconnected | End::Shutdown => &mut totals.disconnected,
        } += 1;
    }
}

#[cfg(test)]
mod tests;
