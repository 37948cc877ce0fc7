//! Serves connections, like the server above the gate.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use carnet::{Error, ErrorKind, Result};
use carnet_admission::{AdmissionRequest, Arrived, Class, Workload};
use carnet_base::{Clock, TimeSlice};

use super::batch::ask_batch;
use super::connection::{Connection, Throttled};
use super::in_turns::InTurns;
use super::permits::{Held, InQueue};
use super::request::SimRequest;
use super::setup::{BATCH, FRAME};
use super::statement::execute;
use super::tally::Outcome;
use super::world::{CLIENTS, SERVER, World};
use crate::executor::yield_once;
use crate::mutant::Mutant;
use crate::random::Random;

impl Connection {
    fn answer(&self, world: &World, request: &SimRequest, outcome: Outcome) {
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
        let client = ask_batch(Rc::clone(world), Rc::clone(&connection), random.fork());
        world.executor.spawn(CLIENTS, client);
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
    fn arrive(&self, request: &SimRequest) -> Result<Arrived> {
        let is_batch = request.level == BATCH && !self.breaks(Mutant::BatchUnlimited);
        let deadline = request.deadline.filter(|_| !self.breaks(Mutant::DeadlineIgnored));
        let workload = if is_batch { Workload::Batch } else { Workload::Interactive };
        let level = &self.levels[request.level];
        let request = AdmissionRequest::new(level, Class::Read, workload, 200);
        let request = AdmissionRequest { deadline, ..request };
        self.db.admission().expect("the database has a gate").arrive(request)
    }
}

/// Runs a statement to its answer, unless its client disconnects.
async fn run(world: Rc<World>, connection: Rc<Connection>, request: SimRequest, arrived: Arrived) {
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
    request: &SimRequest,
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
    let is_long = permit.begins_long();
    let work = execute(world, request, Arc::clone(&permit));
    InTurns::new(world, request, permit, is_long, work).await
}
