//! Fair queuing of background classes by shares.

use std::collections::VecDeque;

use super::queued::Queued;
use super::request::Id;

/// Number of background classes.
pub(super) const CLASSES: usize = 3;

/// Minimum part of each class of the total of all classes, in thousandths.
const FLOOR_PERMILLE: u64 = 50;

/// Maximum backlog of a class that was idle, in nanoseconds at equal shares.
const BEHIND_MAX: u64 = 5_000_000;

/// Queues of background requests.
#[derive(Debug)]
pub(super) struct Shares {
    shares: [u64; CLASSES],
    queues: [VecDeque<Queued>; CLASSES],
    /// Device time of each class, divided by its shares.
    taken: [u64; CLASSES],
}

impl Shares {
    pub(super) fn new(shares: [u64; CLASSES]) -> Self {
        Self { shares: shares.map(|it| it.max(1)), queues: Default::default(), taken: [0; CLASSES] }
    }

    pub(super) fn push(&mut self, class: usize, queued: Queued) {
        if self.queues[class].is_empty() {
            let least = self.active().map(|active| self.taken[active]).min();
            if let Some(least) = least {
                self.taken[class] = self.taken[class].max(least.saturating_sub(BEHIND_MAX));
            }
        }
        self.queues[class].push_back(queued);
    }

    /// Returns the class whose request is next.
    pub(super) fn next(&self) -> Option<usize> {
        self.active().min_by_key(|class| (self.taken[*class], *class))
    }

    /// Returns the first request of a class.
    pub(super) fn head(&mut self, class: usize) -> Option<&mut Queued> {
        self.queues[class].front_mut()
    }

    /// Charges a class for a piece, and removes its first request after the last piece.
    pub(super) fn took(&mut self, class: usize, cost: u64, is_last: bool) {
        let total: u64 = self.active().map(|active| self.shares[active]).sum();
        let shares = self.shares[class].max(total * FLOOR_PERMILLE / 1000).max(1);
        self.taken[class] = self.taken[class].saturating_add(cost.saturating_mul(1000) / shares);
        if is_last {
            self.queues[class].pop_front();
        }
    }

    pub(super) fn remove(&mut self, id: Id) -> Option<Queued> {
        self.queues.iter_mut().find_map(|queue| {
            let at = queue.iter().position(|queued| queued.id == id)?;
            queue.remove(at)
        })
    }

    pub(super) fn len(&self, class: usize) -> usize {
        self.queues[class].len()
    }

    fn active(&self) -> impl Iterator<Item = usize> {
        (0..CLASSES).filter(|class| !self.queues[*class].is_empty())
    }
}
