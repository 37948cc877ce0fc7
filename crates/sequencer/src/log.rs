//! A database over a cluster, as one process sees it; the leader is this process or another.

mod announcing;

use std::collections::BTreeMap;
use std::future::Future as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Waker};
use std::time::Duration;

use carnet_base::{
    CellKey, Encoding, Error, ErrorKind, KeyRange, Moment, Result, Rng, TableId, Timestamp, Version,
};
use carnet_store::cluster::{Cluster, Statement, VersionWrite};
use carnet_store::{
    At, BeginKind, Begun, CellStore, CommitLog, CommitRequest, Context, Outcome, Page, PageLimit,
    RangeRequest, Slot,
};

use crate::backup::{Backup, Held};
use crate::cells::{CHANGES_MAX, CellCache};
use crate::commit_table::CommitTable;
use crate::environment::{Environment, MakeOrder};
use crate::futures::{First, first};
use crate::leader::{Leader, unknown};
use crate::lease::{Address, Owner};
use crate::members::Announced;
use crate::message::{Changes, ClientId, Released, Request, Response, Token};
use crate::node::{Node, Role};
use crate::oneshot::lock;
use crate::options::Options;
use crate::shared_read::SharedRead;
use crate::sweep::{Holder, SweepReport};
use crate::transport::{Handler, Transport};

/// Delay before a leader is looked for again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Number of tries of a write of cells that no majority took.
const WRITE_TRIES: u32 = 4;
/// Page in which the cells of a dropped table are hidden.
const DROP_PAGE: PageLimit = PageLimit { cells: 500, bytes: 1 << 20 };
/// Number of epochs whose first timestamp is remembered; for snapshots of older ones the leader is
/// asked.
const EPOCHS_MAX: usize = 1024;

/// Statement numbers of a transaction's writes, and of the tombstones of its drops. A write takes
/// precedence over a tombstone.
const WRITTEN: Statement = Statement(1);
const DROPPED: Statement = Statement(0);

/// A database over a cluster.
pub struct ClusterLog<C: Cluster, T: Transport> {
    inner: Arc<Inner<C, T>>,
}

struct Inner<C: Cluster, T: Transport> {
    cluster: Arc<C>,
    node: Arc<Node<C>>,
    transport: T,
    client: ClientId,
    open: Mutex<Open>,
    /// First timestamps of the epochs that released snapshots to this process.
    epochs: Mutex<BTreeMap<Timestamp, ()>>,
    published: AtomicU64,
    sweep_mark: Arc<SharedRead<Result<Timestamp, String>>>,
    cells: Option<CellCache>,
    announced: Mutex<Announced>,
}

/// Open and requested snapshots of this process.
#[derive(Default)]
struct Open {
    tokens: u64,
    slots: BTreeMap<Slot, Token>,
    asked: BTreeMap<Token, ()>,
    /// The oldest token in use, as last sent to a leader.
    reported: Token,
    next: u32,
}

impl Open {
    /// Draws the token of a snapshot that is requested.
    fn ask(&mut self) -> Token {
        self.tokens += 1;
        let token = Token(self.tokens);
        self.asked.insert(token, ());
        token
    }

    fn keep(&mut self, token: Token) -> Slot {
        while self.slots.contains_key(&Slot(self.next)) {
            self.next = self.next.wrapping_add(1);
        }
        let slot = Slot(self.next);
        self.next = self.next.wrapping_add(1);
        self.slots.insert(slot, token);
        slot
    }

    /// Returns a token below which none is in use.
    fn oldest(&self) -> Token {
        let next = Token(self.tokens + 1);
        self.asked.first_key_value().map_or(next, |(token, ())| *token)
    }
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

    /// Returns the commit table, for scans and migrations.
    #[must_use]
    pub fn commit_table(&self) -> &CommitTable<C> {
        self.inner.node.table()
    }

    /// Returns `true` if this process leads, as far as it knows.
    #[must_use]
    pub fn is_leading(&self) -> bool {
        matches!(self.inner.node.role(), Role::Leading(leader) if !leader.is_over())
    }

    /// Returns the version of a cell that a snapshot sees, if this process has it cached. The
    /// snapshot must have been begun by this process.
    ///
    /// # Errors
    ///
    /// `Timeout` after the deadline.
    pub fn kept(
        &self,
        context: &Context,
        key: &CellKey,
        at: At,
    ) -> Result<Option<Option<Version>>> {
        self.inner.check(context)?;
        Ok(self.inner.kept(context, key, at))
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
        leader.sweep().now(&leader).await
    }

