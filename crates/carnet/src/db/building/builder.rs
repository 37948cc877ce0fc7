//! Chooses the indexes and views to build, and builds them step by step.

use carnet_base::{ErrorKind, Result, TableId};
use carnet_txn::{Isolation, Label};

use crate::catalog;
use crate::db::database::{Building, Db, WeakDb};
use crate::derived::{Built, Derived, build_rows};
use crate::tx::Tx;

/// Number of rows in a step without conflicts.
const ROWS_MAX: usize = 256;

/// A derived table to build.
#[derive(Clone, Debug)]
struct Target {
    keyspace: String,
    table: String,
    derived: TableId,
}

/// Outcome of a step.
enum Stepped {
    Goes,
    /// The derived table is built, cannot be built, or was dropped.
    Ended,
}

/// Builds all indexes and views that are not built, step by step.
pub(super) struct DerivedBuilder {
    db: WeakDb,
    target: Option<Target>,
    /// Derived table whose last step failed for a reason that may pass. The builder goes on with the
    /// next one.
    failed: Option<TableId>,
    rows_max: usize,
    /// `None` while the builder looks for the next index or view.
    building: Option<Building>,
}

impl DerivedBuilder {
    pub(super) fn new(db: &Db, building: Building) -> Self {
        let db = db.downgrade();
        Self { db, target: None, failed: None, rows_max: ROWS_MAX, building: Some(building) }
    }

    /// Returns how often the database was asked to build; 0 for a closed one.
    pub(super) fn asked(&self) -> u64 {
        self.db.upgrade().map_or(0, |db| db.asked_to_build())
    }

    /// Runs a step; returns `false` if all indexes and views are built, or the database is closed.
    /// After a conflict the next step has fewer rows.
    pub(super) async fn advance(&mut self) -> Result<bool> {
        // Between two steps the builder does not keep the database open.
        let Some(db) = self.db.upgrade() else { return Ok(false) };
        let stepped = self.step(&db).await;
        if let Err(error) = &stepped {
            if error.kind() == ErrorKind::Conflict {
                self.rows_max = (self.rows_max / 2).max(1);
                return Ok(true);
            }
            // Several rows may be too much for one transaction.
            if error.kind() == ErrorKind::Invalid && self.rows_max > 1 {
                self.rows_max = 1;
                return Ok(true);
            }
            tracing::warn!(%error, target = ?self.target, "a step of the build of an index or view failed");
            self.failed = self.target.take().map(|target| target.derived).or(self.failed);
        }
        stepped
    }

    async fn step(&mut self, db: &Db) -> Result<bool> {
        if self.target.is_none() {
            // Cleared before the search, so that a table created after it starts a new builder.
            self.building = None;
            let target = next_target(&db.snapshot_async().await?, self.failed).await?;
            if target.is_some() {
                self.building = db.begin_building();
            }
            if self.building.is_none() {
                return Ok(false);
            }
            self.target = target;
        }
        let Some(target) = &self.target else { return Ok(false) };
        let rows_max = self.rows_max;
        let label = Label::new("carnet", "index or view build");
        // A row that changes during the step must conflict with it, whatever the database's default.
        let strict = db.transaction().isolation(Isolation::StrictSerializable);
        let step = strict.attempts_max(1).label(label);
        match step.try_run(|tx| step_of(tx, target, rows_max)).await? {
            Stepped::Goes => self.rows_max = (rows_max * 2).min(ROWS_MAX),
            Stepped::Ended => self.target = None,
        }
        Ok(true)
    }
}

async fn step_of(tx: Tx, target: &Target, rows_max: usize) -> Result<Stepped> {
    let Some(table) = catalog::table(&tx, &target.keyspace, &target.table).await? else {
        return Ok(Stepped::Ended);
    };
    let derived = Derived::all(&table)?.into_iter().find(|found| found.id() == target.derived);
    let Some(derived) = derived.filter(Derived::is_building) else { return Ok(Stepped::Ended) };
    match build_rows(&tx, &table, &derived, rows_max).await? {
        Built::Goes => Ok(Stepped::Goes),
        Built::Whole => Ok(Stepped::Ended),
        Built::Failed(failure) => {
            tracing::warn!(?target, failure = failure.text(), "an index or view cannot be built");
            tx.delete_cell(derived.progress_cell())?;
            derived.built(&tx, Some(failure)).await?;
            Ok(Stepped::Ended)
        }
    }
}

/// Returns `true` if the catalog has an index or view that is not built.
pub(in crate::db) async fn is_needed(tx: &Tx) -> Result<bool> {
    next_target(tx, None).await.map(|target| target.is_some())
}

/// Returns an index or view to build: the one that comes after another in the order of their tables' ids, or
/// the first one.
async fn next_target(tx: &Tx, after: Option<TableId>) -> Result<Option<Target>> {
    let mut targets = Vec::new();
    for keyspace in catalog::keyspaces(tx).await? {
        for table in catalog::tables(tx, &keyspace.name).await? {
            let indexes = table.indexes.iter().filter(|index| index.is_building());
            let views = table.views.iter().filter(|view| view.is_building());
            let ids = indexes.map(|index| index.id).chain(views.map(|view| view.id));
            targets.extend(ids.map(|derived| Target {
                keyspace: table.keyspace.clone(),
                table: table.name.clone(),
                derived,
            }));
        }
    }
    let is_before = |target: &Target| after.is_some_and(|after| target.derived <= after);
    Ok(targets.into_iter().min_by_key(|target| (is_before(target), target.derived)))
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn builder_that_panics_leaves_the_right_to_build() {
        let db = Db::builder().in_memory();
        let building = db.begin_building().unwrap();
        assert!(db.begin_building().is_none());
        let builder = DerivedBuilder::new(&db, building);
        let step = AssertUnwindSafe(move || {
            let _builder = builder;
            panic!("a step fails");
        });
        assert!(catch_unwind(step).is_err());
        assert!(db.begin_building().is_some());
    }
}
