//! Catalog of keyspaces and tables.
//!
//! The catalog is stored in system tables as ordinary cells. So a schema change is a transaction,
//! is as durable as one, and is visible only to later snapshots:
//!
//! ```text
//! system table    partition key    clustering key   payload
//! keyspaces       (empty)          keyspace name    KeyspaceSchema, JSON
//! tables          keyspace name    table name       TableSchema, JSON
//! versions        (empty)          "schema"         empty: its version names the schema's state
//!                                  "next_table"     the next table id, 4 bytes big-endian
//! levels          service levels and their attachments: see [`crate::levels`]
//! roles           roles and their permissions: see [`crate::roles`]
//! ```
//!
//! * Every transaction that uses a table uses the table's schema as of its own snapshot, read or
//!   cached (`schema::cache`), and *depends* on its cell at every isolation level: a schema change and a
//!   write under the old schema never both commit.
//! * Every schema change writes the `schema` cell, so that schema changes conflict with each other.
//! * Table ids and column ids are never reused. Dropping a table deletes its cells, which snapshots
//!   taken before can still read.

mod cells;
mod pins;
mod type_changes;

use std::sync::Arc;

use carnet_base::{Bytes, Error, ErrorKind, Result, TableId, Timestamp};

pub use cells::tables;
pub(crate) use cells::{all_cells, put_changes, readable, system_cell};
pub use pins::Pins;
pub use type_changes::{Fields, alter_type, create_type, drop_type};

use cells::{put_keyspace, read_table, replace_table, touch, user_types as types_of};

pub(crate) use crate::schema::limits::check_name;
pub use crate::schema::limits::check_type;
pub use crate::schema::{
    ASCII, BuildFailure, CASE_SENSITIVE, ColumnKind, ColumnSchema, DroppedColumn, INDEX_BITS_MAX,
    IndexSchema, IndexedPart, KeptColumns, KeyspaceSchema, NORMALIZE, Order, TableKind,
    TableSchema, ViewBase, ViewOperator, ViewRelation, ViewSchema, ViewTest,
};
use crate::schema::{KEYSPACES, TABLES, VERSIONS, limits};
pub(crate) use crate::schema::{LEVELS, ROLES};
use crate::tx::Tx;

/// Partition of the versions table that names all raw tables that were ever created.
const RAW_TABLES: &str = "raw";

/// Returns a keyspace, or `None` if it does not exist.
///
/// # Errors
///
/// Same as [`Tx::get_cell`].
pub async fn keyspace(tx: &Tx, name: &str) -> Result<Option<KeyspaceSchema>> {
    let key = system_cell(KEYSPACES, "", name);
    tx.get_cell(&key).await?.map(|entry| KeyspaceSchema::decode(name, &entry.payload)).transpose()
}

/// Lists the keyspaces in ascending order of name.
///
/// # Errors
///
/// Same as [`Tx::get_cell`].
pub async fn keyspaces(tx: &Tx) -> Result<Vec<KeyspaceSchema>> {
    let cells = all_cells(tx, KEYSPACES, "").await?;
    cells.iter().map(|(name, payload)| KeyspaceSchema::decode(name, payload)).collect()
}

/// Creates a keyspace.
///
/// # Errors
///
/// `AlreadyExists`; `Invalid` for an empty or too long name; otherwise the same as
/// [`Tx::put_cell`].
pub async fn create_keyspace(tx: &Tx, schema: &KeyspaceSchema) -> Result<()> {
    limits::check_keyspace_name(&schema.name)?;
    if keyspace(tx, &schema.name).await?.is_some() {
        return Err(Error::new(
            ErrorKind::AlreadyExists,
            format!("keyspace {} exists already", schema.name),
        ));
    }
    let count = all_cells(tx, KEYSPACES, "").await?.len();
    limits::check_count("keyspaces", count, limits::KEYSPACES_MAX)?;
    touch(tx)?;
    put_keyspace(tx, schema, None)
}

/// Replaces the options of a keyspace.
///
/// # Errors
///
/// `Invalid` beyond a limit; otherwise the same as [`Tx::put_cell`].
pub async fn alter_keyspace(tx: &Tx, schema: &KeyspaceSchema) -> Result<()> {
    let before = keyspace(tx, &schema.name).await?;
    touch(tx)?;
    put_keyspace(tx, schema, before.as_ref())
}

/// Drops a keyspace and its tables.
///
/// # Errors
///
/// `Invalid` if it does not exist; otherwise the same as [`Tx::put_cell`].
pub async fn drop_keyspace(tx: &Tx, name: &str) -> Result<()> {
    if keyspace(tx, name).await?.is_none() {
        return Err(no_keyspace(name));
    }
    // A concurrent CREATE TABLE conflicts, because both write the `schema` cell.
    for table in tables(tx, name).await? {
        tx.delete_cell(system_cell(TABLES, name, &table.name))?;
        // The cells of a view are dropped with those of its base table.
        if table.base.is_none() {
            drop_cells(tx, &table)?;
        }
    }
    touch(tx)?;
    tx.delete_cell(system_cell(KEYSPACES, "", name))
}

