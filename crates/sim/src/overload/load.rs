//! Clients: those that ask by the clock, those that wait for answers, and those that go away or read
//! late.

use std::rc::Rc;
use std::time::Duration;

use carnet_base::{Clock, Moment};

use super::World;
use super::server::Connection;
use super::setup::{BATCH, GOLD, SILVER};
use crate::dice::Dice;

/// Requests that a batch client has under way.
const BATCH_UNDER_WAY: usize = 4;
/// Requests a second of a slow reader.
const SLOW_RATE: f64 = 100.0;

/// What a statement reads.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reads {
    Keys { first: u64, count: u64 },
    Range { first: u64, count: u64 },
}

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) number: usize,
    pub(super) level: usize,
    pub(super) reads: Reads,
    pub(super) deadline: Option<Moment>,
}

impl World {
    fn send(&self, connection: &Connection, level: usize, due: Moment, dice: &mut Dice) {
        let (setup, rows) = (&self.setup, super::ROWS);
        let first = dice.below(rows);
        let reads = if level == BATCH {
            Reads::Range { first, count: dice.between(setup.scan, 3 * setup.scan) }
        } else {
            Reads::Keys { first, count: dice.between(setup.keys.0, setup.keys.1) }
        };
        let is_short = level != BATCH && dice.below(setup.deadline_every) == 0;
        let deadline = is_short.then(|| due.after(dice.micros(10_000, 60_000)));
        let number = self.tally.borrow_mut().begin(level, due, connection.number);
        connection.receive(Request { number, level, reads, deadline });
    }
}

/// Asks `rate` times a second for a time, whether answers come or not.
pub(super) async fn offer(
    world: Rc<World>,
    level: usize,
    rate: f64,
    time: Duration,
    mut dice: Dice,
) {
    let mean = Duration::from_secs_f64(1.0 / rate);
    let mut due = world.clock.now();
    let ends = due.after(time);
    while due < ends {
        let now = world.clock.now();
        if now < due {
            world.executor.sleep(due.since(now)).await;
        }
        let now = world.clock.now();
        while due <= now && due < ends {
            let at = dice.count(0, world.setup.connections - 1);
            let connection = Rc::clone(&world.connections.borrow()[level][at]);
            world.send(&connection, level, due, &mut dice);
            due = due.after(mean * u32::try_from(dice.between(50, 150)).unwrap_or(100) / 100);
        }
    }
    world.executor.sleep(ends.since(world.clock.now())).await;
}

/// Has a connection of batch statements as many under way as it may, until the run is over or it is
/// closed.
pub(super) async fn ask_batch(world: Rc<World>, connection: Rc<Connection>, mut dice: Dice) {
    loop {
        let is_over = || connection.is_closed.get() || world.is_over.get();
        connection.until(|it| is_over() || it.under_way.get() < BATCH_UNDER_WAY).await;
        if is_over() {
            return;
        }
        world.send(&connection, BATCH, world.clock.now(), &mut dice);
        // A client sends one request after the other.
        world.executor.sleep(Duration::from_micros(100)).await;
    }
}

/// Asks now and then and reads the answers late.
pub(super) async fn ask_slowly(world: Rc<World>, connection: Rc<Connection>, mut dice: Dice) {
    let between = Duration::from_secs_f64(1.0 / SLOW_RATE);
    while !world.is_over.get() {
        world.send(&connection, SILVER, world.clock.now(), &mut dice);
        world.executor.sleep(between).await;
    }
}

pub(super) async fn read_slowly(world: Rc<World>, connection: Rc<Connection>) {
    loop {
        connection.until(|it| !it.unread.borrow().is_empty()).await;
        world.executor.sleep(world.setup.slow_read).await;
        let read = connection.unread.borrow_mut().pop_front();
        if let Some((number, outcome)) = read {
            world.tally.borrow_mut().answer(number, outcome, world.clock.now());
            connection.wake();
        }
    }
}

/// Has clients go away in the middle of what they asked for; others come in their places.
pub(super) async fn leave(world: Rc<World>, mut dice: Dice) {
    while !world.is_over.get() {
        world.executor.sleep(world.setup.leave_every).await;
        let level = dice.pick(&[GOLD, SILVER, BATCH]);
        let at = dice.count(0, world.setup.connections - 1);
        let fresh = super::server::open(&world, level, false, &mut dice);
        let gone = std::mem::replace(&mut world.connections.borrow_mut()[level][at], fresh);
        world.tally.borrow_mut().close(gone.number);
        world.left.set(world.left.get() + 1);
        gone.close();
    }
}
