//! Conformance suite for stores.
//!
//! A store's own test gives [`run`] a function that creates an empty store whose commits
//! [`PlainOrder`] decides. Each check is a promise of [`CellStore`] or [`CommitLog`], named by its
//! function.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::future::Future;
use std::ops::Bound;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context as TaskContext, Waker};
use std::thread;

use carnet_base::sync::lock;
use carnet_base::{
    Bytes, CellHash, CellKey, Error, ErrorKind, KeyRange, Moment, PageLimit, PartitionKey, Result,
    Rng, SeededRng, TableId, Timestamp, Token, Version, block_on,
};

use crate::begun::{BeginKind, Begun, Slot};
use crate::candidates::{CandidatePage, Unsettled};
use crate::cell_store::{At, CellStore, RangeRequest};
use crate::commit_log::{CommitLog, CommitOrder, Outcome};
use crate::commit_request::{Claim, CommitRequest, ReadSet};
use crate::context::Context;
use crate::write::Write;

const TABLE: TableId = TableId(1000);
const NEIGHBOUR: TableId = TableId(1001);

/// Runs every check, each on a store of its own.
///
/// # Panics
///
/// If the store breaks a promise.
pub fn run<S: CellStore + CommitLog>(mut make: impl FnMut() -> S) {
    a_commit_is_visible_from_its_timestamp_on(&make());
    a_tombstone_hides_what_is_older_and_only_that(&make());
    many_cells_are_read_as_one_by_one(&make());
    a_dropped_table_is_empty_from_then_on(&make());
    a_refused_commit_leaves_nothing(&make());
    starts_are_unique_and_lie_above_their_snapshot(&make());
    a_snapshot_can_be_taken_up_again(&make());
    outcomes_tell_pending_committed_and_aborted_apart(&make());
    a_dropped_commit_future_leaves_the_commit_in_force(&make());
    a_passed_deadline_ends_the_call(&make());
    ranges_keep_to_their_table_and_partition(&make());
    pages_of_any_size_add_up_to_the_range(&make());
    large_payloads_come_back_whole(&make());
    concurrent_commits_are_all_published(make());
    for seed in 0..8 {
        random_histories_match_a_model(&make(), seed);
    }
}

/// The simplest rules that make a store usable: the first committer wins, and nothing else is
/// checked.
#[derive(Debug, Default)]
pub struct PlainOrder(Mutex<Plain>);

#[derive(Debug, Default)]
struct Plain {
    clock: u64,
    bound: u64,
    published: Timestamp,
    running: HashSet<Timestamp>,
    last_commit: HashMap<CellHash, Timestamp>,
}

impl PlainOrder {
    /// Creates an order whose first timestamp lies above `consumed`.
    #[must_use]
    pub fn starting_above(consumed: Timestamp) -> Self {
        let clock = consumed.get();
        let plain = Plain { clock, bound: clock, published: consumed, ..Plain::default() };
        Self(Mutex::new(plain))
    }

    fn lock(&self) -> MutexGuard<'_, Plain> {
        lock(&self.0)
    }
}

impl Plain {
    fn next(&mut self) -> Result<Timestamp> {
        if self.clock >= self.bound {
            return Err(Error::unavailable("the test order was not given a bound"));
        }
        self.clock += 1;
        Timestamp::new(self.clock).ok_or_else(|| Error::unavailable("the test clock has run out"))
    }
}

impl CommitOrder for PlainOrder {
    fn skip_to(&self, first: Timestamp) {
        let mut plain = self.lock();
        plain.clock = plain.clock.max(first.get().saturating_sub(1));
    }

    fn begin(&self, kind: BeginKind) -> Result<Begun> {
        let mut plain = self.lock();
        let (read, start) = match kind {
            BeginKind::ReadOnly => (plain.published, None),
            BeginKind::ReadOnlyAt(read) if read <= plain.published => (read, None),
            BeginKind::ReadOnlyAt(read) => {
                return Err(Error::invalid(format!("snapshot {read} lies ahead")));
            }
            BeginKind::ReadWrite => (plain.published, Some(plain.next()?)),
        };
        plain.running.extend(start);
        Ok(Begun { read, start, slot: Slot::default(), schema: read })
    }

    fn end(&self, begun: Begun) {
        if let Some(start) = begun.start {
            self.lock().running.remove(&start);
        }
    }

