//! Names of types.

use carnet_data::DataType;

use super::name::TableName;

/// A type as written. Some are parsed only so that the refusal can name them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TypeName {
    /// A scalar type.
    Native(DataType),
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
    /// `vector<…, dimensions>`: a vector, of at least one dimension.
    Vector(Box<TypeName>, u16),
    /// A user-defined type.
    UserDefined(TableName),
    /// A user-defined type by its Java class, which states the names and types of its fields.
    UserClass(Box<TableName>, Vec<(String, TypeName)>),
    /// A Java class in single quotes.
    Custom(String),
}

impl TypeName {
    /// Returns the type of this name, or `None` if Carnet does not support the type. Within
    /// another type, a composite type is frozen without saying so.
    #[must_use]
    pub fn data_type(&self) -> Option<DataType> {
        self.resolve(&|_| None)
    }

    /// Returns the type of this name, with a function that finds user-defined types.
    pub(crate) fn resolve(
        &self,
        find: &dyn Fn(&TableName) -> Option<DataType>,
    ) -> Option<DataType> {
        Some(match self {
            Self::Native(data_type) => data_type.clone(),
            Self::Frozen(inner) => inner.resolve(find)?,
            Self::List(element) => DataType::list(element.resolve(find)?),
            Self::Set(element) => DataType::set(element.resolve(find)?),
            Self::Map(key, value) => DataType::map(key.resolve(find)?, value.resolve(find)?),
            Self::Tuple(fields) => {
                let fields = fields.iter().map(|field| field.resolve(find));
                DataType::tuple(fields.collect::<Option<Vec<_>>>()?)
            }
            Self::UserDefined(name) => find(name)?,
            Self::UserClass(name, _) => find(name)?,
            Self::Vector(element, dimensions) => {
                DataType::vector(element.resolve(find)?, *dimensions)
            }
            Self::Custom(_) => return None,
        })
    }
}
