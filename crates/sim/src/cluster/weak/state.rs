//! The state of the cluster: replicas, agreed values, and messages in flight.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use carnet_base::{Bytes, CommitEntry, Encoding, Timestamp};
use carnet_store::cluster::{CommitRow, CommitTable};
use carnet_store::loader::{Grouping, Limits, Planner};

use super::fault_rates::FaultRates;
use super::replica::{Blind, Replica};
use crate::cluster::agreed::Agreed;
use crate::executor::Process;
use crate::random::Random;

/// Time for which a replica keeps tombstones: longer than any message is in flight, or is resent by
/// a paused process.
const GRACE: Duration = Duration::from_millis(400);
pub(super) const REPLICAS: usize = 3;
pub(super) const QUORUM: usize = 2;
/// Time after which a call without a majority has timed out.
pub(super) const TIMEOUT: Duration = Duration::from_millis(4);

pub(super) struct WeakState {
    pub(super) random: Random,
    pub(super) fault_rates: FaultRates,
    pub(super) replicas: [Replica; REPLICAS],
    pub(super) agreed: Agreed,
    /// Messages in flight to replicas, by time of arrival.
    pub(super) arrivals: BTreeMap<(Duration, u64), (usize, Blind)>,
    pub(super) sent: u64,
    /// Tombstones, by time of collection.
    pub(super) collected: BTreeMap<(Duration, u64), (usize, Blind)>,
    /// Values of swept entries.
    pub(super) swept: BTreeMap<Timestamp, CommitEntry>,
    /// Whether an entry that a round missed outlives the round.
    pub(super) forgets: bool,
    pub(super) cut: BTreeSet<(Process, usize)>,
    pub(super) down: BTreeSet<usize>,
}

/// Outcome of a round.
pub(super) enum Round {
    /// It was not started.
    Failed,
    /// It had no effect, and the caller cannot tell.
    Nothing,
    /// It is in doubt.
    Doubt,
    /// It took effect; the answer may or may not arrive.
    Agreed { is_answered: bool },
}

impl WeakState {
    /// Delivers all due messages, and collects all due tombstones.
    pub(super) fn advance(&mut self, now: Duration) {
        while let Some(first) = self.arrivals.first_entry() {
            let (at, number) = *first.key();
            if at > now {
                break;
            }
            let (replica, message) = first.remove();
            self.replicas[replica].take(&message);
            if matches!(message, Blind::Deletes(_) | Blind::DeletesOlder(_)) {
                self.collected.insert((at + GRACE, number), (replica, message));
            }
        }
        while let Some(first) = self.collected.first_entry() {
            if first.key().0 > now {
                break;
            }
            let (replica, message) = first.remove();
            self.replicas[replica].collect(&message);
        }
        self.agreed.advance(now);
    }

    fn reaches(&self, process: Process, replica: usize) -> bool {
        !self.down.contains(&replica) && !self.cut.contains(&(process, replica))
    }

    fn reachable(&self, process: Process) -> Vec<usize> {
        (0..REPLICAS).filter(|replica| self.reaches(process, *replica)).collect()
    }

    /// Draws a majority of the replicas that a process reaches.
    pub(super) fn quorum(&mut self, process: Process) -> Option<[usize; QUORUM]> {
        let reachable = self.reachable(process);
        let first = self.random.below(reachable.len() as u64);
        let first = usize::try_from(first).unwrap_or_default();
        let step = self.random.count(1, reachable.len().saturating_sub(1).max(1));
        (reachable.len() >= QUORUM)
            .then(|| [reachable[first], reachable[(first + step) % reachable.len()]])
    }

    pub(super) fn delay(&mut self) -> Duration {
        self.random.micros(20, 400)
    }

    /// Sends a blind write; returns when `awaited` replicas will have it, if they will.
    pub(super) fn send(
        &mut self,
        process: Process,
        now: Duration,
        message: &Blind,
        awaited: usize,
    ) -> Option<Duration> {
        let mut arrivals = Vec::new();
        for replica in 0..REPLICAS {
            let is_lost = self.random.below(1000) < self.fault_rates.lost;
            if is_lost || !self.reaches(process, replica) {
                continue;
            }
            let is_late = self.random.below(1000) < self.fault_rates.late;
            let late = if is_late { self.random.micros(1_000, 60_000) } else { Duration::ZERO };
            let at = now + self.delay() + late;
            self.sent += 1;
            self.arrivals.insert((at, self.sent), (replica, message.clone()));
            arrivals.push(at);
        }
        arrivals.sort_unstable();
        arrivals.get(awaited - 1).copied().filter(|at| *at < now + TIMEOUT)
    }

    /// Draws a grouping of a read of many cells into requests.
    pub(super) fn draw_planner(&mut self) -> Planner {
        let (cells, names_max) = (self.random.count(1, 6), self.random.count(1, 4));
        let grouping = self.random.pick(&[Grouping::Rows, Grouping::Columns]);
        Planner { grouping, limits: Limits::both(cells), names_max, requests_max: 4 }
    }

    pub(super) fn draw_round(&mut self, process: Process) -> Round {
        if self.reachable(process).len() < QUORUM {
            return if self.random.percent(50) { Round::Nothing } else { Round::Doubt };
        }
        if self.random.below(1000) >= self.fault_rates.unanswered {
            return Round::Agreed { is_answered: true };
        }
        match self.random.below(8) {
            0 => Round::Failed,
            1 | 2 => Round::Nothing,
            3 | 4 => Round::Agreed { is_answered: false },
            _ => Round::Doubt,
        }
    }

    /// Records the values of entries about to be swept: their clients may still ask about them.
    pub(super) fn remember(&mut self, name: &CommitRow, columns: &[Bytes]) {
        let row = self.agreed.seen_row(name, |_| false);
        let encoding = match name.table {
            CommitTable::V2 => Encoding::V2,
            CommitTable::V3 => Encoding::V3,
        };
        for column in columns {
            let start = encoding.start_of(&name.row, column).ok();
            let said = start.zip(row.and_then(|row| row.entries.get(column)));
            let entry = said.and_then(|(start, value)| encoding.decode(start, value).ok());
            if let Some((start, entry)) = start.zip(entry) {
                self.swept.entry(start).or_insert(entry);
            }
        }
    }
}
