//! Changes of one column's elements in progress.
//!
//! Each change takes time in proportion to its own elements, whatever the changes before it:
//!
//! | collection | form until the end |
//! | --- | --- |
//! | a list that no change depends on | elements before and behind it |
//! | another list | its elements in chunks ([`ChunkedList`]) |
//! | a set, a map, fields | the last change of each key |
//!
//! Equal keys have [one form](Value::key_form). Elements that are stored in another one are removed by a
//! change of their key.

use std::collections::{BTreeMap, HashSet, VecDeque};

use carnet::catalog::ColumnSchema;
use carnet::{DataType, Value};
use carnet_base::Bytes;
use carnet_data::row::{
    Change as ColumnChange, Collection, CollectionChange, CollectionKind, Element,
};

use super::chunked_list::ChunkedList;
use super::elements::ElementChange;
use super::environment::Environment;
use super::evaluated::Evaluated;
use super::operand::Operand;
use crate::cql_error::CqlError;

/// Changes of a column's elements in progress.
pub(crate) struct ElementEdit<'a> {
    column: &'a ColumnSchema,
    kind: CollectionKind,
    /// Elements before the changes; `None` if no change depends on them.
    current: Option<Collection>,
    /// Second by which elements have expired for the statement.
    now: i64,
    /// Whether the greatest of several values of one key is kept, not the last.
    is_greatest_kept: bool,
    state: State,
}

enum State {
    /// Elements before and behind those of a list.
    Ends {
        front: VecDeque<Element>,
        back: Vec<Element>,
    },
    List(ChunkedList),
    /// The element that a key gets; `None` if it is removed.
    Keys(BTreeMap<Bytes, Option<Element>>),
}

impl<'a> ElementEdit<'a> {
    /// Begins the changes of a column. `current` are its stored elements, if a change depends on them. Elements
    /// that have expired at the second `now` are not counted, and stay.
    pub(crate) fn new(
        column: &'a ColumnSchema,
        kind: CollectionKind,
        current: Option<Collection>,
        now: i64,
    ) -> Self {
        let state = match kind {
            CollectionKind::List => State::Ends { front: VecDeque::new(), back: Vec::new() },
            _ => State::Keys(BTreeMap::new()),
        };
        Self { column, kind, current, now, is_greatest_kept: false, state }
    }

    /// Lets the greatest of several values of one key remain, and a removal before each value.
    pub(crate) const fn deciding_by_value(mut self, decides: bool) -> Self {
        self.is_greatest_kept = decides;
        self
    }

    /// Makes a change, after the earlier ones. The elements that it writes get `expiry`.
    ///
    /// # Errors
    ///
    /// `Invalid` for an index that the list does not have, and for invalid values.
    pub(crate) fn make(
        &mut self,
        change: &ElementChange,
        expiry: Option<i64>,
        environment: &Environment<'_>,
    ) -> Result<(), CqlError> {
        environment.steps.take(1)?;
        let is_list = self.kind == CollectionKind::List;
        let element = |key, value| Element { key, value, expiry, written: None };
        match change {
            ElementChange::Add(operand) => {
                self.add(self.elements(operand, expiry, environment)?);
            }
            ElementChange::Prepend(operand) => {
                self.prepend(self.elements(operand, expiry, environment)?);
            }
            ElementChange::Remove(operand) if is_list => {
                let removed = self.elements(operand, None, environment)?;
                let form = |removed: Element| value_type(self.column).key_form(&removed.value);
                let removed =
                    removed.into_iter().map(form).collect::<carnet::Result<HashSet<_>>>()?;
                self.list(environment)?.remove_values(removed);
            }
            ElementChange::Remove(operand) => {
                let removed = self.elements(operand, None, environment)?;
                removed.into_iter().for_each(|removed| self.set(removed.key, None));
            }
            ElementChange::Set(at, value) if is_list => {
                let index = self.index(at, "set an element on", environment)?;
                let list = self.list(environment)?;
                match value.evaluate(environment)? {
                    Evaluated::Bytes(value) => list.set(index, element(Bytes::new(), value)),
                    Evaluated::Null => list.remove(index),
                    Evaluated::Unset => {}
                }
            }
            ElementChange::Set(key, value) => {
                let key = key.required(environment)?.key_form();
                self.set_value(key, value, expiry, environment)?;
            }
            ElementChange::SetField(place, value) => {
                self.set_value(Element::place_of(*place), value, expiry, environment)?;
            }
            ElementChange::RemoveOne(at) if is_list => {
                let index = self.index(at, "delete an element from", environment)?;
                self.list(environment)?.remove(index);
            }
            ElementChange::RemoveOne(key) => {
                self.set(key.required(environment)?.key_form(), None);
            }
        }
        Ok(())
    }

