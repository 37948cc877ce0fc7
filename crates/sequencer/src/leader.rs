//! The term of a leader: one process decides for all.
//!
//! ```text
//!   commit(S)  ── rules decide: C ──▶ prefix: 7 9 12 …       one critical section
//!                                └──▶ group of S's row
//!   group      ── unresolved loop ──▶ every entry final
//!              ── resolve ─────────▶ P over the contiguous prefix, answers for C ≤ P
//!   begin      ── SERIAL read of the lease, begun after the request ──▶ R = P, S
//! ```
//!
//! # Invariants
//!
//! * The timestamps of a term form an interval: they begin at the bound that the previous term
//!   left, and lie below its own bound. The position of a start or a snapshot therefore tells its
//!   term, and requests carry no term: a start of an older term lies below this term's first
//!   timestamp.
//! * A leader decides only for the starts and snapshots of its own term. For an older start it
//!   reads the commit table, and writes the abort marker if there is no entry.
//! * A start is decided once. The decision is remembered, and repeated requests get the same
//!   answer. Once it is forgotten, the leader reads the commit table: a refused start has no entry
//!   there and gets the abort marker. A C that was drawn for a start is never replaced.
//! * P passes a commit only when its entry is final. No commit beyond P is acknowledged.
//! * Once the leader finds a later epoch in any answer, it only answers that it does not lead. The
//!   next leader answers for the requests in flight.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use carnet_base::commit_encoding::v2::ROWS_PER_QUANTUM;
use carnet_base::{CommitEntry, Error, ErrorKind, Moment, Result, Timer, Timestamp};
use carnet_store::cluster::{Cluster, CommitRow, NewEntry, RowAnswer};
use carnet_store::{BeginKind, Claim, CommitOrder, Outcome, check_handed_out};

use crate::candidate::{Standing, Term};
use crate::cells::ChangeLog;
use crate::clients::Clients;
use crate::commit_table::unresolved::{Action, Answer, Settled, Stop, Unresolved};
use crate::commit_table::{CommitTable, Place, action_leaves_unconfirmed};
use crate::environment::Environment;
use crate::futures::{First, Notify, first};
use crate::groups::Groups;
use crate::members::Announcements;
use crate::message::{ClientId, Released, Request, Response, Token};
use crate::oneshot::{Sender, channel, lock};
use crate::options::Options;
use crate::prefix::Prefix;
use crate::proof::{self, Proof};
use crate::row_allocator::RowAllocator;
use crate::shared_read::SharedRead;
use crate::sweep::{Holder, Sweep, VersionOutcome};

/// Maximum number of remembered decisions; for older ones the leader reads the commit table.
const REMEMBERED_MAX: usize = 1 << 16;
/// Time to wait for a group to prove leadership before the lease is read.
const GROUP_WAIT: Duration = Duration::from_millis(50);
const FIRST_WAIT: Duration = Duration::from_millis(2);
const LONGEST_WAIT: Duration = Duration::from_millis(250);

/// A leader, for one term.
pub(crate) struct Leader<C> {
    term: Term,
    table: Arc<CommitTable<C>>,
    order: Box<dyn CommitOrder>,
    environment: Environment,
    options: Options,
    proof: Arc<SharedRead<Proof>>,
    state: Mutex<State>,
    sweep: Sweep,
    /// Notified when the node has something to look at.
    notify: Arc<Notify>,
}

struct State {
    clients: Clients,
    /// Decisions by start; waiters are answered in that order when the term ends.
    decided: BTreeMap<Timestamp, Decided>,
    /// Starts whose decisions are remembered, oldest first.
    remembered: VecDeque<Timestamp>,
    prefix: Prefix<Resolved>,
    groups: Groups<Entry>,
    row_allocator: RowAllocator,
    /// Cells that the commits of this term wrote, for processes with a cell cache.
    changes: ChangeLog,
    announcements: Announcements,
    /// The reason why the term ended, if it has.
    ended: Option<Ended>,
}

