//! The state that all tasks of a run share.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use carnet::{Db, Durability, RawTable};
use carnet_admission::{Class, Figures, Level};
use carnet_base::Moment;
use carnet_storage::disk::sim::SimDisk;

use super::connection::Connection;
use super::setup::{LEVELS, Setup, levels};
use super::tally::Tally;
use super::turns::Turns;
use crate::executor::{Executor, Process, SimClock};
use crate::mutant::Mutant;
use crate::processors::Processor;
use crate::random::Random;

pub(super) const SERVER: Process = Process(1);
pub(super) const CLIENTS: Process = Process(2);
/// Number of rows of the table.
pub(super) const ROWS: u64 = 1_000;

/// State that all tasks of a run share.
pub(super) struct World {
    pub(super) executor: Executor,
    pub(super) clock: SimClock,
    pub(super) processor: Processor,
    pub(super) db: Db,
    pub(super) table: RawTable,
    pub(super) setup: Setup,
    pub(super) mutant: Option<Mutant>,
    pub(super) levels: [Level; LEVELS],
    pub(super) turns: Turns,
    pub(super) tally: RefCell<Tally>,
    pub(super) connections: RefCell<[Vec<Rc<Connection>>; LEVELS]>,
    pub(super) opened: Cell<u64>,
    /// Number of clients that disconnected.
    pub(super) left: Cell<usize>,
    /// End of the last pause of the store.
    pub(super) store_paused_until: Cell<Moment>,
    /// Whether the load has ended.
    pub(super) is_over: Cell<bool>,
}

impl World {
    pub(super) async fn open(
        executor: Executor,
        setup: Setup,
        mutant: Option<Mutant>,
        random: &mut Random,
    ) -> carnet::Result<Self> {
        let clock = executor.clock();
        let db = Db::builder()
            .durability(Durability::None)
            .admission(setup.limits(mutant))
            .clock(Arc::new(clock.clone()))
            .spawn(Arc::new(executor.spawner(SERVER)))
            .open_on(Arc::new(SimDisk::new(random.seed())))?;
        let table = db.raw_async("sim.rows").await?;
        let rows = &table;
        db.run(|tx| async move {
            for number in 0..ROWS {
                rows.put(&tx, key(number), "value").await?;
            }
            Ok(())
        })
        .await?;
        executor.give_processors(SERVER, setup.processors);
        Ok(Self {
            clock,
            processor: executor.processor(),
            db,
            table,
            mutant,
            levels: levels(mutant),
            turns: Turns::new(setup.processors),
            setup,
            executor,
            tally: RefCell::default(),
            connections: RefCell::default(),
            opened: Cell::new(0),
            left: Cell::new(0),
            store_paused_until: Cell::new(Moment::default()),
            is_over: Cell::new(false),
        })
    }

    pub(super) fn breaks(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// Returns the gate's figures of each level.
    pub(super) fn figures(&self) -> [Figures; LEVELS] {
        let admission = self.db.admission().expect("the database has a gate");
        let by_name = admission.figures_of_levels(Class::Read);
        std::array::from_fn(|level| {
            let is_it = |(name, _): &&(Arc<str>, Figures)| *name == self.levels[level].name;
            by_name.iter().find(is_it).map(|(_, figures)| *figures).unwrap_or_default()
        })
    }

    pub(super) fn check_gate(&self) {
        let limits = self.setup.limits(self.mutant).statements;
        self.tally.borrow_mut().check_gate(limits, &self.figures());
    }

    pub(super) fn rate(&self, factor: f64) -> f64 {
        self.setup.capacity() * factor
    }
}

/// Returns the key of a row.
pub(super) const fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}
