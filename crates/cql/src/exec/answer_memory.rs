//! Memory of a statement's result.

use std::borrow::Cow;
use std::sync::Mutex;
use std::time::Duration;

use carnet::catalog::TableSchema;
use carnet::levels::Effective;
use carnet_base::{Charge, MemoryBudget, lock};

use crate::cql_error::{CqlError, CqlErrorKind};

/// Bytes by which the charge of a result grows at a time: small results cost nothing.
const STEP_BYTES: usize = 16 << 10;
/// Sizes in bytes above which answers that are made leave an eighth, and a quarter, of the budget to
/// smaller ones.
const SMALL_BYTES: usize = 64 << 10;
const LARGE_BYTES: usize = 1 << 20;
/// Default size in bytes above which a result comes with a warning; a service level may set another
/// one.
const SOFT_BYTES: usize = 4 << 20;
/// Time after which a statement that got no memory may be retried.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// Memory that the answer of one statement takes from a budget shared by all statements: rows of
/// the result, and cells that are fetched but not yet returned.
///
/// A page ends when memory runs out. A result without paging fails. Large answers run out first, so
/// that small ones proceed.
#[derive(Debug)]
pub struct AnswerMemory {
    budget: MemoryBudget,
    state: Mutex<AnswerMemoryState>,
}

#[derive(Debug)]
struct AnswerMemoryState {
    charge: Charge,
    /// Bytes of earlier results that the statement keeps: the rows of `LET`.
    kept_bytes: usize,
    /// Size above which the result comes with a warning.
    soft_bytes: usize,
    /// Maximum size of the result.
    hard_bytes: usize,
    /// Name of the maximum, for errors.
    hard_name: Cow<'static, str>,
    /// Whether other answers held the memory that it needs.
    was_refused: bool,
    /// Warnings that come with the answer.
    warnings: Vec<Cow<'static, str>>,
}

impl AnswerMemory {
    /// Returns `true` if a budget has memory for a small answer.
    #[must_use]
    pub fn fits_small(budget: &MemoryBudget) -> bool {
        budget.fits(SMALL_BYTES.min(budget.max() / 8))
    }

    /// Creates the charge of an answer, of at most `bytes_max` bytes, within a budget.
    ///
    /// # Panics
    ///
    /// Never: the initial charge is zero.
    #[must_use]
    pub fn new(budget: &MemoryBudget, bytes_max: usize) -> Self {
        let charge = budget.charge(0).expect("no bytes fit into every budget");
        let state = AnswerMemoryState {
            charge,
            kept_bytes: 0,
            soft_bytes: SOFT_BYTES,
            hard_bytes: bytes_max,
            hard_name: "half of server.answer_memory".into(),
            was_refused: false,
            warnings: Vec::new(),
        };
        Self { budget: budget.clone(), state: Mutex::new(state) }
    }

    /// Names the maximum in errors; by default it is half of the memory of all answers.
    #[must_use]
    pub fn limited_by(self, name: &'static str) -> Self {
        lock(&self.state).hard_name = name.into();
        self
    }

    /// Adds a warning that comes with the answer, once: a statement may run again.
    pub(super) fn warn(&self, warning: impl Into<Cow<'static, str>>) {
        let (warnings, warning) = (&mut lock(&self.state).warnings, warning.into());
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }

    /// Removes and returns the warnings that come with the answer.
    #[must_use]
    pub fn take_warnings(&self) -> Vec<Cow<'static, str>> {
        std::mem::take(&mut lock(&self.state).warnings)
    }

    /// Applies the limits of the statement's service level.
    pub(super) fn apply(&self, level: &Effective) {
        let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let mut state = lock(&self.state);
        if let Some(hard) = level.options.memory_hard.map(bytes)
            && hard < state.hard_bytes
        {
            state.hard_bytes = hard;
            let name = &level.level.name;
            state.hard_name = format!("memory_hard of the service level {name}").into();
        }
        if let Some(soft) = level.options.memory_soft {
            state.soft_bytes = bytes(soft);
        }
    }

    /// Returns the number of bytes charged.
    #[must_use]
    pub fn bytes(&self) -> usize {
        lock(&self.state).charge.bytes()
    }

    /// Returns the number of bytes charged, and the soft limit, if the number exceeds it: such an answer
    /// comes with a warning.
    #[must_use]
    pub fn beyond_soft_limit(&self) -> Option<(usize, usize)> {
        let state = lock(&self.state);
        let bytes = state.charge.bytes();
        (bytes > state.soft_bytes).then_some((bytes, state.soft_bytes))
    }

    /// Returns the time after which the client may retry if other answers held the memory that the answer
    /// needs.
    #[must_use]
    pub fn refused(&self) -> Option<Duration> {
        lock(&self.state).was_refused.then_some(RETRY_AFTER)
    }

    /// Sets the charge to the bytes that are already allocated.
    pub fn set(&self, bytes: usize) {
        lock(&self.state).charge.set(bytes);
    }

    /// Returns the charge, for bytes that outlive the statement.
    #[must_use]
    pub fn take_charge(&self) -> Charge {
        lock(&self.state).charge.take()
    }

    /// Charges memory for a result of `rows` bytes, and for `fetched` bytes of the cells it is made
    /// from.
    ///
    /// # Errors
    ///
    /// `Invalid` if the result exceeds its maximum; `Overloaded` if other answers hold the memory.
    pub fn grow_to(&self, rows: usize, fetched: usize) -> Result<(), CqlError> {
        self.grow(rows, rows.saturating_add(fetched))
    }

    /// Charges memory for a row of `row` bytes before it is copied to a result of `rows` bytes. The
    /// maximum holds for the row: a page may exceed it by the rows before.
    ///
    /// # Errors
    ///
    /// Same as [`AnswerMemory::grow_to`].
    pub(super) fn grow_by_row(&self, rows: usize, row: usize) -> Result<(), CqlError> {
        self.grow(row, rows.saturating_add(row))
    }

    /// Sets the bytes of earlier results that the statement keeps while it makes its answer.
    ///
    /// # Errors
    ///
    /// Same as [`AnswerMemory::grow_to`].
    pub(super) fn keep(&self, bytes: usize) -> Result<(), CqlError> {
        lock(&self.state).kept_bytes = bytes;
        self.grow(0, 0)
    }

    /// Charges memory for `bytes` bytes beside the kept ones, of which `limited` have a maximum
    /// together with the kept ones.
    fn grow(&self, limited: usize, bytes: usize) -> Result<(), CqlError> {
        let mut state = lock(&self.state);
        if state.kept_bytes.saturating_add(limited) > state.hard_bytes {
            return Err(CqlError::invalid(beyond_hard_limit(&state)));
        }
        let (bytes, held) = (state.kept_bytes.saturating_add(bytes), state.charge.bytes());
        if bytes < held.saturating_add(STEP_BYTES) {
            return Ok(());
        }
        let left = left_to_smaller(bytes, self.budget.max());
        if self.budget.fits(bytes - held + left) && state.charge.grow_to(bytes) {
            return Ok(());
        }
        state.was_refused = true;
        drop(state);
        let why = format!(
            "the answers in progress hold all memory for answers (server.answer_memory), and this \
             answer holds {held} bytes of it; ask for it in pages, or try again after {} ms",
            RETRY_AFTER.as_millis()
        );
        Err(CqlError::new(CqlErrorKind::Overloaded { retry_after: RETRY_AFTER }, why))
    }
}

/// Adds the table's name to the error of a result that is too large.
pub(super) fn of_table(table: &TableSchema, error: &CqlError) -> CqlError {
    let (keyspace, name) = (&table.keyspace, &table.name);
    let message = format!("{} (query of table {keyspace}.{name})", error.message());
    CqlError::new(error.kind().clone(), message)
}

/// Returns the part of a budget that an answer leaves to smaller ones.
const fn left_to_smaller(bytes: usize, max: usize) -> usize {
    const MEDIUM: usize = SMALL_BYTES + 1;
    const LARGE: usize = LARGE_BYTES + 1;
    match bytes {
        LARGE.. => max / 4,
        MEDIUM.. => max / 8,
        _ => 0,
    }
}

fn beyond_hard_limit(state: &AnswerMemoryState) -> String {
    let limit = &state.hard_name;
    format!(
        "the result takes more than the {} bytes of memory that one answer may have ({limit}); ask for it in \
         pages, or restrict it with WHERE or LIMIT",
        state.hard_bytes
    )
}