impl State {
    fn new(term: &Term, now: Moment) -> Self {
        Self {
            clients: Clients::default(),
            decided: BTreeMap::new(),
            remembered: VecDeque::new(),
            prefix: Prefix::default(),
            groups: Groups::default(),
            row_allocator: RowAllocator::default(),
            changes: ChangeLog::starting_at(term.first),
            announcements: Announcements::new(now),
            ended: None,
        }
    }
}

/// The reason why a term ended.
#[derive(Clone, Debug)]
enum Ended {
    Deposed,
    Broken(String),
}

/// The state of a decided start.
enum Decided {
    Pending(Vec<Sender<Response>>),
    Known(CommitEntry),
}

/// An entry in flight.
#[derive(Clone, Debug)]
struct Entry {
    start: Timestamp,
    commit: Timestamp,
    place: Place,
}

struct Resolved {
    start: Timestamp,
    entry: CommitEntry,
}

impl<C: Cluster> Leader<C> {
    pub(crate) fn new(
        term: Term,
        table: Arc<CommitTable<C>>,
        order: Box<dyn CommitOrder>,
        environment: Environment,
        options: Options,
        notify: Arc<Notify>,
    ) -> Arc<Self> {
        order.extend(term.bound);
        let proof = proof::new_shared_read(table.cluster(), Arc::clone(&environment.tasks), &term);
        let state = Mutex::new(State::new(&term, environment.timer.now()));
        let sweep = Sweep::paced_by(options.sweep);
        Arc::new(Self { term, table, order, environment, options, proof, state, sweep, notify })
    }

    pub(crate) fn extend(&self, bound: Timestamp) {
        self.order.extend(bound);
    }

    pub(crate) fn published(&self) -> Timestamp {
        self.order.published()
    }

    /// Returns `true` if the leader has found out that its term is over.
    pub(crate) fn is_over(&self) -> bool {
        lock(&self.state).ended.is_some()
    }

    pub(crate) const fn sweep(&self) -> &Sweep {
        &self.sweep
    }

    pub(crate) const fn table(&self) -> &Arc<CommitTable<C>> {
        &self.table
    }

    pub(crate) const fn timer(&self) -> &Arc<dyn Timer> {
        &self.environment.timer
    }

    /// Raises the sweep mark as far as the snapshots of this term allow.
    pub(crate) fn raise_mark(&self, wanted: Timestamp) -> Timestamp {
        self.order.raise_mark(wanted).min(wanted)
    }

    pub(crate) fn oldest_snapshot(&self) -> Option<Holder> {
        let (client, begun, since) = lock(&self.state).clients.oldest()?;
        let since = self.environment.timer.now().since(since);
        Some(Holder { client, read: begun.read, start: begun.start, since })
    }

    /// Returns the oldest start that may still commit, or the latest timestamp if there is none.
    pub(crate) fn oldest_undecided(&self) -> Timestamp {
        let latest = self.order.latest();
        let state = lock(&self.state);
        let unresolved = state.prefix.starts().min();
        state.clients.oldest_start().into_iter().chain(unresolved).min().unwrap_or(latest)
    }

    /// Returns the outcome of a version's transaction and makes it final.
    pub(crate) async fn version_outcome(&self, start: Timestamp) -> Result<VersionOutcome> {
        if start > self.order.latest() {
            return Ok(VersionOutcome::Open);
        }
        let known = {
            let state = lock(&self.state);
            match state.decided.get(&start) {
                Some(Decided::Pending(_)) => return Ok(VersionOutcome::Open),
                Some(Decided::Known(entry)) => Some(*entry),
                None if state.clients.is_open(start) => return Ok(VersionOutcome::Open),
                None => None,
            }
        };
        let entry = match known {
            Some(entry) => entry,
            None => self.table.settle_for_reader(start).await?,
        };
        Ok(match entry {
            CommitEntry::Committed(commit) => VersionOutcome::Committed(commit),
            CommitEntry::Aborted => VersionOutcome::Aborted,
        })
    }