    fn decide(&self, claim: &mut Claim) -> Result<Timestamp> {
        let mut plain = self.lock();
        let beaten = |hash| plain.last_commit.get(&hash).is_some_and(|&at| at > claim.read);
        if claim.cells.hashes().any(beaten) {
            return Err(Error::conflict("a cell was written after the snapshot"));
        }
        let commit = plain.next()?;
        for hash in claim.cells.hashes() {
            plain.last_commit.insert(hash, commit);
        }
        Ok(commit)
    }

    fn publish(&self, commit: Timestamp) {
        let mut plain = self.lock();
        assert!(commit > plain.published, "commits are published in their order");
        plain.published = commit;
    }

    fn published(&self) -> Timestamp {
        self.lock().published
    }

    fn schema(&self) -> Timestamp {
        self.published()
    }

    fn latest(&self) -> Timestamp {
        Timestamp::new(self.lock().clock).expect("every number handed out is a timestamp")
    }

    fn is_running(&self, start: Timestamp) -> bool {
        self.lock().running.contains(&start)
    }

    fn raise_mark(&self, _: Timestamp) -> Timestamp {
        Timestamp::ZERO
    }

    fn mark(&self) -> Timestamp {
        Timestamp::ZERO
    }

    fn headroom(&self) -> u64 {
        let plain = self.lock();
        plain.bound - plain.clock
    }

    fn extend(&self, bound: Timestamp) {
        let mut plain = self.lock();
        plain.bound = plain.bound.max(bound.get());
    }
}

/// A store as a transaction sees it.
struct Session<'a, S>(&'a S);

impl<S: CellStore + CommitLog> Session<'_, S> {
    fn begin(&self) -> Begun {
        block_on(self.0.begin(&Context::unbounded(), BeginKind::ReadWrite)).expect("begins")
    }

    fn snapshot(&self) -> Timestamp {
        let begun = block_on(self.0.begin(&Context::unbounded(), BeginKind::ReadOnly));
        begun.expect("begins").read
    }

    fn commit(&self, begun: Begun, writes: Vec<Write>) -> Result<Timestamp> {
        let result = block_on(self.0.commit(&Context::unbounded(), request(begun, writes)));
        self.0.end(begun);
        result
    }

    fn put(&self, key: &CellKey, payload: &'static str) -> Timestamp {
        self.commit(self.begin(), vec![put(key, payload)]).expect("no other transaction writes")
    }

    fn delete(&self, key: &CellKey) -> Timestamp {
        let write = Write { key: key.clone(), payload: None };
        self.commit(self.begin(), vec![write]).expect("no other transaction writes")
    }

    /// Reads below each candidate that is not visible, as every reader must.
    fn visible(&self, key: &CellKey, read: Timestamp) -> Option<Version> {
        let mut at = At::snapshot(read);
        loop {
            let found = block_on(self.0.get(&Context::unbounded(), key, at)).expect("reads")?;
            if self.is_visible(&found, read) {
                return Some(found);
            }
            at = at.below(found.start);
        }
    }

    fn is_visible(&self, version: &Version, read: Timestamp) -> bool {
        if let Some(commit) = version.commit {
            assert!(commit <= read, "a store passes over versions stamped above the snapshot");
            return true;
        }
        let outcome = block_on(self.0.outcome(&Context::unbounded(), version.start));
        matches!(outcome.expect("looks up"), Outcome::Committed(commit) if commit <= read)
    }

    fn read(&self, key: &CellKey, read: Timestamp) -> Option<Bytes> {
        self.visible(key, read).and_then(|version| version.payload)
    }

    fn range(
        &self,
        range: &KeyRange,
        read: Timestamp,
        reverse: bool,
        limit: PageLimit,
    ) -> Vec<(CellKey, Bytes)> {
        let mut rows = Vec::new();
        let mut rest = Some(range.clone());
        while let Some(range) = rest {
            let request = RangeRequest { range: range.clone(), read, reverse, limit };
            let page = block_on(self.0.range(&Context::unbounded(), &request)).expect("reads");
            let CandidatePage { page, unsettled } = page;
            assert!(page.cells.len() + unsettled.len() <= limit.cells, "a page keeps to its limit");
            let mut candidates: Vec<(CellKey, Option<Bytes>)> = Vec::new();
            let mut settled = page.cells.share_all();
            for Unsettled { before, key, version } in unsettled {
                let between = before - (page.cells.len() - settled.len());
                candidates.extend(settled.by_ref().take(between).map(some_payload));
                let version = match self.is_visible(&version, read) {
                    true => Some(version),
                    false => self.visible(&key, read),
                };
                candidates.push((key, version.and_then(|version| version.payload)));
            }
            candidates.extend(settled.map(some_payload));
            for (key, payload) in candidates {
                assert!(range.contains(&key), "a page keeps to its range");
                rows.extend(payload.map(|payload| (key, payload)));
            }
            assert_ne!(page.resume.as_ref(), Some(&range), "a page makes progress");
            rest = page.resume;
        }
        rows
    }
}

