//! Kinds of `IF` conditions.

use crate::compile::GuardPlan;
use crate::cql_error::CqlError;

/// Kind of the conditions on a row. All conditions on one row have one kind, like in Cassandra.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Exists,
    NotExists,
    Columns,
}

impl Kind {
    pub(super) const fn new(guard: &GuardPlan) -> Option<Self> {
        match guard {
            GuardPlan::Always => None,
            GuardPlan::Exists => Some(Self::Exists),
            GuardPlan::NotExists => Some(Self::NotExists),
            GuardPlan::Columns(_) => Some(Self::Columns),
        }
    }

    /// Refuses a condition of this kind after one of another kind on the same row.
    pub(super) fn check(self, before: Self) -> Result<(), CqlError> {
        Err(CqlError::invalid(match (before, self) {
            _ if before == self => return Ok(()),
            (Self::Columns, Self::Exists) => {
                "Cannot mix IF conditions and IF EXISTS for the same row"
            }
            (Self::Columns, _) | (_, Self::Columns) => {
                "Cannot mix IF conditions and IF NOT EXISTS for the same row"
            }
            _ => "Cannot mix IF EXISTS and IF NOT EXISTS conditions for the same row",
        }))
    }
}
