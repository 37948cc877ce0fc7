//! Memory of a transaction's read set or write set.
//!
//! ```text
//!   all transactions ── MemoryBudget ─┬─ write set of one: charged in steps; spilled where nothing is left
//!                                     └─ read set of one:  charged in steps; refused where nothing is left
//! ```
//!
//! The first [`FREE_BYTES`] of a set are not charged: most transactions are small, and must not contend for the
//! counter that all share.

use std::time::Duration;

use carnet_base::{Charge, Error, ErrorKind, MemoryBudget, Result};

/// Bytes of a set that are not charged.
const FREE_BYTES: usize = 64 << 10;
/// Time after which a refused transaction is to be run again: large transactions take about as long.
const RETRY_AFTER: Duration = Duration::from_millis(500);
/// Bytes that a charge grows by.
const STEP_BYTES: usize = 64 << 10;

/// Memory that a set may take without asking, and its charge to the budget of all transactions.
#[derive(Debug)]
pub(crate) struct SetMemory {
    charge: Option<Charge>,
    bytes: usize,
}

impl Default for SetMemory {
    fn default() -> Self {
        Self { charge: None, bytes: FREE_BYTES }
    }
}

impl SetMemory {
    /// Returns `true` if a set of `bytes` bytes needs no further charge.
    pub(crate) const fn holds(&self, bytes: usize) -> bool {
        bytes <= self.bytes
    }

    /// Charges the memory of a set of `bytes` bytes to a budget, if there is one.
    ///
    /// # Errors
    ///
    /// `Overloaded` if other transactions hold the memory, `Invalid` if the budget is smaller than the set.
    pub(crate) fn grow_to(&mut self, bytes: usize, budget: Option<&MemoryBudget>) -> Result<()> {
        if self.holds(bytes) {
            return Ok(());
        }
        let Some(budget) = budget else { return Ok(()) };
        let wanted = bytes.next_multiple_of(STEP_BYTES);
        if !self.charge(budget).grow_to(wanted) {
            return Err(refusal(budget, bytes));
        }
        self.bytes = wanted;
        Ok(())
    }

    /// Like [`SetMemory::grow_to`], also beyond the budget.
    pub(crate) fn force(&mut self, bytes: usize, budget: Option<&MemoryBudget>) {
        if let Some(budget) = budget {
            self.charge(budget).set(bytes);
            self.bytes = bytes;
        }
    }

    fn charge(&mut self, budget: &MemoryBudget) -> &mut Charge {
        self.charge.get_or_insert_with(|| budget.charge(0).expect("no bytes fit into every budget"))
    }
}

fn refusal(budget: &MemoryBudget, bytes: usize) -> Error {
    let (max, used) = (budget.max(), budget.used());
    if bytes > max {
        return Error::invalid(format!(
            "the transaction's reads or writes take {bytes} bytes of memory; all transactions together have {max}: \
             split it, or raise the memory of transactions"
        ));
    }
    Error::new(
        ErrorKind::Overloaded { retry_after: RETRY_AFTER },
        format!(
            "the transaction needs {bytes} bytes of memory, and all transactions hold {used} of {max}: nothing was \
             written, run it again later"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_set_charges_nothing() {
        let budget = MemoryBudget::new(0);
        let mut memory = SetMemory::default();
        memory.grow_to(FREE_BYTES, Some(&budget)).unwrap();
        let error = memory.grow_to(FREE_BYTES + 1, Some(&budget)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        memory.grow_to(1 << 40, None).unwrap();
    }

    #[test]
    fn sets_share_a_budget_until_they_end() {
        let budget = MemoryBudget::new(1 << 20);
        let (mut one, mut other) = (SetMemory::default(), SetMemory::default());
        one.grow_to(900 << 10, Some(&budget)).unwrap();
        assert_eq!(budget.used(), 960 << 10);
        let error = other.grow_to(100 << 10, Some(&budget)).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Overloaded { .. }), "{error}");
        drop(one);
        assert_eq!(budget.used(), 0);
        other.grow_to(1 << 20, Some(&budget)).unwrap();
        drop(other);
        assert_eq!(budget.used(), 0);
    }
}
