//! Waits of one statement.

use std::fmt;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Why;

/// Minimum total wait that is counted, so that statements without waits do not pay for a lock.
const WAITED_MIN: Duration = Duration::from_micros(100);

/// Waits of one statement, by reason.
#[derive(Debug, Default)]
pub struct Waits {
    nanos: [AtomicU64; Why::ALL.len()],
    /// The part that the diagnosis knows already, of a statement that runs for long.
    told: OnceLock<Box<[AtomicU64; Why::ALL.len()]>>,
    waiter: OnceLock<Box<Waiter>>,
}

/// A statement and its user.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Waiter {
    /// Table and text of the statement.
    pub named: Arc<Named>,
    /// User of the connection; `None` without a log-in.
    pub user: Option<Arc<str>>,
}

impl fmt::Display for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.named.fmt(f)?;
        self.user.iter().try_for_each(|user| write!(f, " (user {user})"))
    }
}

impl Waits {
    /// Adds a wait.
    pub fn add(&self, why: Why, waited: Duration) {
        // Relaxed: the counters guard no other memory.
        self.nanos[why as usize].fetch_add(nanos(waited), Ordering::Relaxed);
    }

    /// Sets the statement and its user, on the first call only.
    pub fn name(&self, waiter: impl FnOnce() -> Waiter) {
        self.waiter.get_or_init(|| Box::new(waiter()));
    }

    /// Returns `true` if the waits that the diagnosis does not know are long enough to be counted.
    #[must_use]
    pub fn is_worth_counting(&self) -> bool {
        self.untold().iter().sum::<Duration>() >= WAITED_MIN
    }

    /// Returns the waits that the diagnosis does not know.
    pub(crate) fn untold(&self) -> [Duration; Why::ALL.len()] {
        let Some(told) = self.told.get() else { return self.by_why() };
        let told = told.each_ref().map(|told| Duration::from_nanos(told.load(Ordering::Relaxed)));
        let mut waits = self.by_why();
        waits.iter_mut().zip(told).for_each(|(waited, told)| *waited = waited.saturating_sub(told));
        waits
    }

    /// Records that the diagnosis knows all waits so far.
    pub(crate) fn tell(&self) {
        let told = self.told.get_or_init(Box::default);
        for (told, waited) in told.iter().zip(&self.nanos) {
            told.store(waited.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Returns the reasons for which the statement waited, and how long.
    pub fn list(&self) -> impl Iterator<Item = (Why, Duration)> {
        Why::ALL.into_iter().zip(self.by_why()).filter(|(_, waited)| !waited.is_zero())
    }

    pub(crate) fn by_why(&self) -> [Duration; Why::ALL.len()] {
        Why::ALL.map(|why| Duration::from_nanos(self.nanos[why as usize].load(Ordering::Relaxed)))
    }

    /// Returns the name of the statement, once it is known.
    #[must_use]
    pub fn named(&self) -> Option<Arc<Named>> {
        self.waiter().map(|waiter| Arc::clone(&waiter.named))
    }

    pub(crate) fn waiter(&self) -> Option<&Waiter> {
        self.waiter.get().map(|waiter| &**waiter)
    }
}

pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Maximum length of a table name in bytes.
const TABLE_LEN_MAX: usize = 100;
/// Maximum length of a statement's text in bytes.
const STATEMENT_LEN_MAX: usize = 160;

/// Table and text of a statement.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Named {
    table: Box<str>,
    statement: Box<str>,
}

impl Named {
    /// Makes the name of a statement; long texts are truncated. Statements that differ only in
    /// values should have the same text.
    #[must_use]
    pub fn new(table: &str, statement: &str) -> Self {
        let cut = |text: &str, len_max| {
            let text = &text[..text.floor_char_boundary(len_max)];
            // A quoted name may contain line breaks, which must not reach the log.
            text.chars().map(|of| if of.is_control() { ' ' } else { of }).collect::<String>().into()
        };
        Self { table: cut(table, TABLE_LEN_MAX), statement: cut(statement, STATEMENT_LEN_MAX) }
    }

    /// Returns the table; empty for a statement without a table.
    #[must_use]
    pub fn table(&self) -> &str {
        &self.table
    }

    /// Returns the text of the statement.
    #[must_use]
    pub fn statement(&self) -> &str {
        &self.statement
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.table.is_empty() {
            write!(f, "{}: ", self.table)?;
        }
        f.write_str(&self.statement)
    }
}
