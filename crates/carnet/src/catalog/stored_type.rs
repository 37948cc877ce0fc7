//! Types as the catalog stores them.
//!
//! ```text
//! 9                                        a scalar: the number of its option in the native protocol
//! "frozen<list<int>>"                      a type without user-defined types: its CQL text
//! {"set": {"udt": {"keyspace": "ks", …}}}  a type with user-defined types: a tree
//! ```

use std::sync::Arc;

use carnet_base::{DataType, UserType};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum StoredType {
    Number(u16),
    Text(String),
    Tree(StoredTree),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StoredTree {
    List(Box<StoredType>),
    Set(Box<StoredType>),
    Map(Box<(StoredType, StoredType)>),
    Tuple(Vec<StoredType>),
    Udt(StoredUserType),
    /// Type of the elements, and their number.
    Vector(Box<(StoredType, u16)>),
}

/// A user-defined type.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredUserType {
    keyspace: String,
    name: String,
    fields: Vec<(String, StoredType)>,
}

/// Returns `true` if a type is a user-defined type or has one as a part.
pub(super) fn has_user_types(data_type: &DataType) -> bool {
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
            DataType::Udt(user_type) => StoredTree::Udt(StoredUserType::from(&**user_type)),
            record => StoredTree::Tuple(record.parts().into_iter().map(Self::from).collect()),
        })
    }
}

impl StoredType {
    /// Returns the type; `None` if it is unknown.
    pub(super) fn parse(&self) -> Option<DataType> {
        match self {
            Self::Number(number) => DataType::from_id(*number),
            Self::Text(text) => text.parse().ok(),
            Self::Tree(tree) => Some(match tree {
                StoredTree::List(element) => DataType::list(element.parse()?),
                StoredTree::Set(element) => DataType::set(element.parse()?),
                StoredTree::Map(pair) => DataType::map(pair.0.parse()?, pair.1.parse()?),
                StoredTree::Tuple(fields) => {
                    DataType::tuple(fields.iter().map(Self::parse).collect::<Option<Vec<_>>>()?)
                }
                StoredTree::Udt(user_type) => DataType::Udt(Arc::new(user_type.parse()?)),
                StoredTree::Vector(vector) if vector.1 > 0 => {
                    DataType::vector(vector.0.parse()?, vector.1)
                }
                StoredTree::Vector(_) => return None,
            }),
        }
    }
}

impl From<&UserType> for StoredUserType {
    fn from(user_type: &UserType) -> Self {
        let field = |(name, data_type): &(String, DataType)| (name.clone(), data_type.into());
        Self {
            keyspace: user_type.keyspace.clone(),
            name: user_type.name.clone(),
            fields: user_type.fields.iter().map(field).collect(),
        }
    }
}

impl StoredUserType {
    pub(super) fn parse(&self) -> Option<UserType> {
        let field = |(name, stored): &(String, StoredType)| Some((name.clone(), stored.parse()?));
        Some(UserType {
            keyspace: self.keyspace.clone(),
            name: self.name.clone(),
            fields: self.fields.iter().map(field).collect::<Option<_>>()?,
        })
    }
}