/// Returns a table, or `None` if it does not exist. The transaction depends on the result at every
/// isolation level.
///
/// # Errors
///
/// Same as [`Tx::get_cell`].
pub async fn table(tx: &Tx, keyspace: &str, name: &str) -> Result<Option<Arc<TableSchema>>> {
    // The cache does not hold the uncommitted schema changes of this transaction.
    if !tx.changes_schema()
        && let Some(pin) = tx.schemas().find(keyspace, name, tx.schema_at())
    {
        tx.guard_hash(pin.cell)?;
        return Ok(Some(pin.schema));
    }
    let key = system_cell(TABLES, keyspace, name);
    tx.guard_cell(&key)?;
    let Some(entry) = Box::pin(tx.get_cell(&key)).await? else { return Ok(None) };
    let (start, read) = (entry.start, tx.read_timestamp());
    if let Some(schema) = tx.schemas().parsed(keyspace, name, start, read) {
        tx.note_kind(&schema);
        return Ok(Some(schema));
    }
    let schema = Arc::new(Box::pin(read_table(tx, keyspace, name, &entry.payload)).await?);
    // The transaction may change its own version again under the same start timestamp.
    if Some(start) != tx.start_timestamp() {
        tx.schemas().insert(&schema, key.hash(), start, read);
        tx.note_kind(&schema);
    }
    Ok(Some(schema))
}

/// Creates a table with a new id, and returns the stored schema.
///
/// # Errors
///
/// `AlreadyExists`; `Invalid` if the keyspace does not exist or the columns do not form a valid
/// table; otherwise the same as [`Tx::put_cell`].
pub async fn create_table(tx: &Tx, mut schema: TableSchema) -> Result<TableSchema> {
    schema.check()?;
    if keyspace(tx, &schema.keyspace).await?.is_none() {
        return Err(no_keyspace(&schema.keyspace));
    }
    if table(tx, &schema.keyspace, &schema.name).await?.is_some() {
        return Err(Error::new(
            ErrorKind::AlreadyExists,
            format!("table {}.{} exists already", schema.keyspace, schema.name),
        ));
    }
    check_table_count(tx, &schema.keyspace).await?;
    schema.id = next_table_id(tx).await?;
    tx.creates_table(&schema);
    record_raw(tx, &schema)?;
    alter_table(tx, &schema).await?;
    Ok(schema)
}

/// Refuses another table or view of a keyspace that has the maximum number.
pub(crate) async fn check_table_count(tx: &Tx, keyspace: &str) -> Result<()> {
    let count = all_cells(tx, TABLES, keyspace).await?.len();
    let what = format!("tables and views of keyspace {keyspace}");
    limits::check_count(&what, count, limits::TABLES_MAX)
}

/// Replaces a table's schema, and the schemas of its views. The caller has incremented its version
/// and kept its ids.
///
/// # Errors
///
/// `Invalid` if the columns do not form a valid table, beyond a limit, and for the table of a view;
/// otherwise the same as [`Tx::put_cell`].
pub async fn alter_table(tx: &Tx, schema: &TableSchema) -> Result<()> {
    let (keyspace, name) = (&schema.keyspace, &schema.name);
    let before = match tx.get_cell(&system_cell(TABLES, keyspace, name)).await? {
        Some(entry) => Some(read_table(tx, keyspace, name, &entry.payload).await?),
        None => None,
    };
    let types = types_of(tx, keyspace).await?;
    touch(tx)?;
    replace_table(tx, schema, before.as_ref(), &types)
}

/// Deletes the schema of a view's table. The caller removes the view from its base table.
pub(crate) fn delete_view_table(tx: &Tx, keyspace: &str, view: &ViewSchema) -> Result<()> {
    tx.delete_cell(system_cell(TABLES, keyspace, &view.name))?;
    tx.drop_cells(view.id)
}

/// Drops a table and its cells. Snapshots taken before still see them.
///
/// # Errors
///
/// `Invalid` if it does not exist, has views, or is a view; otherwise the same as [`Tx::put_cell`].
pub async fn drop_table(tx: &Tx, keyspace: &str, name: &str) -> Result<()> {
    let found = table(tx, keyspace, name).await?;
    let schema = found.ok_or_else(|| no_table(keyspace, name))?;
    if schema.base.is_some() {
        return Err(Error::invalid(
            "Cannot use DROP TABLE on a materialized view. Please use DROP MATERIALIZED VIEW \
             instead.",
        ));
    }
    if !schema.views.is_empty() {
        let views: Vec<&str> = schema.views.iter().map(|view| view.name.as_str()).collect();
        return Err(Error::invalid(format!(
            "Cannot drop a table when materialized views still depend on it ({})",
            views.join(", ")
        )));
    }
    touch(tx)?;
    tx.delete_cell(system_cell(TABLES, keyspace, name))?;
    drop_cells(tx, &schema)
}

