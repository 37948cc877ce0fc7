//! Types as the catalog stores them.
//!
//! ```text
//! 9                                        a scalar: the number of its option in the native protocol
//! "frozen<list<int>>"                      a type without user-defined types: its CQL text
//! {"type": [3, 1]}                         version 1 of the user-defined type 3 of the keyspace
//! {"set": {"type": [3, 1]}}                a type that uses it: a tree
//! {"udt": {"keyspace": "ks", …}}           the copy of a user-defined type in an old record
//! ```
//!
//! The fields of a user-defined type are stored once, in the record of its keyspace. Every other record
//! names it by its reference, so that no record grows with what its types contain, and no tree is
//! deeper than the type that a statement has named.

use carnet_data::{DataType, TypeReference};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum StoredType {
    Number(u16),
    Text(String),
    Tree(StoredTree),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StoredTree {
    List(Box<StoredType>),
    Set(Box<StoredType>),
    Map(Box<(StoredType, StoredType)>),
    Tuple(Vec<StoredType>),
    /// Number and version of a user-defined type.
    Type(u32, u32),
    /// Copy of a user-defined type. Only read: earlier versions stored types so.
    Udt(StoredCopy),
    /// Type of the elements, and their number.
    Vector(Box<(StoredType, u16)>),
}

/// A user-defined type in the form of earlier versions, with copies of the types that it uses.
#[derive(Serialize, Deserialize)]
pub(crate) struct StoredCopy {
    pub(crate) keyspace: String,
    pub(crate) name: String,
    pub(crate) fields: Vec<(String, StoredType)>,
}

/// Returns `true` if a type is a user-defined type or has one as a part.
pub(crate) fn has_user_types(data_type: &DataType) -> bool {
    let is_user_type = matches!(data_type, DataType::Udt(_));
    is_user_type || data_type.parts().into_iter().any(has_user_types)
}

impl From<&DataType> for StoredType {
    fn from(data_type: &DataType) -> Self {
        if !data_type.is_composite() {
            return Self::Number(data_type.id());
        }
        if !has_user_types(data_type) {
            return Self::Text(format!("frozen<{data_type}>"));
        }
        Self::Tree(match data_type {
            DataType::List(element) => StoredTree::List(Box::new(Self::from(&**element))),
            DataType::Set(element) => StoredTree::Set(Box::new(Self::from(&**element))),
            DataType::Map(pair) => {
                StoredTree::Map(Box::new((Self::from(&pair.0), Self::from(&pair.1))))
            }
            DataType::Vector(vector) => {
                StoredTree::Vector(Box::new((Self::from(&vector.0), vector.1)))
            }
            DataType::Udt(user_type) => {
                let TypeReference { id, version } = user_type.reference;
                StoredTree::Type(id, version)
            }
            record => StoredTree::Tuple(record.parts().into_iter().map(Self::from).collect()),
        })
    }
}

impl StoredType {
    /// Returns `true` if user-defined types are needed to read it.
    pub(crate) fn needs_user_types(&self) -> bool {
        // Each tree has a user-defined type.
        matches!(self, Self::Tree(_))
    }

    /// Returns the type, with user-defined types from a function; `None` if it is unknown.
    pub(crate) fn resolve_with(
        &self,
        find: &mut dyn FnMut(UserTypePart<'_>) -> Option<DataType>,
    ) -> Option<DataType> {
        let tree = match self {
            Self::Number(number) => return DataType::from_id(*number),
            Self::Text(text) => return text.parse().ok(),
            Self::Tree(tree) => tree,
        };
        Some(match tree {
            StoredTree::List(element) => DataType::list(element.resolve_with(find)?),
            StoredTree::Set(element) => DataType::set(element.resolve_with(find)?),
            StoredTree::Map(pair) => {
                let key = pair.0.resolve_with(find)?;
                DataType::map(key, pair.1.resolve_with(find)?)
            }
            StoredTree::Tuple(fields) => {
                let fields = fields.iter().map(|field| field.resolve_with(find));
                DataType::tuple(fields.collect::<Option<Vec<_>>>()?)
            }
            StoredTree::Type(id, version) => {
                find(UserTypePart::Reference(TypeReference { id: *id, version: *version }))?
            }
            StoredTree::Udt(copy) => find(UserTypePart::Copy(copy))?,
            StoredTree::Vector(vector) if vector.1 > 0 => {
                DataType::vector(vector.0.resolve_with(find)?, vector.1)
            }
            StoredTree::Vector(_) => return None,
        })
    }
}

/// User-defined type within a stored type.
#[derive(Clone, Copy)]
pub(crate) enum UserTypePart<'a> {
    Reference(TypeReference),
    Copy(&'a StoredCopy),
}
