//! Schema changes. Like every statement, each is a transaction.

use std::collections::HashSet;

use carnet::catalog::{self, ColumnKind, KeyspaceSchema, TableKind, TableSchema};
use carnet::{DataType, Tx};
use carnet_base::WallTime;
use carnet_data::key::Order;

use super::authorize::{check_schema, follow};
use super::column_type::column_type;
use super::ddl_target::{already_exists, changed, new_uuid, place, refuse_system};
use super::executor::Executor;
use super::first_build::FirstBuild;
use super::known_types::Types;
use super::parameters::Session;
use super::run::Run;
use super::table_options::{set_table_options, take_id};
use super::{ddl_warnings, indexes, user_types, views};
use crate::ast::{
    AlterKeyspace, AlterTable, ColumnDefinition, CopyTable, CreateKeyspace, CreateTable,
    DropKeyspace, DropTable, Literal, Name, OptionValue, Options, Statement, TableChange,
    TableName,
};
use crate::cql_error::{CqlError, CqlErrorKind};
use crate::result::{ChangeKind, Response, SchemaChange};
use crate::system::{self, Compact, Replication};

impl Executor {
    pub(super) async fn ddl(
        &self,
        statement: &Statement,
        run: &Run<'_>,
    ) -> Result<Response, CqlError> {
        let transaction = run.transaction(&self.shared.db);
        let data_center = &self.shared.node.data_center;
        let nodes = 1 + self.peers().len();
        let keyspace = run.keyspace.as_deref();
        let environment = &self.environment(&[], &run.steps);
        let build = &FirstBuild::default();
        let rights = run.rights.as_deref();
        let (change, is_unbuilt, changes_roles) = transaction
            .try_run(|tx| async move {
                check_schema(&tx, rights, statement, keyspace).await?;
                let (change, is_unbuilt) = match statement {
                    Statement::CreateIndex(create) => {
                        indexes::create(&tx, create, keyspace, build).await?
                    }
                    Statement::CreateView(create) => {
                        views::create(&tx, create, keyspace, environment, build).await?
                    }
                    statement => (change(&tx, statement, keyspace, data_center).await?, false),
                };
                let changes_roles = follow(&tx, rights, change.as_ref()).await?;
                Ok((change, is_unbuilt, changes_roles))
            })
            .await
            .map_err(unfinished)?;
        if changes_roles {
            self.apply_roles().await;
        }
        if is_unbuilt {
            self.shared.db.build_derived();
        }
        if let (Some(memory), Some(_)) = (&run.parameters.grant.memory, &change) {
            for warning in ddl_warnings::warnings(statement, nodes, data_center) {
                memory.warn(warning);
            }
        }
        Ok(change.map_or(Response::Void, Response::SchemaChange))
    }

    pub(super) async fn use_keyspace(
        &self,
        session: &Session,
        name: &str,
    ) -> Result<Response, CqlError> {
        if !system::is_system_keyspace(name) {
            let tx = self.shared.db.snapshot_async().await?;
            if catalog::keyspace(&tx, name).await?.is_none() {
                return Err(CqlError::invalid(format!("Keyspace '{name}' does not exist")));
            }
        }
        session.set_keyspace(name);
        Ok(Response::SetKeyspace(name.to_owned()))
    }

    pub(super) fn refuse_system(&self, table: &TableName, run: &Run<'_>) -> Result<(), CqlError> {
        let keyspace = table.keyspace.as_ref().map(Name::as_str).or(run.keyspace.as_deref());
        match keyspace {
            Some(keyspace) if system::is_virtual_keyspace(keyspace) => Err(CqlError::invalid(
                format!("Modification is not supported by table {keyspace}.{}", table.table.text),
            )),
            Some(keyspace) => refuse_system(keyspace),
            None => Ok(()),
        }
    }
}

