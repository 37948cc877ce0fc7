//! A client that counts the costs of its statements.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use carnet::{Db, Uuid, Value, block_on};
use carnet_base::{Clock, MemoryBudget, Moment, TIME_SLICE, WallTime};
use carnet_cql::result::Response;
use carnet_cql::system::NodeInfo;
use carnet_cql::{
    AnswerMemory, Bound, CqlError, Executor, Grant, Parameters, Session, Timeouts, Values,
};

use super::{ALLOCATOR, tables};

/// Memory of all answers, and of one, in a server of 256 MiB.
const ANSWERS_BYTES: usize = 40 << 20;
const ANSWER_BYTES: usize = ANSWERS_BYTES / 2;

/// Memory of all transactions in the same server; their sets have a half.
const TRANSACTIONS_BYTES: usize = 32 << 20;

/// Time for which a statement may run, by the clock below.
const TIMEOUT: Duration = Duration::from_millis(400);

/// Cost of a statement.
#[derive(Debug, Default)]
pub(crate) struct Cost {
    /// Most memory that was allocated at a time, beyond the answer and the stored rows.
    pub(crate) held_bytes: usize,
    /// Memory that was charged for the answer.
    pub(crate) answer_bytes: usize,
    /// Most steps between two places where the statement yielded.
    pub(crate) turn_steps: u64,
    pub(crate) error: Option<CqlError>,
}

/// Clock that advances by a time slice at each reading.
#[derive(Debug, Default)]
struct SliceClock(AtomicU64);

impl Clock for SliceClock {
    fn now(&self) -> Moment {
        let readings = self.0.fetch_add(1, Ordering::Relaxed);
        Moment(TIME_SLICE * u32::try_from(readings).unwrap_or(u32::MAX))
    }

    fn wall(&self) -> WallTime {
        WallTime(1_700_000_000_000_000)
    }
}

/// A client of a database with [large values](tables).
pub(crate) struct Client {
    executor: Executor,
    session: Session,
    answers: MemoryBudget,
}

impl Client {
    pub(crate) fn new() -> Self {
        let db = Db::builder().clock(Arc::new(SliceClock::default()));
        let db = db.transaction_memory_bytes(TRANSACTIONS_BYTES).in_memory();
        let executor = Executor::new(db, NodeInfo::local(Uuid::from_u64_pair(1, 2)));
        let answers = MemoryBudget::new(ANSWERS_BYTES);
        let client = Self { executor, session: Session::new(), answers };
        tables::fill(&client);
        let (statement, scan) = (TIMEOUT, TIMEOUT);
        client.executor.set_timeouts(Timeouts { statement, scan, schema: TIMEOUT });
        client
    }

    pub(crate) fn run(&self, text: &str) -> Result<Response, CqlError> {
        block_on(self.executor.query(&self.session, text, &Parameters::default()))
    }

    pub(crate) fn insert(&self, text: &str, values: &[Value]) {
        let values = values.iter().map(|value| Bound::Bytes(value.serialize())).collect();
        let values = Values::Positional(values);
        let parameters = Parameters { values, ..Parameters::default() };
        block_on(self.executor.query(&self.session, text, &parameters)).unwrap();
    }

    /// Calls a function within an open transaction, which is rolled back.
    pub(crate) fn inside_transaction(&self, call: impl FnOnce(&Self)) {
        self.run("START TRANSACTION").unwrap();
        call(self);
        // A statement of a changed schema may have ended it.
        drop(self.run("ROLLBACK TRANSACTION"));
    }

    /// Runs a statement, and returns its cost.
    pub(crate) fn cost(&self, text: &str) -> Cost {
        let memory = Arc::new(AnswerMemory::new(&self.answers, ANSWER_BYTES));
        let grant = Grant {
            arrived: Some(self.executor.db().now()),
            memory: Some(Arc::clone(&memory)),
            yield_now: Some(yield_once),
            ..Grant::default()
        };
        let parameters = Parameters { grant, page_rows: Some(5_000), ..Parameters::default() };
        let mut cost = Cost::default();
        let start = ALLOCATOR.current_usage();
        ALLOCATOR.reset_peak_usage();
        let mut future = Box::pin(self.executor.query(&self.session, text, &parameters));
        let result = loop {
            let before = self.executor.steps_total();
            let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            cost.turn_steps = cost.turn_steps.max(self.executor.steps_total() - before);
            if let Poll::Ready(result) = polled {
                break result;
            }
        };
        drop(future);
        let peak = ALLOCATOR.peak_usage();
        cost.answer_bytes = memory.bytes();
        cost.error = result.err();
        let stored = ALLOCATOR.current_usage();
        cost.held_bytes = peak.saturating_sub(stored.max(start) + cost.answer_bytes);
        cost
    }

    /// Runs a statement in several sessions at a time, and returns the most memory that was allocated
    /// beyond the stored rows.
    pub(crate) fn held_at_a_time(&self, text: &str, sessions: usize) -> usize {
        let grant = Grant { yield_now: Some(yield_once), ..Grant::default() };
        let parameters = Parameters { grant, ..Parameters::default() };
        let sessions: Vec<Session> = (0..sessions).map(|_| Session::new()).collect();
        for session in &sessions {
            block_on(self.executor.query(session, "USE ks", &parameters)).unwrap();
        }
        let start = ALLOCATOR.current_usage();
        ALLOCATOR.reset_peak_usage();
        let run = |session| Box::pin(self.executor.query(session, text, &parameters));
        let mut running: Vec<_> = sessions.iter().map(run).collect();
        while !running.is_empty() {
            running.retain_mut(|future| {
                match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(result) => result.map(|_| false).unwrap(),
                    Poll::Pending => true,
                }
            });
        }
        ALLOCATOR.peak_usage().saturating_sub(ALLOCATOR.current_usage().max(start))
    }
}

fn yield_once() -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(YieldOnce(AtomicBool::new(false)))
}

/// Future that is pending once.
struct YieldOnce(AtomicBool);

impl Future for YieldOnce {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        context.waker().wake_by_ref();
        if self.0.swap(true, Ordering::Relaxed) { Poll::Ready(()) } else { Poll::Pending }
    }
}
