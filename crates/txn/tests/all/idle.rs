//! Idle transactions, on a manual clock.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{self, Poll, Waker};
use std::time::Duration;

use carnet_base::{
    Bytes, Call, CellKey, Clock, ErrorKind, KeyRange, Moment, PageLimit, PartitionKey, Result,
    Stepped, TableId, Timestamp, Version, WallTime, block_on,
};
use carnet_store::{
    At, BeginKind, Begun, CandidatePage, CellStore, CommitLog, CommitRequest, Context, MemoryStore,
    Outcome, RangeRequest,
};
use carnet_txn::{CommitChecker, IdleLimits, IdleWatch, Isolation, Terms, Transaction};

const LIMITS: IdleLimits = IdleLimits {
    writer: Duration::from_secs(80),
    reader: Duration::from_secs(800),
    ..IdleLimits::NONE
};

#[derive(Default)]
struct ManualClock(AtomicU64);

impl Clock for ManualClock {
    fn now(&self) -> Moment {
        Moment(Duration::from_secs(self.0.load(Ordering::SeqCst)))
    }

    fn wall(&self) -> WallTime {
        WallTime::default()
    }
}

/// A store whose reads and commits wait while it is shut.
struct Gated {
    store: MemoryStore,
    shut: AtomicBool,
}

impl Gated {
    async fn opened(&self) {
        std::future::poll_fn(|_| match self.shut.load(Ordering::SeqCst) {
            true => Poll::Pending,
            false => Poll::Ready(()),
        })
        .await;
    }
}

impl CellStore for Gated {
    fn get<'a>(
        &'a self,
        context: &'a Context,
        key: &'a CellKey,
        at: At,
    ) -> Call<'a, Option<Version>> {
        Call::boxed(async move {
            self.opened().await;
            self.store.get(context, key, at).await
        })
    }

    fn range<'a>(
        &'a self,
        context: &'a Context,
        request: &'a RangeRequest,
    ) -> Call<'a, CandidatePage> {
        Call::boxed(async move {
            self.opened().await;
            self.store.range(context, request).await
        })
    }
}

impl CommitLog for Gated {
    fn begin<'a>(&'a self, context: &'a Context, kind: BeginKind) -> Call<'a, Begun> {
        self.store.begin(context, kind)
    }

    fn end(&self, begun: Begun) {
        self.store.end(begun);
    }

    fn commit<'a>(&'a self, context: &'a Context, request: CommitRequest) -> Call<'a, Timestamp> {
        Call::boxed(async move {
            self.opened().await;
            self.store.commit(context, request).await
        })
    }

    fn outcome<'a>(&'a self, context: &'a Context, start: Timestamp) -> Call<'a, Outcome> {
        self.store.outcome(context, start)
    }

    fn published(&self) -> Timestamp {
        self.store.published()
    }
}

struct Bed {
    store: Arc<Gated>,
    clock: Arc<ManualClock>,
    workers: Stepped,
    watch: IdleWatch,
}

impl Bed {
    fn new() -> Self {
        let order = Box::new(CommitChecker::starting_at(Timestamp::ZERO));
        let store = Gated { store: MemoryStore::new(order), shut: AtomicBool::new(false) };
        let (clock, workers) = (Arc::new(ManualClock::default()), Stepped::default());
        let watch = IdleWatch::start(LIMITS, Arc::<ManualClock>::clone(&clock), &workers);
        Self { store: Arc::new(store), clock, workers, watch }
    }

    fn begin(&self, kind: BeginKind) -> Transaction {
        let (store, isolation) = (Arc::clone(&self.store), Isolation::StrictSerializable);
        let context = Context::unbounded();
        let terms = Terms { idle: Some(&self.watch), ..Terms::default() };
        block_on(Transaction::begin_on(store, context, kind, isolation, terms)).unwrap()
    }

    /// Lets time pass, with the worker's scans when they are due.
    fn pass(&self, seconds: u64) {
        for _ in 0..seconds {
            self.clock.0.fetch_add(1, Ordering::SeqCst);
            self.workers.settle();
        }
    }

    fn outcome(&self, transaction: &Transaction) -> Outcome {
        let start = transaction.start_timestamp().unwrap();
        block_on(self.store.outcome(&Context::unbounded(), start)).unwrap()
    }
}

type Reading = Pin<Box<dyn Future<Output = Result<()>>>>;

fn cell(name: &'static str) -> CellKey {
    CellKey::new(TableId(9), &PartitionKey::new("p"), name)
}

fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut task::Context::from_waker(Waker::noop()))
}

#[test]
fn idle_writer_is_rolled_back_with_a_reason() {
    let bed = Bed::new();
    let (left, used) = (bed.begin(BeginKind::ReadWrite), bed.begin(BeginKind::ReadWrite));
    left.put(cell("a"), Bytes::from("1")).unwrap();
    for _ in 0..20 {
        bed.pass(40);
        used.put(cell("b"), Bytes::from("1")).unwrap();
    }
    assert_eq!(bed.outcome(&left), Outcome::Aborted, "its start is given back");
    let errors = [
        left.put(cell("a"), Bytes::new()).unwrap_err(),
        block_on(left.get(&cell("a"))).unwrap_err(),
        block_on(left.commit()).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert!(error.to_string().contains("nothing was called on it for 80s"), "{error}");
    }
    left.rollback();
    block_on(used.commit()).unwrap();
    let after = bed.begin(BeginKind::ReadOnly);
    assert_eq!(block_on(after.get(&cell("a"))).unwrap(), None);
}

