//! Creating, dropping and building indexes and views, as statements do.

use carnet::Tx;
use carnet::catalog::TableSchema;
use carnet::derived::{Derived, build_step};
use carnet::index::{add_index, drop_index};
use carnet::view::{add_view, drop_view};
use carnet_base::Result;

use super::schema::Definition;
use crate::random::Random;

/// Creates an index or a view, and builds its first rows in the same transaction.
pub(super) async fn create(
    tx: &Tx,
    table: &TableSchema,
    definition: Definition,
    rows_max: usize,
) -> Result<()> {
    let name = definition.name().to_owned();
    let table = match definition {
        Definition::Index(index) => add_index(tx, table, index).await?,
        Definition::View(view) => add_view(tx, table, view).await?,
    };
    if let Some(derived) = derived(&table, &name)? {
        build_step(tx, &table, &derived, rows_max).await?;
    }
    Ok(())
}

/// Drops a random index or view, or creates it.
pub(super) async fn create_or_drop(
    tx: &Tx,
    table: &TableSchema,
    random: &mut Random,
) -> Result<()> {
    let [a, b, c, d] = Definition::all();
    let definition = match random.below(4) {
        0 => a,
        1 => b,
        2 => c,
        _ => d,
    };
    let name = definition.name();
    if derived(table, name)?.is_none() {
        return create(tx, table, definition, random.count(1, 4)).await;
    }
    match &definition {
        Definition::Index(_) => drop_index(tx, table, name).await,
        Definition::View(_) => drop_view(tx, table, name).await,
    }
}

/// Builds a few rows of the first index or view that is not built.
pub(super) async fn build_some(tx: &Tx, table: &TableSchema, random: &mut Random) -> Result<()> {
    build(tx, table, random.count(1, 3)).await.map(drop)
}

/// Builds rows of the first index or view that is not built; returns `false` if all are built.
pub(super) async fn build(tx: &Tx, table: &TableSchema, rows_max: usize) -> Result<bool> {
    let unbuilt = Derived::all(table)?.into_iter().find(|derived| !derived.is_built());
    if let Some(derived) = &unbuilt {
        build_step(tx, table, derived, rows_max).await?;
    }
    Ok(unbuilt.is_some())
}

fn derived<'a>(table: &'a TableSchema, name: &str) -> Result<Option<Derived<'a>>> {
    match (table.index(name), table.view(name)) {
        (Some(index), _) => Derived::index(table, index).map(Some),
        (None, Some(view)) => Derived::view(table, view).map(Some),
        (None, None) => Ok(None),
    }
}
