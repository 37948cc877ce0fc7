//! The user-defined types that a statement on a keyspace may name.

use std::sync::Arc;

use carnet::catalog::{self, KeyspaceSchema};
use carnet::{DataType, Tx};
use carnet_data::UserType;

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
        let data_type = type_name.resolve(&self.by_name());
        // Before anything walks through it: a short text may name a type of billions of parts.
        if let Some(data_type) = &data_type {
            catalog::check_type(what, data_type)?;
        }
        Ok(data_type)
    }

    /// Returns the function that finds a type by its name.
    fn by_name(&self) -> impl Fn(&TableName) -> Option<DataType> + '_ {
        |name| Some(DataType::Udt(Arc::clone(self.0.types.get(&name.table.text)?)))
    }

    /// Finds a user-defined type of the keyspace.
    fn find(&self, name: &TableName) -> Result<&UserType, CqlError> {
        let keyspace = &self.0.name;
        if let Some(other) = name.keyspace.as_ref().filter(|other| other.text != *keyspace) {
            return Err(CqlError::invalid(format!(
                "Statement on keyspace {keyspace} cannot refer to a user type in keyspace \
                 {}; user types can only be used in the keyspace they are defined in",
                other.text
            )));
        }
        let found = self.0.types.get(&name.table.text);
        found.map(|found| &**found).ok_or_else(|| unknown(keyspace, &name.table.text))
    }

    fn check(&self, type_name: &TypeName) -> Result<(), CqlError> {
        match type_name {
            TypeName::UserDefined(name) => self.find(name).map(drop),
            TypeName::UserClass(name, fields) => {
                let found = self.find(name)?;
                for (field, class) in fields {
                    self.resolve(&format!("the type of field {field}"), class)?;
                }
                let has = |(known, given): (&(String, DataType), &(String, TypeName))| {
                    known.0 == given.0 && given.1.resolve(&self.by_name()) == Some(known.1.clone())
                };
                let are_alike =
                    found.fields.len() == fields.len() && found.fields.iter().zip(fields).all(has);
                are_alike.then_some(()).ok_or_else(|| other_fields(found, fields))
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

/// Returns the error for a class whose fields differ from the fields of the type.
fn other_fields(found: &UserType, fields: &[(String, TypeName)]) -> CqlError {
    let known = found.fields.iter().map(|(name, of)| format!("{name} {of}"));
    let given = fields.iter().map(|(name, of)| format!("{name} {of}"));
    let [known, given] = [known.collect::<Vec<_>>(), given.collect()].map(|all| all.join(", "));
    CqlError::invalid(format!(
        "class UserType has the fields ({given}), and type {}.{} has ({known}); write the name of the \
         type, {}.{}",
        found.keyspace, found.name, found.keyspace, found.name
    ))
}

/// Returns the error for a type that does not exist.
pub(super) fn unknown(keyspace: &str, name: &str) -> CqlError {
    CqlError::invalid(format!("Unknown type {keyspace}.{name}"))
}
