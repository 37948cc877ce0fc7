//! A bound on the request bytes that the whole server, and one address, hold at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the bytes of requests that have arrived and are not answered yet.
///
/// A frame is charged for its bytes as they arrive, before more of them are kept; an announced
/// length costs nothing. A frame that does not fit is skipped as it arrives and answered with
/// "overloaded".
///
/// Budgets form a tree: what is charged to a [`child`](Self::child) is charged to its parent too.
#[derive(Clone, Debug)]
pub struct ByteBudget(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    used: AtomicUsize,
    max: usize,
    parent: Option<ByteBudget>,
}

impl ByteBudget {
    /// Makes a budget of that many bytes.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self::within(max, None)
    }

    /// Makes a budget of that many bytes within this one.
    #[must_use]
    pub fn child(&self, max: usize) -> Self {
        Self::within(max, Some(self.clone()))
    }

    fn within(max: usize, parent: Option<Self>) -> Self {
        Self(Arc::new(Inner { used: AtomicUsize::new(0), max, parent }))
    }

    /// Takes that many bytes until the [`Charge`] is dropped, or `None` where they do not fit.
    #[must_use]
    pub fn charge(&self, bytes: usize) -> Option<Charge> {
        let mut charge = Charge { budget: self.clone(), bytes: 0 };
        charge.grow_to(bytes).then_some(charge)
    }

    /// Returns `true` if that many bytes would fit now. Takes nothing.
    #[must_use]
    pub fn fits(&self, bytes: usize) -> bool {
        self.used().checked_add(bytes).is_some_and(|sum| sum <= self.0.max)
            && self.0.parent.as_ref().is_none_or(|parent| parent.fits(bytes))
    }

    /// Returns the number of bytes taken.
    #[must_use]
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
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

    fn give_back(&self, bytes: usize) {
        self.0.used.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(parent) = &self.0.parent {
            parent.give_back(bytes);
        }
    }
}

/// Bytes taken from a [`ByteBudget`]; dropping it gives them back.
#[derive(Debug)]
pub struct Charge {
    budget: ByteBudget,
    bytes: usize,
}

impl Charge {
    /// Takes more bytes, up to `bytes` in all. Returns `false`, and takes nothing, where they do not
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

    /// Returns how many bytes are charged.
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

    #[test]
    fn a_charge_that_does_not_fit_takes_nothing() {
        let budget = ByteBudget::new(100);
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
        let budget = ByteBudget::new(100);
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
    fn child_is_bounded_by_itself_and_its_parent() {
        let all = ByteBudget::new(100);
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
