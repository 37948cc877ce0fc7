//! What a seed draws before a run begins, and what shows a break that chance alone would hide.

use std::time::Duration;

use carnet_base::Encoding;
use carnet_sequencer::sweep::SweepOptions;
use carnet_sequencer::{LeaseOptions, Options};
use carnet_txn::{IdleLimits, Isolation};

use super::faults::Fault;
use super::weak::Weather;
use crate::dice::Dice;
use crate::mutant::Mutant;

const MILLISECOND: Duration = Duration::from_millis(1);

/// How a run is set up.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) isolation: Isolation,
    pub(super) clients: usize,
    pub(super) think_micros: u64,
    pub(super) transactions: usize,
    pub(super) faults: usize,
    pub(super) weather: Weather,
    pub(super) lost: u64,
    pub(super) options: Options,
    pub(super) conflict_bytes: usize,
    /// Whether an entry that a round did not see may live on past a fence.
    pub(super) forgets: bool,
    /// For how long a transaction may be left alone, where that ends it.
    pub(super) idle: Option<IdleLimits>,
    /// What goes wrong, one of these at a time.
    pub(super) troubles: &'static [Fault],
}

impl Setup {
    pub(super) fn draw(dice: &mut Dice) -> Self {
        let isolation = match dice.below(10) {
            0 => Isolation::Snapshot,
            1 => Isolation::Serializable,
            _ => Isolation::StrictSerializable,
        };
        let renew_every = dice.micros(2_000, 10_000);
        Self {
            isolation,
            clients: dice.count(2, 6),
            think_micros: dice.pick(&[100, 1_000, 3_000]),
            transactions: dice.count(1_000, 1_200),
            faults: dice.count(6, 12),
            weather: Weather {
                lost: dice.pick(&[0, 10, 50]),
                late: dice.pick(&[0, 20, 200]),
                unanswered: dice.pick(&[0, 20, 100]),
            },
            lost: dice.pick(&[0, 10, 50]),
            options: Options {
                lease: LeaseOptions {
                    renew_every,
                    timeout: renew_every * 3,
                    retry_after: Duration::from_micros(500),
                    bound_step: dice.pick(&[100, 1_000, 100_000]),
                },
                encoding: Encoding::V3,
                coordination_step: dice.pick(&[200_000, 1_000_000, 5_000_000]),
                call_timeout: Duration::from_millis(20),
                patience: Duration::from_millis(100),
                client_timeout: Duration::from_millis(200),
                row_starts: dice.pick(&[1, 4, 4096]),
                cell_cache_bytes: dice.pick(&[0, 8 << 10, 1 << 20]),
                sweep: SweepOptions {
                    every: dice.pick(&[Duration::ZERO, MILLISECOND * 3, MILLISECOND * 20]),
                    retention: dice.pick(&[Duration::ZERO, MILLISECOND * 10, MILLISECOND * 100]),
                    page_cells: dice.pick(&[1, 7, 500]),
                    duty_percent: dice.pick(&[30, 100]),
                },
            },
            conflict_bytes: dice.pick(&[16 << 10, 64 << 20]),
            forgets: dice.percent(30),
            idle: dice.idle(),
            troubles: &Fault::ALL,
        }
    }

    /// Takes what shows a break that chance alone would hide for hundreds of seeds.
    pub(super) fn suit(&mut self, mutant: Mutant) {
        match mutant {
            Mutant::AbsenceNotSettled | Mutant::RereadLeftOut => {
                self.sweep_beside_lost_answers(mutant);
            }
            Mutant::TouchLeftOut => self.leave_entries_behind(),
            _ => {}
        }
    }

    /// The sweep all the time, and rounds whose answers are lost.
    fn sweep_beside_lost_answers(&mut self, mutant: Mutant) {
        self.forgets = mutant == Mutant::AbsenceNotSettled;
        self.weather.unanswered = 100;
        self.options.row_starts = 1;
        self.options.sweep.every = MILLISECOND * 3;
        self.options.sweep.retention = Duration::ZERO;
    }

    /// Leaders that lose their replicas again and again, with entries under way to every row:
    ///
    /// ```text
    ///   a leader is cut off     its entries are in doubt, each on one replica
    ///   the next one fences     a row in two rounds: one entry of nine is seen by neither
    ///   a reader's majority     has that replica: it believes what it sees, where nobody touches
    ///   another reader's        has not: it puts the abort marker, and one round of three, which
    ///                           does not see the entry either, takes it
    /// ```
    ///
    /// Any other round on the row would have ended the doubt: the sweep rests.
    fn leave_entries_behind(&mut self) {
        self.isolation = Isolation::StrictSerializable;
        self.forgets = true;
        self.troubles = &[Fault::CutFromReplicas];
        self.faults = 40;
        self.idle = None;
        (self.clients, self.think_micros, self.lost) = (9, 100, 0);
        self.weather = Weather { lost: 0, late: 0, unanswered: 50 };
        self.options.lease.renew_every = MILLISECOND * 6;
        self.options.lease.timeout = MILLISECOND * 18;
        self.options.lease.bound_step = 100_000;
        self.options.row_starts = 1;
        self.options.sweep.every = Duration::from_secs(1);
        self.options.sweep.retention = Duration::from_secs(1);
    }
}
