//! User-defined types: `CREATE TYPE`, `ALTER TYPE` and `DROP TYPE`.
//!
//! The record of a keyspace has its types, and columns and types refer to them, see
//! [`carnet::catalog`]. Values of an altered type are not rewritten: fields that were added later are
//! null in them.

use std::collections::HashSet;

use carnet::Tx;
use carnet::catalog::{self, Fields, KeyspaceSchema};
use carnet_data::UserType;

use super::column_type::field_type;
use super::known_types::{Types, unknown};
use crate::ast::{AlterType, CreateType, DropType, Name, TableName, TypeChange};
use crate::cql_error::{CqlError, CqlErrorKind};
use crate::result::{ChangeKind, ChangeTarget, SchemaChange};
use crate::system;

fn changed(kind: ChangeKind, keyspace: &KeyspaceSchema, name: &str) -> Option<SchemaChange> {
    let target = ChangeTarget::Type(name.to_owned());
    Some(SchemaChange { kind, keyspace: keyspace.name.clone(), target })
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
    catalog::create_type(tx, &types.0, &name, fields)?;
    Ok(changed(ChangeKind::Created, &types.0, &name))
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
    let mut fields = before.fields.clone();
    match &alter.change {
        TypeChange::Add { if_not_exists, name: field, type_name } => {
            let field = &field.text;
            if fields.iter().any(|(known, _)| known == field) {
                if *if_not_exists {
                    return Ok(None);
                }
                return Err(CqlError::invalid(format!(
                    "Cannot add field {field} to type {name}: a field with that name already exists"
                )));
            }
            fields.push((field.clone(), field_type(field, type_name, &types)?));
        }
        TypeChange::Rename { if_exists, fields: renamed } => {
            for (from, to) in renamed {
                rename(before, &mut fields, (&from.text, &to.text), *if_exists)?;
            }
        }
    }
    if fields == before.fields {
        return Ok(None);
    }
    catalog::alter_type(tx, &types.0, name, fields).await?;
    Ok(changed(ChangeKind::Updated, &types.0, name))
}

fn rename(
    user_type: &UserType,
    fields: &mut Fields,
    (from, to): (&str, &str),
    if_exists: bool,
) -> Result<(), CqlError> {
    let place = |name: &str| fields.iter().position(|(known, _)| known == name);
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
            to.clone_into(&mut fields[at].0);
            Ok(())
        }
    }
}

pub(super) async fn drop(
    tx: &Tx,
    drop: &DropType,
    current: Option<&str>,
) -> Result<Option<SchemaChange>, CqlError> {
    let schema = keyspace_of(tx, &drop.name, current).await?;
    let name = &drop.name.table.text;
    if drop.if_exists && !schema.types.contains_key(name) {
        return Ok(None);
    }
    catalog::drop_type(tx, &schema, name).await?;
    Ok(changed(ChangeKind::Dropped, &schema, name))
}