/// Adds to the error of a schema change that timed out whether the change may still happen.
fn unfinished(error: CqlError) -> CqlError {
    let what = match error.kind() {
        CqlErrorKind::Timeout => "the schema was not changed",
        CqlErrorKind::Unknown { .. } => {
            "the schema change may have happened or happen soon: read the schema before you repeat it"
        }
        _ => return error,
    };
    CqlError::new(error.kind().clone(), format!("{error}; {what}"))
}

async fn change(
    tx: &Tx,
    statement: &Statement,
    keyspace: Option<&str>,
    data_center: &str,
) -> Result<Option<SchemaChange>, CqlError> {
    match statement {
        Statement::CreateKeyspace(create) => create_keyspace(tx, create, data_center).await,
        Statement::AlterKeyspace(alter) => alter_keyspace(tx, alter, data_center).await,
        Statement::DropKeyspace(drop) => drop_keyspace(tx, drop).await,
        Statement::CreateTable(create) => create_table(tx, create, keyspace).await,
        Statement::CopyTable(copy) => copy_table(tx, copy, keyspace).await,
        Statement::AlterTable(alter) => alter_table(tx, alter, keyspace).await,
        Statement::DropTable(drop) => drop_table(tx, drop, keyspace).await,
        Statement::CreateType(create) => user_types::create(tx, create, keyspace).await,
        Statement::AlterType(alter) => user_types::alter(tx, alter, keyspace).await,
        Statement::DropType(drop) => user_types::drop(tx, drop, keyspace).await,
        Statement::DropIndex(drop) => indexes::drop(tx, drop, keyspace).await,
        Statement::AlterView(alter) => views::alter(tx, alter, keyspace).await,
        Statement::DropView(drop) => views::drop(tx, drop, keyspace).await,
        Statement::Truncate(table, _) => truncate(tx, table, keyspace).await,
        other => Err(CqlError::unsupported(other)),
    }
}

async fn create_keyspace(
    tx: &Tx,
    create: &CreateKeyspace,
    data_center: &str,
) -> Result<Option<SchemaChange>, CqlError> {
    let name = create.name.as_str();
    // Cassandra reports this as an invalid request, and every other change as unauthorized.
    if system::is_system_keyspace(name) {
        return Err(CqlError::invalid(format!("System keyspace '{name}' is not user-modifiable")));
    }
    if catalog::keyspace(tx, name).await?.is_some() {
        if create.if_not_exists {
            return Ok(None);
        }
        return Err(already_exists(name, None));
    }
    let options = KeyspaceOptions::read(&create.options);
    let replication = options.replication.ok_or_else(|| {
        CqlError::invalid(
            "Missing mandatory option 'replication', as in WITH replication = \
             {'class': 'SimpleStrategy', 'replication_factor': 1}",
        )
    })?;
    let schema = KeyspaceSchema {
        replication: system::resolve(name, &replication, None, data_center)?,
        durable_writes: options.durable_writes.unwrap_or(true),
        ..KeyspaceSchema::local(name)
    };
    catalog::create_keyspace(tx, &schema).await?;
    Ok(changed(ChangeKind::Created, name, None))
}

async fn alter_keyspace(
    tx: &Tx,
    alter: &AlterKeyspace,
    data_center: &str,
) -> Result<Option<SchemaChange>, CqlError> {
    let name = alter.name.as_str();
    if system::is_replicated_keyspace(name) {
        if let Some(given) = KeyspaceOptions::read(&alter.options).replication {
            system::resolve(name, &given, None, data_center)?;
        }
        return Ok(changed(ChangeKind::Updated, name, None));
    }
    refuse_system(name)?;
    let Some(mut schema) = catalog::keyspace(tx, name).await? else {
        if alter.if_exists {
            return Ok(None);
        }
        return Err(catalog::no_keyspace(name).into());
    };
    let options = KeyspaceOptions::read(&alter.options);
    // An older build may have stored a form that drivers cannot parse.
    let previous = system::repaired(&schema.replication, data_center);
    schema.replication = match options.replication {
        Some(given) => system::resolve(name, &given, Some(&previous), data_center)?,
        None => previous,
    };
    schema.durable_writes = options.durable_writes.unwrap_or(schema.durable_writes);
    catalog::alter_keyspace(tx, &schema).await?;
    Ok(changed(ChangeKind::Updated, name, None))
}

