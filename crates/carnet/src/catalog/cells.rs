//! Cells of the catalog: reading and putting the records of keyspaces and tables.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use carnet_base::{Bytes, CellKey, Error, KeyRange, PartitionKey, Result, TableId};
use carnet_store::PageLimit;

use crate::schema::{
    KEYSPACES, KeyspaceSchema, StoredTable, TABLES, TableSchema, UserTypes, VERSIONS, limits,
};
use crate::tx::Tx;

const PAGE: PageLimit = PageLimit::cells(1000);

pub(crate) fn system_cell(table: TableId, partition: &str, clustering: &str) -> CellKey {
    let partition = PartitionKey::new(Bytes::copy_from_slice(partition.as_bytes()));
    CellKey::new(table, &partition, clustering)
}

/// Puts the record of a keyspace beside the one that it replaces. The record is read again before, so
/// that no record is stored that cannot be read.
pub(super) fn put_keyspace(
    tx: &Tx,
    schema: &KeyspaceSchema,
    before: Option<&KeyspaceSchema>,
) -> Result<()> {
    limits::check_types(schema, before)?;
    let record = schema.encode();
    let what = format!("the schema of keyspace {}", schema.name);
    let length = before.map(|before| before.encode().len());
    limits::check_record(&what, record.len(), length)?;
    let again = KeyspaceSchema::decode(&schema.name, &record);
    let record = readable(&what, schema, record, again)?;
    tx.put_cell(system_cell(KEYSPACES, "", &schema.name), record)
}

/// Returns the bytes of a record if they are read `again` as the same one, so that no record is stored
/// that cannot be read.
pub(crate) fn readable<T: PartialEq>(
    what: &str,
    record: &T,
    bytes: Bytes,
    again: Result<T>,
) -> Result<Bytes> {
    match again {
        Ok(again) if again == *record => Ok(bytes),
        Ok(_) => Err(misread(what)),
        Err(error) => Err(misread(what).with_source(error)),
    }
}

/// Makes the error for a record that would not be read as it is.
fn misread(what: &str) -> Error {
    Error::unsupported(format!(
        "{what} cannot be stored: it would be read as another one, or not at all"
    ))
}

/// Reads the record of a table with the user-defined types that it refers to.
pub(super) async fn read_table(
    tx: &Tx,
    keyspace: &str,
    name: &str,
    record: &[u8],
) -> Result<TableSchema> {
    let stored = StoredTable::read(keyspace, name, record)?;
    let types = match stored.needs_user_types() {
        true => user_types(tx, keyspace).await?,
        false => Arc::default(),
    };
    stored.resolve(keyspace, name, &types)
}

/// Returns the user-defined types of a keyspace; none if it does not exist.
pub(super) async fn user_types(tx: &Tx, keyspace: &str) -> Result<Arc<UserTypes>> {
    let key = system_cell(KEYSPACES, "", keyspace);
    let Some(entry) = tx.get_cell(&key).await? else { return Ok(Arc::default()) };
    let make = || {
        let schema = KeyspaceSchema::decode(keyspace, &entry.payload)?;
        Ok(UserTypes::new(&schema.types))
    };
    if Some(entry.start) == tx.start_timestamp() {
        return make().map(Arc::new);
    }
    tx.schemas().types(keyspace, entry.start, make)
}

/// Lists the tables of a keyspace in ascending order of name.
///
/// # Errors
///
/// Same as [`Tx::get_cell`].
pub async fn tables(tx: &Tx, keyspace: &str) -> Result<Vec<TableSchema>> {
    let cells = all_cells(tx, TABLES, keyspace).await?;
    let mut slice = tx.time_slice();
    let mut stored = Vec::with_capacity(cells.len());
    for (name, record) in cells {
        let table = StoredTable::read(keyspace, &name, &record)?;
        stored.push((name, table));
        if let Some(slice) = &mut slice {
            slice.check().await;
        }
    }
    let types = match stored.iter().any(|(_, table)| table.needs_user_types()) {
        true => user_types(tx, keyspace).await?,
        false => Arc::default(),
    };
    let mut tables = Vec::with_capacity(stored.len());
    for (name, table) in stored {
        tables.push(table.resolve(keyspace, &name, &types)?);
        if let Some(slice) = &mut slice {
            slice.check().await;
        }
    }
    Ok(tables)
}

/// Puts the records of a table and of its views beside that of the table that it replaces.
pub(super) fn replace_table(
    tx: &Tx,
    schema: &TableSchema,
    before: Option<&TableSchema>,
    types: &UserTypes,
) -> Result<()> {
    schema.check()?;
    if schema.base.is_some() {
        return Err(Error::invalid(
            "Cannot use ALTER TABLE on a materialized view; use ALTER MATERIALIZED VIEW instead",
        ));
    }
    limits::check_table(schema, before)?;
    put_table(tx, schema, before, types)?;
    for view in &schema.views {
        let table = view.table(schema)?;
        table.check()?;
        put_table(tx, &table, None, types)?;
    }
    Ok(())
}

/// Puts the record of a table. It is read again before, so that no record is stored that cannot be
/// read.
pub(super) fn put_table(
    tx: &Tx,
    schema: &TableSchema,
    before: Option<&TableSchema>,
    types: &UserTypes,
) -> Result<()> {
    let (keyspace, name) = (&schema.keyspace, &schema.name);
    let record = schema.encode();
    let what = format!("the schema of table {keyspace}.{name}");
    let length = before.map(|before| before.encode().len());
    limits::check_record(&what, record.len(), length)?;
    let again = StoredTable::read(keyspace, name, &record)
        .and_then(|stored| stored.resolve(keyspace, name, types));
    let record = readable(&what, schema, record, again)?;
    tx.put_cell(system_cell(TABLES, keyspace, name), record)
}

/// Writes the `schema` cell, so that concurrent schema changes conflict.
pub(super) fn touch(tx: &Tx) -> Result<()> {
    tx.put_cell(system_cell(VERSIONS, "", "schema"), Bytes::new())
}

/// Writes the entries that differ between two maps, and deletes the ones that are gone.
pub(crate) fn put_changes<K: Ord, V: PartialEq>(
    tx: &Tx,
    (old, new): (&BTreeMap<K, V>, &BTreeMap<K, V>),
    cell: impl Fn(&K) -> CellKey,
    record: impl Fn(&V) -> Result<Bytes>,
) -> Result<()> {
    let mut changed = new.iter().filter(|(key, value)| old.get(key) != Some(value));
    changed.try_for_each(|(key, value)| tx.put_cell(cell(key), record(value)?))?;
    let mut gone = old.keys().filter(|key| !new.contains_key(key));
    gone.try_for_each(|key| tx.delete_cell(cell(key)))
}

/// Reads all cells of a catalog partition, in ascending order of name.
pub(crate) async fn all_cells(
    tx: &Tx,
    table: TableId,
    partition: &str,
) -> Result<Vec<(String, Bytes)>> {
    let partition = system_cell(table, partition, "").partition();
    let range =
        KeyRange::clustering(table, &partition, Bound::Excluded(Bytes::new()), Bound::Unbounded);
    let mut found = Vec::new();
    let mut rest = Some(range);
    while let Some(range) = rest {
        let page = tx.range_cells(&range, false, PAGE).await?;
        for (key, payload) in page.cells.share_all() {
            let name = String::from_utf8(key.clustering().to_vec())
                .map_err(|_| Error::corrupted("a name in the catalog is not UTF-8"))?;
            found.push((name, payload));
        }
        rest = page.resume;
    }
    Ok(found)
}
