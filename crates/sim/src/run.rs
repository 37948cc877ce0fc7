//! The result of a run.

use std::fmt;
use std::time::Duration;

use crate::executor::Executor;
use crate::run_record::{Reported, RunRecord};

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Description of a violation, if there was one.
    pub verdict: Result<(), String>,
    /// Number of transactions that ended.
    pub transactions: usize,
    /// Number of committed transactions.
    pub committed: usize,
    /// Number of transactions rolled back because they were idle for too long.
    pub expired: usize,
    /// Number of restored copies that were read.
    pub copies: usize,
    /// Number of injected faults.
    pub faults: usize,
    /// Hash of all occurrences, in their order.
    pub trace: u64,
    /// Number of events.
    pub events: u64,
    /// Elapsed virtual time.
    pub virtual_time: Duration,
    /// Settings drawn from the seed.
    pub setup: String,
}

impl Run {
    /// Sums a run up.
    pub(crate) fn new(
        executor: &Executor,
        run_record: &RunRecord,
        faults: usize,
        setup: &impl fmt::Debug,
        verdict: Result<(), String>,
    ) -> Self {
        let records = run_record.records();
        let committed =
            records.iter().filter(|record| matches!(record.reported, Reported::Committed(_)));
        Self {
            verdict,
            transactions: run_record.ended(),
            committed: committed.count(),
            expired: run_record.expired(),
            copies: run_record.copies(),
            faults,
            trace: executor.trace(),
            events: executor.turns(),
            virtual_time: executor.now(),
            setup: format!("{setup:?}"),
        }
    }
}