    /// Like [`ClusterLog::sweep`], but deletes only versions that became invisible before the
    /// retention began. In a term younger than the retention it deletes nothing.
    ///
    /// # Errors
    ///
    /// See [`ClusterLog::sweep`].
    pub async fn sweep_past_retention(&self) -> Result<SweepReport> {
        let leader = self.leader_for_sweep()?;
        leader.sweep().past_retention(&leader).await
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

/// No leader answered in time.
struct GaveUp;

impl<C: Cluster, T: Transport> Inner<C, T> {
    fn now(&self) -> Moment {
        self.node.environment().timer.now()
    }

    fn check(&self, context: &Context) -> Result<()> {
        match context.deadline() {
            Some(deadline) if self.now() >= deadline => Err(Error::new(
                ErrorKind::Timeout,
                "the deadline passed before the call was done; nothing was written",
            )),
            _ => Ok(()),
        }
    }

    /// Sends a request to the leader, and to its successors, until one answers.
    async fn ask(&self, context: &Context, request: &Request) -> Result<Response, GaveUp> {
        let timeout = self.now().after(self.node.options().leader_timeout);
        let until = context.deadline().map_or(timeout, |deadline| deadline.min(timeout));
        let mut is_again = false;
        loop {
            let notified = self.node.changed().count();
            if let Role::Stopped(why) = self.node.role() {
                let message = format!("this process stopped: {why}");
                return Ok(Response::Refused(Error::corrupted(message)));
            }
            match self.ask_once(request, until, notified).await {
                Some(Response::NotLeading) | None => is_again = true,
                Some(Response::Refused(error)) if is_again => {
                    return Ok(Response::Refused(refused_again(request, error)));
                }
                Some(answer) => return Ok(answer),
            }
            if self.now() >= until {
                return Err(GaveUp);
            }
            self.node.look();
            let changed = self.node.changed().notified_after(notified);
            first(changed, self.node.environment().timer.wait(LOOK_AGAIN)).await;
        }
    }

    /// Sends a request to the leader once. The wait ends early when the role changes, that is, when
    /// its notification count exceeds `notified`.
    async fn ask_once(&self, request: &Request, until: Moment, notified: u64) -> Option<Response> {
        let left = until.since(self.now());
        let over = |wait| async move {
            let changed = self.node.changed().notified_after(notified);
            first(self.node.environment().timer.wait(wait), changed).await;
        };
        let answered = match self.node.role() {
            Role::Unknown | Role::Stopped(_) => return None,
            Role::Leading(leader) => first(leader.answer(request.clone()), over(left)).await,
            Role::Following(address, _) => {
                let call = async {
                    let called = self.transport.call(&address, request.clone()).await;
                    called.unwrap_or(Response::NotLeading)
                };
                first(call, over(left.min(self.node.options().call_timeout))).await
            }
        };
        match answered {
            First::Left(answer) => Some(answer),
            First::Right(()) => None,
        }
    }

    fn no_leader(&self) -> Error {
        let why = match self.node.role() {
            Role::Following(address, _) => format!("{address} leads and cannot be reached"),
            Role::Unknown | Role::Leading(_) | Role::Stopped(_) => {
                "the cluster cannot be reached, or its lease is being taken over".into()
            }
        };
        let timeout = self.node.options().leader_timeout;
        Error::unavailable(format!("no leader answered within {timeout:?}: {why}"))
    }

    async fn keep_alive(&self) {
        let oldest = {
            let open = lock(&self.open);
            let oldest = open.oldest();
            // A process without snapshots goes silent only once the leader knows that. The leader
            // may hold a snapshot whose end was lost, or arrived before its begin.
            if open.asked.is_empty() && open.reported == oldest {
                return;
            }
            oldest
        };
        let request = Request::Alive { client: self.client, oldest };
        let until = self.now().after(self.node.options().call_timeout);
        // No retry: the next keep-alive follows soon.
        let answer = self.ask_once(&request, until, self.node.changed().count()).await;
        if matches!(answer, Some(Response::Done)) {
            lock(&self.open).reported = oldest;
        }
    }

    /// Tells the leader that a snapshot is no longer needed.
    fn give_back(self: &Arc<Self>, token: Token) {
        lock(&self.open).asked.remove(&token);
        match self.node.role() {
            Role::Leading(leader) => leader.give_back(self.client, token),
            Role::Following(address, _) => {
                let this = Arc::clone(self);
                let mut call = Box::pin(async move {
                    let request = Request::End { client: this.client, token };
                    // If it is lost, the next keep-alive repeats it.
                    let _ = this.transport.call(&address, request).await;
                });
                // Send it now, so that later requests follow it.
                let mut context = TaskContext::from_waker(Waker::noop());
                if call.as_mut().poll(&mut context).is_pending() {
                    self.node.environment().tasks.spawn(call);
                }
            }
            Role::Unknown | Role::Stopped(_) => {}
        }
    }

    fn released(&self, token: Token, released: &Released, changes: &Changes) -> Begun {
        self.saw(released.read);
        if let Some(cells) = &self.cells {
            cells.apply(changes, released.read);
        }
        let mut epochs = lock(&self.epochs);
        epochs.insert(released.epoch_first, ());
        if epochs.len() > EPOCHS_MAX {
            epochs.pop_first();
        }
        drop(epochs);
        let slot = lock(&self.open).keep(token);
        let Released { read, start, schema, .. } = *released;
        Begun { read, start, slot, schema }
    }

    fn saw(&self, published: Timestamp) {
        self.published.fetch_max(published.get(), Ordering::AcqRel);
    }

    /// Writes versions until a majority has them. This commits nothing.
    async fn write(&self, context: &Context, writes: &[VersionWrite]) -> Result<()> {
        let mut wait = LOOK_AGAIN;
        let mut tries = 0;
        loop {
            let Err(fault) = self.cluster.write_versions(context, writes).await else {
                return Ok(());
            };
            tries += 1;
            self.check(context)?;
            if tries == WRITE_TRIES {
                return Err(Error::unavailable(
                    "no majority took the cells; the transaction was not committed",
                )
                .with_source(fault));
            }
            self.node.environment().timer.wait(wait).await;
            wait *= 2;
        }
    }

    /// Hides every cell of a dropped table, page by page.
    async fn drop_table(&self, context: &Context, table: TableId, start: Timestamp) -> Result<()> {
        let mut rest = Some(KeyRange::table(table));
        while let Some(range) = rest {
            let request =
                RangeRequest { range, read: Timestamp::MAX, reverse: false, limit: DROP_PAGE };
            let page = self.cluster.read_range(context, &request).await?;
            let hide = |(key, _)| VersionWrite { key, start, statement: DROPPED, payload: None };
            let writes: Vec<VersionWrite> = page.cells.into_iter().map(hide).collect();
            if !writes.is_empty() {
                self.write(context, &writes).await?;
            }
            rest = page.resume;
        }
        Ok(())
    }

    /// Returns the newest version that may be visible.
    async fn candidate(&self, context: &Context, key: &CellKey, at: At) -> Result<Option<Version>> {
        let Some(below) = at.below.previous() else { return Ok(None) };
        let mut through = below.min(at.read);
        loop {
            let found = self.cluster.read_version(context, key, through).await?;
            let Some(version) = found else { return Ok(None) };
            if at.admits(&version) {
                return Ok(Some(version));
            }
            let Some(older) = version.start.previous() else { return Ok(None) };
            through = older;
        }
    }

    /// Rejects a snapshot that the sweep has passed. Call it after the read: if the mark is still
    /// below the snapshot, the data had not been swept when it was read.
    async fn check_sweep(&self, read: Timestamp) -> Result<()> {
        let mark =
            self.sweep_mark.fresh().await.map_err(|why| {
                Error::unavailable(format!("the sweep mark cannot be read: {why}"))
            })?;
        if mark <= read {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::TooOld,
            format!(
                "snapshot {read} is too old: versions up to {mark} have been swept; begin a \
                     new one"
            ),
        ))
    }

    /// Caches the writes of a committed transaction.
    fn keep_written(&self, start: Timestamp, commit: Timestamp, writes: Vec<VersionWrite>) {
        let Some(cells) = &self.cells else { return };
        for VersionWrite { key, payload, .. } in writes {
            let version = Version { start, commit: Some(commit), payload };
            cells.keep(&key, Some(&version), commit, commit);
        }
    }

    /// Returns the version of a cell that a snapshot sees, if it is cached.
    fn kept(&self, context: &Context, key: &CellKey, at: At) -> Option<Option<Version>> {
        let cells = self.cells.as_ref().filter(|_| at == At::snapshot(at.read))?;
        cells.get(key, at.read, context.bypasses_cache())
    }

    /// Caches the result of a read if it is known to be the version that the snapshot sees, and
    /// returns it with its commit. For a version with an outcome not yet known to this process, the
    /// reader looks it up.
    fn keep_read(
        &self,
        context: &Context,
        key: &CellKey,
        found: Option<Version>,
        at: At,
    ) -> Option<Version> {
        let is_newest = at == At::snapshot(at.read) && !context.bypasses_cache();
        let cells = self.cells.as_ref().filter(|cells| is_newest && cells.knows(at.read));
        let Some(cells) = cells else { return found };
        let Some(mut version) = found else {
            cells.keep(key, None, at.read, at.read);
            return None;
        };
        if version.commit.is_none() {
            let commit = self.node.table().known_commit(version.start);
            version.commit = commit.filter(|commit| *commit <= at.read);
        }
        if let Some(commit) = version.commit {
            cells.keep(key, Some(&version), commit, at.read);
        }
        Some(version)
    }

    /// Returns the first timestamp of the epoch that released a snapshot.
    fn epoch_of(&self, read: Timestamp) -> Option<Timestamp> {
        lock(&self.epochs).range(..=read).next_back().map(|(first, ())| *first)
    }
}

/// Gives back the snapshot of a begin that was dropped or failed.
struct Asked<'a, C: Cluster, T: Transport> {
    inner: &'a Arc<Inner<C, T>>,
    token: Option<Token>,
}