/// Options of a keyspace in a statement.
#[derive(Default)]
struct KeyspaceOptions {
    replication: Option<Replication>,
    durable_writes: Option<bool>,
}

impl KeyspaceOptions {
    fn read(options: &Options) -> Self {
        let mut read = Self::default();
        for (name, value) in options {
            match (name.as_str(), value) {
                ("replication", OptionValue::Map(entries)) => {
                    let entries = entries.iter().map(|(key, value)| (key.plain(), value.plain()));
                    read.replication = Some(entries.collect());
                }
                // Names and types were checked by the parser.
                _ => read.durable_writes = system::durable_writes(value).or(read.durable_writes),
            }
        }
        read
    }
}

async fn drop_keyspace(tx: &Tx, drop: &DropKeyspace) -> Result<Option<SchemaChange>, CqlError> {
    let name = drop.name.as_str();
    refuse_system(name)?;
    if drop.if_exists && catalog::keyspace(tx, name).await?.is_none() {
        return Ok(None);
    }
    catalog::drop_keyspace(tx, name).await?;
    Ok(changed(ChangeKind::Dropped, name, None))
}

async fn create_table(
    tx: &Tx,
    create: &CreateTable,
    keyspace: Option<&str>,
) -> Result<Option<SchemaChange>, CqlError> {
    let (keyspace, name) = place(&create.table, keyspace)?;
    let Some(mut schema) = new_table(tx, keyspace, name, create.if_not_exists).await? else {
        return Ok(None);
    };
    let mut options = create.options.clone();
    if let Some(id) = take_id(&mut options)? {
        schema.uuid = id;
    }
    add_columns(&mut schema, create, &Types::load(tx, keyspace).await?)?;
    set_table_options(&mut schema, &options)?;
    if create.is_compact {
        Compact::set(&mut schema)?;
    }
    catalog::create_table(tx, schema).await?;
    Ok(changed(ChangeKind::Created, keyspace, Some(name)))
}

/// Creates a table with the columns and options of another one, without its rows.
async fn copy_table(
    tx: &Tx,
    copy: &CopyTable,
    current: Option<&str>,
) -> Result<Option<SchemaChange>, CqlError> {
    let (keyspace, name) = place(&copy.table, current)?;
    let (other, like) = place(&copy.like, current)?;
    let source = catalog::table(tx, other, like).await?;
    let source = source.filter(|source| source.kind == TableKind::Rows);
    let source = source.ok_or_else(|| catalog::no_table(other, like))?;
    if source.base.is_some() {
        return Err(CqlError::invalid("Cannot use CREATE TABLE LIKE on a materialized view"));
    }
    let Some(mut schema) = new_table(tx, keyspace, name, copy.if_not_exists).await? else {
        return Ok(None);
    };
    for column in &source.columns {
        if keyspace != other && has_user_types(&column.data_type) {
            return Err(CqlError::invalid(format!(
                "column {} of {other}.{like} has a user-defined type, which is of keyspace {other} \
                 only",
                column.name
            )));
        }
        let add = match column.is_multi_cell {
            true => TableSchema::add_collection,
            false => TableSchema::add_column,
        };
        add(&mut schema, &column.name, column.data_type.clone(), column.kind)?;
    }
    schema.options.clone_from(&source.options);
    set_table_options(&mut schema, &copy.options)?;
    catalog::create_table(tx, schema).await?;
    Ok(changed(ChangeKind::Created, keyspace, Some(name)))
}

fn has_user_types(data_type: &DataType) -> bool {
    let is_user_type = matches!(data_type, DataType::Udt(_));
    is_user_type || data_type.parts().into_iter().any(has_user_types)
}

