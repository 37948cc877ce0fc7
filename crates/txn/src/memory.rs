//! Memory of a transaction's read set or write set.
//!
//! ```text
//!   all transactions ── MemoryBudget ─┬─ write set of one: charged in steps; spilled beyond its share
//!                                     └─ read set of one:  charged in steps; refused where nothing is left
//! ```
//!
//! **Fair shares.** A write set that can be spilled grows only as long as at least its own size
//! remains free. So of N large transactions each gets 1/(N + 1) of the memory, and one more finds
//! some. A write set below [`RUN_BYTES_MIN`](crate::limits::RUN_BYTES_MIN) is never spilled, because
//! each spill makes a file: it is not charged where nothing is left.
//!
//! The first [`FREE_BYTES`](crate::limits::FREE_BYTES) of a set are not charged: most transactions are small and short, and must not contend for
//! the counter that all share. A transaction that waits for its client between calls charges all bytes.

use std::time::Duration;

use carnet_base::{Charge, Error, ErrorKind, MemoryBudget, Result};

use crate::limits::{Bounds, RUN_BYTES_MIN};

/// Time after which a refused transaction is to be run again: large transactions take about as long.
const RETRY_AFTER: Duration = Duration::from_millis(500);
/// Bytes that a charge grows by, and the same for a small set.
const STEP_BYTES: usize = 64 << 10;
const SMALL_STEP_BYTES: usize = 4 << 10;

/// Part of the memory that write sets leave to read sets, which cannot be spilled.
const READS_PART: usize = 8;

/// Returns `true` if less than an eighth of the memory of all transactions is free.
pub(crate) fn is_short(all: &MemoryBudget) -> bool {
    all.max().saturating_sub(all.used()) < all.max() / READS_PART
}

/// Charged memory of a set.
#[derive(Debug, Default)]
pub(crate) struct SetMemory {
    charge: Option<Charge>,
    bytes: usize,
}

impl SetMemory {
    /// Returns the charged bytes.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns `true` if a set of `bytes` bytes needs no further charge.
    pub(crate) fn holds(&self, bytes: usize, bounds: &Bounds) -> bool {
        bytes <= self.bytes.max(bounds.free_bytes())
    }

    /// Charges the memory of a set of `bytes` bytes to the budget, if there is one.
    ///
    /// # Errors
    ///
    /// `Overloaded` if other transactions hold the memory, `Invalid` if the budget is smaller than the set.
    pub(crate) fn grow_to(&mut self, bytes: usize, bounds: &Bounds) -> Result<()> {
        if self.holds(bytes, bounds) {
            return Ok(());
        }
        let Some(budget) = &bounds.memory else { return Ok(()) };
        let wanted = stepped(bytes);
        if !self.charge(budget).grow_to(wanted) {
            return Err(refusal(budget, bytes));
        }
        self.bytes = wanted;
        Ok(())
    }

    /// Like [`SetMemory::grow_to`], for a set that is spilled if it is refused: leaves at least as
    /// much free as the set takes, unless the set is small.
    ///
    /// # Errors
    ///
    /// Like [`SetMemory::grow_to`].
    pub(crate) fn grow_fairly_to(&mut self, bytes: usize, bounds: &Bounds) -> Result<()> {
        let Some(budget) = bounds.memory.as_ref().filter(|_| !self.holds(bytes, bounds)) else {
            return Ok(());
        };
        let all = budget.root();
        let charged = self.charge.as_ref().map_or(0, Charge::bytes);
        let others = all.used().saturating_sub(charged);
        let wanted = stepped(bytes);
        let free = all.max().saturating_sub(others).saturating_sub(wanted);
        let is_fair = free >= wanted.max(all.max() / READS_PART);
        let grown = if is_fair { self.grow_to(bytes, bounds) } else { Err(refusal(budget, bytes)) };
        if grown.is_err() && bytes <= RUN_BYTES_MIN {
            // Not charged: sets beyond the budget would refuse all reads of other transactions.
            self.bytes = bytes.next_multiple_of(SMALL_STEP_BYTES);
            return Ok(());
        }
        grown
    }

    /// Like [`SetMemory::grow_to`], also beyond the budget.
    pub(crate) fn force(&mut self, bytes: usize, bounds: &Bounds) {
        if let Some(budget) = &bounds.memory {
            self.charge(budget).set(bytes);
            self.bytes = bytes;
        }
    }