fn some_payload((key, payload): (CellKey, Bytes)) -> (CellKey, Option<Bytes>) {
    (key, Some(payload))
}

fn request(begun: Begun, writes: Vec<Write>) -> CommitRequest {
    let start = begun.start.expect("begun to write");
    CommitRequest::new(begun, start, ReadSet::default(), writes)
}

fn cell(partition: &str, clustering: &str) -> CellKey {
    let partition = PartitionKey::new(Bytes::copy_from_slice(partition.as_bytes()));
    CellKey::new(TABLE, &partition, clustering)
}

fn put(key: &CellKey, payload: &'static str) -> Write {
    Write { key: key.clone(), payload: Some(Bytes::from_static(payload.as_bytes())) }
}

fn a_commit_is_visible_from_its_timestamp_on<S: CellStore + CommitLog>(store: &S) {
    let session = Session(store);
    let key = cell("p", "c");
    let before = session.snapshot();
    let first = session.put(&key, "one");
    assert!(first > before && store.published() >= first);
    let between = session.snapshot();
    let second = session.put(&key, "two");
    assert_eq!(session.read(&key, before), None);
    assert_eq!(session.read(&key, between).as_deref(), Some(&b"one"[..]));
    assert_eq!(session.read(&key, first).as_deref(), Some(&b"one"[..]));
    assert_eq!(session.read(&key, second).as_deref(), Some(&b"two"[..]));
    assert_eq!(session.read(&cell("p", "d"), second), None);
}

fn a_tombstone_hides_what_is_older_and_only_that<S: CellStore + CommitLog>(store: &S) {
    let session = Session(store);
    let key = cell("p", "c");
    let put = session.put(&key, "one");
    let deleted = session.delete(&key);
    let again = session.put(&key, "two");
    assert_eq!(session.read(&key, put).as_deref(), Some(&b"one"[..]));
    assert_eq!(session.read(&key, deleted), None);
    assert_eq!(session.read(&key, again).as_deref(), Some(&b"two"[..]));
    let range = KeyRange::table(TABLE);
    assert_eq!(session.range(&range, deleted, false, PageLimit::cells(10)), []);
}

fn many_cells_are_read_as_one_by_one<S: CellStore + CommitLog>(store: &S) {
    let session = Session(store);
    let partitions = ["p", "q", "r"];
    let mut keys: Vec<CellKey> = partitions
        .iter()
        .flat_map(|partition| ["a", "b", "c", "d"].map(|clustering| cell(partition, clustering)))
        .collect();
    let mut reads = vec![session.snapshot()];
    for round in ["one", "two"] {
        for key in keys.iter().step_by(2) {
            session.put(key, round);
        }
        session.delete(&keys[4]);
        let loser = session.begin();
        session.put(&keys[0], "winner");
        let writes = keys[..3].iter().map(|key| put(key, "loser")).collect();
        session.commit(loser, writes).expect_err("the other one was first");
        reads.push(session.snapshot());
    }
    keys.extend([CellKey::new(NEIGHBOUR, &PartitionKey::new("p"), "a"), keys[0].clone()]);
    keys.rotate_left(5);
    for read in reads {
        let (context, at) = (Context::unbounded(), At::snapshot(read));
        let many = |bytes| block_on(store.get_many(&context, &keys, at, bytes)).expect("reads");
        let first = many(1);
        assert!((1..=keys.len()).contains(&first.len()));
        let many = many(usize::MAX);
        assert_eq!(many.len(), keys.len());
        assert_eq!(first, many[..first.len()]);
        for (key, candidate) in keys.iter().zip(many) {
            let seen = match candidate {
                Some(version) if !session.is_visible(&version, read) => session.visible(key, read),
                candidate => candidate,
            };
            let payload = seen.and_then(|version| version.payload);
            assert_eq!(payload, session.read(key, read), "{key:?} at {read}");
        }
    }
}