impl<C: Cluster, T: Transport> Drop for Asked<'_, C, T> {
    fn drop(&mut self) {
        if let Some(token) = self.token {
            self.inner.give_back(token);
        }
    }
}

impl<C: Cluster, T: Transport> CommitLog for ClusterLog<C, T> {
    async fn begin(&self, context: &Context, kind: BeginKind) -> Result<Begun> {
        let inner = &self.inner;
        inner.check(context)?;
        let token = lock(&inner.open).ask();
        let mut asked = Asked { inner, token: Some(token) };
        let is_strict = !context.accepts_stale();
        let known = inner.cells.as_ref().and_then(CellCache::known);
        let request = Request::Begin { client: inner.client, token, kind, is_strict, known };
        match inner.ask(context, &request).await {
            Ok(Response::Released(released, changes)) => {
                asked.token = None;
                Ok(inner.released(token, &released, &changes))
            }
            Ok(Response::Refused(error)) => Err(error),
            Ok(other) => Err(unexpected(&other)),
            Err(GaveUp) => Err(inner.no_leader()),
        }
    }

    fn end(&self, begun: Begun) {
        let token = lock(&self.inner.open).slots.remove(&begun.slot);
        if let Some(token) = token {
            self.inner.give_back(token);
        }
    }

    async fn commit(&self, context: &Context, request: CommitRequest) -> Result<Timestamp> {
        let inner = &self.inner;
        inner.check(context)?;
        let start = request.start;
        let token = lock(&inner.open).slots.get(&request.slot).copied().unwrap_or_default();
        let version = |write: carnet_store::Write| {
            let carnet_store::Write { key, payload } = write;
            VersionWrite { key, start, statement: WRITTEN, payload }
        };
        let (mut claim, writes) = request.into_parts();
        let writes: Vec<VersionWrite> = writes.into_vec().into_iter().map(version).collect();
        // The check is free on the leader, and cells that are never written need not be skipped by
        // readers.
        if let Role::Leading(leader) = inner.node.role() {
            leader.check(&claim)?;
        }
        for table in &claim.drops {
            Box::pin(inner.drop_table(context, *table, start)).await?;
            // A cell written by another transaction before C, and not there yet to be hidden, is a
            // conflict.
            claim.reads.ranges.push(KeyRange::table(*table));
        }
        if !writes.is_empty() {
            inner.write(context, &writes).await?;
        }
        // The leader does not list the cells of larger transactions, so the cache will be emptied
        // anyway.
        let are_kept =
            inner.cells.is_some() && writes.len() <= CHANGES_MAX && claim.drops.is_empty();
        let written = if are_kept { writes } else { Vec::new() };
        let request = Request::Commit { client: inner.client, token, claim };
        let unknown = |error: Error| unknown(start, error);
        match inner.ask(context, &request).await {
            Ok(Response::Committed(commit)) => {
                inner.saw(commit);
                inner.keep_written(start, commit, written);
                Ok(commit)
            }
            Ok(Response::Refused(error)) => Err(match error.kind() {
                ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Corrupted => {
                    unknown(error)
                }
                _ => error,
            }),
            Ok(other) => Err(unknown(unexpected(&other))),
            Err(GaveUp) => Err(unknown(inner.no_leader())),
        }
    }

