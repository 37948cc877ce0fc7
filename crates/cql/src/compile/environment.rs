//! Inputs of the evaluation of terms.

use carnet_base::{Bytes, WallTime};

use super::evaluated::Evaluated;
use crate::bound::Bound;
use crate::steps::Steps;
use crate::uuids::Uuids;

/// Inputs of the evaluation.
#[derive(Clone, Copy)]
pub(crate) struct Environment<'a> {
    /// Values of the markers, by index.
    pub(crate) bound: &'a [Bound],
    pub(crate) now: WallTime,
    pub(crate) uuids: &'a Uuids,
    /// Columns of the row, in the order of the table's columns.
    pub(crate) row: Option<&'a [Option<Bytes>]>,
    /// Columns of the row of an `INSERT JSON`, in the order of the table's columns.
    pub(crate) json: Option<&'a [Evaluated]>,
    /// Row that each `LET` read; `None` for no row.
    pub(crate) lets: &'a [Option<Vec<Option<Bytes>>>],
    /// Counter of the statement's steps.
    pub(crate) steps: &'a Steps<'a>,
}

impl<'a> Environment<'a> {
    /// Returns the environment with a row.
    pub(crate) const fn with_row(self, row: &'a [Option<Bytes>]) -> Self {
        Self { row: Some(row), ..self }
    }
}