    /// Returns the invariant that was found broken, if any.
    pub(crate) fn broken(&self) -> Option<String> {
        match &lock(&self.state).ended {
            Some(Ended::Broken(what)) => Some(what.clone()),
            Some(Ended::Deposed) | None => None,
        }
    }

    /// Returns the leader's standing, and gives up the snapshots of expired processes.
    pub(crate) fn standing(&self, now: Moment) -> Standing {
        let mut state = lock(&self.state);
        let given_up = state.clients.expire(now, self.options.client_timeout);
        drop(state);
        given_up.into_iter().for_each(|begun| self.order.end(begun));
        Standing {
            fence_from: self.oldest_undecided(),
            latest: self.order.latest(),
            wall: self.environment.clock.wall(),
            headroom: self.order.headroom(),
        }
    }

    /// Ends the term: waiting requests are answered that this process does not lead.
    pub(crate) fn depose(&self) {
        self.end(Ended::Deposed);
    }

    fn end(&self, why: Ended) {
        let mut state = lock(&self.state);
        if state.ended.is_some() {
            return;
        }
        if let Ended::Broken(what) = &why {
            tracing::error!(%what, "the leader stopped: an invariant of the commit table is broken");
        }
        state.ended = Some(why);
        let decided = std::mem::take(&mut state.decided);
        drop(state);
        for (_, decided) in decided {
            if let Decided::Pending(waiting) = decided {
                waiting.into_iter().for_each(|waiter| waiter.send(Response::NotLeading));
            }
        }
        self.notify.notify_all();
    }

    /// Returns the error with which a transaction would be refused, as far as is known. If its
    /// start is not open here, nothing is known (I6): it may have committed, in this term or an
    /// older one.
    pub(crate) fn check(&self, claim: &Claim) -> Result<()> {
        let is_open = lock(&self.state).clients.is_open(claim.start);
        if is_open { self.order.check(claim) } else { Ok(()) }
    }

    /// Answers a request.
    pub(crate) async fn answer(self: Arc<Self>, request: Request) -> Response {
        let answered = match request {
            Request::Begin { client, token, kind, is_strict, known } => {
                self.begin(client, token, kind, is_strict, known).await
            }
            Request::End { client, token } => {
                self.give_back(client, token);
                Ok(Response::Done)
            }
            Request::Commit { client, token, claim } => self.commit(client, token, claim).await,
            Request::Outcome { start } => self.outcome(start).await.map(Response::Outcome),
            Request::Alive { client, oldest } => {
                self.seen(client, oldest);
                Ok(Response::Done)
            }
            Request::Announce { client, what } => self.announce(client, what),
        };
        let answer = answered.unwrap_or_else(Response::Refused);
        match &lock(&self.state).ended {
            Some(Ended::Deposed) => Response::NotLeading,
            Some(Ended::Broken(what)) => Response::Refused(Error::corrupted(what.clone())),
            None => answer,
        }
    }

    fn announce(&self, client: ClientId, what: Bytes) -> Result<Response> {
        let now = self.environment.timer.now();
        lock(&self.state).announcements.announce(client, what, now).map(Response::Members)
    }

    async fn begin(
        self: &Arc<Self>,
        client: ClientId,
        token: Token,
        kind: BeginKind,
        is_strict: bool,
        known: Option<Timestamp>,
    ) -> Result<Response> {
        // A snapshot that this leader does not know yet may belong to a later leader.
        let is_unknown = matches!(kind, BeginKind::ReadOnlyAt(read) if read > self.published());
        if is_strict || is_unknown {
            match self.prove().await {
                Proof::Leads => {}
                Proof::Deposed => {
                    self.depose();
                    return Ok(Response::NotLeading);
                }
                Proof::Unknown(why) => {
                    return Err(Error::unavailable(format!("the lease cannot be read: {why}")));
                }
            }
        }
        let mut state = lock(&self.state);
        state.clients.seen(client, self.environment.timer.now());
        let begun = match state.clients.get(client, token) {
            Some(begun) => begun,
            None => {
                // Skipping timestamps must leave enough for later starts.
                if kind == BeginKind::ReadWrite && self.has_headroom(ROWS_PER_QUANTUM) {
                    let latest = self.order.latest();
                    self.order.skip_to(state.row_allocator.next(latest, self.options.row_starts));
                }
                let begun = self.order.begin(kind)?;
                state.clients.opened(client, token, begun, self.environment.timer.now());
                begun
            }
        };
        let changes = state.changes.between(known, begun.read);
        drop(state);
        if !self.has_headroom(0) {
            self.notify.notify_all();
        }
        let (epoch_first, schema) = (self.term.first, begun.schema);
        let released = Released { read: begun.read, start: begun.start, epoch_first, schema };
        Ok(Response::Released(released, changes))
    }

