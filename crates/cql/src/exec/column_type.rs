//! Types of columns in DDL.

use carnet::DataType;
use carnet::catalog::ColumnKind;

use super::known_types::Types;
use crate::ast::{ColumnDefinition, TypeName};
use crate::cql_error::{CqlError, CqlErrorKind};

/// Returns the type of a column of a kind, and whether it is a collection that is not frozen.
///
/// # Errors
///
/// `Invalid` if no column, or none of that kind, may have the type; `Unsupported` if Carnet has no
/// such type yet.
pub(super) fn column_type(
    column: &ColumnDefinition,
    kind: ColumnKind,
    types: &Types,
) -> Result<(DataType, bool), CqlError> {
    let (name, type_name) = (&column.name.text, &column.type_name);
    check(type_name)?;
    let data_type = types
        .resolve(&format!("the type of column {name}"), type_name)?
        .ok_or_else(|| unknown_type("column", name, type_name))?;
    let is_key = matches!(kind, ColumnKind::Partition | ColumnKind::Clustering(_));
    if is_key && data_type.contains(&DataType::Duration) {
        return Err(CqlError::invalid(format!(
            "duration type is not supported for PRIMARY KEY column '{name}'"
        )));
    }
    check_parts(type_name)?;
    Ok((data_type, is_multi_cell(type_name)))
}

/// Refuses a collection with parts that are not frozen.
fn check_parts(type_name: &TypeName) -> Result<(), CqlError> {
    match multi_cell_part(type_name) {
        Some(what) => Err(CqlError::invalid(format!(
            "Non-frozen {what} are not allowed inside collections: {type_name}"
        ))),
        None => Ok(()),
    }
}

/// Returns the type of a field of a user-defined type.
///
/// # Errors
///
/// Same as [`column_type`].
pub(super) fn field_type(
    name: &str,
    type_name: &TypeName,
    types: &Types,
) -> Result<DataType, CqlError> {
    check(type_name)?;
    match type_name {
        TypeName::Native(DataType::Counter) => {
            Err(CqlError::invalid("A user type cannot contain counters"))
        }
        TypeName::UserDefined(_) | TypeName::UserClass(..) => {
            Err(CqlError::invalid("A user type cannot contain non-frozen UDTs"))
        }
        _ => {
            check_parts(type_name)?;
            types
                .resolve(&format!("the type of field {name}"), type_name)?
                .ok_or_else(|| unknown_type("field", name, type_name))
        }
    }
}

/// Returns `true` for a type whose parts statements change one by one.
const fn is_multi_cell(type_name: &TypeName) -> bool {
    matches!(
        type_name,
        TypeName::List(_)
            | TypeName::Set(_)
            | TypeName::Map(..)
            | TypeName::UserDefined(_)
            | TypeName::UserClass(..)
    )
}

/// Returns what a part of a collection is that is not frozen.
fn multi_cell_part(type_name: &TypeName) -> Option<&'static str> {
    let parts = match type_name {
        TypeName::List(element) | TypeName::Set(element) => vec![&**element],
        TypeName::Map(key, value) => vec![&**key, &**value],
        _ => Vec::new(),
    };
    let part = parts.into_iter().find(|part| is_multi_cell(part))?;
    let is_user_type = matches!(part, TypeName::UserDefined(_) | TypeName::UserClass(..));
    Some(if is_user_type { "UDTs" } else { "collections" })
}

/// Checks the rules for types within types.
fn check(type_name: &TypeName) -> Result<(), CqlError> {
    let refuse = |why: String| Err(CqlError::invalid(why));
    let is = |type_name: &TypeName, data_type| *type_name == TypeName::Native(data_type);
    match type_name {
        TypeName::Frozen(inner) if matches!(**inner, TypeName::Native(_)) => {
            let message = format!(
                "frozen<> is only allowed on collections, tuples, and user-defined types (got \
                 {inner})"
            );
            Err(CqlError::new(CqlErrorKind::Syntax { line: 1, column: 1 }, message))
        }
        TypeName::Frozen(inner) => check(inner),
        TypeName::List(part) | TypeName::Set(part) | TypeName::Map(_, part)
            if is(part, DataType::Counter) =>
        {
            refuse(format!("Counters are not allowed inside collections: {type_name}"))
        }
        TypeName::Set(element) if is(element, DataType::Duration) => {
            refuse(format!("Durations are not allowed inside sets: {type_name}"))
        }
        TypeName::Map(key, _) if is(key, DataType::Duration) => {
            refuse(format!("Durations are not allowed as map keys: {type_name}"))
        }
        TypeName::Map(key, _) if is(key, DataType::Counter) => {
            refuse(format!("Counters are not allowed inside collections: {type_name}"))
        }
        TypeName::Vector(element, _) if is(element, DataType::Counter) => {
            refuse(format!("Counters are not allowed inside vectors: {type_name}"))
        }
        TypeName::List(element) | TypeName::Set(element) | TypeName::Vector(element, _) => {
            check(element)
        }
        TypeName::Map(key, value) => check(key).and_then(|()| check(value)),
        TypeName::Tuple(fields) if fields.iter().any(|field| is(field, DataType::Counter)) => {
            refuse("Counters are not allowed inside tuples".to_owned())
        }
        TypeName::Tuple(fields) => fields.iter().try_for_each(check),
        _ => Ok(()),
    }
}

/// Returns the error of a type that no column has, such as a class of Java.
fn unknown_type(what: &str, name: &str, type_name: &TypeName) -> CqlError {
    let mut message = format!("{what} {name}: type {type_name}");
    if matches!(type_name, TypeName::Custom(_)) {
        message.push_str("; name a type of CQL instead, such as blob for bytes of any form");
    }
    CqlError::unsupported(message)
}
