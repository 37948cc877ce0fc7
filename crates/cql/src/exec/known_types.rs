//! The user-defined types that a statement on a keyspace may name.

use std::sync::Arc;

use carnet::catalog::{self, KeyspaceSchema};
use carnet::{DataType, Tx};

use crate::ast::{TableName, TypeName};
use crate::cql_error::CqlError;

/// The user-defined types of a keyspace.
pub(super) struct Types(pub(super) KeyspaceSchema);

impl Types {
    /// Reads the types of a keyspace; one that does not exist has none.
    pub(super) async fn load(tx: &Tx, keyspace: &str) -> Result<Self, CqlError> {
        let found = catalog::keyspace(tx, keyspace).await?;
        Ok(Self(found.unwrap_or_else(|| KeyspaceSchema::local(keyspace))))
    }

    /// Returns a type by its name; `None` if Carnet has no such type yet.
    ///
    /// # Errors
    ///
    /// `Invalid` if it names a user-defined type that does not exist, or one of another keyspace, and
    /// if the type, which `what` names, is larger than any column or field may be.
    pub(super) fn resolve(
        &self,
        what: &str,
        type_name: &TypeName,
    ) -> Result<Option<DataType>, CqlError> {
        self.check(type_name)?;
        let find = |name: &TableName| {
            let found = self.0.types.get(&name.table.text)?;
            Some(DataType::Udt(Arc::clone(found)))
        };
        let data_type = type_name.resolve(&find);
        // Before anything walks through it: a short text may name a type of billions of parts.
        if let Some(data_type) = &data_type {
            catalog::check_type(what, data_type)?;
        }
        Ok(data_type)
    }

    fn check(&self, type_name: &TypeName) -> Result<(), CqlError> {
        match type_name {
            TypeName::UserDefined(name) => {
                let keyspace = &self.0.name;
                if let Some(other) = name.keyspace.as_ref().filter(|other| other.text != *keyspace)
                {
                    return Err(CqlError::invalid(format!(
                        "Statement on keyspace {keyspace} cannot refer to a user type in keyspace \
                         {}; user types can only be used in the keyspace they are defined in",
                        other.text
                    )));
                }
                match self.0.types.contains_key(&name.table.text) {
                    true => Ok(()),
                    false => Err(unknown(keyspace, &name.table.text)),
                }
            }
            TypeName::Frozen(part)
            | TypeName::List(part)
            | TypeName::Set(part)
            | TypeName::Vector(part, _) => self.check(part),
            TypeName::Map(key, value) => self.check(key).and_then(|()| self.check(value)),
            TypeName::Tuple(fields) => fields.iter().try_for_each(|field| self.check(field)),
            TypeName::Native(_) | TypeName::Custom(_) => Ok(()),
        }
    }
}

/// Returns the error for a type that does not exist.
pub(super) fn unknown(keyspace: &str, name: &str) -> CqlError {
    CqlError::invalid(format!("Unknown type {keyspace}.{name}"))
}
