//! Names of types.

use super::name::TableName;
use crate::base::DataType;

/// A type as it is written. Carnet stores only the native ones yet; the others are read so that
/// the refusal can name them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeName {
    /// A scalar.
    Native(DataType),
    /// `counter`.
    Counter,
    /// `duration`.
    Duration,
    /// `frozen<…>`.
    Frozen(Box<TypeName>),
    /// `list<…>`.
    List(Box<TypeName>),
    /// `set<…>`.
    Set(Box<TypeName>),
    /// `map<…, …>`.
    Map(Box<TypeName>, Box<TypeName>),
    /// `tuple<…>`, of at least one type.
    Tuple(Vec<TypeName>),
    /// `vector<…, dimensions>`.
    Vector(Box<TypeName>, u32),
    /// A user-defined type.
    UserDefined(TableName),
    /// A Java class in single quotes.
    Custom(String),
}

impl TypeName {
    /// Returns the scalar type that it names, or nothing where Carnet has no such type.
    #[must_use]
    pub const fn data_type(&self) -> Option<DataType> {
        match self {
            Self::Native(data_type) => Some(*data_type),
            _ => None,
        }
    }
}