/// Deletes the cells of a table, of its indexes and of its views.
fn drop_cells(tx: &Tx, table: &TableSchema) -> Result<()> {
    tx.drop_cells(table.id)?;
    table.indexes.iter().try_for_each(|index| tx.drop_cells(index.id))?;
    table.views.iter().try_for_each(|view| tx.drop_cells(view.id))
}

/// Truncates a table: gives it, its indexes and its views new ids, and deletes the cells under the
/// old ones.
///
/// # Errors
///
/// `Invalid` if it does not exist or is a view; otherwise the same as [`Tx::put_cell`].
pub async fn truncate_table(tx: &Tx, keyspace: &str, name: &str) -> Result<()> {
    let found = table(tx, keyspace, name).await?;
    let schema = found.ok_or_else(|| no_table(keyspace, name))?;
    if schema.base.is_some() {
        return Err(Error::invalid(
            "Cannot TRUNCATE materialized view directly; must truncate base table instead",
        ));
    }
    drop_cells(tx, &schema)?;
    let mut schema = (*schema).clone();
    schema.id = next_table_id(tx).await?;
    for index in &mut schema.indexes {
        index.id = next_table_id(tx).await?;
        (index.is_built, index.failure) = (true, None);
        tx.creates_cells(index.id);
    }
    for view in &mut schema.views {
        view.id = next_table_id(tx).await?;
        (view.is_built, view.failure) = (true, None);
        tx.creates_cells(view.id);
    }
    tx.creates_table(&schema);
    record_raw(tx, &schema)?;
    schema.version += 1;
    alter_table(tx, &schema).await
}

/// Records a raw table for good: its cells outlive it, and snapshots may still read them.
fn record_raw(tx: &Tx, schema: &TableSchema) -> Result<()> {
    if schema.kind != TableKind::Raw {
        return Ok(());
    }
    tx.put_cell(system_cell(VERSIONS, RAW_TABLES, &schema.id.to_string()), Bytes::new())
}

/// Returns the ids of all raw tables, including dropped ones.
pub(crate) async fn raw_tables(tx: &Tx) -> Result<Vec<TableId>> {
    let mut raw = Vec::new();
    for (id, _) in all_cells(tx, VERSIONS, RAW_TABLES).await? {
        let id = id.parse().map_err(|_| {
            Error::corrupted(format!("the catalog names a raw table {id}, which is no id"))
        })?;
        raw.push(TableId(id));
    }
    // Tables of earlier builds were not recorded.
    for keyspace in keyspaces(tx).await? {
        let tables = tables(tx, &keyspace.name).await?.into_iter();
        raw.extend(tables.filter(|table| table.kind == TableKind::Raw).map(|table| table.id));
    }
    Ok(raw)
}

/// Returns a timestamp that changes with every schema change.
///
/// # Errors
///
/// Same as [`Tx::get_cell`].
pub async fn version(tx: &Tx) -> Result<Timestamp> {
    let entry = tx.get_cell(&system_cell(VERSIONS, "", "schema")).await?;
    Ok(entry.map_or(Timestamp::ZERO, |entry| entry.start))
}

/// Makes the error for a keyspace that does not exist.
#[must_use]
pub fn no_keyspace(name: &str) -> Error {
    Error::invalid(format!("keyspace {name} does not exist"))
}

/// Makes the error for a table that does not exist.
#[must_use]
pub fn no_table(keyspace: &str, name: &str) -> Error {
    Error::invalid(format!("table {keyspace}.{name} does not exist"))
}

pub(crate) async fn next_table_id(tx: &Tx) -> Result<TableId> {
    let key = system_cell(VERSIONS, "", "next_table");
    let id = match tx.get_cell(&key).await? {
        None => TableId::FIRST.0,
        Some(entry) => {
            let bytes = entry.payload[..].try_into().map_err(|_| {
                Error::corrupted("the catalog's next table id does not have 4 bytes")
            })?;
            u32::from_be_bytes(bytes)
        }
    };
    let next =
        id.checked_add(1).ok_or_else(|| Error::unsupported("all 4 billion table ids are used"))?;
    tx.put_cell(key, Bytes::copy_from_slice(&next.to_be_bytes()))?;
    Ok(TableId(id))
}

#[cfg(test)]
mod count_tests;
#[cfg(test)]
mod readable_tests;
