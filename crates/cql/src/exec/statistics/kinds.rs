//! Durations of statements by their kind.

use carnet_base::{DurationCounts, Durations, stripe};

use crate::ast::Statement;

/// Number of copies; threads count in separate ones if there are enough.
const STRIPES: usize = 8;

/// Kind of a statement, as monitors distinguish them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementKind {
    /// A `SELECT`, also within an open transaction.
    Read,
    /// `INSERT`, `UPDATE` or `DELETE` without `IF`.
    Write,
    /// The same with `IF`.
    Conditional,
    /// A batch, of CQL or of a driver.
    Batch,
    /// A whole transaction in one statement, or the beginning or end of an open one.
    Transaction,
    /// A change of the schema, or `TRUNCATE`.
    Schema,
    /// Any other statement.
    Other,
}

impl StatementKind {
    /// All kinds, in the order of their values.
    pub const ALL: [Self; 7] = [
        Self::Read,
        Self::Write,
        Self::Conditional,
        Self::Batch,
        Self::Transaction,
        Self::Schema,
        Self::Other,
    ];

    /// Returns the name of the kind.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Conditional => "conditional",
            Self::Batch => "batch",
            Self::Transaction => "transaction",
            Self::Schema => "schema",
            Self::Other => "other",
        }
    }

    /// Returns the kind of a statement.
    #[must_use]
    pub(in crate::exec) const fn of(statement: &Statement) -> Self {
        match statement {
            Statement::Select(_) => Self::Read,
            Statement::Write(write) if write.is_conditional() => Self::Conditional,
            Statement::Write(_) => Self::Write,
            Statement::Batch(_) => Self::Batch,
            Statement::Transaction(_) | Statement::Open(_) => Self::Transaction,
            Statement::Use(_)
            | Statement::Describe(_)
            | Statement::Level(_)
            | Statement::Role(_)
            | Statement::ShowBottleneck
            | Statement::KillStatement(_)
            | Statement::Explain(_)
            | Statement::Unsupported(_) => Self::Other,
            _ => Self::Schema,
        }
    }
}

/// Durations of all statements by their kind.
#[derive(Debug, Default)]
pub(in crate::exec) struct KindDurations([Copied; STRIPES]);

/// Histograms of the threads of one number. They are aligned to their own cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Copied([Durations; StatementKind::ALL.len()]);

impl KindDurations {
    /// Counts a statement.
    pub(in crate::exec) fn record(&self, kind: StatementKind, took: std::time::Duration) {
        self.0[stripe(STRIPES)].0[kind as usize].record(took);
    }

    /// Returns the durations of a kind.
    pub(in crate::exec) fn counts(&self, kind: StatementKind) -> DurationCounts {
        let mut sum = DurationCounts::default();
        self.0.iter().for_each(|copy| sum.add(&copy.0[kind as usize].counts()));
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::{Limits, parse};

    fn kind(text: &str) -> &'static str {
        StatementKind::of(&parse(text, &Limits::default()).unwrap().statement).name()
    }

    #[test]
    fn statements_have_their_kind() {
        for (text, expected) in [
            ("SELECT * FROM k.t", "read"),
            ("INSERT INTO k.t (a) VALUES (1)", "write"),
            ("INSERT INTO k.t (a) VALUES (1) IF NOT EXISTS", "conditional"),
            ("DELETE FROM k.t WHERE a = 1 IF EXISTS", "conditional"),
            ("BEGIN BATCH INSERT INTO k.t (a) VALUES (1); APPLY BATCH", "batch"),
            ("START TRANSACTION", "transaction"),
            ("COMMIT", "transaction"),
            ("CREATE TABLE k.t (a int PRIMARY KEY)", "schema"),
            ("TRUNCATE k.t", "schema"),
            ("CREATE ROLE ann", "other"),
            ("DESCRIBE KEYSPACES", "other"),
        ] {
            assert_eq!(kind(text), expected, "{text}");
        }
        for (place, kind) in StatementKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, place);
        }
    }
}
