//! Changes of a collection's elements.
//!
//! | statement | change |
//! | --- | --- |
//! | `l = l + [v]`, `l = [v] + l` | elements behind the last or before the first |
//! | `s = s + {v}`, `m = m + {k: v}` | elements added; an existing key gets the new value |
//! | `l = l - [v]`, `s = s - {v}`, `m = m - {k}` | all elements with these values or keys removed |
//! | `l[i] = v`, `m[k] = v` | one element set; with null it is removed |
//! | `DELETE l[i]`, `DELETE m[k]`, `DELETE s[v]` | one element removed |
//! | `u.f = v`, `DELETE u.f` | one field of a user-defined type set, or set to null |
//!
//! A change is calculated from the collection that the transaction reads, so two clients that
//! change one collection at a time conflict, and one of them runs again.

use carnet::base::{Bytes, Composite};
use carnet::catalog::ColumnSchema;
use carnet::{DataType, Value};

use super::compiler::Compiler;
use super::environment::Environment;
use super::operand::{Evaluated, Operand};
use crate::ast::{ArithmeticOp, Name, Term};
use crate::cql_error::CqlError;

/// Maximum number of elements of a collection that is not frozen, as in Cassandra's protocol
/// before version 3.
const ELEMENTS_MAX: usize = 65_535;

/// Change of a collection's elements.
#[derive(Clone, Debug)]
pub(crate) enum ElementChange {
    /// Adds the elements of a collection of the column's type, of a list behind the others.
    Add(Operand),
    /// Adds the elements of a list before the others.
    Prepend(Operand),
    /// Removes the elements with the values of a list or set, or the keys of a set.
    Remove(Operand),
    /// Sets the value at the index of a list, or of a key; null removes the element.
    Set(Operand, Operand),
    /// Removes the element at an index, with a key or with a value.
    RemoveOne(Operand),
    /// Sets a field of a user-defined type, by position.
    SetField(usize, Operand),
}

/// New value of a column.
#[derive(Clone, Debug)]
pub(crate) enum Assigned {
    Value(Operand),
    Elements(Vec<ElementChange>),
}

impl Assigned {
    /// Returns `true` if it depends on the row.
    pub(crate) fn reads_row(&self) -> bool {
        match self {
            Self::Value(operand) => operand.reads_row(),
            Self::Elements(_) => true,
        }
    }

    /// Evaluates to the bytes of the column. An empty collection that is not frozen is null.
    pub(crate) fn evaluate(
        &self,
        column: &ColumnSchema,
        current: Option<&Bytes>,
        environment: &Environment<'_>,
    ) -> Result<Evaluated, CqlError> {
        let evaluated = match self {
            Self::Value(operand) => operand.evaluate(environment)?,
            Self::Elements(changes) => {
                let current =
                    current.map(|bytes| column.data_type.deserialize(bytes)).transpose()?;
                let mut collection = match current {
                    Some(Value::Composite(composite)) => composite,
                    _ => compose(column, Vec::new())?,
                };
                for change in changes {
                    collection = change.apply(column, collection.into_parts(), environment)?;
                }
                Evaluated::Bytes(Value::Composite(collection).serialize())
            }
        };
        match evaluated {
            Evaluated::Bytes(bytes) if column.data_type.is_record() => {
                // A user-defined type that is not frozen and has no field is null.
                let is_null =
                    column.is_multi_cell && is_empty(&column.data_type.deserialize(&bytes)?);
                Ok(if is_null { Evaluated::Null } else { Evaluated::Bytes(bytes) })
            }
            Evaluated::Bytes(bytes) if column.is_multi_cell => match len(&bytes) {
                0 => Ok(Evaluated::Null),
                1..=ELEMENTS_MAX => Ok(Evaluated::Bytes(bytes)),
                count => Err(CqlError::invalid(format!(
                    "column {} would have {count} elements; at most {ELEMENTS_MAX} are allowed",
                    column.name
                ))),
            },
            evaluated => Ok(evaluated),
        }
    }
}

fn is_empty(value: &Value) -> bool {
    matches!(value, Value::Composite(composite) if composite.parts().iter().all(Option::is_none))
}

/// Returns the number of elements of a serialized collection.
fn len(bytes: &[u8]) -> usize {
    let count = bytes.first_chunk().map_or(0, |count| i32::from_be_bytes(*count));
    usize::try_from(count).unwrap_or(0)
}

