//! A bound on the request bytes that the whole server holds at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the bytes of requests that were announced and are not answered yet, on all connections.
///
/// A frame is charged when its header is read, before any of its body is kept. One that does not
/// fit is skipped as it arrives and answered with "overloaded".
#[derive(Clone, Debug)]
pub struct ByteBudget(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    used: AtomicUsize,
    max: usize,
}

impl ByteBudget {
    /// Makes a budget of that many bytes.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self(Arc::new(Inner { used: AtomicUsize::new(0), max }))
    }

    /// Takes that many bytes until the [`Charge`] is dropped, or `None` where they do not fit.
    #[must_use]
    pub fn charge(&self, bytes: usize) -> Option<Charge> {
        // Relaxed: the counter guards no other memory.
        self.0
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|sum| *sum <= self.0.max)
            })
            .ok()
            .map(|_| Charge { budget: self.clone(), bytes })
    }

    /// Returns how many bytes are taken.
    #[must_use]
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }
}

/// Bytes taken from a [`ByteBudget`]; dropping it gives them back.
#[derive(Debug)]
pub struct Charge {
    budget: ByteBudget,
    bytes: usize,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.0.used.fetch_sub(self.bytes, Ordering::Relaxed);
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
}
