//! Names of types.

use super::name::TableName;
use crate::base::DataType;

/// A type as written. Carnet stores only the native ones yet; the others are parsed so that the
/// refusal can name them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeName {
    /// A scalar type.
    Native(DataType),
    /// The type `duration`.
    Duration,
    /// `frozen<…>`: a frozen type.
    Frozen(Box<TypeName>),
    /// `list<…>`: a list.
    List(Box<TypeName>),
    /// `set<…>`: a set.
    Set(Box<TypeName>),
    /// `map<…, …>`: a map.
    Map(Box<TypeName>, Box<TypeName>),
    /// `tuple<…>`, of at least one type.
    Tuple(Vec<TypeName>),
    /// `vector<…, dimensions>`: a vector.
    Vector(Box<TypeName>, u32),
    /// A user-defined type.
    UserDefined(TableName),
    /// A Java class in single quotes.
    Custom(String),
}

impl TypeName {
    /// Returns the scalar type of this name, or `None` if Carnet does not support the type.
    #[must_use]
    pub const fn data_type(&self) -> Option<DataType> {
        match self {
            Self::Native(data_type) => Some(*data_type),
            _ => None,
        }
    }
}
