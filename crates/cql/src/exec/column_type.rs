//! Types of columns in DDL.

use carnet::DataType;
use carnet::catalog::ColumnKind;

use crate::ast::{ColumnDefinition, TypeName};
use crate::cql_error::CqlError;

/// Returns the type of a column of a kind, and whether it is a collection that is not frozen.
///
/// # Errors
///
/// `Invalid` if no column, or none of that kind, may have the type; `Unsupported` if Carnet has no
/// such type yet.
pub(super) fn column_type(
    column: &ColumnDefinition,
    kind: ColumnKind,
) -> Result<(DataType, bool), CqlError> {
    let (name, type_name) = (&column.name.text, &column.type_name);
    check(type_name)?;
    let data_type = type_name
        .data_type()
        .ok_or_else(|| CqlError::unsupported(format!("column {name}: type {type_name}")))?;
    let is_key = matches!(kind, ColumnKind::Partition | ColumnKind::Clustering(_));
    if is_key && data_type.contains(&DataType::Duration) {
        return Err(CqlError::invalid(format!(
            "duration type is not supported for PRIMARY KEY column '{name}'"
        )));
    }
    let is_multi_cell =
        matches!(type_name, TypeName::List(_) | TypeName::Set(_) | TypeName::Map(..));
    if is_multi_cell && has_multi_cell_parts(type_name) {
        return Err(CqlError::invalid(format!(
            "Non-frozen collections are not allowed inside collections: {type_name}"
        )));
    }
    Ok((data_type, is_multi_cell))
}

fn has_multi_cell_parts(type_name: &TypeName) -> bool {
    let is_multi_cell =
        |part: &TypeName| matches!(part, TypeName::List(_) | TypeName::Set(_) | TypeName::Map(..));
    match type_name {
        TypeName::List(element) | TypeName::Set(element) => is_multi_cell(element),
        TypeName::Map(key, value) => is_multi_cell(key) || is_multi_cell(value),
        _ => false,
    }
}

/// Checks the rules for types within types.
fn check(type_name: &TypeName) -> Result<(), CqlError> {
    let refuse = |why: String| Err(CqlError::invalid(why));
    let is = |type_name: &TypeName, data_type| *type_name == TypeName::Native(data_type);
    match type_name {
        TypeName::Frozen(inner) if matches!(**inner, TypeName::Native(_)) => refuse(format!(
            "frozen<> is only allowed on collections, tuples, and user-defined types (got {inner})"
        )),
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
        TypeName::List(element) | TypeName::Set(element) => check(element),
        TypeName::Map(key, value) => check(key).and_then(|()| check(value)),
        TypeName::Tuple(fields) if fields.iter().any(|field| is(field, DataType::Counter)) => {
            refuse("Counters are not allowed inside tuples".to_owned())
        }
        TypeName::Tuple(fields) => fields.iter().try_for_each(check),
        _ => Ok(()),
    }
}
