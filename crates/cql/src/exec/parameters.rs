//! Parameters that a client sends beside the text of a statement.

use std::sync::{Arc, Mutex, PoisonError};

use carnet::{Bytes, Label};

use super::{CqlError, Grant, Prepared};
use crate::parser::Marker;

/// State of a connection between statements.
#[derive(Debug, Default)]
pub struct Session {
    keyspace: Mutex<Option<String>>,
    who: Option<Arc<str>>,
    user: Option<Arc<str>>,
}

impl Session {
    /// Creates a session without a current keyspace.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Like [`Session::new`], with the client's name, which labels its transactions.
    #[must_use]
    pub fn of(who: impl Into<Arc<str>>) -> Self {
        Self { who: Some(who.into()), ..Self::default() }
    }

    /// Sets the user, whose service level applies to statements.
    #[must_use]
    pub fn with_user(mut self, user: impl Into<Arc<str>>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Returns the user after a login.
    pub(super) fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Labels a transaction of this session.
    pub(super) fn label(&self, what: &'static str) -> Option<Label> {
        self.who.as_ref().map(|who| Label::new(Arc::clone(who), what))
    }

    /// Returns the current keyspace.
    #[must_use]
    pub fn keyspace(&self) -> Option<String> {
        self.keyspace.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the current keyspace. The caller checks that it exists.
    pub fn set_keyspace(&self, keyspace: impl Into<String>) {
        *self.keyspace.lock().unwrap_or_else(PoisonError::into_inner) = Some(keyspace.into());
    }
}

/// A value for a bind marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Bytes in Cassandra's serialization.
    Bytes(Bytes),
    /// The value null.
    Null,
    /// No value: a column that would be set keeps its value.
    Unset,
}

/// Values for a statement's bind markers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// Values in the order of the markers.
    Positional(Vec<Bound>),
    /// Values by the markers' names.
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

/// Parameters that a client sends beside the text of a statement.
#[derive(Clone, Debug, Default)]
pub struct Parameters {
    /// Values of the bind markers.
    pub values: Values,
    /// Maximum number of rows per page; `None` for all rows at once.
    pub page_rows: Option<usize>,
    /// Paging state of the previous page.
    pub paging_state: Option<Bytes>,
    /// Keyspace of unqualified names, instead of the session's.
    pub keyspace: Option<String>,
    /// Admission of the statement.
    pub grant: Grant,
}

/// One statement of a batch.
#[derive(Clone, Debug)]
pub enum BatchItem {
    /// A statement as text.
    Text {
        /// Text of the statement.
        text: String,
        /// Values of its markers.
        values: Values,
    },
    /// A prepared statement.
    Prepared {
        /// The prepared statement.
        prepared: Arc<Prepared>,
        /// Values of its markers.
        values: Values,
    },
}
