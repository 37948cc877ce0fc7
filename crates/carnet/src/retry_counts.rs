//! Numbers of retries of transactions, and of failures after the last attempt, by their cause.

use std::sync::atomic::{AtomicU64, Ordering};

use carnet_base::ErrorKind;

/// Cause for which an attempt of a transaction was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryCause {
    /// Another transaction committed first.
    Conflict,
    /// The snapshot was older than the commits kept to check it.
    TooOld,
    /// The store had no capacity for it.
    Overloaded,
    /// Other transactions wait for a row that it changes: it did not try to commit, and joined them.
    Turn,
}

impl RetryCause {
    /// All causes, in the order of their counters.
    pub const ALL: [Self; 4] = [Self::Conflict, Self::TooOld, Self::Overloaded, Self::Turn];

    /// Returns the name of the cause.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Conflict => "conflict",
            Self::TooOld => "too_old",
            Self::Overloaded => "overloaded",
            Self::Turn => "turn",
        }
    }

    /// Returns the cause of a retryable error.
    pub(crate) const fn of(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::TooOld => Self::TooOld,
            ErrorKind::Overloaded { .. } => Self::Overloaded,
            _ => Self::Conflict,
        }
    }
}

/// Numbers of one thread.
#[derive(Debug, Default)]
pub(crate) struct RetryCounts {
    retried: [AtomicU64; RetryCause::ALL.len()],
    given_up: [AtomicU64; RetryCause::ALL.len()],
}

impl RetryCounts {
    /// Counts a transaction that runs again.
    pub(crate) fn retry(&self, cause: RetryCause) {
        // Relaxed: the counters guard no other memory.
        self.retried[cause as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a transaction whose last attempt was lost.
    pub(crate) fn give_up(&self, cause: RetryCause) {
        self.given_up[cause as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the numbers of transactions that ran again, and that gave up.
    pub(crate) fn get(&self, cause: RetryCause) -> (u64, u64) {
        let get = |counts: &[AtomicU64]| counts[cause as usize].load(Ordering::Relaxed);
        (get(&self.retried), get(&self.given_up))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::Db;

    /// Runs a transaction whose attempts before the last one are lost.
    fn run(db: &Db, attempts_max: u32, lost: u32) -> Result<(), carnet_base::Error> {
        let table = db.raw("bank.stock").unwrap();
        let attempts = Cell::new(0);
        db.transaction().attempts_max(attempts_max).try_transact(|tx| {
            table.get(tx, "k")?;
            if attempts.replace(attempts.get() + 1) < lost {
                let other = db.begin()?;
                table.put(&other, "k", "w")?;
                other.commit()?;
            }
            table.put(tx, "k", "x")
        })
    }

    #[test]
    fn lost_attempts_are_counted_by_cause() {
        let db = Db::builder().in_memory();
        run(&db, 5, 2).unwrap();
        assert_eq!(db.retries(RetryCause::Conflict), (2, 0));
        run(&db, 2, 9).unwrap_err();
        assert_eq!(db.retries(RetryCause::Conflict), (3, 1), "one attempt of two was repeated");
        assert_eq!(db.retries(RetryCause::TooOld), (0, 0));
        assert_eq!(RetryCause::of(ErrorKind::TooOld), RetryCause::TooOld);
    }
}
