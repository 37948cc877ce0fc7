//! Values of bind markers.

use std::borrow::Cow;
use std::collections::HashMap;

use carnet::Bytes;

use crate::cql_error::CqlError;
use crate::parser::Marker;

/// A value for a bind marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Bytes in Cassandra's serialization, not yet checked against a type.
    Bytes(Bytes),
    /// The value null.
    Null,
    /// No value: a column that would be set keeps its value.
    Unset,
}

/// Values for a statement's bind markers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// Values in the order of the markers; empty if the client sent none.
    Positional(Vec<Bound>),
    /// Values by the markers' names, in the order sent; a name may occur twice.
    Named(Vec<(String, Bound)>),
}

impl Default for Values {
    fn default() -> Self {
        Self::Positional(Vec::new())
    }
}

impl Values {
    /// Returns a value for each marker. Values in order are moved.
    pub(crate) fn into_resolved(self, markers: &[Marker]) -> Result<Vec<Bound>, CqlError> {
        match self {
            Self::Positional(values) if values.len() == markers.len() => Ok(values),
            other => other.resolve(markers).map(Cow::into_owned),
        }
    }

    /// Returns a value for each marker. Values in order are lent.
    pub(crate) fn resolve(&self, markers: &[Marker]) -> Result<Cow<'_, [Bound]>, CqlError> {
        match self {
            Self::Positional(values) if values.len() == markers.len() => Ok(Cow::Borrowed(values)),
            Self::Positional(values) => {
                let hint = if values.is_empty() {
                    "; some drivers send values only for statements that they prepare: a \
                     transaction, for instance, only where it ends in APPLY BATCH"
                } else {
                    ""
                };
                Err(CqlError::invalid(format!(
                    "Invalid amount of bind variables: the statement has {} markers, and {} \
                     values were sent{hint}",
                    markers.len(),
                    values.len()
                )))
            }
            Self::Named(values) => {
                let mut by_name: HashMap<&str, &Bound> = HashMap::with_capacity(values.len());
                for (name, bound) in values {
                    // The first of several values of a name counts.
                    by_name.entry(name).or_insert(bound);
                }
                let found = markers.iter().map(|marker| named(&by_name, marker));
                found.collect::<Result<_, _>>().map(Cow::Owned)
            }
        }
    }
}

fn named(values: &HashMap<&str, &Bound>, marker: &Marker) -> Result<Bound, CqlError> {
    let Some(name) = &marker.name else {
        return Err(CqlError::invalid(
            "values were sent by name, and a bind marker of the statement has none",
        ));
    };
    let found = values.get(name.as_str()).map(|bound| (*bound).clone());
    found.ok_or_else(|| CqlError::invalid(format!("no value was sent for bind marker :{name}")))
}
