//! Clients: with a fixed rate of requests, disconnecting, or reading late.

use std::rc::Rc;
use std::time::Duration;

use carnet_base::Clock;

use super::connection::Connection;
use super::server::open;
use super::setup::{BATCH, GOLD, SILVER};
use super::world::World;
use crate::random::Random;

/// Requests per second of a slow reader.
const SLOW_RATE: f64 = 100.0;

/// Sends requests at a fixed rate for a time, without waiting for answers.
pub(super) async fn offer(
    world: Rc<World>,
    level: usize,
    rate: f64,
    time: Duration,
    mut random: Random,
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
            let at = random.count(0, world.setup.connections - 1);
            let connection = Rc::clone(&world.connections.borrow()[level][at]);
            world.send(&connection, level, due, &mut random);
            due = due.after(mean * u32::try_from(random.between(50, 150)).unwrap_or(100) / 100);
        }
    }
    world.executor.sleep(ends.since(world.clock.now())).await;
}

/// Sends requests from time to time and reads the answers late.
pub(super) async fn ask_slowly(world: Rc<World>, connection: Rc<Connection>, mut random: Random) {
    let between = Duration::from_secs_f64(1.0 / SLOW_RATE);
    while !world.is_over.get() {
        world.send(&connection, SILVER, world.clock.now(), &mut random);
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

/// Disconnects clients with requests in flight; new ones take their places.
pub(super) async fn leave(world: Rc<World>, mut random: Random) {
    while !world.is_over.get() {
        world.executor.sleep(world.setup.leave_every).await;
        let level = random.pick(&[GOLD, SILVER, BATCH]);
        let at = random.count(0, world.setup.connections - 1);
        let fresh = open(&world, level, false, &mut random);
        let gone = std::mem::replace(&mut world.connections.borrow_mut()[level][at], fresh);
        world.tally.borrow_mut().close(gone.number);
        world.left.set(world.left.get() + 1);
        gone.close();
    }
}
