//! User-defined types: `CREATE TYPE`, `ALTER TYPE` and `DROP TYPE`.
//!
//! A keyspace lists its types, and each column and type that uses one has a copy of it. A change
//! replaces all copies in the same transaction. Values of an altered type are not rewritten: fields
//! that were added later are null in them.

use std::collections::HashSet;
use std::sync::Arc;

use carnet::base::UserType;
use carnet::catalog::{self, KeyspaceSchema, TableSchema};
use carnet::{DataType, Tx};

use super::column_type::field_type;
use super::known_types::{Types, unknown};
use crate::ast::{AlterType, CreateType, DropType, Name, TableName, TypeChange};
use crate::cql_error::{CqlError, CqlErrorKind};
use crate::result::{ChangeKind, ChangeTarget, SchemaChange};
use crate::system;

fn changed(kind: ChangeKind, user_type: &UserType) -> Option<SchemaChange> {
    let target = ChangeTarget::Type(user_type.name.clone());
    Some(SchemaChange { kind, keyspace: user_type.keyspace.clone(), target })
}

/// Reads the keyspace of a type.
async fn keyspace_of(
    tx: &Tx,
    name: &TableName,
    current: Option<&str>,
) -> Result<KeyspaceSchema, CqlError> {
    let keyspace = name.keyspace.as_ref().map(Name::as_str).or(current).ok_or_else(|| {
        CqlError::invalid(
            "No keyspace has been specified. USE a keyspace, or specify keyspace.typename",
        )
    })?;
    if system::is_system_keyspace(keyspace) {
        return Err(CqlError::unauthorized(format!("{keyspace} keyspace is not user-modifiable.")));
    }
    let found = catalog::keyspace(tx, keyspace).await?;
    Ok(found.ok_or_else(|| catalog::no_keyspace(keyspace))?)
}

pub(super) async fn create(
    tx: &Tx,
    create: &CreateType,
    current: Option<&str>,
) -> Result<Option<SchemaChange>, CqlError> {
    let types = Types(keyspace_of(tx, &create.name, current).await?);
    let name = create.name.table.text.clone();
    let keyspace = types.0.name.clone();
    if types.0.types.contains_key(&name) {
        if create.if_not_exists {
            return Ok(None);
        }
        let kind = CqlErrorKind::Invalid;
        let message = format!("A user type with name '{name}' already exists");
        return Err(CqlError::new(kind, message));
    }
    let mut names = HashSet::new();
    let mut fields = Vec::with_capacity(create.fields.len());
    for (field, type_name) in &create.fields {
        let field = &field.text;
        if !names.insert(field) {
            return Err(CqlError::invalid(format!(
                "Duplicate field name '{field}' in type '{name}'"
            )));
        }
        fields.push((field.clone(), field_type(field, type_name, &types)?));
    }
    let user_type = UserType { keyspace, name: name.clone(), fields };
    let change = changed(ChangeKind::Created, &user_type);
    let mut schema = types.0;
    schema.types.insert(name, Arc::new(user_type));
    catalog::alter_keyspace(tx, &schema)?;
    Ok(change)
}

pub(super) async fn alter(
    tx: &Tx,
    alter: &AlterType,
    current: Option<&str>,
) -> Result<Option<SchemaChange>, CqlError> {
    let types = Types(keyspace_of(tx, &alter.name, current).await?);
    let name = &alter.name.table.text;
    let Some(before) = types.0.types.get(name) else {
        return if alter.if_exists { Ok(None) } else { Err(unknown(&types.0.name, name)) };
    };
    let mut after = (**before).clone();
    match &alter.change {
        TypeChange::Add { if_not_exists, name: field, type_name } => {
            let field = &field.text;
            if after.fields.iter().any(|(known, _)| known == field) {
                if *if_not_exists {
                    return Ok(None);
                }
                return Err(CqlError::invalid(format!(
                    "Cannot add field {field} to type {name}: a field with that name already exists"
                )));
            }
            after.fields.push((field.clone(), field_type(field, type_name, &types)?));
        }
        TypeChange::Rename { if_exists, fields } => {
            for (from, to) in fields {
                rename(&mut after, &from.text, &to.text, *if_exists)?;
            }
        }
    }
    if after == **before {
        return Ok(None);
    }
    let adds_field = after.fields.len() > before.fields.len();
    replace(tx, types.0, Arc::new(after.clone()), adds_field).await?;
    Ok(changed(ChangeKind::Updated, &after))
}

