//! Connections and statements, like those of the server above the gate.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use carnet::admission::{Arrived, Class, Permit, Place, Workload};
use carnet::{Error, ErrorKind, Result};
use carnet_base::{Clock, TimeSlice};

use super::load::{self, Reads, Request};
use super::setup::{BATCH, FRAME, STATEMENT};
use super::tally::Outcome;
use super::turns::InTurns;
use super::{ROWS, SERVER, World, key};
use crate::executor::yield_once;
use crate::mutant::Mutant;
use crate::random::Random;

/// Maximum number of answers that wait for a client; with more, the connection is not read.
const UNREAD_MAX: usize = 8;
/// Maximum number of throttled statements of a connection; with more, it is not read.
const THROTTLED_MAX: usize = 16;
/// Number of rows in a page of a scan.
const PAGE_ROWS: usize = 8;

/// A connection, including its client's side.
pub(super) struct Connection {
    pub(super) number: u64,
    is_slow: bool,
    received: RefCell<VecDeque<Request>>,
    /// Answers that a slow reader has not read.
    pub(super) unread: RefCell<VecDeque<(usize, Outcome)>>,
    pub(super) under_way: Cell<usize>,
    throttled: Cell<usize>,
    pub(super) is_closed: Cell<bool>,
    wakers: RefCell<Vec<Waker>>,
    /// Woken when the connection is closed.
    statements: RefCell<Vec<Waker>>,
}

impl Connection {
    pub(super) fn receive(&self, request: Request) {
        self.received.borrow_mut().push_back(request);
        self.under_way.set(self.under_way.get() + 1);
        self.wake();
    }

    /// Closes the connection: its client disconnected.
    pub(super) fn close(&self) {
        self.is_closed.set(true);
        self.wake();
        self.statements.take().into_iter().for_each(Waker::wake);
    }

    pub(super) fn wake(&self) {
        self.wakers.take().into_iter().for_each(Waker::wake);
    }

