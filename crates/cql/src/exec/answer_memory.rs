//! The memory of a statement's answer.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use carnet::base::{Charge, MemoryBudget};

use super::{CqlError, CqlErrorKind};

/// A result is charged in steps of so many bytes: small ones cost nothing.
const STEP_BYTES: usize = 16 << 10;
/// Answers of more bytes leave an eighth of the budget to those of fewer.
const SMALL_BYTES: usize = 1 << 20;
/// When a statement that found no memory may be tried again.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// What the answer of one statement holds of a budget that all statements share.
///
/// A page ends where no more is to be had. A result that cannot be had in pages fails. Answers of more than
/// 1 MiB find no more first: the largest end, and small ones go on.
#[derive(Debug)]
pub struct AnswerMemory {
    budget: MemoryBudget,
    charge: Mutex<Charge>,
    /// What one answer may hold.
    bytes_max: usize,
}

impl AnswerMemory {
    /// Begins an answer of at most `bytes_max` bytes within a budget.
    ///
    /// # Panics
    ///
    /// Never: nothing is charged yet.
    #[must_use]
    pub fn new(budget: &MemoryBudget, bytes_max: usize) -> Self {
        let charge = budget.charge(0).expect("no bytes fit into every budget");
        Self { budget: budget.clone(), charge: Mutex::new(charge), bytes_max }
    }

    /// Returns the bytes that are held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.lock().bytes()
    }

    /// Changes what is held to bytes that are there already.
    pub fn set(&self, bytes: usize) {
        self.lock().set(bytes);
    }

    /// Takes the charge, for bytes that outlive the statement.
    #[must_use]
    pub fn take_charge(&self) -> Charge {
        self.lock().take()
    }

    /// Takes memory for a result of so many bytes, as it grows.
    ///
    /// # Errors
    ///
    /// Invalid, where an answer may not be that long; overloaded, where others hold the memory.
    pub(super) fn grow_to(&self, bytes: usize) -> Result<(), CqlError> {
        if bytes > self.bytes_max {
            return Err(CqlError::invalid(format!(
                "the result is larger than {} bytes, which one answer may have (half of server.answer_memory); \
                 ask for it in pages, or restrict it with WHERE or LIMIT",
                self.bytes_max
            )));
        }
        let mut charge = self.lock();
        if bytes < charge.bytes().saturating_add(STEP_BYTES) {
            return Ok(());
        }
        let left = if bytes > SMALL_BYTES { self.budget.max() / 8 } else { 0 };
        if self.budget.fits(bytes - charge.bytes() + left) && charge.grow_to(bytes) {
            return Ok(());
        }
        let held = charge.bytes();
        drop(charge);
        let why = format!(
            "answers that are being made or sent hold all of their memory (server.answer_memory), \
             {held} bytes of it this one; ask for it in pages, or try again after {} ms",
            RETRY_AFTER.as_millis()
        );
        Err(CqlError::new(CqlErrorKind::Overloaded { retry_after: RETRY_AFTER }, why))
    }

    fn lock(&self) -> MutexGuard<'_, Charge> {
        self.charge.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