fn compose(column: &ColumnSchema, parts: Vec<Option<Value>>) -> Result<Composite, CqlError> {
    Composite::new(column.data_type.clone(), parts)
        .map_err(|error| CqlError::invalid(format!("{}: {}", column.name, error.message())))
}

impl ElementChange {
    fn apply(
        &self,
        column: &ColumnSchema,
        mut parts: Vec<Option<Value>>,
        environment: &Environment<'_>,
    ) -> Result<Composite, CqlError> {
        let per_item = column.data_type.parts().len();
        match self {
            Self::Add(operand) => parts.extend(parts_of(operand, environment)?),
            Self::Prepend(operand) => {
                parts = [parts_of(operand, environment)?, parts].concat();
            }
            Self::Remove(operand) => {
                let mut removed: Vec<Value> =
                    parts_of(operand, environment)?.into_iter().flatten().collect();
                // Both sides may have thousands of elements.
                removed.sort_unstable_by(Value::compare);
                parts = without(&parts, per_item, &removed);
            }
            Self::Set(element, value) => {
                let value = value.value(environment)?;
                if matches!(column.data_type, DataType::List(_)) {
                    let index = index(column, &parts, element, environment, "set an element on")?;
                    match value {
                        Some(value) => parts[index] = Some(value),
                        None => drop(parts.remove(index)),
                    }
                } else {
                    let key = element.required(environment)?;
                    match value {
                        Some(value) => parts.extend([Some(key), Some(value)]),
                        None => parts = without(&parts, per_item, &[key]),
                    }
                }
            }
            Self::SetField(place, value) => {
                parts.resize(per_item, None);
                parts[*place] = value.value(environment)?;
            }
            Self::RemoveOne(element) if matches!(column.data_type, DataType::List(_)) => {
                let index = index(column, &parts, element, environment, "delete an element from")?;
                parts.remove(index);
            }
            Self::RemoveOne(element) => {
                parts = without(&parts, per_item, &[element.required(environment)?]);
            }
        }
        compose(column, parts)
    }
}

/// Evaluates an operand to the parts of a collection; null and unset have none.
fn parts_of(
    operand: &Operand,
    environment: &Environment<'_>,
) -> Result<Vec<Option<Value>>, CqlError> {
    if operand.evaluate(environment)? == Evaluated::Unset {
        return Ok(Vec::new());
    }
    Ok(match operand.value(environment)? {
        Some(Value::Composite(composite)) => composite.into_parts(),
        _ => Vec::new(),
    })
}

/// Returns the parts without the items that begin with one of some values, which are sorted.
fn without(parts: &[Option<Value>], per_item: usize, removed: &[Value]) -> Vec<Option<Value>> {
    let is_removed = |item: &&[Option<Value>]| {
        item[0]
            .as_ref()
            .is_some_and(|first| removed.binary_search_by(|removed| removed.compare(first)).is_ok())
    };
    parts.chunks(per_item).filter(|item| !is_removed(item)).flatten().cloned().collect()
}

fn index(
    column: &ColumnSchema,
    parts: &[Option<Value>],
    element: &Operand,
    environment: &Environment<'_>,
    verb: &str,
) -> Result<usize, CqlError> {
    let Value::Int(index) = element.required(environment)? else {
        return Err(CqlError::invalid(format!("{}: an index is an int", column.name)));
    };
    if parts.is_empty() {
        return Err(CqlError::invalid(format!("Attempted to {verb} a list which is null")));
    }
    usize::try_from(index).ok().filter(|index| *index < parts.len()).ok_or_else(|| {
        CqlError::invalid(format!("List index {index} out of bound, list has size {}", parts.len()))
    })
}

