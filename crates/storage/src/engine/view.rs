//! What a reader sees: memtables and tables, as one immutable list.

use std::sync::Arc;

use crate::memtable::Memtable;
use crate::sstable::Table;

/// Every place in which versions lie, at one moment.
#[derive(Clone)]
pub(super) struct View {
    pub(super) active: Arc<Memtable>,
    /// Full, waiting for their flush; newest first.
    pub(super) sealed: Vec<Arc<Memtable>>,
    /// Newest first.
    pub(super) tables: Vec<Arc<Table>>,
}

impl View {
    /// All memtables, newest first.
    pub(super) fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.active).chain(&self.sealed)
    }

    /// The view after a memtable was sealed and another took its place.
    pub(super) fn sealed(&self, active: Arc<Memtable>) -> Self {
        let mut sealed = vec![Arc::clone(&self.active)];
        sealed.extend(self.sealed.iter().cloned());
        Self { active, sealed, tables: self.tables.clone() }
    }

    /// The view after the oldest sealed memtable became a table; `None` where it was empty.
    pub(super) fn flushed(&self, table: Option<Arc<Table>>) -> Self {
        let mut sealed = self.sealed.clone();
        sealed.pop();
        let mut tables: Vec<_> = table.into_iter().collect();
        tables.extend(self.tables.iter().cloned());
        Self { active: Arc::clone(&self.active), sealed, tables }
    }
}