#[test]
fn idle_readers_live_longer_than_writers() {
    let bed = Bed::new();
    bed.clock.0.store(9, Ordering::SeqCst);
    let (writer, reader) = (bed.begin(BeginKind::ReadWrite), bed.begin(BeginKind::ReadOnly));
    // No scan before this one: coarse time is still that of the start.
    bed.clock.0.store(88, Ordering::SeqCst);
    bed.workers.settle();
    assert_eq!(bed.outcome(&writer), Outcome::Pending);
    bed.pass(1 + 2 * 10);
    assert_eq!(bed.outcome(&writer), Outcome::Aborted);
    bed.pass(700);
    assert_eq!(block_on(reader.get(&cell("a"))).unwrap(), None, "and that call keeps it");
    bed.pass(800);
    assert!(block_on(reader.get(&cell("a"))).is_ok());
    bed.pass(820);
    assert_eq!(block_on(reader.get(&cell("a"))).unwrap_err().kind(), ErrorKind::Timeout);
}

#[test]
fn a_call_in_flight_keeps_its_transaction() {
    let bed = Bed::new();
    let transaction = bed.begin(BeginKind::ReadWrite);
    bed.store.shut.store(true, Ordering::SeqCst);
    let key = cell("a");
    {
        let mut read = pin!(transaction.get(&key));
        assert!(poll(read.as_mut()).is_pending());
        bed.pass(10_000);
        bed.store.shut.store(false, Ordering::SeqCst);
        assert!(matches!(poll(read), Poll::Ready(Ok(None))));
    }
    bed.pass(79);
    transaction.put(cell("a"), Bytes::new()).unwrap();
    // A call that was cancelled has ended, too.
    bed.store.shut.store(true, Ordering::SeqCst);
    let other = cell("b");
    assert!(poll(pin!(transaction.get(&other))).is_pending());
    bed.pass(200);
    assert_eq!(bed.outcome(&transaction), Outcome::Aborted);
}

/// Another handle ends the transaction during a read. Its snapshot was not held any more, so the read may have missed
/// versions.
#[test]
fn read_of_ended_transaction_is_not_returned() {
    let bed = Bed::new();
    let keys = [cell("a"), cell("b")];
    let range = KeyRange::partition(TableId(9), &PartitionKey::new("p"));
    let ended = |read: fn(Transaction, [CellKey; 2], KeyRange) -> Reading| {
        let transaction = bed.begin(BeginKind::ReadWrite);
        bed.store.shut.store(true, Ordering::SeqCst);
        let mut reading = read(transaction.clone(), keys.clone(), range.clone());
        assert!(poll(reading.as_mut()).is_pending());
        transaction.rollback();
        bed.store.shut.store(false, Ordering::SeqCst);
        let Poll::Ready(result) = poll(reading.as_mut()) else { panic!("the store is open") };
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Invalid);
    };
    ended(|tx, [key, _], _| Box::pin(async move { tx.get(&key).await.map(drop) }));
    ended(|tx, keys, _| Box::pin(async move { tx.get_many(&keys, 1 << 20).await.map(drop) }));
    ended(|tx, _, range| {
        Box::pin(async move { tx.range(&range, false, PageLimit::cells(10)).await.map(drop) })
    });
}

#[test]
fn cancelled_commit_releases_its_snapshot() {
    let bed = Bed::new();
    let transaction = bed.begin(BeginKind::ReadWrite);
    transaction.put(cell("a"), Bytes::new()).unwrap();
    bed.store.shut.store(true, Ordering::SeqCst);
    {
        let mut commit = pin!(transaction.commit());
        assert!(poll(commit.as_mut()).is_pending());
        assert_eq!(bed.watch.open().len(), 1, "while it is under way it keeps its snapshot");
    }
    assert_eq!(bed.outcome(&transaction), Outcome::Aborted);
    assert!(bed.watch.open().is_empty(), "though there is a handle of it yet");
}

#[test]
fn transaction_outlives_its_watch() {
    let Bed { store, clock, workers, watch } = Bed::new();
    let begin = || {
        let (store, context) = (Arc::clone(&store), Context::unbounded());
        let isolation = Isolation::Snapshot;
        let kind = BeginKind::ReadWrite;
        let terms = Terms { idle: Some(&watch), ..Terms::default() };
        block_on(Transaction::begin_on(store, context, kind, isolation, terms)).unwrap()
    };
    let kept: Vec<_> = (0..100).map(|_| begin()).collect();
    kept.into_iter().take(50).for_each(drop);
    let last = begin();
    drop(watch);
    workers.settle();
    clock.0.store(1_000_000, Ordering::SeqCst);
    workers.settle();
    last.put(cell("a"), Bytes::new()).unwrap();
    drop(last);
    let weak: Weak<Gated> = Arc::downgrade(&store);
    drop(store);
    assert!(weak.upgrade().is_none());
}
