//! Changes of user-defined types.
//!
//! A change of a type gives it the next version, and also every type that uses it. The same transaction
//! puts the tables that use one of them, with the new references. So the cell of a table changes with
//! the types that its rows have: a transaction that depends on the cell depends on them too.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use carnet_base::{Error, Result};
use carnet_data::{DataType, FieldKeys, TypeReference, UserType};

use super::cells::{put_keyspace, replace_table, tables, touch};
use crate::schema::{IndexSchema, KeyspaceSchema, TableSchema, UserTypes, ViewSchema};
use crate::tx::Tx;

/// Names and types of the fields of a user-defined type.
pub type Fields = Vec<(String, DataType)>;

/// Creates a user-defined type in a keyspace as of the transaction's snapshot.
///
/// # Errors
///
/// `Invalid` beyond a limit of the catalog; otherwise the same as [`Tx::put_cell`].
pub fn create_type(
    tx: &Tx,
    keyspace: &KeyspaceSchema,
    name: &str,
    fields: Fields,
) -> Result<Arc<UserType>> {
    let mut schema = keyspace.clone();
    let id = schema.next_type;
    schema.next_type = id
        .checked_add(1)
        .ok_or_else(|| Error::unsupported("all 4 billion numbers of types are used"))?;
    let user_type = Arc::new(UserType {
        keyspace: keyspace.name.clone(),
        name: name.to_owned(),
        fields,
        reference: TypeReference { id, version: 1 },
        keys: FieldKeys::Open,
    });
    schema.types.insert(name.to_owned(), Arc::clone(&user_type));
    touch(tx)?;
    put_keyspace(tx, &schema, Some(keyspace))?;
    Ok(user_type)
}

/// Replaces the fields of a user-defined type, in all types and tables that use it.
///
/// # Errors
///
/// `Invalid` if there is no such type, if it would contain itself, if a field is added and a column of
/// a primary key uses the type, or keys of a view or index have it with [all fields](FieldKeys::All),
/// or beyond a limit of the catalog; otherwise the same as
/// [`Tx::put_cell`].
pub async fn alter_type(
    tx: &Tx,
    keyspace: &KeyspaceSchema,
    name: &str,
    fields: Fields,
) -> Result<()> {
    let Some(before) = keyspace.types.get(name) else {
        return Err(Error::invalid(format!("Unknown type {}.{name}", keyspace.name)));
    };
    if let Some((field, _)) = fields.iter().find(|(_, field)| uses(field, name)) {
        return Err(Error::invalid(format!(
            "Cannot alter type {name}: with field {field}, type {name} would contain itself"
        )));
    }
    let adds_field = fields.len() > before.fields.len();
    let changes_keys = adds_field && before.keys == FieldKeys::All;
    // No key has the type, or the change is refused below.
    let keys = if adds_field { FieldKeys::Open } else { before.keys };
    let mut replacement = Replacement::new(before, fields, keys);
    let mut schema = keyspace.clone();
    for user_type in schema.types.values_mut() {
        *user_type = replacement.user_type(user_type);
    }
    let tables = tables(tx, &keyspace.name).await?;
    touch(tx)?;
    put_keyspace(tx, &schema, Some(keyspace))?;
    let types = UserTypes::new(&schema.types);
    // The schema of a view is made from that of its base table.
    for table in tables.iter().filter(|table| table.base.is_none()) {
        if adds_field && let Some(column) = key_with(table, name) {
            return Err(Error::invalid(format!(
                "Cannot add a field to type {name}: column {column} of the primary key of table \
                 {} uses it",
                table.name
            )));
        }
        if changes_keys && let Some((what, user)) = derived_with(table, name) {
            return Err(Error::invalid(format!(
                "Cannot add a field to type {name}: an earlier version of Carnet created the type, and \
                 keys of {what} {user} of table {} have it with all its fields; drop {user}, add the \
                 field, and create {user} again",
                table.name
            )));
        }
        let mut changed = TableSchema { version: table.version + 1, ..table.clone() };
        for column in &mut changed.columns {
            column.data_type = replacement.data_type(&column.data_type);
        }
        if changed.columns != table.columns {
            replace_table(tx, &changed, Some(table), &types)?;
        }
    }
    Ok(())
}

