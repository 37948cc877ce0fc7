//! Indexes in the catalog: part of the schema of their table.
//!
//! A transaction that writes a row depends on the schema of its table. So a writer that did not
//! know of a new index conflicts with its creation, runs again, and writes the entries.

use carnet_base::{Error, ErrorKind, Result};

use crate::catalog::{
    BuildFailure, IndexSchema, TableSchema, alter_table, check_name, next_table_id, tables,
};
use crate::tx::Tx;

/// Adds an index to a table, under a new id. The index is not built yet.
///
/// # Errors
///
/// `AlreadyExists` if the keyspace has an index of this name; otherwise the same as
/// [`alter_table`].
pub async fn add_index(
    tx: &Tx,
    table: &TableSchema,
    mut index: IndexSchema,
) -> Result<TableSchema> {
    check_name("index", &index.name)?;
    if index_table(tx, &table.keyspace, &index.name).await?.is_some() {
        return Err(Error::new(
            ErrorKind::AlreadyExists,
            format!("Index '{}' already exists", index.name),
        ));
    }
    index.id = next_table_id(tx).await?;
    tx.creates_cells(index.id);
    let mut schema = table.clone();
    schema.indexes.push(index);
    schema.version += 1;
    alter_table(tx, &schema).await?;
    Ok(schema)
}

/// Returns the table of a keyspace that has an index of this name.
///
/// # Errors
///
/// Same as [`Tx::get_cell`].
pub async fn index_table(tx: &Tx, keyspace: &str, index: &str) -> Result<Option<TableSchema>> {
    let tables = tables(tx, keyspace).await?;
    Ok(tables.into_iter().find(|table| table.index(index).is_some()))
}

/// Drops an index with its entries. Snapshots taken before still see them.
///
/// # Errors
///
/// `Invalid` if the table has no such index; otherwise the same as [`alter_table`].
pub async fn drop_index(tx: &Tx, table: &TableSchema, name: &str) -> Result<()> {
    let place = place(table, name)?;
    let mut schema = table.clone();
    let dropped = schema.indexes.remove(place);
    schema.version += 1;
    alter_table(tx, &schema).await?;
    tx.drop_cells(dropped.id)
}

/// Records that every row of a table has its entries in an index, or why some have not.
///
/// # Errors
///
/// Same as [`drop_index`].
pub async fn index_built(
    tx: &Tx,
    table: &TableSchema,
    name: &str,
    failure: Option<BuildFailure>,
) -> Result<()> {
    let place = place(table, name)?;
    let mut schema = table.clone();
    let index = &mut schema.indexes[place];
    (index.is_built, index.failure) = (failure.is_none(), failure);
    schema.version += 1;
    alter_table(tx, &schema).await
}

fn place(table: &TableSchema, name: &str) -> Result<usize> {
    table.indexes.iter().position(|index| index.name == name).ok_or_else(|| {
        Error::invalid(format!("table {}.{} has no index {name}", table.keyspace, table.name))
    })
}