/// Returns a schema without columns for a new table; `None` if it exists and may.
async fn new_table(
    tx: &Tx,
    keyspace: &str,
    name: &str,
    may_exist: bool,
) -> Result<Option<TableSchema>, CqlError> {
    if catalog::keyspace(tx, keyspace).await?.is_none() {
        return Err(catalog::no_keyspace(keyspace).into());
    }
    if catalog::table(tx, keyspace, name).await?.is_some() {
        let exists = || already_exists(keyspace, Some(name));
        return if may_exist { Ok(None) } else { Err(exists()) };
    }
    let uuid = new_uuid(tx, keyspace, name);
    Ok(Some(TableSchema::new(keyspace, name, TableKind::Rows, uuid)))
}

fn add_columns(
    schema: &mut TableSchema,
    create: &CreateTable,
    types: &Types,
) -> Result<(), CqlError> {
    let mut names = HashSet::new();
    for column in &create.columns {
        let name = &column.name.text;
        if !names.insert(name) {
            return Err(CqlError::invalid(format!("column {name} is defined twice")));
        }
    }
    let definition = |name: &Name| {
        create.columns.iter().find(|column| column.name.text == name.text).ok_or_else(|| {
            CqlError::invalid(format!("PRIMARY KEY names {}, which is no column", name.text))
        })
    };
    for name in &create.key.partition {
        add_column(schema, definition(name)?, ColumnKind::Partition, types)?;
    }
    let orders = clustering_orders(create)?;
    for (name, order) in create.key.clustering.iter().zip(orders) {
        add_column(schema, definition(name)?, ColumnKind::Clustering(order), types)?;
    }
    for column in &create.columns {
        let is_key = |name: &&Name| name.text == column.name.text;
        if create.key.partition.iter().chain(&create.key.clustering).any(|name| is_key(&name)) {
            if column.is_static {
                return Err(CqlError::invalid(format!(
                    "static column {} cannot be part of the primary key",
                    column.name.text
                )));
            }
            continue;
        }
        let kind = if column.is_static { ColumnKind::Static } else { ColumnKind::Regular };
        add_column(schema, column, kind, types)?;
    }
    Ok(())
}

fn add_column(
    schema: &mut TableSchema,
    column: &ColumnDefinition,
    kind: ColumnKind,
    types: &Types,
) -> Result<(), CqlError> {
    let (data_type, is_multi_cell) = column_type(column, kind, types)?;
    let name = &column.name.text;
    let add = if is_multi_cell { TableSchema::add_collection } else { TableSchema::add_column };
    Ok(add(schema, name, data_type, kind)?)
}

/// Returns the order of each clustering column. `CLUSTERING ORDER BY` names the first ones; the
/// others are ascending.
fn clustering_orders(create: &CreateTable) -> Result<Vec<Order>, CqlError> {
    let key = &create.key.clustering;
    let mut orders = vec![Order::Asc; key.len()];
    for (place, ordering) in create.clustering_order.iter().enumerate() {
        let given = &ordering.column.text;
        if !key.iter().any(|name| name.text == *given) {
            return Err(CqlError::invalid(format!(
                "Only clustering key columns can be defined in CLUSTERING ORDER directive: \
                 [{given}] are not clustering columns"
            )));
        }
        match key.get(place) {
            Some(expected) if expected.text == *given => {}
            Some(expected) => return Err(misplaced_order(create, &expected.text, given)),
            None => {
                return Err(CqlError::invalid(format!(
                    "Duplicate column '{given}' in CLUSTERING ORDER BY clause for table '{}'",
                    create.table.table.text
                )));
            }
        }
        if ordering.descending {
            orders[place] = Order::Desc;
        }
    }
    Ok(orders)
}

fn misplaced_order(create: &CreateTable, expected: &str, given: &str) -> CqlError {
    if create.clustering_order.iter().any(|ordering| ordering.column.text == expected) {
        return CqlError::invalid(format!(
            "The order of columns in the CLUSTERING ORDER directive must match that of the \
             clustering columns ({expected} must appear before {given})"
        ));
    }
    CqlError::invalid(format!("Missing CLUSTERING ORDER for column {expected}"))
}

