//! Warnings about statements that are heavy in Cassandra.

use carnet::Tx;

use super::executor::Executor;
use super::grant::Grant;
use super::thresholds::{BatchSize, WarnThresholds};
use crate::ast::BatchKind;
use crate::compile::SelectPlan;

impl Executor {
    /// Sets the sizes above which answers come with warnings. Only the first call counts.
    ///
    /// Default: those of Cassandra.
    pub fn set_warn_thresholds(&self, thresholds: WarnThresholds) {
        self.shared.warn_thresholds.get_or_init(|| thresholds);
    }

    pub(super) fn warn_thresholds(&self) -> WarnThresholds {
        self.shared.warn_thresholds.get().copied().unwrap_or_default()
    }

    /// Warns of a large batch.
    pub(super) fn warn_of_batch(&self, grant: &Grant, kind: BatchKind, size: &BatchSize) {
        let Some(memory) = &grant.memory else { return };
        let warnings = size.warnings(kind, &self.warn_thresholds());
        warnings.into_iter().for_each(|warning| memory.warn(warning));
    }

    /// Warns of a read over many deleted rows. `before` is the number that the transaction had read
    /// before the statement.
    pub(super) fn warn_of_tombstones(
        &self,
        tx: &Tx,
        before: u64,
        (plan, rows): (&SelectPlan, usize),
        grant: &Grant,
    ) {
        let read = tx.deleted_read().saturating_sub(before);
        let Some(memory) =
            grant.memory.as_ref().filter(|_| read > self.warn_thresholds().tombstones)
        else {
            return;
        };
        memory.warn(format!(
            "Read {rows} live rows and {read} tombstone cells for a query of {}.{} (see \
             tombstone_warn_threshold)",
            plan.table.keyspace, plan.table.name
        ));
    }
}
