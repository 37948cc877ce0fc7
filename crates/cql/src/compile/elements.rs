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
//! Changes of sets, maps and fields do not depend on the row, and neither do elements that are added
//! to a list. All others of a list depend on its elements, and so do changes by keys that may be stored
//! in [another form](DataType::has_many_forms), which they remove. The elements that a statement writes have
//! its time to live, and the others keep theirs.

use carnet::DataType;
use carnet::catalog::ColumnSchema;
use carnet_data::row::{Change as ColumnChange, Collection, CollectionChange, CollectionKind};

use super::compiler::Compiler;
use super::environment::Environment;
use super::evaluated::Evaluated;
use super::operand::Operand;
use crate::ast::{ArithmeticOp, Name, Term};
use crate::cql_error::CqlError;
use crate::shown::shown;

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

impl ElementChange {
    /// Returns `true` if it depends on the elements of the row.
    const fn reads_elements(&self, kind: CollectionKind) -> bool {
        let is_list = matches!(kind, CollectionKind::List);
        is_list && matches!(self, Self::Remove(_) | Self::RemoveOne(_) | Self::Set(..))
    }

    /// Returns `true` if a term of it depends on a column of the row.
    fn reads_columns(&self) -> bool {
        match self {
            Self::Add(operand)
            | Self::Prepend(operand)
            | Self::Remove(operand)
            | Self::RemoveOne(operand)
            | Self::SetField(_, operand) => operand.reads_row(),
            Self::Set(element, value) => element.reads_row() || value.reads_row(),
        }
    }
}

/// New value of a column.
#[derive(Clone, Debug)]
pub(crate) enum Assigned {
    Value(Operand),
    Elements(CollectionKind, KeyForms, Vec<ElementChange>),
}

/// Forms in which a key of an element may be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyForms {
    /// The one that changes name, or there are no keys.
    One,
    /// Others, too: a change reads the elements to find them.
    Many,
}

impl Assigned {
    /// Returns `true` if it depends on the row.
    pub(crate) fn reads_row(&self) -> bool {
        match self {
            Self::Value(operand) => operand.reads_row(),
            Self::Elements(kind, forms, changes) => {
                *forms == KeyForms::Many
                    || changes.iter().any(|it| it.reads_elements(*kind) || it.reads_columns())
            }
        }
    }

    /// Returns `true` if a term of it depends on a column of the row, and not only the change on the
    /// elements that it changes.
    pub(crate) fn reads_columns(&self) -> bool {
        match self {
            Self::Value(operand) => operand.reads_row(),
            Self::Elements(_, _, changes) => changes.iter().any(ElementChange::reads_columns),
        }
    }
}

/// Evaluates the new value of a column to its change; `None` if it is left unset. An empty
/// collection that is not frozen is null.
pub(crate) fn value_change(
    operand: &Operand,
    column: &ColumnSchema,
    expiry: Option<i64>,
    environment: &Environment<'_>,
) -> Result<Option<ColumnChange>, CqlError> {
    let value = match operand.evaluate(environment)? {
        Evaluated::Bytes(value) => value,
        Evaluated::Null => return Ok(Some(ColumnChange::Deleted)),
        Evaluated::Unset => return Ok(None),
    };
    let kind = CollectionKind::of_type(&column.data_type).filter(|_| column.is_multi_cell);
    if kind.is_none() {
        return Ok(Some(ColumnChange::Set { value, expiry }));
    }
    let elements = Collection::of_value(&column.data_type, &value, expiry)?;
    environment.steps.take(elements.len() as u64)?;
    Ok(Some(match elements.is_empty() {
        true => ColumnChange::Deleted,
        false => CollectionChange::replace(elements).into(),
    }))
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
                        "Invalid operation ({name} = {}) for {} column {name}",
                        shown(term),
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
        Ok(changed(column, change))
    }

    /// Compiles `column[element] = value`.
    pub(super) fn set_element(
        &mut self,
        column: &ColumnSchema,
        element: &Term,
        value: &Term,
    ) -> Result<Assigned, CqlError> {
        check_elements(column)?;
        let (element_type, value_type) = match &column.data_type {
            DataType::List(value) => (&DataType::Int, &**value),
            DataType::Map(pair) => (&pair.0, &pair.1),
            _ => {
                return Err(CqlError::invalid(format!(
                    "Invalid operation ({0}[{1}] = {2}) for set column {0}",
                    column.name,
                    shown(element),
                    shown(value)
                )));
            }
        };
        let element = self.element(column, element, element_type)?;
        let what = format!("value({})", column.name);
        let value = self.within_row(|compiler| compiler.operand(value, value_type, &what))?;
        Ok(changed(column, ElementChange::Set(element, value)))
    }

    /// Compiles `column.field = value`.
    pub(super) fn set_field(
        &mut self,
        column: &ColumnSchema,
        field: &Name,
        value: &Term,
    ) -> Result<Assigned, CqlError> {
        let place = place(column, field)?;
        if !column.is_multi_cell {
            return Err(CqlError::invalid(format!(
                "Invalid operation for frozen UDT column {}: assign a whole value",
                column.name
            )));
        }
        let data_type = column.data_type.parts()[place];
        let what = format!("{}.{}", column.name, field.text);
        let value = self.within_row(|compiler| compiler.operand(value, data_type, &what))?;
        Ok(changed(column, ElementChange::SetField(place, value)))
    }

    /// Compiles the element of `DELETE column[element]`.
    pub(super) fn remove_element(
        &mut self,
        column: &ColumnSchema,
        element: &Term,
    ) -> Result<Assigned, CqlError> {
        check_elements(column)?;
        let element_type = match &column.data_type {
            DataType::List(_) => &DataType::Int,
            DataType::Map(pair) => &pair.0,
            DataType::Set(value) => value,
            _ => return Err(not_a_collection(column)),
        };
        let element = self.element(column, element, element_type)?;
        Ok(changed(column, ElementChange::RemoveOne(element)))
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

fn changed(column: &ColumnSchema, change: ElementChange) -> Assigned {
    let kind = CollectionKind::of_type(&column.data_type);
    let has_many_forms = match &column.data_type {
        DataType::Set(element) => element.has_many_forms(),
        DataType::Map(pair) => pair.0.has_many_forms(),
        _ => false,
    };
    let forms = if has_many_forms { KeyForms::Many } else { KeyForms::One };
    Assigned::Elements(kind.expect("the column is a collection"), forms, vec![change])
}

/// Returns the place of a field of a user-defined type.
pub(super) fn place(column: &ColumnSchema, field: &Name) -> Result<usize, CqlError> {
    let DataType::Udt(user_type) = &column.data_type else {
        return Err(CqlError::invalid(format!(
            "Invalid operation for column {} of type {}: it is not a user type",
            column.name, column.data_type
        )));
    };
    let place = user_type.fields.iter().position(|(name, _)| *name == field.text);
    place.ok_or_else(|| {
        CqlError::invalid(format!(
            "UDT column {} does not have a field named {}",
            column.name, field.text
        ))
    })
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
