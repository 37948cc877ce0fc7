//! Sends requests.

use carnet_base::Moment;

use super::connection::Connection;
use super::request::{Reads, SimRequest};
use super::setup::BATCH;
use super::world::{ROWS, World};
use crate::random::Random;

impl World {
    pub(super) fn send(
        &self,
        connection: &Connection,
        level: usize,
        due: Moment,
        random: &mut Random,
    ) {
        let (setup, rows) = (&self.setup, ROWS);
        let first = random.below(rows);
        let reads = if level == BATCH {
            Reads::Range { first, count: random.between(setup.scan, 3 * setup.scan) }
        } else {
            Reads::Keys { first, count: random.between(setup.keys.0, setup.keys.1) }
        };
        let is_short = level != BATCH && random.below(setup.deadline_every) == 0;
        let deadline = is_short.then(|| due.after(random.micros(10_000, 60_000)));
        let number = self.tally.borrow_mut().begin(level, due, connection.number);
        connection.receive(SimRequest { number, level, reads, deadline });
    }
}