fn a_dropped_table_is_empty_from_then_on<S: CellStore + CommitLog>(store: &S) {
    let session = Session(store);
    let (key, neighbour) = (cell("p", "c"), {
        let partition = PartitionKey::new("p");
        CellKey::new(NEIGHBOUR, &partition, "c")
    });
    session.put(&key, "one");
    let before = session.put(&neighbour, "theirs");
    let begun = session.begin();
    let mut request = request(begun, vec![put(&cell("q", "c"), "of the same commit")]);
    request.drops = vec![TABLE];
    let dropped =
        block_on(store.commit(&Context::unbounded(), request)).expect("nothing conflicts");
    store.end(begun);
    let cells = |read| session.range(&KeyRange::table(TABLE), read, false, PageLimit::cells(10));
    assert_eq!(cells(before).len(), 1, "earlier snapshots are unchanged");
    assert_eq!(cells(dropped).len(), 1, "what the same commit writes stays");
    assert_eq!(session.read(&key, dropped), None);
    assert_eq!(session.read(&neighbour, dropped).as_deref(), Some(&b"theirs"[..]));
}

fn a_refused_commit_leaves_nothing<S: CellStore + CommitLog>(store: &S) {
    let session = Session(store);
    let (contended, other) = (cell("p", "contended"), cell("p", "other"));
    let loser = session.begin();
    session.put(&contended, "winner");
    let writes = vec![put(&contended, "loser"), put(&other, "loser")];
    let refused = session.commit(loser, writes).expect_err("the other one was first");
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    let now = session.snapshot();
    assert_eq!(session.read(&contended, now).as_deref(), Some(&b"winner"[..]));
    assert_eq!(session.read(&other, now), None);
    let start = loser.start.expect("begun to write");
    let outcome = block_on(store.outcome(&Context::unbounded(), start)).expect("looks up");
    assert_eq!(outcome, Outcome::Aborted);
}

fn starts_are_unique_and_lie_above_their_snapshot<S: CellStore + CommitLog>(store: &S) {
    let session = Session(store);
    let mut seen = HashSet::new();
    for _ in 0..100 {
        let begun = session.begin();
        let start = begun.start.expect("begun to write");
        assert!(begun.read < start && seen.insert(start));
        let commit = session.commit(begun, vec![put(&cell("p", "c"), "x")]).expect("commits");
        assert!(commit > start && seen.insert(commit), "C comes after S and is unique");
        assert_eq!(session.snapshot(), store.published());
    }
}

fn a_snapshot_can_be_taken_up_again<S: CellStore + CommitLog>(store: &S) {
    let session = Session(store);
    let key = cell("p", "c");
    let begin_at = |read| block_on(store.begin(&Context::unbounded(), BeginKind::ReadOnlyAt(read)));
    let first = session.put(&key, "one");
    session.put(&key, "two");
    let again = begin_at(first).expect("the snapshot was handed out");
    assert_eq!((again.read, again.start), (first, None));
    assert_eq!(session.read(&key, again.read).as_deref(), Some(&b"one"[..]));
    store.end(again);
    let ahead = store.published().checked_add(1).expect("the clock has room");
    assert_eq!(begin_at(ahead).expect_err("it lies ahead").kind(), ErrorKind::Invalid);
}

fn outcomes_tell_pending_committed_and_aborted_apart<S: CellStore + CommitLog>(store: &S) {
    let session = Session(store);
    let outcome = |begun: Begun| {
        let start = begun.start.expect("begun to write");
        block_on(store.outcome(&Context::unbounded(), start)).expect("looks up")
    };
    let (committed, given_up) = (session.begin(), session.begin());
    assert_eq!(outcome(committed), Outcome::Pending);
    let commit = session.commit(committed, vec![put(&cell("p", "c"), "x")]).expect("commits");
    assert_eq!(outcome(committed), Outcome::Committed(commit));
    assert_eq!(outcome(given_up), Outcome::Pending);
    store.end(given_up);
    assert_eq!(outcome(given_up), Outcome::Aborted);
    // A start that was not handed out yet may still commit.
    let ahead = Timestamp::new(commit.get() + 1_000).expect("the clock has room");
    let open = block_on(store.outcome(&Context::unbounded(), ahead)).expect_err("it is open");
    assert_eq!(open.kind(), ErrorKind::Invalid);
}

