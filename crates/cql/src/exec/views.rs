//! Materialized views: `CREATE`, `ALTER` and `DROP MATERIALIZED VIEW`.
//!
//! The statement that creates a view also builds it if the base table is small. Otherwise a
//! background worker does, and reads of the view fail until it is built.

use std::sync::Arc;

use carnet::catalog::{self, TableKind, TableSchema};
use carnet::derived::Derived;
use carnet::{Tx, view};

use super::ddl_target::{already_exists, changed, new_uuid, place};
use super::first_build::FirstBuild;
use super::table_options::set_table_options;
use super::view_schema::view_schema;
use crate::ast::{AlterView, CreateView, DropView, Name, Options};
use crate::compile::Environment;
use crate::cql_error::CqlError;
use crate::result::{ChangeKind, SchemaChange};
use crate::system::Compact;

/// Runs a `CREATE MATERIALIZED VIEW`. Returns whether the view has yet to be built.
pub(super) async fn create(
    tx: &Tx,
    create: &CreateView,
    current: Option<&str>,
    environment: &Environment<'_>,
    build: &FirstBuild,
) -> Result<(Option<SchemaChange>, bool), CqlError> {
    let (keyspace, name) = place(&create.name, current)?;
    let base = base_table(tx, create, keyspace).await?;
    if let Some(existing) = catalog::table(tx, keyspace, name).await? {
        return match (existing.base.is_some(), create.if_not_exists) {
            (false, _) => Err(CqlError::invalid(format!(
                "Cannot create materialized view '{name}' - a table with the same name already \
                 exists"
            ))),
            (true, true) => Ok((None, false)),
            (true, false) => Err(already_exists(keyspace, Some(name))),
        };
    }
    Compact::check_view(&base)?;
    if base.has_counters() {
        return Err(CqlError::invalid("Materialized views are not supported on counter tables"));
    }
    let mut schema = view_schema(&base, name, create, environment)?;
    schema.uuid = new_uuid(tx, keyspace, name);
    let mut table = schema.table(&base)?;
    set_view_options(&mut table, &create.options, "set")?;
    schema.options = table.options;
    let base = view::add_view(tx, &base, schema).await?;
    let Some(schema) = base.view(name) else {
        return Err(CqlError::invalid(format!("view {name} was not added")));
    };
    let derived = Derived::view(&base, schema)?;
    let is_built = build.run(tx, &base, &derived).await?;
    Ok((changed(ChangeKind::Created, keyspace, Some(name)), !is_built))
}

async fn base_table(
    tx: &Tx,
    create: &CreateView,
    keyspace: &str,
) -> Result<Arc<TableSchema>, CqlError> {
    if create.table.keyspace.as_ref().is_some_and(|other| other.text != keyspace) {
        return Err(CqlError::invalid(
            "Cannot create a materialized view on a table in a different keyspace",
        ));
    }
    if catalog::keyspace(tx, keyspace).await?.is_none() {
        return Err(CqlError::invalid(format!("Keyspace '{keyspace}' doesn't exist")));
    }
    let name = create.table.table.as_str();
    let base = catalog::table(tx, keyspace, name).await?;
    let Some(base) = base.filter(|base| base.kind == TableKind::Rows) else {
        return Err(CqlError::invalid(format!("Base table '{name}' doesn't exist")));
    };
    if base.base.is_some() {
        return Err(CqlError::invalid(
            "Materialized views cannot be created against other materialized views",
        ));
    }
    Ok(base)
}

/// Sets options of a view; `verb` names the action in errors.
fn set_view_options(
    table: &mut TableSchema,
    options: &Options,
    verb: &str,
) -> Result<(), CqlError> {
    if options.iter().any(|(name, _)| name.text == "default_time_to_live") {
        return Err(CqlError::invalid(format!(
            "Cannot {verb} default_time_to_live for a materialized view. Data in a materialized \
             view always expire at the same time than the corresponding data in the parent table."
        )));
    }
    set_table_options(table, options)
}

/// Runs an `ALTER MATERIALIZED VIEW`.
pub(super) async fn alter(
    tx: &Tx,
    alter: &AlterView,
    current: Option<&str>,
) -> Result<Option<SchemaChange>, CqlError> {
    let (keyspace, name) = place(&alter.name, current)?;
    let Some((mut table, base)) = find(tx, keyspace, name).await? else {
        return missing(alter.if_exists, keyspace, name);
    };
    set_view_options(&mut table, &alter.options, "set or alter")?;
    let Some(schema) = base.view(name) else {
        return missing(alter.if_exists, keyspace, name);
    };
    let mut schema = schema.clone();
    schema.options = table.options;
    view::replace_view(tx, &base, schema).await?;
    Ok(changed(ChangeKind::Updated, keyspace, Some(name)))
}

/// Runs a `DROP MATERIALIZED VIEW`.
pub(super) async fn drop(
    tx: &Tx,
    drop: &DropView,
    current: Option<&str>,
) -> Result<Option<SchemaChange>, CqlError> {
    let (keyspace, name) = place(&drop.name, current)?;
    let Some((_, base)) = find(tx, keyspace, name).await? else {
        return missing(drop.if_exists, keyspace, name);
    };
    view::drop_view(tx, &base, name).await?;
    Ok(changed(ChangeKind::Dropped, keyspace, Some(name)))
}

/// Returns the table of a view, and its base table.
async fn find(
    tx: &Tx,
    keyspace: &str,
    name: &str,
) -> Result<Option<(TableSchema, Arc<TableSchema>)>, CqlError> {
    let Some(table) = catalog::table(tx, keyspace, name).await? else { return Ok(None) };
    let Some(base) = &table.base else { return Ok(None) };
    let base = catalog::table(tx, keyspace, &base.table).await?;
    Ok(base.map(|base| ((*table).clone(), base)))
}

fn missing(may_miss: bool, keyspace: &str, name: &str) -> Result<Option<SchemaChange>, CqlError> {
    if may_miss {
        return Ok(None);
    }
    let keyspace = Name::new(keyspace);
    Err(CqlError::invalid(format!("Materialized view '{keyspace}.{name}' doesn't exist")))
}
