//! Values of bind markers.

use bytes::Bytes;

/// A value for a bind marker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BoundValue {
    /// Bytes of the value in Cassandra's serialization, not yet checked against a type.
    Bytes(Bytes),
    /// Null: the column is deleted.
    Null,
    /// The column is left as it is.
    Unset,
}

/// The values of a statement's bind markers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BoundValues {
    /// Values in the order of the markers; empty if the client sent none.
    Positional(Vec<BoundValue>),
    /// Values by the markers' names, in the order sent; a name may occur twice.
    Named(Vec<(String, BoundValue)>),
}

impl BoundValues {
    /// Returns the number of values.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self {
            Self::Positional(values) => values.len(),
            Self::Named(values) => values.len(),
        }
    }

    /// Returns `true` if there are no values.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Default for BoundValues {
    fn default() -> Self {
        Self::Positional(Vec::new())
    }
}
