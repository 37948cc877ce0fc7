//! The user-defined types of a keyspace: read from its record, shared by all that use them.
//!
//! Types refer to each other, so they are resolved depth first. A cycle cannot be stored: the record is
//! read again before it is put. Earlier versions stored copies of types within others instead of
//! references, and let a type contain a copy of itself. Where an old record has such a cycle, the copy
//! that closes it is read as a tuple of its fields, which has the same serialization.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use carnet_data::{DataType, FieldKeys, TypeReference, UserType};
use serde::{Deserialize, Serialize};

use super::stored_type::{StoredCopy, StoredType, UserTypePart};

/// User-defined types of a keyspace, by reference and by name.
#[derive(Debug, Default)]
pub(crate) struct UserTypes {
    by_id: HashMap<u32, Arc<UserType>>,
    by_name: BTreeMap<String, Arc<UserType>>,
}

impl UserTypes {
    pub(crate) fn new(types: &BTreeMap<String, Arc<UserType>>) -> Self {
        let by_id = types.values().map(|found| (found.reference.id, Arc::clone(found))).collect();
        Self { by_id, by_name: types.clone() }
    }

    /// Returns the type that a record has; `None` if it is unknown.
    pub(crate) fn resolve(&self, stored: &StoredType) -> Option<DataType> {
        stored.resolve_with(&mut |part| match part {
            UserTypePart::Reference(reference) => {
                self.find(reference).map(|found| DataType::Udt(Arc::clone(found)))
            }
            UserTypePart::Copy(copy) => self.replace_copy(copy),
        })
    }

    /// Returns the type with a reference; `None` if there is none, or only another version.
    pub(crate) fn find(&self, reference: TypeReference) -> Option<&Arc<UserType>> {
        self.by_id.get(&reference.id).filter(|found| found.reference == reference)
    }

    /// Returns the type that the copy in an old record stands for.
    pub(crate) fn replace_copy(&self, copy: &StoredCopy) -> Option<DataType> {
        if let Some(found) = self.by_name.get(&copy.name) {
            return Some(DataType::Udt(Arc::clone(found)));
        }
        tuple(copy, &mut |part| match part {
            UserTypePart::Reference(_) => None,
            UserTypePart::Copy(copy) => self.replace_copy(copy),
        })
    }
}

/// Returns the tuple of the fields of a copy.
fn tuple(
    copy: &StoredCopy,
    find: &mut dyn FnMut(UserTypePart<'_>) -> Option<DataType>,
) -> Option<DataType> {
    let fields = copy.fields.iter().map(|(_, field)| field.resolve_with(find));
    fields.collect::<Option<Vec<_>>>().map(DataType::tuple)
}

/// Stored form of a user-defined type.
#[derive(Serialize, Deserialize)]
pub(crate) struct StoredUserType {
    id: u32,
    version: u32,
    name: String,
    fields: Vec<(String, StoredType)>,
    /// Whether keys leave out nulls at the end. Earlier versions wrote all fields.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    open_keys: bool,
}

impl From<&UserType> for StoredUserType {
    fn from(user_type: &UserType) -> Self {
        let field = |(name, data_type): &(String, DataType)| (name.clone(), data_type.into());
        Self {
            id: user_type.reference.id,
            version: user_type.reference.version,
            name: user_type.name.clone(),
            fields: user_type.fields.iter().map(field).collect(),
            open_keys: user_type.keys == FieldKeys::Open,
        }
    }
}

/// Numbers the types of an old record in the order of their names. The numbers are the same at each
/// read, until the record is put in the present form.
pub(crate) fn numbered(mut copies: Vec<StoredCopy>) -> Vec<StoredUserType> {
    copies.sort_by(|one, other| one.name.cmp(&other.name));
    let number = |(id, copy): (u32, StoredCopy)| StoredUserType {
        id,
        version: 1,
        name: copy.name,
        fields: copy.fields,
        open_keys: false,
    };
    (1..).zip(copies).map(number).collect()
}

/// Resolves the types of a keyspace; `None` if one has an unknown part, or contains itself by
/// references.
pub(crate) fn resolve(
    keyspace: &str,
    stored: &[StoredUserType],
) -> Option<BTreeMap<String, Arc<UserType>>> {
    let by_id = stored.iter().enumerate().map(|(place, found)| (found.id, place)).collect();
    let by_name = stored.iter().enumerate().map(|(place, found)| (&*found.name, place)).collect();
    let states = vec![State::Unknown; stored.len()];
    let mut resolver = Resolver { keyspace, stored, by_id, by_name, states };
    let mut types = BTreeMap::new();
    for (place, found) in stored.iter().enumerate() {
        types.insert(found.name.clone(), resolver.user_type(place)?);
    }
    Some(types)
}

struct Resolver<'a> {
    keyspace: &'a str,
    stored: &'a [StoredUserType],
    by_id: HashMap<u32, usize>,
    by_name: HashMap<&'a str, usize>,
    states: Vec<State>,
}

#[derive(Clone)]
enum State {
    Unknown,
    /// Its fields are being resolved.
    Open,
    Resolved(Arc<UserType>),
}

impl Resolver<'_> {
    /// Resolves the type at a place; `None` also if its fields are being resolved.
    fn user_type(&mut self, place: usize) -> Option<Arc<UserType>> {
        match &self.states[place] {
            State::Resolved(found) => return Some(Arc::clone(found)),
            State::Open => return None,
            State::Unknown => self.states[place] = State::Open,
        }
        let stored = &self.stored[place];
        let mut fields = Vec::with_capacity(stored.fields.len());
        for (name, field) in &stored.fields {
            let data_type = field.resolve_with(&mut |part| self.part(part))?;
            fields.push((name.clone(), data_type));
        }
        let found = Arc::new(UserType {
            keyspace: self.keyspace.to_owned(),
            name: stored.name.clone(),
            fields,
            reference: TypeReference { id: stored.id, version: stored.version },
            keys: if stored.open_keys { FieldKeys::Open } else { FieldKeys::All },
        });
        self.states[place] = State::Resolved(Arc::clone(&found));
        Some(found)
    }

    fn part(&mut self, part: UserTypePart<'_>) -> Option<DataType> {
        match part {
            UserTypePart::Reference(reference) => {
                let found = self.user_type(*self.by_id.get(&reference.id)?)?;
                (found.reference == reference).then_some(DataType::Udt(found))
            }
            UserTypePart::Copy(copy) => {
                let place = self.by_name.get(&*copy.name).copied();
                let open = |place: &usize| matches!(self.states[*place], State::Open);
                match place.filter(|place| !open(place)) {
                    Some(place) => self.user_type(place).map(DataType::Udt),
                    None => tuple(copy, &mut |part| self.part(part)),
                }
            }
        }
    }
}
