//! Pages, responses and prepared statements of both kinds of databases.

use std::sync::Arc;

use carnet::{Bytes, Uuid};
use carnet_cql::result::{ColumnSpec, Response};
use scylla::statement::prepared::PreparedStatement;

/// Size and beginning of a page of rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Page {
    /// Maximum number of rows; `None` for all rows at once.
    pub(crate) rows: Option<usize>,
    /// Paging state of the page before.
    pub(crate) state: Option<Bytes>,
}

/// Response to a statement, and the server's notes on it.
pub(crate) struct Answer {
    pub(crate) response: Response,
    pub(crate) warnings: Vec<String>,
    /// Session of the trace, if the statement was traced.
    pub(crate) trace: Option<Uuid>,
}

impl Answer {
    /// Returns the answer of a statement that had no result.
    pub(super) const fn done() -> Self {
        Self { response: Response::Void, warnings: Vec::new(), trace: None }
    }
}

/// A prepared statement.
pub(crate) struct Prepared {
    /// Columns of the result.
    pub(crate) columns: Vec<ColumnSpec>,
    pub(super) handle: Handle,
}

/// A prepared statement of one of the two kinds of databases.
pub(super) enum Handle {
    Local(Arc<carnet_cql::Prepared>),
    Remote(Box<PreparedStatement>),
}