fn rename(user_type: &mut UserType, from: &str, to: &str, if_exists: bool) -> Result<(), CqlError> {
    let place = |name: &str| user_type.fields.iter().position(|(known, _)| known == name);
    match (place(from), place(to)) {
        (None, _) if if_exists => Ok(()),
        (None, _) => Err(CqlError::invalid(format!(
            "Unknown field {from} in user type {}.{}",
            user_type.keyspace, user_type.name
        ))),
        (Some(_), Some(_)) => Err(CqlError::invalid(format!(
            "Duplicate field name {to} in type {}.{}",
            user_type.keyspace, user_type.name
        ))),
        (Some(at), None) => {
            to.clone_into(&mut user_type.fields[at].0);
            Ok(())
        }
    }
}

/// Replaces a type in its keyspace, and in all types and columns that use it.
async fn replace(
    tx: &Tx,
    mut schema: KeyspaceSchema,
    user_type: Arc<UserType>,
    adds_field: bool,
) -> Result<(), CqlError> {
    for table in catalog::tables(tx, &schema.name).await? {
        // The schema of a view is made from that of its base table.
        if table.base.is_some() {
            continue;
        }
        let mut changed = TableSchema { version: table.version + 1, ..table.clone() };
        for column in &mut changed.columns {
            if adds_field && column.is_key() && uses(&column.data_type, &user_type.name) {
                return Err(CqlError::invalid(format!(
                    "Cannot add a field to type {}: column {} of the primary key of table {} uses it",
                    user_type.name, column.name, table.name
                )));
            }
            column.data_type = with(&column.data_type, &user_type);
        }
        if changed.columns != table.columns {
            catalog::alter_table(tx, &changed)?;
        }
    }
    for (name, known) in &mut schema.types {
        let fields = if *name == user_type.name { &user_type.fields } else { &known.fields };
        let field = |(name, field): &(String, DataType)| (name.clone(), with(field, &user_type));
        let fields = fields.iter().map(field).collect();
        *known = Arc::new(UserType { fields, ..(**known).clone() });
    }
    Ok(catalog::alter_keyspace(tx, &schema)?)
}

/// Returns a type with the new form of a user-defined type of its keyspace.
fn with(data_type: &DataType, user_type: &Arc<UserType>) -> DataType {
    match data_type {
        DataType::List(element) => DataType::list(with(element, user_type)),
        DataType::Set(element) => DataType::set(with(element, user_type)),
        DataType::Vector(vector) => DataType::vector(with(&vector.0, user_type), vector.1),
        DataType::Map(pair) => DataType::map(with(&pair.0, user_type), with(&pair.1, user_type)),
        DataType::Tuple(fields) => {
            DataType::tuple(fields.iter().map(|field| with(field, user_type)))
        }
        DataType::Udt(known) if known.name == user_type.name => {
            DataType::Udt(Arc::clone(user_type))
        }
        DataType::Udt(known) => {
            let field = |(name, field): &(String, DataType)| (name.clone(), with(field, user_type));
            let fields = known.fields.iter().map(field).collect();
            DataType::Udt(Arc::new(UserType { fields, ..(**known).clone() }))
        }
        scalar => scalar.clone(),
    }
}

/// Returns `true` if a type is a user-defined type of this name or has it as a part.
fn uses(data_type: &DataType, name: &str) -> bool {
    let is_it = matches!(data_type, DataType::Udt(known) if known.name == name);
    is_it || data_type.parts().into_iter().any(|part| uses(part, name))
}

pub(super) async fn drop(
    tx: &Tx,
    drop: &DropType,
    current: Option<&str>,
) -> Result<Option<SchemaChange>, CqlError> {
    let mut schema = keyspace_of(tx, &drop.name, current).await?;
    let name = &drop.name.table.text;
    let Some(dropped) = schema.types.remove(name) else {
        let keyspace = &schema.name;
        return match drop.if_exists {
            true => Ok(None),
            false => Err(CqlError::invalid(format!("Type '{keyspace}.{name}' doesn't exist"))),
        };
    };
    let refuse = |what: &str, users: Vec<String>| {
        Err(CqlError::invalid(format!(
            "Cannot drop user type '{}.{name}' as it is still used by {what} {}",
            dropped.keyspace,
            users.join(", ")
        )))
    };
    let in_type = |user: &&Arc<UserType>| user.fields.iter().any(|(_, field)| uses(field, name));
    let types: Vec<String> =
        schema.types.values().filter(in_type).map(|user| user.name.clone()).collect();
    if !types.is_empty() {
        return refuse("user types", types);
    }
    let tables = catalog::tables(tx, &schema.name).await?;
    let in_table =
        |table: &&TableSchema| table.columns.iter().any(|column| uses(&column.data_type, name));
    let tables: Vec<String> =
        tables.iter().filter(in_table).map(|table| table.name.clone()).collect();
    if !tables.is_empty() {
        return refuse("tables", tables);
    }
    catalog::alter_keyspace(tx, &schema)?;
    Ok(changed(ChangeKind::Dropped, &dropped))
}