    /// Proves that this process led after the request arrived.
    ///
    /// A conditional write that was applied was behind this term's fence, and a later leader raises
    /// the fence on every row before it serves. If such a write is about to begin, the lease need
    /// not be read, which saves a round of Paxos.
    async fn prove(&self) -> Proof {
        if lock(&self.state).groups.another_follows() {
            let wait = self.environment.timer.wait(GROUP_WAIT);
            if let First::Left(proof) = first(self.proof.fresh_from_elsewhere(), wait).await {
                return proof;
            }
        }
        self.proof.fresh().await
    }

    /// Returns `true` if `timestamps` can be skipped without raising the bound.
    fn has_headroom(&self, timestamps: u64) -> bool {
        self.order.headroom() >= self.options.lease.bound_step / 2 + timestamps
    }

    fn seen(&self, client: ClientId, oldest: Token) {
        let mut state = lock(&self.state);
        state.clients.seen(client, self.environment.timer.now());
        let forgotten = state.clients.close_older(client, oldest);
        drop(state);
        forgotten.into_iter().for_each(|begun| self.order.end(begun));
    }

    /// Gives a snapshot back at once, without waiting.
    pub(crate) fn give_back(&self, client: ClientId, token: Token) {
        let begun = lock(&self.state).clients.close(client, token);
        if let Some(begun) = begun {
            self.order.end(begun);
        }
    }

    async fn commit(
        self: &Arc<Self>,
        client: ClientId,
        token: Token,
        claim: Claim,
    ) -> Result<Response> {
        let start = claim.start;
        if start < self.term.first {
            return self.settled(start).await;
        }
        let waiting = match self.submit(client, token, claim)? {
            Submitted::Waits(waiting) => waiting,
            Submitted::Known(entry) => return answer_of(start, entry),
            Submitted::Settle => return self.settled(start).await,
        };
        match waiting.await {
            Some(response) => Ok(response),
            None => Ok(Response::NotLeading),
        }
    }

    /// Decides a start, once.
    fn submit(self: &Arc<Self>, client: ClientId, token: Token, claim: Claim) -> Result<Submitted> {
        let start = claim.start;
        let (sender, receiver) = channel();
        let mut state = lock(&self.state);
        if state.ended.is_some() {
            sender.send(Response::NotLeading);
            return Ok(Submitted::Waits(receiver));
        }
        state.clients.seen(client, self.environment.timer.now());
        match state.decided.get_mut(&start) {
            Some(Decided::Pending(waiting)) => {
                waiting.push(sender);
                return Ok(Submitted::Waits(receiver));
            }
            Some(Decided::Known(entry)) => return Ok(Submitted::Known(*entry)),
            None => {}
        }
        let begun = state.clients.get(client, token);
        let is_open = state.clients.is_open(start);
        let Some(begun) = begun.filter(|begun| is_open && begun.start == Some(start)) else {
            if start > self.order.latest() {
                // A later leader handed the start out, and knows its outcome.
                sender.send(Response::NotLeading);
                return Ok(Submitted::Waits(receiver));
            }
            return Ok(Submitted::Settle);
        };
        let mut claim = Claim { slot: begun.slot, read: begun.read, ..claim };
        let place = self.table.known_place(start)?;
        // A refused start counts as decided, too: the process that was refused may have run the
        // transaction again before a repetition of the same request arrives.
        state.clients.decided(start);
        let cells = ChangeLog::takes(&claim).then(|| claim.cells.hashes().collect::<Vec<_>>());
        let commit = self.order.decide(&mut claim)?;
        match cells {
            Some(cells) => state.changes.wrote(commit, cells.into_iter()),
            None => state.changes.wrote_any(commit),
        }
        state.prefix.decided(start, commit);
        state.decided.insert(start, Decided::Pending(vec![sender]));
        let row = place.row.clone();
        let group = state.groups.push(&row, Entry { start, commit, place });
        let waiting = state.groups.waiting(&row);
        state.row_allocator.waiting(start, waiting);
        drop(state);
        if let Some(group) = group {
            self.send(row, group);
        }
        Ok(Submitted::Waits(receiver))
    }