fn a_dropped_commit_future_leaves_the_commit_in_force<S: CellStore + CommitLog>(store: &S) {
    let session = Session(store);
    let key = cell("p", "dropped");
    let begun = session.begin();
    {
        let context = Context::unbounded();
        let mut commit = pin!(store.commit(&context, request(begun, vec![put(&key, "kept")])));
        // One poll decides it; when it becomes durable is up to the store.
        let _ = commit.as_mut().poll(&mut TaskContext::from_waker(Waker::noop()));
    }
    store.end(begun);
    let later = session.put(&cell("p", "later"), "x");
    assert_eq!(session.read(&key, later).as_deref(), Some(&b"kept"[..]));
}

fn a_passed_deadline_ends_the_call<S: CellStore + CommitLog>(store: &S) {
    let session = Session(store);
    let key = cell("p", "late");
    let late = Context::until(Moment::default());
    let begun = session.begin();
    let read = store.published();
    let request_all = RangeRequest {
        range: KeyRange::table(TABLE),
        read,
        reverse: false,
        limit: PageLimit::cells(1),
    };
    let kind = |error: Error| error.kind();
    let got = block_on(store.get(&late, &key, At::snapshot(read)));
    assert_eq!(got.map_err(kind), Err(ErrorKind::Timeout));
    let page = block_on(store.range(&late, &request_all));
    assert_eq!(page.map(drop).map_err(kind), Err(ErrorKind::Timeout));
    let another = block_on(store.begin(&late, BeginKind::ReadWrite));
    assert_eq!(another.map_err(kind), Err(ErrorKind::Timeout));
    let commit = block_on(store.commit(&late, request(begun, vec![put(&key, "lost")])));
    assert_eq!(commit.map_err(kind), Err(ErrorKind::Timeout));
    store.end(begun);
    assert_eq!(session.read(&key, session.snapshot()), None, "nothing was written");
}

fn ranges_keep_to_their_table_and_partition<S: CellStore + CommitLog>(store: &S) {
    let session = Session(store);
    let mut keys = Vec::new();
    for partition in ["a", "b", "c", "d"] {
        for clustering in ["", "1", "2", "3"] {
            let key = cell(partition, clustering);
            session.put(&key, "x");
            keys.push(key);
        }
    }
    let elsewhere = CellKey::new(NEIGHBOUR, &cell("a", "").partition(), "1");
    session.put(&elsewhere, "x");
    keys.sort();
    let now = session.snapshot();
    let limit = PageLimit::cells(100);
    let found = |range: &KeyRange, reverse| -> Vec<CellKey> {
        session.range(range, now, reverse, limit).into_iter().map(|(key, _)| key).collect()
    };
    assert_eq!(found(&KeyRange::table(TABLE), false), keys);
    assert_eq!(found(&KeyRange::table(NEIGHBOUR), false), [elsewhere]);

    let b = PartitionKey::new("b");
    let middle = KeyRange::clustering(
        TABLE,
        &b,
        Bound::Excluded(Bytes::from("1")),
        Bound::Included(Bytes::from("3")),
    );
    assert_eq!(found(&middle, false), [cell("b", "2"), cell("b", "3")]);
    assert_eq!(found(&middle, true), [cell("b", "3"), cell("b", "2")]);
    assert_eq!(found(&KeyRange::partition(TABLE, &b), false).len(), 4);

    let token = b.token();
    let at_b = KeyRange::tokens(TABLE, Bound::Included(token), Bound::Included(token));
    assert_eq!(found(&at_b, false).len(), 4);
    let after_b = KeyRange::tokens(TABLE, Bound::Excluded(token), Bound::Unbounded);
    let expected: Vec<_> = keys.iter().filter(|key| key.token() > token).cloned().collect();
    assert_eq!(found(&after_b, false), expected);
    let nothing = KeyRange::tokens(TABLE, Bound::Excluded(Token::MAX), Bound::Unbounded);
    assert_eq!(found(&nothing, false), []);
}

