//! What a client sends beside the text of a statement.

use std::sync::{Arc, Mutex, PoisonError};

use carnet::{Bytes, Label};

use super::{CqlError, Grant, Prepared};
use crate::parser::Marker;

/// What a connection remembers between statements.
#[derive(Debug, Default)]
pub struct Session {
    keyspace: Mutex<Option<String>>,
    who: Option<Arc<str>>,
    user: Option<Arc<str>>,
}

impl Session {
    /// Makes a session without a keyspace in use.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// As [`Session::new`], of somebody whose name transactions bear.
    #[must_use]
    pub fn of(who: impl Into<Arc<str>>) -> Self {
        Self { who: Some(who.into()), ..Self::default() }
    }

    /// Sets the user by whose service level statements run.
    #[must_use]
    pub fn with_user(mut self, user: impl Into<Arc<str>>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Returns the user, if one has logged in.
    pub(super) fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Labels a transaction of this session.
    pub(super) fn label(&self, what: &'static str) -> Option<Label> {
        self.who.as_ref().map(|who| Label::new(Arc::clone(who), what))
    }

    /// Returns the keyspace in use.
    #[must_use]
    pub fn keyspace(&self) -> Option<String> {
        self.keyspace.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Uses a keyspace. Whether it is there is the caller's to know.
    pub fn set_keyspace(&self, keyspace: impl Into<String>) {
        *self.keyspace.lock().unwrap_or_else(PoisonError::into_inner) = Some(keyspace.into());
    }
}

/// A value for a bind marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Its bytes in Cassandra's serialization.
    Bytes(Bytes),
    /// Null.
    Null,
    /// No value: a column that would be set is left as it is.
    Unset,
}

/// Values for a statement's bind markers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// In the order of the markers.
    Positional(Vec<Bound>),
    /// By the markers' names.
    Named(Vec<(String, Bound)>),
}

impl Default for Values {
    fn default() -> Self {
        Self::Positional(Vec::new())
    }
}

impl Values {
    /// Returns a value for each marker.
    pub(super) fn resolve(&self, markers: &[Marker]) -> Result<Vec<Bound>, CqlError> {
        match self {
            Self::Positional(values) if values.len() == markers.len() => Ok(values.clone()),
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
            Self::Named(values) => markers.iter().map(|marker| named(values, marker)).collect(),
        }
    }
}

fn named(values: &[(String, Bound)], marker: &Marker) -> Result<Bound, CqlError> {
    let Some(name) = &marker.name else {
        return Err(CqlError::invalid(
            "values were sent by name, and a bind marker of the statement has none",
        ));
    };
    let found = values.iter().find(|(known, _)| known == name);
    found
        .map(|(_, bound)| bound.clone())
        .ok_or_else(|| CqlError::invalid(format!("no value was sent for bind marker :{name}")))
}

/// What a client sends beside the text of a statement.
#[derive(Clone, Debug, Default)]
pub struct Parameters {
    /// The values of the bind markers.
    pub values: Values,
    /// How many rows a page holds at most; `None` for all at once.
    pub page_rows: Option<usize>,
    /// Where to go on: that of the page before.
    pub paging_state: Option<Bytes>,
    /// The keyspace of names without one, instead of the session's.
    pub keyspace: Option<String>,
    /// What the statement runs by.
    pub grant: Grant,
}

/// One statement of a batch.
#[derive(Clone, Debug)]
pub enum BatchItem {
    /// As text.
    Text {
        /// The statement.
        text: String,
        /// The values of its markers.
        values: Values,
    },
    /// Prepared before.
    Prepared {
        /// The statement.
        prepared: Arc<Prepared>,
        /// The values of its markers.
        values: Values,
    },
}