    /// Settles a start that this term did not decide from the commit table; if there is no entry,
    /// the start is aborted for good. If the table cannot be read, the outcome is unknown.
    async fn settled(&self, start: Timestamp) -> Result<Response> {
        // Boxed: the future is large and rarely needed, so commits should not carry it.
        let settled = Box::pin(self.table.settle(start)).await;
        answer_of(start, settled.map_err(|error| unknown(start, error))?)
    }

    async fn outcome(&self, start: Timestamp) -> Result<Outcome> {
        check_handed_out(&*self.order, start)?;
        let known = {
            let state = lock(&self.state);
            match state.decided.get(&start) {
                Some(Decided::Pending(_)) => return Ok(Outcome::Pending),
                Some(Decided::Known(entry)) => Some(*entry),
                None if state.clients.is_open(start) => return Ok(Outcome::Pending),
                None => None,
            }
        };
        let entry = match known {
            Some(entry) => entry,
            None => Box::pin(self.table.settle(start)).await?,
        };
        Ok(match entry {
            CommitEntry::Committed(commit) => Outcome::Committed(commit),
            CommitEntry::Aborted => Outcome::Aborted,
        })
    }

    fn send(self: &Arc<Self>, row: CommitRow, group: Vec<Entry>) {
        let this = Arc::clone(self);
        self.environment.tasks.spawn(Box::pin(async move {
            let mut group = Some(group);
            while let Some(entries) = group {
                if !this.put(&row, &entries).await {
                    return;
                }
                group = lock(&this.state).groups.done(&row);
            }
        }));
    }

    /// Writes a group's entries, however long it takes. Returns `false` if the term is over.
    async fn put(&self, row: &CommitRow, group: &[Entry]) -> bool {
        let encoding = group[0].place.encoding;
        let mut entries = Vec::with_capacity(group.len());
        for entry in group {
            match encoding.encode(entry.start, CommitEntry::Committed(entry.commit)) {
                Ok(value) => entries.push(NewEntry { column: entry.place.column.clone(), value }),
                Err(error) => {
                    self.end(Ended::Broken(error.to_string()));
                    return false;
                }
            }
        }
        let fence = Some(self.term.epoch);
        let mut unresolved = Unresolved::put(fence, CommitTable::<C>::confirms(encoding), entries);
        let mut wait = FIRST_WAIT;
        loop {
            let action = unresolved.next();
            if action == Action::Finished {
                return true;
            }
            if self.is_over() {
                return false;
            }
            let number = self.proof.begins_elsewhere();
            let answer = self.table.act(row, fence, &action).await;
            if matches!((&action, &answer), (Action::Put(_), Answer::Row(RowAnswer::Applied))) {
                self.proof.found_elsewhere(number, Proof::Leads);
            }
            let is_lost = answer == Answer::Nothing;
            match unresolved.answer(answer) {
                Ok(settled) => {
                    if action_leaves_unconfirmed(&action, encoding) {
                        self.confirm_later(row, &settled);
                    }
                    self.resolve(group, settled);
                }
                Err(Stop::Deposed(_)) => {
                    self.depose();
                    return false;
                }
                Err(Stop::Broken(what)) => {
                    self.end(Ended::Broken(what.to_owned()));
                    return false;
                }
            }
            if is_lost {
                self.environment.timer.wait(wait).await;
                wait = (wait * 2).min(LONGEST_WAIT);
            }
        }
    }

