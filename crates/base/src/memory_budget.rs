//! Memory budgets: the bytes that a part of a process holds, and their maximum.
//!
//! ```text
//!   server ┬─ requests ── of an address ──┐
//!          └─ answers ─── of a statement ─┴─▶ Charge: given back when it is dropped
//! ```
//!
//! A charge to a budget counts in its parents as well. No caller waits for memory: a charge that
//! does not fit is refused, because waiting statements would hold the memory that others wait for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A budget of bytes, standalone or within another budget.
#[derive(Clone, Debug)]
pub struct MemoryBudget(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    used: AtomicUsize,
    max: usize,
    parent: Option<MemoryBudget>,
}

impl MemoryBudget {
    /// Creates a budget of `max` bytes.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self::within(max, None)
    }

    /// Creates a budget of `max` bytes within this one.
    #[must_use]
    pub fn child(&self, max: usize) -> Self {
        Self::within(max, Some(self.clone()))
    }

    fn within(max: usize, parent: Option<Self>) -> Self {
        Self(Arc::new(Inner { used: AtomicUsize::new(0), max, parent }))
    }

    /// Takes `bytes` until the [`Charge`] is dropped, or returns `None` if they do not fit.
    #[must_use]
    pub fn charge(&self, bytes: usize) -> Option<Charge> {
        let mut charge = Charge { budget: self.clone(), bytes: 0 };
        charge.grow_to(bytes).then_some(charge)
    }

    /// Returns `true` if `bytes` would fit now. Takes nothing.
    #[must_use]
    pub fn fits(&self, bytes: usize) -> bool {
        self.used().checked_add(bytes).is_some_and(|sum| sum <= self.0.max)
            && self.0.parent.as_ref().is_none_or(|parent| parent.fits(bytes))
    }

    /// Returns the size of the budget.
    #[must_use]
    pub fn max(&self) -> usize {
        self.0.max
    }

    /// Returns the number of bytes taken.
    #[must_use]
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Returns the outermost budget that this one is within, or this one.
    #[must_use]
    pub fn root(&self) -> &Self {
        self.0.parent.as_ref().map_or(self, Self::root)
    }

    fn take(&self, bytes: usize) -> bool {
        // Relaxed: the counter guards no other memory.
        let taken = self.0.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(bytes).filter(|sum| *sum <= self.0.max)
        });
        if taken.is_err() {
            return false;
        }
        if self.0.parent.as_ref().is_some_and(|parent| !parent.take(bytes)) {
            self.0.used.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        true
    }

    fn force(&self, bytes: usize) {
        self.0.used.fetch_add(bytes, Ordering::Relaxed);
        if let Some(parent) = &self.0.parent {
            parent.force(bytes);
        }
    }

    fn give_back(&self, bytes: usize) {
        self.0.used.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(parent) = &self.0.parent {
            parent.give_back(bytes);
        }
    }
}

/// Bytes taken from a [`MemoryBudget`]; dropping it gives them back.
#[derive(Debug)]
pub struct Charge {
    budget: MemoryBudget,
    bytes: usize,
}

impl Charge {
    /// Takes more bytes, up to `bytes` in all. Returns `false`, and takes nothing, if they do not
    /// fit.
    #[must_use]
    pub fn grow_to(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let fits = more == 0 || self.budget.take(more);
        if fits {
            self.bytes += more;
        }
        fits
    }

    /// Moves the bytes into another charge; none are left in this one.
    #[must_use]
    pub fn take(&mut self) -> Self {
        Self { budget: self.budget.clone(), bytes: std::mem::take(&mut self.bytes) }
    }

    /// Sets the charge to memory that is in use already: it counts even beyond the limit.
    pub fn set(&mut self, bytes: usize) {
        if bytes > self.bytes {
            self.budget.force(bytes - self.bytes);
        } else {
            self.budget.give_back(self.bytes - bytes);
        }
        self.bytes = bytes;
    }

    /// Returns the number of charged bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rng, SeededRng};

    #[test]
    fn a_charge_that_does_not_fit_takes_nothing() {
        let budget = MemoryBudget::new(100);
        let first = budget.charge(60).unwrap();
        assert!(budget.charge(41).is_none());
        assert!(budget.charge(usize::MAX).is_none());
        assert_eq!(budget.used(), 60);
        let second = budget.charge(40).unwrap();
        drop(first);
        drop(second);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn growing_charge_takes_the_difference() {
        let budget = MemoryBudget::new(100);
        let mut charge = budget.charge(0).unwrap();
        assert!(charge.grow_to(70));
        assert!(charge.grow_to(30), "it never shrinks");
        assert_eq!(budget.used(), 70);
        assert!(!charge.grow_to(101));
        assert_eq!(budget.used(), 70);
        assert!(budget.fits(30) && !budget.fits(31));
        drop(charge);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn bytes_that_are_there_count_beyond_the_limit() {
        let all = MemoryBudget::new(100);
        let part = all.child(50);
        let mut charge = part.charge(40).unwrap();
        charge.set(120);
        assert_eq!((part.used(), all.used()), (120, 120));
        assert_eq!((part.root().max(), all.root().max()), (100, 100));
        assert!(all.charge(1).is_none() && !charge.grow_to(121));
        charge.set(10);
        assert_eq!((part.used(), all.used(), charge.bytes()), (10, 10, 10));
        let taken = charge.take();
        drop(charge);
        assert_eq!((part.used(), all.used()), (10, 10));
        drop(taken);
        assert_eq!((part.used(), all.used()), (0, 0));
    }

    /// Charges of two levels that grow, shrink and end in any order.
    #[test]
    fn charges_return_to_zero() {
        for seed in 0..50 {
            let mut rng = SeededRng::new(seed);
            let all = MemoryBudget::new(1_000);
            let parts: Vec<_> = (0..3).map(|_| all.child(500)).collect();
            let mut charges: Vec<Charge> = Vec::new();
            for _ in 0..300 {
                let at = usize::try_from(rng.below(3)).unwrap();
                let bytes = usize::try_from(rng.below(400)).unwrap();
                match rng.below(4) {
                    0 => charges.extend(parts[at].charge(bytes)),
                    1 if !charges.is_empty() => drop(charges.swap_remove(bytes % charges.len())),
                    2 => {
                        charges.iter_mut().all(|charge| charge.grow_to(bytes / 20));
                    }
                    _ => charges.iter_mut().take(1).for_each(|charge| charge.set(bytes / 4)),
                }
                let sum: usize = charges.iter().map(Charge::bytes).sum();
                assert_eq!(all.used(), sum, "seed {seed}");
            }
            charges.clear();
            let used: Vec<_> = parts.iter().map(MemoryBudget::used).collect();
            assert_eq!((all.used(), used), (0, vec![0; 3]), "seed {seed}");
        }
    }

    #[test]
    fn child_is_bounded_by_itself_and_its_parent() {
        let all = MemoryBudget::new(100);
        let (one, other) = (all.child(60), all.child(60));
        assert!(one.charge(61).is_none());
        let first = one.charge(60).unwrap();
        assert!(other.charge(41).is_none() && !other.fits(41));
        assert_eq!((one.used(), other.used(), all.used()), (60, 0, 60));
        let second = other.charge(40).unwrap();
        assert_eq!(all.used(), 100);
        drop((first, second));
        assert_eq!((one.used(), other.used(), all.used()), (0, 0, 0));
    }
}
