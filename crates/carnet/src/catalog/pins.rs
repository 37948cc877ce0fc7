//! Schemas of a plan's tables, for runs without a lookup of each table.

use std::fmt;
use std::sync::Arc;

use carnet_base::Result;

use crate::schema::{Pin, TableSchema};
use crate::tx::Tx;

/// Schemas of several tables, with the snapshots at which they are known to be the newest.
///
/// While no schema changes, each later snapshot is one of them: a plan that was made for these schemas
/// then needs neither a lock nor a lookup by name.
pub struct Pins(Box<[Pin]>);

impl fmt::Debug for Pins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|pin| &pin.schema.name)).finish()
    }
}

impl Pins {
    /// Pins schemas that a transaction has just read. Returns `None` if one of them may still change, such as one that
    /// the transaction itself has changed.
    #[must_use]
    pub fn new<'s>(tx: &Tx, schemas: impl Iterator<Item = &'s Arc<TableSchema>>) -> Option<Self> {
        if tx.changes_schema() {
            return None;
        }
        let pin = |schema: &Arc<TableSchema>| {
            let found = tx.schemas().find(&schema.keyspace, &schema.name, tx.schema_at())?;
            Arc::ptr_eq(&found.schema, schema).then_some(found)
        };
        schemas.map(pin).collect::<Option<_>>().map(Self)
    }

    /// Returns `true` if all are the newest schemas at a transaction's snapshot. Its commit then depends on them.
    ///
    /// # Errors
    ///
    /// Those of a transaction that has ended.
    pub fn apply(&self, tx: &Tx) -> Result<bool> {
        let (schemas, at) = (tx.schemas(), tx.schema_at());
        if tx.changes_schema() || !self.0.iter().all(|pin| schemas.is_current(pin, at)) {
            return Ok(false);
        }
        self.0.iter().try_for_each(|pin| tx.guard_hash(pin.cell))?;
        Ok(true)
    }
}