    async fn outcome(&self, context: &Context, start: Timestamp) -> Result<Outcome> {
        self.inner.check(context)?;
        match self.inner.ask(context, &Request::Outcome { start }).await {
            Ok(Response::Outcome(outcome)) => Ok(outcome),
            Ok(Response::Refused(error)) => Err(error),
            Ok(other) => Err(unexpected(&other)),
            Err(GaveUp) => Err(self.inner.no_leader()),
        }
    }

    async fn outcome_for_reader(
        &self,
        context: &Context,
        start: Timestamp,
        read: Timestamp,
    ) -> Result<Outcome> {
        match self.inner.epoch_of(read) {
            Some(first) => self.inner.node.table().outcome_for_reader(start, read, first).await,
            None => self.outcome(context, start).await,
        }
    }

    fn published(&self) -> Timestamp {
        let seen = self.inner.published.load(Ordering::Acquire);
        let seen = Timestamp::new(seen).expect("only timestamps are seen");
        match self.inner.node.role() {
            Role::Leading(leader) => seen.max(leader.published()),
            Role::Unknown | Role::Following(..) | Role::Stopped(_) => seen,
        }
    }
}

/// Returns the error for a request that does not fit the wire: it is invalid, and was not sent. But
/// a commit may be in flight nevertheless, from an earlier try while this process led itself.
fn refused_again(request: &Request, why: Error) -> Error {
    match request {
        Request::Commit { claim, .. } if why.kind() == ErrorKind::Invalid => {
            unknown(claim.start, why)
        }
        _ => why,
    }
}

