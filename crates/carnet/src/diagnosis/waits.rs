//! What one statement has waited for.

use std::fmt;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Why;

/// Waits that are shorter in sum are not counted: a statement that does not wait should not pay for a lock.
const WAITED_MIN: Duration = Duration::from_micros(100);

/// The waits of one statement, by reason.
#[derive(Debug, Default)]
pub struct Waits {
    nanos: [AtomicU64; Why::ALL.len()],
    named: OnceLock<Arc<Named>>,
}

impl Waits {
    /// Counts a wait.
    pub fn add(&self, why: Why, waited: Duration) {
        // Relaxed: the counters guard no other memory.
        self.nanos[why as usize].fetch_add(nanos(waited), Ordering::Relaxed);
    }

    /// Names the statement. Only the first call counts.
    pub fn name(&self, named: impl FnOnce() -> Named) {
        self.named.get_or_init(|| Arc::new(named()));
    }

    /// Returns `true` where the waits are long enough to be counted.
    #[must_use]
    pub fn is_worth_counting(&self) -> bool {
        self.by_why().iter().sum::<Duration>() >= WAITED_MIN
    }

    pub(crate) fn by_why(&self) -> [Duration; Why::ALL.len()] {
        Why::ALL.map(|why| Duration::from_nanos(self.nanos[why as usize].load(Ordering::Relaxed)))
    }

    pub(crate) fn named(&self) -> Option<&Arc<Named>> {
        self.named.get()
    }
}

pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Maximum bytes of the name of a table.
const TABLE_LEN_MAX: usize = 100;
/// Maximum bytes of a statement's text.
const STATEMENT_LEN_MAX: usize = 160;

/// A statement by its table and text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Named {
    table: Box<str>,
    statement: Box<str>,
}

impl Named {
    /// Names a statement; long texts are cut. Statements that differ in their values only should have
    /// the same text.
    #[must_use]
    pub fn new(table: &str, statement: &str) -> Self {
        let cut = |text: &str, len_max| {
            let text = &text[..text.floor_char_boundary(len_max)];
            // A quoted name may hold line breaks; a line of the log must not.
            text.chars().map(|of| if of.is_control() { ' ' } else { of }).collect::<String>().into()
        };
        Self { table: cut(table, TABLE_LEN_MAX), statement: cut(statement, STATEMENT_LEN_MAX) }
    }

    /// Returns the table; empty for a statement without one.
    #[must_use]
    pub fn table(&self) -> &str {
        &self.table
    }

    /// Returns the text.
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
