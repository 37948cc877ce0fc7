//! Clients of batch statements.

use std::rc::Rc;
use std::time::Duration;

use carnet_base::Clock;

use super::connection::Connection;
use super::setup::BATCH;
use super::world::World;
use crate::random::Random;

/// Number of requests that a batch client has in flight.
const BATCH_UNDER_WAY: usize = 4;

/// Keeps the maximum number of batch statements of a connection in flight, until the run is over or
/// the connection is closed.
pub(super) async fn ask_batch(world: Rc<World>, connection: Rc<Connection>, mut random: Random) {
    loop {
        let is_over = || connection.is_closed.get() || world.is_over.get();
        connection.until(|it| is_over() || it.under_way.get() < BATCH_UNDER_WAY).await;
        if is_over() {
            return;
        }
        world.send(&connection, BATCH, world.clock.now(), &mut random);
        // A client sends one request after the other.
        world.executor.sleep(Duration::from_micros(100)).await;
    }
}