fn unexpected(response: &Response) -> Error {
    Error::unavailable(format!("the leader gave an answer of the wrong kind: {response:?}"))
}

impl<C: Cluster, T: Transport> CellStore for ClusterLog<C, T> {
    async fn get(&self, context: &Context, key: &CellKey, at: At) -> Result<Option<Version>> {
        self.inner.check(context)?;
        if let Some(kept) = self.inner.kept(context, key, at) {
            return Ok(kept);
        }
        let found = self.inner.candidate(context, key, at).await?;
        self.inner.check_sweep(at.read).await?;
        Ok(self.inner.keep_read(context, key, found, at))
    }

    async fn get_many(
        &self,
        context: &Context,
        keys: &[CellKey],
        at: At,
    ) -> Result<Vec<Option<Version>>> {
        self.inner.check(context)?;
        let Some(below) = at.below.previous() else { return Ok(vec![None; keys.len()]) };
        let through = below.min(at.read);
        let mut versions = vec![None; keys.len()];
        let mut missing = Vec::new();
        for (place, key) in keys.iter().enumerate() {
            match self.inner.kept(context, key, at) {
                Some(kept) => versions[place] = kept,
                None => missing.push(place),
            }
        }
        if missing.is_empty() {
            return Ok(versions);
        }
        let sought: Vec<CellKey> = missing.iter().map(|place| keys[*place].clone()).collect();
        let mut read = self.inner.cluster.read_versions(context, &sought, through).await?;
        for (key, found) in sought.iter().zip(&mut read) {
            if let Some(version) = found
                && !at.admits(version)
            {
                let older = at.below(version.start);
                *found = self.inner.candidate(context, key, older).await?;
            }
        }
        self.inner.check_sweep(at.read).await?;
        for ((place, key), found) in missing.into_iter().zip(&sought).zip(read) {
            versions[place] = self.inner.keep_read(context, key, found, at);
        }
        Ok(versions)
    }

    async fn range(&self, context: &Context, request: &RangeRequest) -> Result<Page> {
        self.inner.check(context)?;
        let limit = PageLimit { cells: request.limit.cells.max(1), ..request.limit };
        let request = RangeRequest { limit, ..request.clone() };
        let Page { cells, resume } = self.inner.cluster.read_range(context, &request).await?;
        let at = At::snapshot(request.read);
        let mut page = Page { cells: Vec::with_capacity(cells.len()), resume };
        for (key, version) in cells {
            let found = if at.admits(&version) {
                Some(version)
            } else {
                self.inner.candidate(context, &key, at.below(version.start)).await?
            };
            page.cells.extend(found.map(|version| (key, version)));
        }
        self.inner.check_sweep(request.read).await?;
        Ok(page)
    }
}
