//! Numbers of commits by their outcome, and the durations of successful ones.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use carnet_base::{DurationCounts, Durations, ErrorKind, Result, Timestamp};

/// Outcome of a commit. A transaction that runs again has a commit for each attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    /// It took effect.
    Committed,
    /// Another transaction committed first.
    Conflict,
    /// Its snapshot was older than the commits kept to check it.
    TooOld,
    /// The store had no capacity for it.
    Overloaded,
    /// Its deadline passed before.
    Timeout,
    /// Whether it took effect is not known.
    Unknown,
    /// It had no effect for another reason.
    Failed,
}

impl CommitOutcome {
    /// All outcomes, in the order of their counters.
    pub const ALL: [Self; 7] = [
        Self::Committed,
        Self::Conflict,
        Self::TooOld,
        Self::Overloaded,
        Self::Timeout,
        Self::Unknown,
        Self::Failed,
    ];

    /// Returns the name of the outcome.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Committed => "committed",
            Self::Conflict => "conflict",
            Self::TooOld => "too_old",
            Self::Overloaded => "overloaded",
            Self::Timeout => "timeout",
            Self::Unknown => "unknown",
            Self::Failed => "failed",
        }
    }

    fn of(result: &Result<Timestamp>) -> Self {
        match result.as_ref().map_err(carnet_base::Error::kind) {
            Ok(_) => Self::Committed,
            Err(ErrorKind::Conflict) => Self::Conflict,
            Err(ErrorKind::TooOld) => Self::TooOld,
            Err(ErrorKind::Overloaded { .. }) => Self::Overloaded,
            Err(ErrorKind::Timeout) => Self::Timeout,
            Err(ErrorKind::Unknown { .. }) => Self::Unknown,
            Err(_) => Self::Failed,
        }
    }
}

/// Commits of one thread.
#[derive(Debug, Default)]
pub(crate) struct CommitCounts {
    outcomes: [AtomicU64; CommitOutcome::ALL.len()],
    /// Of commits with writes that took effect.
    durations: Durations,
}

impl CommitCounts {
    /// Counts a commit; `took` is the duration of one with writes.
    pub(crate) fn count(&self, result: &Result<Timestamp>, took: Option<Duration>) {
        // Relaxed: the counters guard no other memory.
        self.outcomes[CommitOutcome::of(result) as usize].fetch_add(1, Ordering::Relaxed);
        if let Some(took) = took.filter(|_| result.is_ok()) {
            self.durations.record(took);
        }
    }

    pub(crate) fn get(&self, outcome: CommitOutcome) -> u64 {
        self.outcomes[outcome as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn durations(&self) -> DurationCounts {
        self.durations.counts()
    }
}

#[cfg(test)]
mod tests {
    use crate::Db;

    use super::*;

    #[test]
    fn commits_are_counted_by_their_outcome() {
        let db = Db::builder().in_memory();
        let table = db.raw("bank.stock").unwrap();
        let before = db.commits(CommitOutcome::Committed);
        let timed_before = db.commit_durations().count();
        let timed = || db.commit_durations().count() - timed_before;
        let (one, other) = (db.begin().unwrap(), db.begin().unwrap());
        for tx in [&one, &other] {
            assert_eq!(table.get(tx, "k").unwrap(), None);
            table.put(tx, "k", "v").unwrap();
        }
        one.commit().unwrap();
        assert_eq!(other.commit().unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(db.commits(CommitOutcome::Committed), before + 1);
        assert_eq!(db.commits(CommitOutcome::Conflict), 1);
        assert_eq!(timed(), 1, "without the one that was lost");
        db.begin().unwrap().commit().unwrap();
        assert_eq!(timed(), 1, "a commit without writes waits for nothing");
        // A transaction that runs again commits twice.
        let first = std::cell::Cell::new(true);
        db.transact(|tx| {
            table.get(tx, "k")?;
            if first.replace(false) {
                db.transact(|tx| table.put(tx, "k", "w"))?;
            }
            table.put(tx, "k", "x")
        })
        .unwrap();
        assert_eq!(db.commits(CommitOutcome::Committed), before + 4);
        assert_eq!(db.commits(CommitOutcome::Conflict), 2);
        assert_eq!(timed(), 3);
    }
}