async fn alter_table(
    tx: &Tx,
    alter: &AlterTable,
    keyspace: Option<&str>,
) -> Result<Option<SchemaChange>, CqlError> {
    let (keyspace, name) = place(&alter.table, keyspace)?;
    let Some(schema) = catalog::table(tx, keyspace, name).await? else {
        if alter.if_exists {
            return Ok(None);
        }
        return Err(catalog::no_table(keyspace, name).into());
    };
    if schema.base.is_some() {
        return Err(CqlError::invalid(
            "Cannot use ALTER TABLE on a materialized view; use ALTER MATERIALIZED VIEW instead",
        ));
    }
    let mut schema = (*schema).clone();
    match &alter.change {
        TableChange::Add { if_not_exists, columns } => {
            Compact::check_change(&schema, true)?;
            let types = Types::load(tx, keyspace).await?;
            let before = schema.columns.len();
            for column in columns {
                if schema.column(&column.name.text).is_some() && *if_not_exists {
                    continue;
                }
                let is_static = column.is_static;
                let kind = if is_static { ColumnKind::Static } else { ColumnKind::Regular };
                add_column(&mut schema, column, kind, &types)?;
            }
            if schema.columns.len() == before {
                return Ok(None);
            }
        }
        TableChange::Options(options) => set_table_options(&mut schema, options)?,
        TableChange::Drop { if_exists, columns, timestamp } => {
            Compact::check_change(&schema, false)?;
            let at = dropped_at(timestamp.as_ref())?.unwrap_or_else(|| tx.wall_time());
            let before = schema.columns.len();
            for column in columns {
                let name = &column.text;
                if !*if_exists || schema.column(name).is_some() {
                    schema.drop_column(name, at)?;
                }
            }
            if schema.columns.len() == before {
                return Ok(None);
            }
        }
        TableChange::Rename { if_exists, columns } => {
            let before = schema.clone();
            for (from, to) in columns {
                if !*if_exists || schema.column(&from.text).is_some() {
                    schema.rename_column(&from.text, &to.text)?;
                }
            }
            if schema == before {
                return Ok(None);
            }
        }
        TableChange::DropCompactStorage => Compact::drop(&mut schema)?,
        TableChange::Type(..) => {
            return Err(CqlError::invalid("Altering column types is no longer supported"));
        }
    }
    schema.version += 1;
    catalog::alter_table(tx, &schema).await?;
    Ok(changed(ChangeKind::Updated, keyspace, Some(name)))
}

/// Returns the time of `DROP … USING TIMESTAMP`, which tables list.
fn dropped_at(timestamp: Option<&Literal>) -> Result<Option<WallTime>, CqlError> {
    let Some(Literal::Integer(digits)) = timestamp else { return Ok(None) };
    let micros = digits.parse().map_err(|_| CqlError::invalid("the timestamp is out of range"))?;
    Ok(Some(WallTime(micros)))
}

async fn drop_table(
    tx: &Tx,
    drop: &DropTable,
    keyspace: Option<&str>,
) -> Result<Option<SchemaChange>, CqlError> {
    let (keyspace, name) = place(&drop.table, keyspace)?;
    if drop.if_exists && catalog::table(tx, keyspace, name).await?.is_none() {
        return Ok(None);
    }
    catalog::drop_table(tx, keyspace, name).await?;
    Ok(changed(ChangeKind::Dropped, keyspace, Some(name)))
}

async fn truncate(
    tx: &Tx,
    table: &TableName,
    keyspace: Option<&str>,
) -> Result<Option<SchemaChange>, CqlError> {
    let named = table.keyspace.as_ref().map(Name::as_str).or(keyspace);
    if let Some(keyspace) = named.filter(|keyspace| system::is_virtual_keyspace(keyspace)) {
        let name = &table.table.text;
        return Err(CqlError::invalid(format!(
            "Truncation is not supported by table {keyspace}.{name}"
        )));
    }
    let (keyspace, name) = place(table, keyspace)?;
    catalog::truncate_table(tx, keyspace, name).await?;
    Ok(None)
}
