//! A term: one process decides for all.
//!
//! ```text
//!   commit(S)  ── rules decide: C ──▶ prefix: 7 9 12 …       one critical section
//!                                └──▶ group of S's row
//!   group      ── remainder loop ──▶ every entry final
//!              ── resolve ─────────▶ P over the contiguous prefix, answers for C ≤ P
//!   begin      ── SERIAL read of the lease, begun after it came ──▶ R = P, S
//! ```
//!
//! # Invariants
//!
//! * The timestamps of a term are an interval: they begin at the bound that the last one left, and
//!   lie below its own. So whose a start or a snapshot is can be told by where it lies, and a
//!   request of an older term needs no mark: its start lies below the first one of this.
//! * It decides for its own starts and snapshots alone. Of an older start it asks the commit
//!   table, and where that says nothing it puts the abort marker.
//! * A start is decided once. The answer is remembered; asked again it says the same, and what it
//!   has forgotten it asks the commit table for, which has no entry of what was refused and takes
//!   the abort marker. A C that was drawn for a start is never replaced.
//! * P passes a commit only when its entry is final. Nothing is acknowledged that P has not passed.
//! * Once it finds a later epoch, in any answer, it says nothing any more but that it does not
//!   lead. What was under way is for the next leader to say.

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
use crate::commit_table::remainder::{Action, Answer, Remainder, Settled, Stop};
use crate::commit_table::{CommitTable, Place, action_leaves_unconfirmed};
use crate::doors::{Doors, Options};
use crate::futures::{Bell, First, first};
use crate::groups::Groups;
use crate::lanes::Lanes;
use crate::members::Announcements;
use crate::message::{ClientId, Released, Request, Response, Token};
use crate::oneshot::{Sender, channel, lock};
use crate::prefix::Prefix;
use crate::proof::{self, Proof};
use crate::shared_read::SharedRead;
use crate::sweep::{Fate, Holder, Sweep};

/// So many answers are remembered; of older ones the commit table is asked.
const REMEMBERED_MAX: usize = 1 << 16;
/// How long a group may take to say that its leader leads before the lease is read after all.
const GROUP_WAIT: Duration = Duration::from_millis(50);
const FIRST_WAIT: Duration = Duration::from_millis(2);
const LONGEST_WAIT: Duration = Duration::from_millis(250);

/// A leader.
pub(crate) struct Leader<C> {
    term: Term,
    table: Arc<CommitTable<C>>,
    order: Box<dyn CommitOrder>,
    doors: Doors,
    options: Options,
    proof: Arc<SharedRead<Proof>>,
    state: Mutex<State>,
    sweep: Sweep,
    /// Rings when the process's own part has something to look at.
    bell: Arc<Bell>,
}

struct State {
    clients: Clients,
    /// In the order of starts: whoever waits is told in that order when the term ends.
    decided: BTreeMap<Timestamp, Decided>,
    /// Starts whose answer is remembered, the oldest first.
    remembered: VecDeque<Timestamp>,
    prefix: Prefix<Resolved>,
    groups: Groups<Entry>,
    lanes: Lanes,
    /// What the commits of this term wrote, for processes that keep cells.
    changes: ChangeLog,
    announcements: Announcements,
    /// Why it ended.
    ended: Option<Ended>,
}

impl State {
    fn of(term: &Term, now: Moment) -> Self {
        Self {
            clients: Clients::default(),
            decided: BTreeMap::new(),
            remembered: VecDeque::new(),
            prefix: Prefix::default(),
            groups: Groups::default(),
            lanes: Lanes::default(),
            changes: ChangeLog::starting_at(term.first),
            announcements: Announcements::new(now),
            ended: None,
        }
    }
}

/// Why a term is over.
#[derive(Clone, Debug)]
enum Ended {
    Deposed,
    Broken(String),
}

/// A start that was decided.
enum Decided {
    Pending(Vec<Sender<Response>>),
    Known(CommitEntry),
}