    /// Confirms entries in the background: an entry whose write was applied is final, so `c` need
    /// not be waited for.
    fn confirm_later(&self, row: &CommitRow, settled: &[Settled]) {
        let entry = |settled: &Settled| {
            let value = settled.value.clone()?;
            Some(NewEntry { column: settled.column.clone(), value })
        };
        let entries: Vec<NewEntry> = settled.iter().filter_map(entry).collect();
        if entries.is_empty() {
            return;
        }
        let (table, row) = (Arc::clone(&self.table), row.clone());
        self.environment.tasks.spawn(Box::pin(async move { table.confirm(&row, entries).await }));
    }

    /// Moves P over the entries that are final now, and answers their waiters.
    fn resolve(&self, group: &[Entry], settled: Vec<Settled>) {
        let mut resolved = Vec::with_capacity(settled.len());
        for Settled { column, value } in settled {
            let Some(entry) = group.iter().find(|entry| entry.place.column == column) else {
                continue;
            };
            let value = value.map(|value| entry.place.encoding.decode(entry.start, &value));
            match value {
                Some(Ok(CommitEntry::Committed(commit))) if commit == entry.commit => {
                    resolved.push((entry, CommitEntry::Committed(commit)));
                }
                Some(Ok(CommitEntry::Aborted)) => resolved.push((entry, CommitEntry::Aborted)),
                other => {
                    let what = format!(
                        "start {} was decided as {} and the commit table holds {other:?}",
                        entry.start, entry.commit
                    );
                    return self.end(Ended::Broken(what));
                }
            }
        }
        let mut state = lock(&self.state);
        if state.ended.is_some() {
            return;
        }
        for (Entry { start, commit, .. }, entry) in resolved {
            state.prefix.resolved(*commit, Resolved { start: *start, entry });
        }
        let answers = self.advance(&mut state);
        drop(state);
        for (waiter, response) in answers {
            waiter.send(response);
        }
    }

    fn advance(&self, state: &mut State) -> Vec<(Sender<Response>, Response)> {
        let mut answers = Vec::new();
        let mut reached = None;
        while let Some((commit, Resolved { start, entry })) = state.prefix.pop() {
            reached = Some(commit);
            self.table.remember(start, entry);
            state.remembered.push_back(start);
            let before = state.decided.insert(start, Decided::Known(entry));
            let Some(Decided::Pending(waiting)) = before else { continue };
            for waiter in waiting {
                let response = answer_of(start, entry).unwrap_or_else(Response::Refused);
                answers.push((waiter, response));
            }
        }
        while state.remembered.len() > REMEMBERED_MAX {
            if let Some(oldest) = state.remembered.pop_front() {
                state.decided.remove(&oldest);
            }
        }
        if let Some(reached) = reached {
            self.order.publish(reached);
        }
        answers
    }
}

enum Submitted {
    Waits(crate::oneshot::Receiver<Response>),
    Known(CommitEntry),
    Settle,
}

/// Returns the error for an unknown outcome of a commit, with its reason.
pub(crate) fn unknown(start: Timestamp, why: Error) -> Error {
    if matches!(why.kind(), ErrorKind::Unknown { .. }) {
        return why;
    }
    let message = format!(
        "whether the transaction that started at {start} committed is not known; ask for its outcome"
    );
    Error::new(ErrorKind::Unknown { start }, message).with_source(why)
}

fn answer_of(start: Timestamp, entry: CommitEntry) -> Result<Response> {
    match entry {
        CommitEntry::Committed(commit) => Ok(Response::Committed(commit)),
        CommitEntry::Aborted => Err(Error::conflict(format!(
            "the transaction that started at {start} was aborted: its leader changed, or it was \
             given up; nothing was written, run it again"
        ))),
    }
}
