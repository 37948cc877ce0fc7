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
//! to a list. All others of a list depend on its elements. The elements that a statement writes have
//! its time to live, and the others keep theirs.

use carnet::base::Bytes;
use carnet::base::row::{
    Change as ColumnChange, Collection, CollectionChange, CollectionKind, Element,
};
use carnet::catalog::ColumnSchema;
use carnet::{DataType, Value};

use super::compiler::Compiler;
use super::environment::Environment;
use super::evaluated::Evaluated;
use super::operand::Operand;
use crate::ast::{ArithmeticOp, Name, Term};
use crate::cql_error::CqlError;

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
    /// Returns `true` if it depends on the row.
    fn reads_row(&self, kind: CollectionKind) -> bool {
        let is_list = kind == CollectionKind::List;
        match self {
            Self::Add(operand) | Self::Prepend(operand) | Self::SetField(_, operand) => {
                operand.reads_row()
            }
            Self::Remove(operand) | Self::RemoveOne(operand) => is_list || operand.reads_row(),
            Self::Set(element, value) => is_list || element.reads_row() || value.reads_row(),
        }
    }
}

/// New value of a column.
#[derive(Clone, Debug)]
pub(crate) enum Assigned {
    Value(Operand),
    Elements(CollectionKind, Vec<ElementChange>),
}

impl Assigned {
    /// Returns `true` if it depends on the row.
    pub(crate) fn reads_row(&self) -> bool {
        match self {
            Self::Value(operand) => operand.reads_row(),
            Self::Elements(kind, changes) => changes.iter().any(|it| it.reads_row(*kind)),
        }
    }

    /// Evaluates to the change of the column; `None` if it is left unset. An empty collection that is
    /// not frozen is null.
    ///
    /// `current` are the elements of the column, if the change depends on the row.
    pub(crate) fn change(
        &self,
        column: &ColumnSchema,
        current: Option<Collection>,
        expiry: Option<i64>,
        environment: &Environment<'_>,
    ) -> Result<Option<ColumnChange>, CqlError> {
        let operand = match self {
            Self::Value(operand) => operand,
            Self::Elements(kind, changes) => {
                let change = CollectionChange::new(*kind);
                let mut edit = Edit { column, kind: *kind, current, expiry, change, environment };
                for change in changes {
                    edit.make(change)?;
                }
                let change = Some(edit.change).filter(|change| !change.is_empty());
                return Ok(change.map(ColumnChange::Elements));
            }
        };
        let value = match operand.evaluate(environment)? {
            Evaluated::Bytes(value) => value,
            Evaluated::Null => return Ok(Some(ColumnChange::Deleted)),
            Evaluated::Unset => return Ok(None),
        };
        let kind = CollectionKind::of_type(&column.data_type).filter(|_| column.is_multi_cell);
        let Some(kind) = kind else { return Ok(Some(ColumnChange::Set { value, expiry })) };
        let elements = Collection::from_serialized(kind, &value, expiry)?;
        Ok(Some(match elements.elements() {
            [] => ColumnChange::Deleted,
            _ => ColumnChange::Elements(CollectionChange::replace(elements)),
        }))
    }
}

/// Evaluation of the changes of a column's elements.
struct Edit<'a> {
    column: &'a ColumnSchema,
    kind: CollectionKind,
    current: Option<Collection>,
    /// Expiry of the elements that are written.
    expiry: Option<i64>,
    change: CollectionChange,
    environment: &'a Environment<'a>,
}

impl Edit<'_> {
    fn make(&mut self, change: &ElementChange) -> Result<(), CqlError> {
        let is_list = self.kind == CollectionKind::List;
        match change {
            ElementChange::Add(operand) => {
                let added = self.elements(operand, self.kind)?;
                self.change.add(added);
            }
            ElementChange::Prepend(operand) => {
                let added = self.elements(operand, self.kind)?;
                self.change.prepend(added);
            }
            ElementChange::Remove(operand) if is_list => {
                let removed = self.elements(operand, CollectionKind::List)?;
                let mut removed: Vec<Bytes> = removed.into_iter().map(|it| it.value).collect();
                // Both sides may have thousands of elements.
                removed.sort_unstable();
                let mut list = self.list()?;
                list.retain(|element| removed.binary_search(&element.value).is_err());
                self.replace(list);
            }
            ElementChange::Remove(operand) => {
                let removed = self.elements(operand, CollectionKind::Set)?;
                self.change.remove(removed.into_iter().map(|element| element.key).collect());
            }
            ElementChange::Set(element, value) if is_list => {
                let mut list = self.list()?;
                let index = self.index(&list, element, "set an element on")?;
                match value.evaluate(self.environment)? {
                    Evaluated::Bytes(value) => list[index] = self.element(Bytes::new(), value),
                    Evaluated::Null => drop(list.remove(index)),
                    Evaluated::Unset => {}
                }
                self.replace(list);
            }
            ElementChange::Set(key, value) => {
                let key = key.required(self.environment)?.serialize();
                self.set(key, value)?;
            }
            ElementChange::SetField(place, value) => self.set(Element::place_of(*place), value)?,
            ElementChange::RemoveOne(element) if is_list => {
                let mut list = self.list()?;
                list.remove(self.index(&list, element, "delete an element from")?);
                self.replace(list);
            }
            ElementChange::RemoveOne(key) => {
                let key = key.required(self.environment)?.serialize();
                self.change.remove(vec![key]);
            }
        }
        Ok(())
    }

    fn set(&mut self, key: Bytes, value: &Operand) -> Result<(), CqlError> {
        match value.evaluate(self.environment)? {
            Evaluated::Bytes(value) => self.change.add(vec![self.element(key, value)]),
            Evaluated::Null => self.change.remove(vec![key]),
            Evaluated::Unset => {}
        }
        Ok(())
    }

    const fn element(&self, key: Bytes, value: Bytes) -> Element {
        Element { key, value, expiry: self.expiry, written: None }
    }

    /// Evaluates an operand to elements; null and unset have none.
    fn elements(&self, operand: &Operand, kind: CollectionKind) -> Result<Vec<Element>, CqlError> {
        let Evaluated::Bytes(value) = operand.evaluate(self.environment)? else {
            return Ok(Vec::new());
        };
        Ok(Collection::from_serialized(kind, &value, self.expiry)?.into_elements())
    }

    /// Returns the elements of a list after the changes so far.
    fn list(&self) -> Result<Vec<Element>, CqlError> {
        Ok(self.change.apply(self.current.clone())?.into_elements())
    }

    fn replace(&mut self, list: Vec<Element>) {
        self.change = CollectionChange::replace(Collection::new(self.kind, list));
    }

    fn index(&self, list: &[Element], element: &Operand, verb: &str) -> Result<usize, CqlError> {
        let Value::Int(index) = element.required(self.environment)? else {
            return Err(CqlError::invalid(format!("{}: an index is an int", self.column.name)));
        };
        if list.is_empty() {
            return Err(CqlError::invalid(format!("Attempted to {verb} a list which is null")));
        }
        let size = list.len();
        usize::try_from(index).ok().filter(|index| *index < size).ok_or_else(|| {
            CqlError::invalid(format!("List index {index} out of bound, list has size {size}"))
        })
    }
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
                    "Invalid operation ({0}[{element}] = {value}) for set column {0}",
                    column.name
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
    Assigned::Elements(kind.expect("the column is a collection"), vec![change])
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
