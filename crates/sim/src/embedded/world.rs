//! The state that all tasks of a run share.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use carnet_base::{EncodingMap, Timestamp};
use carnet_store::Outcome;

use super::setup::Setup;
use crate::client::Client;
use crate::database::Database;
use crate::executor::{Executor, Process, SimClock};
use crate::order::Order;
use crate::random::Random;
use crate::rules::Known;
use crate::run_record::RunRecord;
use crate::workload::Numbers;

/// The process of the database, its workers and its clients.
pub(super) const DATABASE: Process = Process(1);

/// State that all tasks of a run share.
pub(super) struct World {
    pub(super) executor: Executor,
    pub(super) clock: SimClock,
    pub(super) run_record: RunRecord,
    pub(super) numbers: Numbers,
    pub(super) setup: Setup,
    pub(super) order: Order,
    /// Whether a client was told that the store has stopped.
    pub(super) has_stopped: Cell<bool>,
    pub(super) faults: Cell<usize>,
    /// The map of encodings as the first incarnation read it.
    pub(super) first_map: RefCell<Option<EncodingMap>>,
    /// Decisions of each incarnation's commit order, if they can be observed.
    pub(super) known: RefCell<Vec<Arc<Known>>>,
}

impl World {
    /// Returns the decision on a start, if the commit order can be observed. It cannot with the
    /// full API, and there no transaction is left with an unknown outcome.
    pub(super) fn decided(&self, start: Timestamp) -> Option<Outcome> {
        let known = self.known.borrow();
        let commit = known.iter().find_map(|known| known.commit_of(start));
        let outcome = commit.map_or(Outcome::Aborted, Outcome::Committed);
        (!known.is_empty()).then_some(outcome)
    }

    pub(super) fn client<D: Database>(&self, db: &D, random: &mut Random) -> Client<D> {
        Client {
            executor: self.executor.clone(),
            db: db.clone(),
            run_record: self.run_record.clone(),
            isolation: self.setup.isolation,
            may_expire: self.setup.idle.is_some(),
            random: random.fork(),
            process: self.run_record.new_client(),
        }
    }
}