/// Drops a user-defined type that nothing uses.
///
/// # Errors
///
/// `Invalid` if it does not exist, or if a type or table uses it; otherwise the same as
/// [`Tx::put_cell`].
pub async fn drop_type(tx: &Tx, keyspace: &KeyspaceSchema, name: &str) -> Result<()> {
    let at = format!("{}.{name}", keyspace.name);
    let mut schema = keyspace.clone();
    if schema.types.remove(name).is_none() {
        return Err(Error::invalid(format!("Type '{at}' doesn't exist")));
    }
    let refuse = |what: &str, users: Vec<&str>| {
        Err(Error::invalid(format!(
            "Cannot drop user type '{at}' as it is still used by {what} {}",
            users.join(", ")
        )))
    };
    let types = schema.types.values();
    let types = types.filter(|user| user.fields.iter().any(|(_, field)| uses(field, name)));
    let types: Vec<&str> = types.map(|user| user.name.as_str()).collect();
    if !types.is_empty() {
        return refuse("user types", types);
    }
    let tables = tables(tx, &keyspace.name).await?;
    let uses_it =
        |table: &&TableSchema| table.columns.iter().any(|column| uses(&column.data_type, name));
    let tables: Vec<&str> = tables.iter().filter(uses_it).map(|table| &*table.name).collect();
    if !tables.is_empty() {
        return refuse("tables", tables);
    }
    touch(tx)?;
    put_keyspace(tx, &schema, Some(keyspace))
}

/// Returns `true` if a type is a user-defined type of this name or has it as a part.
fn uses(data_type: &DataType, name: &str) -> bool {
    finds(data_type, name, &mut HashSet::new())
}

/// Like [`uses`], but looks at each user-defined type once.
fn finds<'a>(data_type: &'a DataType, name: &str, seen: &mut HashSet<&'a str>) -> bool {
    if let DataType::Udt(known) = data_type {
        if known.name == name {
            return true;
        }
        if !seen.insert(&known.name) {
            return false;
        }
    }
    data_type.parts().into_iter().any(|part| finds(part, name, seen))
}

/// Returns the column of a primary key that uses a type.
fn key_with<'a>(table: &'a TableSchema, name: &str) -> Option<&'a str> {
    let mut keys = table.columns.iter().filter(|column| column.is_key());
    keys.find(|column| uses(&column.data_type, name)).map(|column| column.name.as_str())
}

/// Returns the kind and name of a view or index of a table whose keys have a type.
fn derived_with<'a>(table: &'a TableSchema, name: &str) -> Option<(&'static str, &'a str)> {
    let has_type = |id| {
        let column = table.column_by_id(id);
        column.is_some_and(|column| uses(&column.data_type, name))
    };
    let is_keyed = |view: &&ViewSchema| {
        let clustering = view.clustering.iter().map(|(id, _)| *id);
        view.partition.iter().copied().chain(clustering).any(has_type)
    };
    let is_indexed = |index: &&IndexSchema| {
        let types = table.column_by_id(index.column);
        let types = types.and_then(|column| index.part.types(&column.data_type));
        types.is_some_and(|types| types.iter().any(|part| uses(part, name)))
    };
    let view = table.views.iter().find(is_keyed).map(|view| ("view", &*view.name));
    view.or_else(|| table.indexes.iter().find(is_indexed).map(|index| ("index", &*index.name)))
}

/// The next versions of a changed type and of the types that use it, by name.
struct Replacement(HashMap<String, Arc<UserType>>);

impl Replacement {
    fn new(before: &UserType, fields: Fields, keys: FieldKeys) -> Self {
        let changed = Arc::new(UserType { keys, ..next_version(before, fields) });
        Self([(before.name.clone(), changed)].into())
    }

    /// Returns the next version of a type, or the type itself if nothing in it has changed.
    fn user_type(&mut self, known: &Arc<UserType>) -> Arc<UserType> {
        if let Some(found) = self.0.get(&known.name) {
            return Arc::clone(found);
        }
        let field = |(name, field): &(String, DataType)| (name.clone(), self.data_type(field));
        let fields: Fields = known.fields.iter().map(field).collect();
        let next = match fields == known.fields {
            true => Arc::clone(known),
            false => Arc::new(next_version(known, fields)),
        };
        self.0.insert(known.name.clone(), Arc::clone(&next));
        next
    }

    fn data_type(&mut self, data_type: &DataType) -> DataType {
        match data_type {
            DataType::List(element) => DataType::list(self.data_type(element)),
            DataType::Set(element) => DataType::set(self.data_type(element)),
            DataType::Vector(vector) => DataType::vector(self.data_type(&vector.0), vector.1),
            DataType::Map(pair) => {
                let key = self.data_type(&pair.0);
                DataType::map(key, self.data_type(&pair.1))
            }
            DataType::Tuple(fields) => {
                DataType::tuple(fields.iter().map(|field| self.data_type(field)))
            }
            DataType::Udt(known) => DataType::Udt(self.user_type(known)),
            scalar => scalar.clone(),
        }
    }
}

fn next_version(user_type: &UserType, fields: Fields) -> UserType {
    let TypeReference { id, version } = user_type.reference;
    let reference = TypeReference { id, version: version.wrapping_add(1) };
    let (keyspace, name) = (user_type.keyspace.clone(), user_type.name.clone());
    UserType { keyspace, name, fields, reference, keys: user_type.keys }
}
