//! What a table's handle makes of the table's schema, kept from call to call.

use std::ops::Deref;
use std::sync::Arc;

use arc_swap::{ArcSwapOption, Guard};
use carnet_base::{Bytes, CellBuilder, CellHash, Result};

use crate::catalog::{self, Pin, SchemaAt, TableSchema};
use crate::tx::{Source, Tx};

/// A table by name, and a view of its schema.
///
/// Every row that is written asks for the view: as long as no schema changes that takes no lock
/// and writes to no memory that other threads read.
pub(super) struct Lens<T> {
    pub(super) keyspace: String,
    pub(super) name: String,
    held: ArcSwapOption<Held<T>>,
}

struct Held<T> {
    view: T,
    schema: Arc<TableSchema>,
    /// `None` where the schema was not settled when it was read.
    pin: Option<Pin>,
}

/// A view that is being used.
pub(super) struct View<T>(Guard<Option<Arc<Held<T>>>>);

impl<T> View<T> {
    /// Makes it one that may be kept: a thread borrows but few without counting.
    pub(super) fn kept(self) -> Self {
        Self(Guard::from_inner(Guard::into_inner(self.0)))
    }
}

impl<T> Deref for View<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.as_ref().expect("a view is made of one that is held").view
    }
}

impl<T> Lens<T> {
    pub(super) fn new(keyspace: &str, name: &str) -> Self {
        let (keyspace, name) = (keyspace.to_owned(), name.to_owned());
        Self { keyspace, name, held: ArcSwapOption::empty() }
    }

    /// Returns the view of the schema at a transaction's snapshot where that is known without a
    /// read, and the hash of the cell that the commit is to depend on.
    pub(super) fn current(&self, tx: &Tx) -> Option<(View<T>, CellHash)> {
        let held = self.held.load();
        let pin = held.as_ref()?.pin.as_ref()?;
        if tx.changes_schema() || !tx.schemas().is_current(pin, tx.schema_at()) {
            return None;
        }
        let cell = pin.cell;
        Some((View(held), cell))
    }

    /// Reads a cell that was committed last, where that takes neither a snapshot nor another look at
    /// the schema; makes something of its payload and of the view of the schema at that moment.
    #[inline]
    pub(super) fn newest<R>(
        &self,
        source: Source<'_>,
        cell: impl FnOnce(&T) -> Result<CellBuilder>,
        make: impl FnOnce(&T, Option<Bytes>) -> Result<R>,
    ) -> Option<Result<R>> {
        let Source::Db(db) = source else { return None };
        let held = self.held.load();
        let Held { view, pin, .. } = &**held.as_ref()?;
        let pin = pin.as_ref()?;
        // What the view is too old to make is tried again with the one of a snapshot.
        let cell = cell(view).ok()?;
        let newest = match db.newest(cell.key())? {
            Ok(newest) => newest,
            Err(error) => return Some(Err(error)),
        };
        let at = SchemaAt { read: newest.read, changed: newest.schema };
        let payload = newest.version.and_then(|version| version.payload);
        db.schemas().is_current(pin, at).then(|| make(view, payload))
    }

    /// Returns the view of the schema at a transaction's snapshot, and makes the commit depend on
    /// that schema.
    pub(super) async fn view(
        &self,
        tx: &Tx,
        make: impl Fn(&TableSchema) -> Result<T> + Send,
    ) -> Result<View<T>> {
        if let Some((view, cell)) = self.current(tx) {
            // What only reads commits nothing that could depend on the schema.
            if tx.start_timestamp().is_some() {
                tx.guard_hash(cell)?;
            }
            return Ok(view);
        }
        let (keyspace, name) = (&*self.keyspace, &*self.name);
        let schema = catalog::table(tx, keyspace, name)
            .await?
            .ok_or_else(|| catalog::no_table(keyspace, name))?;
        let found = tx.schemas().find(keyspace, name, tx.schema_at());
        let pin = found.filter(|pin| Arc::ptr_eq(&pin.schema, &schema));
        let held = self.held.load();
        if pin.is_none() && held.as_ref().is_some_and(|held| Arc::ptr_eq(&held.schema, &schema)) {
            return Ok(View(held));
        }
        let held = Some(Arc::new(Held { view: make(&schema)?, schema, pin }));
        self.held.store(held.clone());
        Ok(View(Guard::from_inner(held)))
    }
}
