//! Statements about transactions that stay open.

use super::term::Term;

/// A statement about transactions that stay open.
#[derive(Clone, Debug, PartialEq)]
pub enum OpenStatement {
    /// `START [DETACHED] TRANSACTION …`.
    Start(StartTransaction),
    /// `COMMIT [TRANSACTION [id]]`: a literal or a marker.
    Commit(Option<Term>),
    /// `ROLLBACK [TRANSACTION [id]]`: a literal or a marker.
    Rollback(Option<Term>),
    /// `KILL TRANSACTION id`: a literal or a marker, or a start timestamp.
    Kill(Term),
    /// `SELECT outcome(id)`: the id of a transaction, or its start timestamp.
    Outcome(Term),
    /// `SELECT outcome(id, id, …)`: ids or start timestamps of several transactions.
    Outcomes(Vec<Term>),
}

impl OpenStatement {
    /// Returns the kind of the statement, in words of CQL.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Start(_) => "START TRANSACTION",
            Self::Commit(_) => "COMMIT",
            Self::Rollback(_) => "ROLLBACK",
            Self::Kill(_) => "KILL TRANSACTION",
            Self::Outcome(_) | Self::Outcomes(_) => "SELECT outcome",
        }
    }

    /// Returns the term of its transaction, if it names a single one.
    pub(crate) const fn id(&self) -> Option<&Term> {
        match self {
            Self::Start(_) | Self::Outcomes(_) => None,
            Self::Commit(id) | Self::Rollback(id) => id.as_ref(),
            Self::Kill(id) | Self::Outcome(id) => Some(id),
        }
    }
}

/// `START [DETACHED] TRANSACTION` with its options.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StartTransaction {
    /// Whether only statements that name the transaction are part of it, and not each statement of
    /// the connection.
    pub detached: bool,
    /// Isolation level, if given.
    pub isolation: Option<IsolationLevel>,
    /// Whether it only reads; if not given, `AS OF` decides.
    pub read_only: Option<bool>,
    /// `AS OF`: a Carnet timestamp or a wall-clock time.
    pub as_of: Option<Term>,
}

/// Isolation level of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsolationLevel {
    /// Level `STRICT SERIALIZABLE`: one at a time, in real-time order.
    StrictSerializable,
    /// Level `SERIALIZABLE`: one at a time; reads may be stale.
    Serializable,
    /// Level `SNAPSHOT`: only writes of the same row conflict.
    Snapshot,
}

impl IsolationLevel {
    /// Returns its keywords.
    #[must_use]
    pub const fn keywords(self) -> &'static str {
        match self {
            Self::StrictSerializable => "STRICT SERIALIZABLE",
            Self::Serializable => "SERIALIZABLE",
            Self::Snapshot => "SNAPSHOT",
        }
    }
}