    fn charge(&mut self, budget: &MemoryBudget) -> &mut Charge {
        self.charge.get_or_insert_with(|| budget.charge(0).expect("no bytes fit into every budget"))
    }
}

/// Rounds up the bytes of a set to its step.
const fn stepped(bytes: usize) -> usize {
    bytes.next_multiple_of(if bytes < STEP_BYTES { SMALL_STEP_BYTES } else { STEP_BYTES })
}

fn refusal(budget: &MemoryBudget, bytes: usize) -> Error {
    // Threads count in budgets of their own, within that of all transactions.
    let all = budget.root();
    let (max, used) = (all.max(), all.used());
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
    use crate::limits::FREE_BYTES;

    fn within(bytes: usize) -> Bounds {
        Bounds { memory: Some(MemoryBudget::new(bytes)), ..Bounds::default() }
    }

    #[test]
    fn small_set_charges_nothing() {
        let bounds = within(0);
        let mut memory = SetMemory::default();
        memory.grow_to(FREE_BYTES, &bounds).unwrap();
        let error = memory.grow_to(FREE_BYTES + 1, &bounds).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        memory.grow_to(1 << 40, &Bounds::default()).unwrap();
    }

    #[test]
    fn small_set_is_charged_while_its_client_thinks() {
        let bounds = Bounds { counts_small_sets: true, ..within(10 << 10) };
        let budget = bounds.memory.clone().unwrap();
        let mut memory = SetMemory::default();
        memory.grow_to(0, &bounds).unwrap();
        assert_eq!(budget.used(), 0);
        memory.grow_to(1, &bounds).unwrap();
        assert_eq!(budget.used(), SMALL_STEP_BYTES);
        memory.grow_to(5 << 10, &bounds).unwrap();
        assert_eq!(budget.used(), 2 * SMALL_STEP_BYTES);
        assert!(SetMemory::default().grow_to(5 << 10, &bounds).is_err());
    }

    #[test]
    fn write_sets_get_fair_shares() {
        let bounds = within(4 << 20);
        let budget = bounds.memory.clone().unwrap();
        let mut sets: Vec<SetMemory> = Vec::new();
        for others in 1..=3 {
            let mut set = SetMemory::default();
            let mut bytes = 0;
            while set.grow_fairly_to(bytes + STEP_BYTES, &bounds).is_ok() {
                bytes += STEP_BYTES;
            }
            assert_eq!(bytes, (4 << 20) >> others, "it leaves as much as it takes");
            assert!(budget.max() - budget.used() >= bytes);
            sets.push(set);
        }
    }

    #[test]
    fn small_write_set_needs_no_budget() {
        let bounds = Bounds { counts_small_sets: true, ..within(100 << 10) };
        let budget = bounds.memory.clone().unwrap();
        let mut all = SetMemory::default();
        all.force(100 << 10, &bounds);
        let mut set = SetMemory::default();
        set.grow_fairly_to(RUN_BYTES_MIN, &bounds).unwrap();
        assert!(set.grow_fairly_to(RUN_BYTES_MIN + 1, &bounds).is_err());
        assert!(SetMemory::default().grow_to(1, &bounds).is_err());
        drop(set);
        drop(all);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn refusal_names_the_memory_of_all_transactions() {
        let all = MemoryBudget::new(100 << 10);
        let _others = all.charge(90 << 10).unwrap();
        let bounds = Bounds { memory: Some(all.child(100 << 10)), ..within(0) };
        let error = SetMemory::default().grow_to(80 << 10, &bounds).unwrap_err().to_string();
        assert!(error.contains("hold 92160 of 102400"), "{error}");
    }

    #[test]
    fn sets_share_a_budget_until_they_end() {
        let bounds = within(1 << 20);
        let budget = bounds.memory.clone().unwrap();
        let (mut one, mut other) = (SetMemory::default(), SetMemory::default());
        one.grow_to(900 << 10, &bounds).unwrap();
        assert_eq!(budget.used(), 960 << 10);
        let error = other.grow_to(100 << 10, &bounds).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Overloaded { .. }), "{error}");
        drop(one);
        assert_eq!(budget.used(), 0);
        other.grow_to(1 << 20, &bounds).unwrap();
        drop(other);
        assert_eq!(budget.used(), 0);
    }
}
