//! Parameters that a client sends beside the text of a statement.

use std::sync::{Arc, Mutex};

use carnet::base::lock;

use carnet::{Bytes, Label};

use super::grant::Grant;
use super::prepared::Prepared;
use crate::bound::Values;

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
    pub fn with_name(who: impl Into<Arc<str>>) -> Self {
        Self { who: Some(who.into()), ..Self::default() }
    }

    /// Sets the user, whose service level applies to statements.
    #[must_use]
    pub fn with_user(mut self, user: impl Into<Arc<str>>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Returns the user; `None` before a login.
    pub(super) fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Returns the label of a transaction of this session; `None` if the client has no name.
    pub(super) fn label(&self, what: &'static str) -> Option<Label> {
        self.who.as_ref().map(|who| Label::new(Arc::clone(who), what))
    }

    /// Returns the current keyspace.
    #[must_use]
    pub fn keyspace(&self) -> Option<String> {
        lock(&self.keyspace).clone()
    }

    /// Sets the current keyspace. The caller checks that it exists.
    pub fn set_keyspace(&self, keyspace: impl Into<String>) {
        *lock(&self.keyspace) = Some(keyspace.into());
    }
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
