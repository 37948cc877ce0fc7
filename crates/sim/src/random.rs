//! Random draws.

use std::time::Duration;

use carnet_base::{Rng, SeededRng};
use carnet_txn::{IdleLimits, Isolation};

/// A source of random draws for one client or one adversary, so that the draws of one do not change
/// those of another.
#[derive(Clone, Debug)]
pub(crate) struct Random(SeededRng);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(SeededRng::new(seed))
    }

    /// Returns an independent source.
    pub(crate) fn fork(&mut self) -> Self {
        Self::new(self.0.next_u64())
    }

    pub(crate) fn seed(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    /// Draws a number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.below(high - low + 1)
    }

    pub(crate) fn count(&mut self, low: usize, high: usize) -> usize {
        let drawn = self.between(low as u64, high as u64);
        usize::try_from(drawn).unwrap_or(high)
    }

    pub(crate) fn percent(&mut self, chance: u64) -> bool {
        self.0.below(100) < chance
    }

    pub(crate) fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.count(0, all.len() - 1)]
    }

    pub(crate) fn micros(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_micros(self.between(low, high))
    }

    /// Draws an isolation level, mostly the strictest.
    pub(crate) fn isolation(&mut self) -> Isolation {
        match self.below(10) {
            0 => Isolation::Snapshot,
            1 => Isolation::Serializable,
            _ => Isolation::StrictSerializable,
        }
    }

    /// Draws idle limits for transactions, in some runs.
    pub(crate) fn idle(&mut self) -> Option<IdleLimits> {
        let millis = [1, 4, 15].map(Duration::from_millis);
        let (writer, reader) = (self.pick(&millis), self.pick(&millis));
        self.percent(30).then_some(IdleLimits { writer, reader, ..IdleLimits::NONE })
    }

    pub(crate) fn rng(&mut self) -> &mut SeededRng {
        &mut self.0
    }
}
