//! Where an index or view that a statement creates is built.

use std::sync::atomic::{AtomicBool, Ordering};

use carnet::Tx;
use carnet::catalog::TableSchema;
use carnet::derived::{Derived, build_step};

/// Maximum number of rows of a table whose index or view is built by the creating statement.
const ROWS_MAX: usize = 256;

/// Choice of a creating statement, which is repeated after a conflict.
///
/// Building reads every row, so a statement that builds conflicts with each writer of the table. It
/// tries once, and leaves the build of a busy table to the background.
#[derive(Debug, Default)]
pub(super) struct FirstBuild {
    was_tried: AtomicBool,
}

impl FirstBuild {
    /// Builds an index or view of a small table; returns `true` if it is built.
    pub(super) async fn run(
        &self,
        tx: &Tx,
        table: &TableSchema,
        derived: &Derived<'_>,
    ) -> carnet::Result<bool> {
        if self.was_tried.swap(true, Ordering::Relaxed) {
            return Ok(false);
        }
        build_step(tx, table, derived, ROWS_MAX).await
    }
}
