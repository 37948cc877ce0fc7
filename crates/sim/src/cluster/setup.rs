//! Settings drawn from a seed before a run begins, and settings that expose rare bugs.

use std::time::Duration;

use carnet_base::Encoding;
use carnet_sequencer::sweep::SweepOptions;
use carnet_sequencer::{LeaseOptions, Options};
use carnet_txn::{IdleLimits, Isolation};

use super::fault::Fault;
use super::weak::FaultRates;
use crate::mutant::Mutant;
use crate::random::Random;
use crate::workload::expiring::CLOCK_ERROR_SECONDS;

const MILLISECOND: Duration = Duration::from_millis(1);

/// Settings of a run.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) isolation: Isolation,
    pub(super) clients: usize,
    pub(super) think_micros: u64,
    pub(super) transactions: usize,
    pub(super) faults: usize,
    pub(super) fault_rates: FaultRates,
    pub(super) lost: u64,
    pub(super) options: Options,
    pub(super) conflict_bytes: usize,
    /// Whether an entry that a round missed may live on past a fence.
    pub(super) forgets: bool,
    /// Idle limits of transactions, if they end when idle.
    pub(super) idle: Option<IdleLimits>,
    /// Whether clients use the API of the `carnet` crate.
    pub(super) facade: bool,
    /// Errors of the clocks of the processes.
    pub(super) clock_micros: [i64; 3],
    /// Kinds of faults, injected one at a time.
    pub(super) fault_kinds: &'static [Fault],
}

impl Setup {
    pub(super) fn draw(random: &mut Random) -> Self {
        let isolation = random.isolation();
        let renew_every = random.micros(2_000, 10_000);
        Self {
            isolation,
            clients: random.count(2, 6),
            think_micros: random.pick(&[100, 1_000, 3_000]),
            transactions: random.count(1_000, 1_200),
            faults: random.count(6, 12),
            fault_rates: FaultRates {
                lost: random.pick(&[0, 10, 50]),
                late: random.pick(&[0, 20, 200]),
                unanswered: random.pick(&[0, 20, 100]),
            },
            lost: random.pick(&[0, 10, 50]),
            options: Options {
                lease: LeaseOptions {
                    renew_every,
                    timeout: renew_every * 3,
                    retry_after: Duration::from_micros(500),
                    bound_step: random.pick(&[100, 1_000, 100_000]),
                },
                encoding: Encoding::V3,
                coordination_step: random.pick(&[200_000, 1_000_000, 5_000_000]),
                call_timeout: Duration::from_millis(20),
                leader_timeout: Duration::from_millis(100),
                client_timeout: Duration::from_millis(200),
                row_starts: random.pick(&[1, 4, 4096]),
                cell_cache_bytes: random.pick(&[0, 8 << 10, 1 << 20]),
                sweep: SweepOptions {
                    every: random.pick(&[Duration::ZERO, MILLISECOND * 3, MILLISECOND * 20]),
                    retention: random.pick(&[Duration::ZERO, MILLISECOND * 10, MILLISECOND * 100]),
                    page_cells: random.pick(&[1, 7, 500]),
                    duty_percent: random.pick(&[30, 100]),
                },
            },
            conflict_bytes: random.pick(&[16 << 10, 64 << 20]),
            forgets: random.percent(30),
            idle: random.idle(),
            clock_micros: [0; 3],
            fault_kinds: &Fault::ALL,
            facade: random.percent(30),
        }
    }

    /// Changes the settings for a workload that depends on the time.
    pub(super) fn run_with_clocks(&mut self) {
        self.fault_kinds = &Fault::WITHOUT_CLOCKS;
        let wrong = CLOCK_ERROR_SECONDS * 1_000_000;
        self.clock_micros = [0, wrong.cast_signed(), -wrong.cast_signed()];
    }

    /// Changes the settings to expose a bug that random settings would hide for hundreds of seeds.
    pub(super) fn suit(&mut self, mutant: Mutant) {
        match mutant {
            Mutant::AbsenceNotSettled | Mutant::RereadLeftOut => {
                self.sweep_beside_lost_answers(mutant);
            }
            Mutant::TombstoneBelowDeltaPassed
            | Mutant::DeltasSweptWithoutRow
            | Mutant::DeltasReadOnce => self.sweep_all_the_time(),
            Mutant::TouchLeftOut => self.leave_entries_behind(),
            Mutant::ChainsNotFolded => self.options.sweep.every = Duration::ZERO,
            Mutant::ExpiredKept | Mutant::ExpiredByOneClock => self.sweep_all_the_time(),
            _ => {}
        }
    }

    /// The sweep runs all the time, and answers to rounds are lost.
    fn sweep_beside_lost_answers(&mut self, mutant: Mutant) {
        self.forgets = mutant == Mutant::AbsenceNotSettled;
        self.fault_rates.unanswered = 100;
        self.options.row_starts = 1;
        self.sweep_all_the_time();
    }

    fn sweep_all_the_time(&mut self) {
        self.options.sweep.every = MILLISECOND * 3;
        self.options.sweep.retention = Duration::ZERO;
    }

    /// Leaders lose their replicas again and again, with entries in flight to every row:
    ///
    /// ```text
    ///   a leader is cut off     its entries are in doubt, each on one replica
    ///   the next one fences     a row in two rounds: one entry of nine is missed by both
    ///   a reader's majority     has that replica: without a touch the reader trusts its answer
    ///   another reader's        lacks it: it puts the abort marker, and one round of three, which
    ///                           misses the entry as well, applies it
    /// ```
    ///
    /// Any other round on the row would settle the entry, so the sweep is disabled.
    fn leave_entries_behind(&mut self) {
        self.isolation = Isolation::StrictSerializable;
        self.forgets = true;
        self.fault_kinds = &[Fault::CutFromReplicas];
        self.faults = 40;
        self.idle = None;
        (self.clients, self.think_micros, self.lost) = (9, 100, 0);
        self.fault_rates = FaultRates { lost: 0, late: 0, unanswered: 50 };
        self.options.lease.renew_every = MILLISECOND * 6;
        self.options.lease.timeout = MILLISECOND * 18;
        self.options.lease.bound_step = 100_000;
        self.options.row_starts = 1;
        self.options.sweep.every = Duration::from_secs(1);
        self.options.sweep.retention = Duration::from_secs(1);
    }
}
