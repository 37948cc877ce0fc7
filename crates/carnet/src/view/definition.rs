//! Views in the catalog: part of the schema of their base table, with a table schema of their own.
//!
//! A transaction that writes a base row depends on the schema of the base table. So a writer that
//! did not know of a new view conflicts with its creation, runs again, and writes the view row.

use carnet_base::{Error, ErrorKind, Result};

use crate::catalog::{
    BuildFailure, TableSchema, ViewSchema, alter_table, check_name, check_table_count,
    delete_view_table, next_table_id, table,
};
use crate::tx::Tx;

/// Adds a view to a table, under a new id. The view is not built yet.
///
/// # Errors
///
/// `AlreadyExists` if the keyspace has a table or view of this name; otherwise the same as
/// [`alter_table`].
pub async fn add_view(tx: &Tx, base: &TableSchema, mut view: ViewSchema) -> Result<TableSchema> {
    check_name("view", &view.name)?;
    if table(tx, &base.keyspace, &view.name).await?.is_some() {
        return Err(Error::new(
            ErrorKind::AlreadyExists,
            format!("table {}.{} exists already", base.keyspace, view.name),
        ));
    }
    check_table_count(tx, &base.keyspace).await?;
    view.id = next_table_id(tx).await?;
    tx.creates_cells(view.id);
    let mut schema = base.clone();
    schema.views.push(view);
    schema.version += 1;
    alter_table(tx, &schema).await?;
    Ok(schema)
}

/// Replaces a view by one with other options.
///
/// # Errors
///
/// `Invalid` if the table has no such view; otherwise the same as [`alter_table`].
pub async fn replace_view(tx: &Tx, base: &TableSchema, view: ViewSchema) -> Result<()> {
    let mut schema = base.clone();
    let place = place(&schema, &view.name)?;
    schema.views[place] = view;
    schema.version += 1;
    alter_table(tx, &schema).await
}

/// Drops a view with its rows. Snapshots taken before still see them.
///
/// # Errors
///
/// Same as [`replace_view`].
pub async fn drop_view(tx: &Tx, base: &TableSchema, name: &str) -> Result<()> {
    let mut schema = base.clone();
    let place = place(&schema, name)?;
    let dropped = schema.views.remove(place);
    schema.version += 1;
    alter_table(tx, &schema).await?;
    delete_view_table(tx, &schema.keyspace, &dropped)
}

/// Records that every base row has its view row, or why some have not.
///
/// # Errors
///
/// Same as [`replace_view`].
pub async fn view_built(
    tx: &Tx,
    base: &TableSchema,
    name: &str,
    failure: Option<BuildFailure>,
) -> Result<()> {
    let mut view = base.views[place(base, name)?].clone();
    (view.is_built, view.failure) = (failure.is_none(), failure);
    replace_view(tx, base, view).await
}

fn place(table: &TableSchema, name: &str) -> Result<usize> {
    table.views.iter().position(|view| view.name == name).ok_or_else(|| {
        Error::invalid(format!("table {}.{} has no view {name}", table.keyspace, table.name))
    })
}
