//! Steps of a statement: the unit in which its parsing, compiling and evaluation are counted.
//!
//! A step is a token that the parser looks at, a term that is compiled or evaluated, an element of a
//! collection, or 64 bytes of a value. Work between two places where a statement can yield counts its
//! steps: it ends with an error at the statement's deadline, and at [`SECTION_STEPS_MAX`]. So no
//! statement keeps a thread for longer, whatever its text and values.

use std::sync::atomic::{AtomicU64, Ordering};

use carnet::Db;
use carnet_admission::Progress;
use carnet_base::{Moment, TimeSlice};

use crate::cql_error::{CqlError, CqlErrorKind};

/// Maximum number of steps between two places where a statement can yield: parsing a text, compiling
/// it, or evaluating one term.
pub const SECTION_STEPS_MAX: u64 = 4 << 20;

/// Number of steps between two checks of the deadline, and of the time slice.
const CHECK_STEPS: u64 = 4_096;

/// Number of bytes of a value that are one step.
const STEP_BYTES: usize = 64;

/// Counter of the steps of one statement. One thread uses it at a time.
pub(crate) struct Steps<'e> {
    taken: AtomicU64,
    /// Number of steps at the last place where the statement could yield.
    section: AtomicU64,
    /// Number of steps at which the deadline is checked again.
    next_check: AtomicU64,
    /// Clock and deadline; `None` for a statement without deadline.
    until: Option<(&'e Db, Moment)>,
    /// Progress of the statement, by which it is killed.
    progress: Option<&'e Progress>,
    /// Total of all statements, to which the steps are added at each check and at the end.
    total: Option<&'e AtomicU64>,
    /// Number of steps that are part of the total.
    added: AtomicU64,
}

impl<'e> Steps<'e> {
    /// Creates the counter of a statement without deadline.
    pub(crate) const fn new() -> Self {
        Self {
            taken: AtomicU64::new(0),
            section: AtomicU64::new(0),
            next_check: AtomicU64::new(CHECK_STEPS),
            until: None,
            progress: None,
            total: None,
            added: AtomicU64::new(0),
        }
    }

    /// Creates the counter of a statement with a deadline on the clock of a database. The steps
    /// are added to `total`.
    pub(crate) fn until(db: &'e Db, deadline: Option<Moment>, total: &'e AtomicU64) -> Self {
        let mut steps = Self::new();
        steps.until = deadline.map(|deadline| (db, deadline));
        steps.total = Some(total);
        steps
    }

    /// Ends the steps of a statement when it is killed.
    pub(crate) const fn while_not_killed(mut self, progress: Option<&'e Progress>) -> Self {
        self.progress = progress;
        self
    }

    /// Returns the number of steps taken.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Counts steps.
    ///
    /// # Errors
    ///
    /// `Timeout` past the deadline; `Killed`; `Invalid` for more than [`SECTION_STEPS_MAX`] steps without a
    /// yield.
    pub(crate) fn take(&self, steps: u64) -> Result<(), CqlError> {
        let taken = self.taken().saturating_add(steps);
        // No other thread writes meanwhile, so neither needs an atomic addition.
        self.taken.store(taken, Ordering::Relaxed);
        if taken < self.next_check.load(Ordering::Relaxed) { Ok(()) } else { self.check(taken) }
    }

    /// Counts the steps of a value of `bytes` bytes.
    ///
    /// # Errors
    ///
    /// Same as [`Steps::take`].
    pub(crate) fn take_bytes(&self, bytes: usize) -> Result<(), CqlError> {
        self.take((bytes / STEP_BYTES) as u64)
    }

    #[cold]
    fn check(&self, taken: u64) -> Result<(), CqlError> {
        self.next_check.store(taken.saturating_add(CHECK_STEPS), Ordering::Relaxed);
        self.add_to_total();
        if taken - self.section.load(Ordering::Relaxed) > SECTION_STEPS_MAX {
            return Err(CqlError::invalid(format!(
                "a part of the statement takes more than {SECTION_STEPS_MAX} steps (terms, elements, \
                 and values in units of {STEP_BYTES} bytes); divide its text or its largest term"
            )));
        }
        if let Some(progress) = self.progress {
            progress.check()?;
        }
        match self.until {
            Some((db, deadline)) if db.now() >= deadline => Err(CqlError::new(
                CqlErrorKind::Timeout,
                "the deadline passed while the statement was being compiled or evaluated; nothing \
                 was written",
            )),
            _ => Ok(()),
        }
    }

    /// Returns `true` if enough steps were taken since the last place where the statement could yield
    /// that it should [pace](Steps::pace) itself.
    pub(crate) fn are_many(&self) -> bool {
        self.taken() - self.section.load(Ordering::Relaxed) >= CHECK_STEPS
    }

    /// Yields if the time slice is used up, where enough steps were taken for that.
    ///
    /// # Errors
    ///
    /// `Timeout` past the deadline.
    pub(crate) async fn pace(&self, slice: &mut Option<TimeSlice<'_>>) -> Result<(), CqlError> {
        if !self.are_many() {
            return Ok(());
        }
        let taken = self.taken();
        self.section.store(taken, Ordering::Relaxed);
        if let Some(slice) = slice {
            slice.check().await;
        }
        self.check(taken)
    }

    fn add_to_total(&self) {
        let Some(total) = self.total else { return };
        let taken = self.taken();
        total.fetch_add(taken - self.added.swap(taken, Ordering::Relaxed), Ordering::Relaxed);
    }
}

impl Drop for Steps<'_> {
    fn drop(&mut self) {
        self.add_to_total();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn section_ends_at_its_maximum() {
        let steps = Steps::new();
        assert!(steps.take(SECTION_STEPS_MAX).is_ok());
        let error = steps.take(CHECK_STEPS).unwrap_err();
        assert!(error.message().contains(&SECTION_STEPS_MAX.to_string()), "{}", error.message());
    }

    #[test]
    fn work_in_sections_has_no_maximum() {
        let steps = Steps::new();
        carnet_base::block_on(async {
            for _ in 0..8 {
                steps.take(SECTION_STEPS_MAX / 2).unwrap();
                steps.pace(&mut None).await.unwrap();
            }
        });
        assert_eq!(steps.taken(), 4 * SECTION_STEPS_MAX);
    }
}