    /// Completes once a condition holds.
    pub(super) async fn until(&self, holds: impl Fn(&Self) -> bool) {
        poll_fn(|context| {
            if holds(self) {
                return Poll::Ready(());
            }
            self.wakers.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn may_read(&self) -> bool {
        self.unread.borrow().len() < UNREAD_MAX && self.throttled.get() < THROTTLED_MAX
    }

    fn answer(&self, world: &World, request: &Request, outcome: Outcome) {
        self.under_way.set(self.under_way.get() - 1);
        if self.is_slow {
            self.unread.borrow_mut().push_back((request.number, outcome));
        } else {
            let now = world.clock.now();
            world.tally.borrow_mut().answer(request.number, outcome, now);
        }
        self.wake();
    }
}

/// Opens a connection of a level.
pub(super) fn open(
    world: &Rc<World>,
    level: usize,
    is_slow: bool,
    random: &mut Random,
) -> Rc<Connection> {
    let number = world.opened.get();
    world.opened.set(number + 1);
    let connection = Rc::new(Connection {
        number,
        is_slow,
        received: RefCell::default(),
        unread: RefCell::default(),
        under_way: Cell::new(0),
        throttled: Cell::new(0),
        is_closed: Cell::new(false),
        wakers: RefCell::default(),
        statements: RefCell::default(),
    });
    world.executor.spawn(SERVER, serve(Rc::clone(world), Rc::clone(&connection)));
    if level == BATCH {
        let client = load::ask_batch(Rc::clone(world), Rc::clone(&connection), random.fork());
        world.executor.spawn(super::CLIENTS, client);
    }
    connection
}

async fn serve(world: Rc<World>, connection: Rc<Connection>) {
    let clock = world.clock.clone();
    let mut slice = TimeSlice::begin(&clock, yield_once);
    loop {
        let has_more = |it: &Connection| !it.received.borrow().is_empty() && it.may_read();
        connection.until(|it| it.is_closed.get() || has_more(it)).await;
        if connection.is_closed.get() {
            return;
        }
        let Some(request) = connection.received.borrow_mut().pop_front() else { continue };
        world.processor.spend(FRAME);
        let arrived = world.arrive(&request);
        world.check_gate();
        match arrived {
            Ok(arrived) => {
                let (of_task, to) = (Rc::clone(&world), Rc::clone(&connection));
                world.executor.spawn(SERVER, run(of_task, to, request, arrived));
            }
            Err(error) => connection.answer(&world, &request, outcome_of(&error)),
        }
        slice.check().await;
    }
}

fn outcome_of(error: &Error) -> Outcome {
    match error.kind() {
        ErrorKind::Overloaded { .. } => Outcome::Shed,
        ErrorKind::Timeout => Outcome::TimedOut,
        _ => Outcome::Failed,
    }
}

impl World {
    fn arrive(&self, request: &Request) -> Result<Arrived> {
        let is_batch = request.level == BATCH && !self.breaks(Mutant::BatchUnlimited);
        let deadline = request.deadline.filter(|_| !self.breaks(Mutant::DeadlineIgnored));
        let request = carnet::admission::Request {
            level: &self.levels[request.level],
            class: Class::Read,
            workload: if is_batch { Workload::Batch } else { Workload::Interactive },
            bytes: 200,
            deadline,
        };
        self.db.admission().expect("the database has a gate").arrive(request)
    }
}

/// Runs a statement to its answer, unless its client disconnects.
async fn run(world: Rc<World>, connection: Rc<Connection>, request: Request, arrived: Arrived) {
    let ended = {
        let statement = admitted(&world, &connection, &request, arrived);
        unless_closed(&connection, statement).await
    };
    if let Some(ended) = ended {
        let outcome = ended.as_ref().err().map_or(Outcome::Done, outcome_of);
        connection.answer(&world, &request, outcome);
    }
    world.check_gate();
}

/// Completes with `None` once the connection is closed, after dropping the statement.
async fn unless_closed<T>(
    connection: &Connection,
    statement: impl Future<Output = T>,
) -> Option<T> {
    let mut statement = Box::pin(statement);
    let mut is_registered = false;
    poll_fn(|context| {
        if connection.is_closed.get() {
            return Poll::Ready(None);
        }
        if !std::mem::replace(&mut is_registered, true) {
            connection.statements.borrow_mut().push(context.waker().clone());
        }
        statement.as_mut().poll(context).map(Some)
    })
    .await
}

async fn admitted(
    world: &Rc<World>,
    connection: &Connection,
    request: &Request,
    arrived: Arrived,
) -> Result<()> {
    let permit = match arrived {
        Arrived::Admitted(permit) => permit,
        Arrived::Waits(place) => {
            let _throttled = Throttled::new(connection, &place);
            InQueue { place: Some(place), leaks: world.breaks(Mutant::CancelLeaks) }.await?
        }
    };
    let permit = Arc::new(permit);
    let _held = Held::new(world, request.level, &permit);
    let is_long = request.level == BATCH;
    let work = execute(world, request, Arc::clone(&permit));
    InTurns::new(world, request, permit, is_long, work).await
}

async fn execute(world: &World, request: &Request, permit: Arc<Permit>) -> Result<()> {
    world.processor.spend(STATEMENT);
    let deadline = request.deadline.filter(|_| !world.breaks(Mutant::DeadlineIgnored));
    let yields = !world.breaks(Mutant::SliceNeverYielded);
    let options = world.db.transaction().deadline(deadline).permit(permit);
    let yield_now: Option<carnet_base::YieldNow> = yields.then_some(yield_once);
    let tx = options.yield_now(yield_now).snapshot_async(None).await?;
    let mut slice = tx.time_slice();
    let cell = world.setup.cell;
    match request.reads {
        Reads::Keys { first, count } => {
            for number in first..first + count {
                if let Some(slice) = &mut slice {
                    slice.check().await;
                }
                world.processor.spend(cell);
                let found = world.table.get(&tx, key(number % ROWS)).await?;
                debug_assert!(found.is_some(), "row {number} is there");
            }
        }
        Reads::Range { first, count } => {
            let mut rows = world.table.range(&tx, key(first)..).page(PAGE_ROWS);
            for _ in 0..count / PAGE_ROWS as u64 {
                if let Some(slice) = &mut slice {
                    slice.check().await;
                }
                world.processor.spend(cell * u32::try_from(PAGE_ROWS).unwrap_or(u32::MAX));
                rows.next_page().await?;
            }
        }
    }
    Ok(())
}

/// Counts a throttled statement of a connection.
struct Throttled<'c>(Option<&'c Connection>);

impl<'c> Throttled<'c> {
    fn new(connection: &'c Connection, place: &Place) -> Self {
        let counted = place.is_throttled().then_some(connection);
        if let Some(connection) = counted {
            connection.throttled.set(connection.throttled.get() + 1);
        }
        Self(counted)
    }
}

impl Drop for Throttled<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.0 {
            connection.throttled.set(connection.throttled.get() - 1);
            connection.wake();
        }
    }
}

/// A statement that waits at the gate.
struct InQueue {
    place: Option<Place>,
    leaks: bool,
}

impl Future for InQueue {
    type Output = Result<Permit>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Permit>> {
        let place = self.place.as_mut().expect("it is not polled after its end");
        let polled = Pin::new(place).poll(context);
        if polled.is_ready() {
            self.place = None;
        }
        polled
    }
}

impl Drop for InQueue {
    fn drop(&mut self) {
        if self.leaks {
            std::mem::forget(self.place.take());
        }
    }
}

/// Counts a permit while its statement has it.
struct Held<'w> {
    world: &'w World,
    level: usize,
    /// Leaked, in some statements of a mutant.
    leaked: Option<Arc<Permit>>,
}

impl<'w> Held<'w> {
    fn new(world: &'w World, level: usize, permit: &Arc<Permit>) -> Self {
        world.tally.borrow_mut().count_held(level, true);
        let leaks = world.breaks(Mutant::PermitNotGivenBack) && world.executor.below(50) == 0;
        Self { world, level, leaked: leaks.then(|| Arc::clone(permit)) }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.world.tally.borrow_mut().count_held(self.level, false);
        std::mem::forget(self.leaked.take());
    }
}
