//! Cached schema of a table handle.

use std::ops::Deref;
use std::sync::Arc;

use arc_swap::{ArcSwapOption, Guard};
use carnet_base::{Bytes, CellBuilder, CellHash, Result};

use crate::catalog;
use crate::handle::Source;
use crate::schema::{Pin, SchemaAt, TableSchema};
use crate::tx::Tx;

/// A table by name, with a cached view of its schema.
///
/// Every row write reads the view: while no schema changes, this takes no lock and writes to no
/// shared memory.
pub(super) struct CachedSchema<T> {
    pub(super) keyspace: String,
    pub(super) name: String,
    held: ArcSwapOption<Held<T>>,
}

struct Held<T> {
    view: T,
    schema: Arc<TableSchema>,
    /// `None` if the schema could still change when it was read.
    pin: Option<Pin>,
}

/// A borrowed view.
pub(super) struct View<T>(Guard<Option<Arc<Held<T>>>>);

impl<T> View<T> {
    /// Makes a view that can be held for long: each thread has only a few borrow slots of
    /// `arc_swap`.
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

impl<T> CachedSchema<T> {
    pub(super) fn new(keyspace: &str, name: &str) -> Self {
        let (keyspace, name) = (keyspace.to_owned(), name.to_owned());
        Self { keyspace, name, held: ArcSwapOption::empty() }
    }

    /// Returns the view of the schema at a transaction's snapshot, with the hash of the cell that
    /// the commit has to depend on; `None` if the cached view is not current.
    pub(super) fn current(&self, tx: &Tx) -> Option<(View<T>, CellHash)> {
        let held = self.held.load();
        let pin = held.as_ref()?.pin.as_ref()?;
        if tx.changes_schema() || !tx.schemas().is_current(pin, tx.schema_at()) {
            return None;
        }
        let cell = pin.cell;
        Some((View(held), cell))
    }

    /// Reads the newest committed version of a cell and applies `make` to the view and its
    /// payload. `None` if this needs a snapshot, or if the cached view is not current.
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
        // If this view cannot build the key, the caller retries with the view of a snapshot.
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
            // A read-only transaction has no commit that could depend on the schema.
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