fn pages_of_any_size_add_up_to_the_range<S: CellStore + CommitLog>(store: &S) {
    let session = Session(store);
    let keys: Vec<CellKey> = (0..50).map(|n| cell("wide", &format!("{n:04}"))).collect();
    for chunk in keys.chunks(10) {
        let writes = chunk.iter().map(|key| put(key, "0123456789")).collect();
        session.commit(session.begin(), writes).expect("commits");
    }
    session.delete(&keys[7]);
    session.delete(&keys[8]);
    let now = session.snapshot();
    let range = KeyRange::partition(TABLE, &keys[0].partition());
    let whole = session.range(&range, now, false, PageLimit::cells(1000));
    assert_eq!(whole.len(), 48);
    for cells in [1, 2, 7, 48, 49] {
        for bytes in [1, 100, 1 << 20] {
            let limit = PageLimit { cells, bytes };
            assert_eq!(session.range(&range, now, false, limit), whole);
            let mut reversed = session.range(&range, now, true, limit);
            reversed.reverse();
            assert_eq!(reversed, whole);
        }
    }
}

fn large_payloads_come_back_whole<S: CellStore + CommitLog>(store: &S) {
    let session = Session(store);
    let key = cell("p", "large");
    let payload: Bytes = (0..3_000_000u32).map(|n| n.to_le_bytes()[0] ^ 0x5a).collect();
    let write = Write { key: key.clone(), payload: Some(payload.clone()) };
    let commit = session.commit(session.begin(), vec![write]).expect("commits");
    assert_eq!(session.read(&key, commit), Some(payload));
}

fn concurrent_commits_are_all_published<S: CellStore + CommitLog>(store: S) {
    const THREADS: usize = 4;
    const COMMITS: usize = 50;
    let store = Arc::new(store);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let store = Arc::clone(&store);
            scope.spawn(move || {
                let session = Session(&*store);
                for n in 0..COMMITS {
                    let key = cell(&format!("p{thread}"), &format!("{n:04}"));
                    let commit = session.put(&key, "x");
                    let now = session.snapshot();
                    assert!(now >= commit, "an acknowledged commit is visible at once");
                    assert!(session.read(&key, now).is_some());
                }
            });
        }
    });
    let session = Session(&*store);
    let all =
        session.range(&KeyRange::table(TABLE), store.published(), false, PageLimit::cells(64));
    assert_eq!(all.len(), THREADS * COMMITS);
}

fn random_histories_match_a_model<S: CellStore + CommitLog>(store: &S, seed: u64) {
    let session = Session(store);
    let mut rng = SeededRng::new(seed);
    let mut model: BTreeMap<CellKey, &'static str> = BTreeMap::new();
    let mut past: Vec<(Timestamp, BTreeMap<CellKey, &'static str>)> = Vec::new();
    let draw =
        |rng: &mut SeededRng| cell(&format!("p{}", rng.below(4)), &format!("{:02}", rng.below(12)));
    for _ in 0..120 {
        let mut writes = BTreeMap::new();
        for _ in 0..=rng.below(4) {
            let key = draw(&mut rng);
            let payload = ["a", "b", "c", ""][usize::try_from(rng.below(4)).expect("small")];
            writes.insert(key, (!rng.chance(300)).then_some(payload));
        }
        for (key, payload) in &writes {
            match payload {
                Some(payload) => model.insert(key.clone(), payload),
                None => model.remove(key),
            };
        }
        let writes = writes
            .into_iter()
            .map(|(key, payload)| Write { key, payload: payload.map(Bytes::from) })
            .collect();
        let commit = session.commit(session.begin(), writes).expect("no other transaction writes");
        past.push((commit, model.clone()));
    }
    for (read, model) in past.iter().step_by(7) {
        let limit = PageLimit::cells(1 + usize::try_from(rng.below(9)).expect("small"));
        let expected: Vec<(CellKey, Bytes)> =
            model.iter().map(|(key, payload)| (key.clone(), Bytes::from(*payload))).collect();
        let found = session.range(&KeyRange::table(TABLE), *read, false, limit);
        assert_eq!(found, expected, "seed {seed}, snapshot {read}");
        let mut reversed = session.range(&KeyRange::table(TABLE), *read, true, limit);
        reversed.reverse();
        assert_eq!(reversed, expected, "seed {seed}, snapshot {read}, reversed");
        let key = draw(&mut rng);
        let expected = model.get(&key).copied().map(Bytes::from);
        assert_eq!(session.read(&key, *read), expected, "seed {seed}, snapshot {read}");
    }
}