impl Compiler<'_> {
    /// Compiles the new value of a collection that is not frozen: a change of its elements, or a
    /// whole value.
    pub(super) fn collection(
        &mut self,
        column: &ColumnSchema,
        term: &Term,
    ) -> Result<Assigned, CqlError> {
        let is_column = |term: &Term| {
            matches!(term, Term::Reference(reference)
                if reference.field.is_none() && reference.name.as_str() == column.name)
        };
        let (data_type, name) = (&column.data_type, column.name.as_str());
        let change = match term {
            Term::Arithmetic { first, rest } => match (&**first, rest.as_slice()) {
                (first, [(ArithmeticOp::Add, value)]) if is_column(first) => {
                    ElementChange::Add(self.operand(value, data_type, name)?)
                }
                (value, [(ArithmeticOp::Add, last)])
                    if is_column(last) && matches!(data_type, DataType::List(_)) =>
                {
                    ElementChange::Prepend(self.operand(value, data_type, name)?)
                }
                (first, [(ArithmeticOp::Subtract, value)]) if is_column(first) => {
                    let removed = match data_type {
                        DataType::Map(pair) => DataType::set(pair.0.clone()),
                        other => other.clone(),
                    };
                    ElementChange::Remove(self.operand(value, &removed, name)?)
                }
                _ => {
                    return Err(CqlError::invalid(format!(
                        "Invalid operation ({name} = {term}) for {} column {name}",
                        data_type.name()
                    )));
                }
            },
            term => {
                let operand =
                    self.within_row(|compiler| compiler.operand(term, data_type, name))?;
                return Ok(Assigned::Value(operand));
            }
        };
        Ok(Assigned::Elements(vec![change]))
    }

    /// Compiles `column[element] = value`.
    pub(super) fn set_element(
        &mut self,
        column: &ColumnSchema,
        element: &Term,
        value: &Term,
    ) -> Result<ElementChange, CqlError> {
        check_elements(column)?;
        let (element_type, value_type) = match &column.data_type {
            DataType::List(value) => (&DataType::Int, &**value),
            DataType::Map(pair) => (&pair.0, &pair.1),
            _ => {
                return Err(CqlError::invalid(format!(
                    "Invalid operation ({0}[{element}] = {value}) for set column {0}",
                    column.name
                )));
            }
        };
        let element = self.element(column, element, element_type)?;
        let what = format!("value({})", column.name);
        let value = self.within_row(|compiler| compiler.operand(value, value_type, &what))?;
        Ok(ElementChange::Set(element, value))
    }

    /// Compiles `column.field = value`.
    pub(super) fn set_field(
        &mut self,
        column: &ColumnSchema,
        field: &Name,
        value: &Term,
    ) -> Result<ElementChange, CqlError> {
        let DataType::Udt(user_type) = &column.data_type else {
            return Err(CqlError::invalid(format!(
                "Invalid operation for column {} of type {}: it is not a user type",
                column.name, column.data_type
            )));
        };
        if !column.is_multi_cell {
            return Err(CqlError::invalid(format!(
                "Invalid operation for frozen UDT column {}: assign a whole value",
                column.name
            )));
        }
        let place = user_type.fields.iter().position(|(name, _)| *name == field.text);
        let Some(place) = place else {
            return Err(CqlError::invalid(format!(
                "UDT column {} does not have a field named {}",
                column.name, field.text
            )));
        };
        let (name, data_type) = &user_type.fields[place];
        let what = format!("{}.{name}", column.name);
        let value = self.within_row(|compiler| compiler.operand(value, data_type, &what))?;
        Ok(ElementChange::SetField(place, value))
    }

    /// Compiles the element of `DELETE column[element]`.
    pub(super) fn remove_element(
        &mut self,
        column: &ColumnSchema,
        element: &Term,
    ) -> Result<ElementChange, CqlError> {
        check_elements(column)?;
        let element_type = match &column.data_type {
            DataType::List(_) => &DataType::Int,
            DataType::Map(pair) => &pair.0,
            DataType::Set(value) => value,
            _ => return Err(not_a_collection(column)),
        };
        self.element(column, element, element_type).map(ElementChange::RemoveOne)
    }

    fn element(
        &mut self,
        column: &ColumnSchema,
        element: &Term,
        element_type: &DataType,
    ) -> Result<Operand, CqlError> {
        let what = if matches!(column.data_type, DataType::List(_)) { "idx" } else { "key" };
        self.operand(element, element_type, &format!("{what}({})", column.name))
    }
}

fn check_elements(column: &ColumnSchema) -> Result<(), CqlError> {
    match (column.is_multi_cell, column.data_type.is_composite()) {
        (true, _) => Ok(()),
        (false, true) => Err(CqlError::invalid(format!(
            "Invalid operation for frozen {} column {}: assign a whole value",
            column.data_type.name(),
            column.name
        ))),
        (false, false) => Err(not_a_collection(column)),
    }
}

fn not_a_collection(column: &ColumnSchema) -> CqlError {
    CqlError::invalid(format!(
        "column {} of type {} is no collection",
        column.name, column.data_type
    ))
}