/// An entry on its way.
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
        doors: Doors,
        options: Options,
        bell: Arc<Bell>,
    ) -> Arc<Self> {
        order.extend(term.bound);
        let proof = proof::of(table.cluster(), Arc::clone(&doors.tasks), &term);
        let state = Mutex::new(State::of(&term, doors.timer.now()));
        let sweep = Sweep::paced_by(options.sweep);
        Arc::new(Self { term, table, order, doors, options, proof, state, sweep, bell })
    }

    pub(crate) fn extend(&self, bound: Timestamp) {
        self.order.extend(bound);
    }

    pub(crate) fn published(&self) -> Timestamp {
        self.order.published()
    }

    /// Tells whether it has found out that it leads no more.
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
        &self.doors.timer
    }

    /// Raises the sweep mark as far as the snapshots of this term let it.
    pub(crate) fn raise_mark(&self, wanted: Timestamp) -> Timestamp {
        self.order.raise_mark(wanted).min(wanted)
    }

    pub(crate) fn oldest_snapshot(&self) -> Option<Holder> {
        let (client, begun, since) = lock(&self.state).clients.oldest()?;
        let since = self.doors.timer.now().since(since);
        Some(Holder { client, read: begun.read, start: begun.start, since })
    }

    /// Returns the oldest start that may yet commit, the latest timestamp where there is none.
    pub(crate) fn oldest_undecided(&self) -> Timestamp {
        let latest = self.order.latest();
        let state = lock(&self.state);
        let unresolved = state.prefix.starts().min();
        state.clients.oldest_start().into_iter().chain(unresolved).min().unwrap_or(latest)
    }

    /// Says what became of a version's transaction, and sees to it that it stays so.
    pub(crate) async fn fate(&self, start: Timestamp) -> Result<Fate> {
        if start > self.order.latest() {
            return Ok(Fate::Open);
        }
        let known = {
            let state = lock(&self.state);
            match state.decided.get(&start) {
                Some(Decided::Pending(_)) => return Ok(Fate::Open),
                Some(Decided::Known(entry)) => Some(*entry),
                None if state.clients.is_open(start) => return Ok(Fate::Open),
                None => None,
            }
        };
        let entry = match known {
            Some(entry) => entry,
            None => self.table.settle_for_reader(start).await?,
        };
        Ok(match entry {
            CommitEntry::Committed(commit) => Fate::Committed(commit),
            CommitEntry::Aborted => Fate::Aborted,
        })
    }

    /// Says which invariant it found broken.
    pub(crate) fn broken(&self) -> Option<String> {
        match &lock(&self.state).ended {
            Some(Ended::Broken(what)) => Some(what.clone()),
            Some(Ended::Deposed) | None => None,
        }
    }

    /// Says how it stands, and gives up what the dead held.
    pub(crate) fn standing(&self, now: Moment) -> Standing {
        let mut state = lock(&self.state);
        let given_up = state.clients.expire(now, self.options.client_timeout);
        drop(state);
        given_up.into_iter().for_each(|begun| self.order.end(begun));
        Standing {
            fence_from: self.oldest_undecided(),
            latest: self.order.latest(),
            wall: self.doors.clock.wall(),
            headroom: self.order.headroom(),
        }
    }

    /// Ends the term: whoever waits is told that it does not lead.
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
        self.bell.ring();
    }

    /// Tells whether a transaction would be refused, as far as is known. Of one that is not open here
    /// nothing is (I6): it may have committed, in this term or an older one.
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
                self.heard_of(client, oldest);
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
        let now = self.doors.timer.now();
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
        // A snapshot that it does not know yet may be of a later leader.
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
        state.clients.heard_of(client, self.doors.timer.now());
        let begun = match state.clients.get(client, token) {
            Some(begun) => begun,
            None => {
                // What is left out must not be what a later start would have needed.
                if kind == BeginKind::ReadWrite && self.has_headroom(ROWS_PER_QUANTUM) {
                    let latest = self.order.latest();
                    self.order.skip_to(state.lanes.next(latest, self.options.row_starts));
                }
                let begun = self.order.begin(kind)?;
                state.clients.opened(client, token, begun, self.doors.timer.now());
                begun
            }
        };
        let changes = state.changes.between(known, begun.read);
        drop(state);
        if !self.has_headroom(0) {
            self.bell.ring();
        }
        let (epoch_first, schema) = (self.term.first, begun.schema);
        let released = Released { read: begun.read, start: begun.start, epoch_first, schema };
        Ok(Response::Released(released, changes))
    }

    /// Learns whether it leads, now that it was asked.
    ///
    /// A put that was applied was behind this term's fence, which a later leader raises on every row
    /// before it serves. Where one is about to begin the lease need not be read: that is a round of
    /// Paxos of its own, with 64 clients half of those that a transaction takes.
    async fn prove(&self) -> Proof {
        if lock(&self.state).groups.another_follows() {
            let wait = self.doors.timer.wait(GROUP_WAIT);
            if let First::Left(proof) = first(self.proof.fresh_from_elsewhere(), wait).await {
                return proof;
            }
        }
        self.proof.fresh().await
    }

    /// Tells whether the bound need not be raised for so many timestamps.
    fn has_headroom(&self, timestamps: u64) -> bool {
        self.order.headroom() >= self.options.lease.bound_step / 2 + timestamps
    }

    fn heard_of(&self, client: ClientId, oldest: Token) {
        let mut state = lock(&self.state);
        state.clients.heard_of(client, self.doors.timer.now());
        let forgotten = state.clients.close_older(client, oldest);
        drop(state);
        forgotten.into_iter().for_each(|begun| self.order.end(begun));
    }

    /// Gives a snapshot back at once, without waiting for anything.
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
        state.clients.heard_of(client, self.doors.timer.now());
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
                // A later leader handed it out, and knows what becomes of it.
                sender.send(Response::NotLeading);
                return Ok(Submitted::Waits(receiver));
            }
            return Ok(Submitted::Settle);
        };
        let mut claim = Claim { slot: begun.slot, read: begun.read, ..claim };
        let place = self.table.known_place(start)?;
        // What is refused is decided, too: whoever was told so may have run it again by the time the
        // same request is heard once more.
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
        state.lanes.waiting(start, waiting);
        drop(state);
        if let Some(group) = group {
            self.send(row, group);
        }
        Ok(Submitted::Waits(receiver))
    }

    /// Of a start that this term did not decide the commit table knows; where it does not, the
    /// start is aborted for good. Why it cannot be asked says nothing of the start.
    async fn settled(&self, start: Timestamp) -> Result<Response> {
        // Rare, and large: whoever commits is not to carry it about.
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
        self.doors.tasks.spawn(Box::pin(async move {
            let mut group = Some(group);
            while let Some(entries) = group {
                if !this.put(&row, &entries).await {
                    return;
                }
                group = lock(&this.state).groups.done(&row);
            }
        }));
    }

    /// Puts a group's entries, however long it takes; false where the term is over.
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
        let mut remainder = Remainder::put(fence, CommitTable::<C>::confirms(encoding), entries);
        let mut wait = FIRST_WAIT;
        loop {
            let action = remainder.next();
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
            match remainder.answer(answer) {
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
                self.doors.timer.wait(wait).await;
                wait = (wait * 2).min(LONGEST_WAIT);
            }
        }
    }

    /// Nobody waits for `c`: an entry whose put was applied is final.
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
        self.doors.tasks.spawn(Box::pin(async move { table.confirm(&row, entries).await }));
    }

    /// Moves P over what is final now, and answers those who waited for it.
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

/// Whether a start committed is not known, and why.
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