    /// Returns the change of the column; `None` if nothing changes.
    ///
    /// # Errors
    ///
    /// `Invalid` if a stored key is no value of the column's type.
    pub(crate) fn finish(self) -> Result<Option<ColumnChange>, CqlError> {
        let mut change = CollectionChange::new(self.kind);
        match self.state {
            State::Ends { front, back } => {
                change.add(back);
                change.prepend(front.into());
            }
            State::List(list) => {
                change = CollectionChange::edited(Collection::list(list.into_elements()));
            }
            State::Keys(keys) => {
                let data_type = &self.column.data_type;
                let is_changed = |form: &Bytes| keys.contains_key(form);
                let stored = self.current.as_ref();
                let other = stored.map(|stored| stored.other_forms(data_type, is_changed));
                let (mut set, mut removed) = (Vec::new(), other.transpose()?.unwrap_or_default());
                for (key, element) in keys {
                    match element {
                        Some(element) => set.push(element),
                        None => removed.push(key),
                    }
                }
                change.add(set);
                change.remove(removed);
            }
        }
        Ok(Some(change).filter(|change| !change.is_empty()).map(ColumnChange::from))
    }

    fn add(&mut self, added: Vec<Element>) {
        match &mut self.state {
            State::Ends { back, .. } => back.extend(added),
            State::List(list) => list.extend(added),
            State::Keys(_) => {
                added.into_iter().for_each(|added| self.set(added.key.clone(), Some(added)));
            }
        }
    }

    fn prepend(&mut self, added: Vec<Element>) {
        match &mut self.state {
            State::Ends { front, .. } => {
                added.into_iter().rev().for_each(|added| front.push_front(added));
            }
            State::List(list) => list.prepend(added),
            State::Keys(_) => self.add(added),
        }
    }

    fn set(&mut self, key: Bytes, element: Option<Element>) {
        let State::Keys(keys) = &mut self.state else { return };
        let weight = |element: &Option<Element>| {
            (element.is_none(), element.as_ref().map(|it| (it.expiry, it.value.clone())))
        };
        let known = keys.get(&key).filter(|_| self.is_greatest_kept);
        if known.is_none_or(|known| weight(known) <= weight(&element)) {
            keys.insert(key, element);
        }
    }

    fn set_value(
        &mut self,
        key: Bytes,
        value: &Operand,
        expiry: Option<i64>,
        environment: &Environment<'_>,
    ) -> Result<(), CqlError> {
        match value.evaluate(environment)? {
            Evaluated::Bytes(value) => {
                let element = Element { key: key.clone(), value, expiry, written: None };
                self.set(key, Some(element));
            }
            Evaluated::Null => self.set(key, None),
            Evaluated::Unset => {}
        }
        Ok(())
    }

    /// Returns the elements of the list after the changes so far.
    fn list(&mut self, environment: &Environment<'_>) -> Result<&mut ChunkedList, CqlError> {
        if let State::Ends { front, back } = &mut self.state {
            let current = self.current.take();
            environment.steps.take(current.as_ref().map_or(0, Collection::len) as u64)?;
            let current = current.into_iter().flat_map(Collection::into_elements);
            let (front, back) = (std::mem::take(front), std::mem::take(back));
            let elements = front.into_iter().chain(current).chain(back);
            let value_type = value_type(self.column).clone();
            self.state = State::List(ChunkedList::new(elements, self.now, value_type));
        }
        match &mut self.state {
            State::List(list) => Ok(list),
            State::Ends { .. } | State::Keys(_) => {
                Err(CqlError::invalid(format!("column {} is no list", self.column.name)))
            }
        }
    }

    fn index(
        &mut self,
        at: &Operand,
        verb: &str,
        environment: &Environment<'_>,
    ) -> Result<usize, CqlError> {
        let Value::Int(index) = at.required(environment)? else {
            return Err(CqlError::invalid(format!("{}: an index is an int", self.column.name)));
        };
        let list = self.list(environment)?;
        environment.steps.take(list.steps())?;
        let size = list.len();
        if size == 0 {
            return Err(CqlError::invalid(format!("Attempted to {verb} a list which is null")));
        }
        usize::try_from(index).ok().filter(|index| *index < size).ok_or_else(|| {
            CqlError::invalid(format!("List index {index} out of bound, list has size {size}"))
        })
    }

    /// Evaluates an operand to elements; null and unset have none.
    fn elements(
        &self,
        operand: &Operand,
        expiry: Option<i64>,
        environment: &Environment<'_>,
    ) -> Result<Vec<Element>, CqlError> {
        let Evaluated::Bytes(value) = operand.evaluate(environment)? else {
            return Ok(Vec::new());
        };
        // The keys to remove from a map are a set.
        let elements = Collection::of_value(&operand.data_type, &value, expiry)?;
        environment.steps.take(elements.len() as u64)?;
        Ok(elements.into_elements().collect())
    }
}

/// Returns the type of the values of a list.
fn value_type(column: &ColumnSchema) -> &DataType {
    match &column.data_type {
        DataType::List(value) => value,
        other => other,
    }
}
