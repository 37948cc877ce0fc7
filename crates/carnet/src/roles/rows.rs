//! Roles as cells of the catalog.
//!
//! ```text
//! table of roles    partition key   clustering key             payload
//!                   "roles"         role's name                StoredRole, JSON
//!                   "grants"        role's name NUL resource   StoredGrant, JSON
//!                   "identities"    identity                   StoredIdentity, JSON
//!                   ""              "change"                   StoredChange, JSON
//! ```
//!
//! Every change writes the `change` row, so that changes conflict with each other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use carnet_base::{Bytes, Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::limits::{
    GRANTS_MAX, IDENTITIES_MAX, IDENTITY_BYTES_MAX, MEMBERSHIPS_MAX, NAME_BYTES_MAX, ROLES_MAX,
    check_name,
};
use super::permission::{Permission, Permissions};
use super::resource::Resource;
use super::role::{Role, StoredPassword};
use super::set::Roles;
use crate::catalog::{self, ROLES};
use crate::tx::Tx;

const FORMAT: u32 = 1;
/// Maximum size of a payload in bytes: that of a role which has all [`MEMBERSHIPS_MAX`] roles.
const PAYLOAD_BYTES_MAX: usize = 32 << 20;

const ROLES_PARTITION: &str = "roles";
const GRANTS_PARTITION: &str = "grants";
const IDENTITIES_PARTITION: &str = "identities";
const CHANGE: &str = "change";
const SEPARATOR: char = '\0';

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredRole {
    format: u32,
    is_superuser: bool,
    can_login: bool,
    hash: Option<String>,
    options: BTreeMap<String, String>,
    member_of: BTreeSet<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredGrant {
    format: u32,
    permissions: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredIdentity {
    format: u32,
    role: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredChange {
    format: u32,
    change: u64,
}

/// A row of the table of roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Row {
    /// Row of a role.
    Role(Role),
    /// Row of the permissions of a role on a resource.
    Grant(Permissions),
    /// Row of an identity: the name of its role.
    Identity(String),
    /// The number of changes.
    Change(u64),
}

impl Row {
    /// Encodes the row.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        match self {
            Self::Role(role) => json(&stored(role)),
            Self::Grant(permissions) => json(&StoredGrant {
                format: FORMAT,
                permissions: permissions.iter().map(|one| one.name().to_owned()).collect(),
            }),
            Self::Identity(role) => json(&StoredIdentity { format: FORMAT, role: role.clone() }),
            Self::Change(change) => json(&StoredChange { format: FORMAT, change: *change }),
        }
    }

    /// Encodes the row, and reads it again: no row is stored that cannot be read.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the row would be read differently or not at all.
    fn to_readable(&self) -> Result<Bytes> {
        let bytes = self.encode();
        let again = match self {
            Self::Role(_) => Self::decode_role(&bytes),
            Self::Grant(_) => Self::decode_grant(&bytes),
            Self::Identity(_) => Self::decode_identity(&bytes),
            Self::Change(_) => Self::decode_change(&bytes),
        };
        catalog::readable("a row of the roles", self, bytes, again)
    }

    /// Decodes the row of a role.
    ///
    /// # Errors
    ///
    /// `Corrupted`; `Unsupported` for a later format.
    pub fn decode_role(bytes: &[u8]) -> Result<Self> {
        let StoredRole { is_superuser, can_login, hash, options, member_of, .. } = read(bytes)?;
        let password = hash.map(StoredPassword::new);
        let member_of = member_of.into_iter().map(Arc::from).collect();
        let role = Role { is_superuser, can_login, password, options, member_of };
        role.check().map_err(|error| corrupted().with_source(error))?;
        Ok(Self::Role(role))
    }

    /// Decodes the row of permissions.
    ///
    /// # Errors
    ///
    /// Same as [`Row::decode_role`].
    pub fn decode_grant(bytes: &[u8]) -> Result<Self> {
        let StoredGrant { permissions, .. } = read(bytes)?;
        let permission = |name: &String| {
            let found = Permission::of_name(name).filter(|one| one.name() == name);
            found.map(|one| Permissions::of(&[one])).ok_or_else(corrupted)
        };
        let mut all = Permissions::NONE;
        for name in &permissions {
            all = all.with(permission(name)?);
        }
        Ok(Self::Grant(all))
    }

    /// Decodes the row of an identity.
    ///
    /// # Errors
    ///
    /// Same as [`Row::decode_role`].
    pub fn decode_identity(bytes: &[u8]) -> Result<Self> {
        read(bytes).map(|StoredIdentity { role, .. }| Self::Identity(role))
    }

    /// Decodes the row of the number of changes.
    ///
    /// # Errors
    ///
    /// Same as [`Row::decode_role`].
    pub fn decode_change(bytes: &[u8]) -> Result<Self> {
        read(bytes).map(|StoredChange { change, .. }| Self::Change(change))
    }
}

fn stored(role: &Role) -> StoredRole {
    StoredRole {
        format: FORMAT,
        is_superuser: role.is_superuser,
        can_login: role.can_login,
        hash: role.password.as_ref().map(|password| password.hash().to_string()),
        options: role.options.clone(),
        member_of: role.member_of.iter().map(ToString::to_string).collect(),
    }
}

fn json(stored: &impl Serialize) -> Bytes {
    serde_json::to_vec(stored).expect("a role is always representable as JSON").into()
}

/// Reads a payload of a known format.
fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    if bytes.len() > PAYLOAD_BYTES_MAX {
        return Err(corrupted());
    }
    let Format { format } = serde_json::from_slice(bytes).map_err(|_| corrupted())?;
    if format > FORMAT {
        return Err(Error::unsupported(format!(
            "a role is stored in format {format}; this version reads formats up to {FORMAT}: it was \
             written by a later version of Carnet"
        )));
    }
    // Without the parser's message, which can have a part of the payload, such as a hash.
    serde_json::from_slice(bytes).map_err(|_| corrupted())
}

fn corrupted() -> Error {
    Error::corrupted("a row of the roles in the catalog is malformed")
}

/// Reads the number of changes as of a transaction's snapshot: roles of the same number are the same.
///
/// # Errors
///
/// Same as [`Tx::get_cell`]; `Corrupted` for a malformed row.
pub(crate) async fn load_change(tx: &Tx) -> Result<u64> {
    let Some(change) = tx.get_cell(&catalog::system_cell(ROLES, "", CHANGE)).await? else {
        return Ok(0);
    };
    match Row::decode_change(&change.payload)? {
        Row::Change(change) => Ok(change),
        _ => Err(corrupted()),
    }
}

/// Reads all roles as of a transaction's snapshot.
///
/// # Errors
///
/// Same as [`Tx::get_cell`]; `Corrupted` for malformed rows.
pub(crate) async fn load(tx: &Tx) -> Result<Roles> {
    let mut roles = Roles { change: load_change(tx).await?, ..Roles::default() };
    if roles.change == 0 {
        return Ok(roles);
    }
    for (name, payload) in catalog::all_cells(tx, ROLES, ROLES_PARTITION).await? {
        check_name("the name of a role", &name, NAME_BYTES_MAX)?;
        if let Row::Role(role) = Row::decode_role(&payload)? {
            roles.roles.insert(name.into(), Arc::new(role));
        }
    }
    for (key, payload) in catalog::all_cells(tx, ROLES, GRANTS_PARTITION).await? {
        let (role, resource) = key.split_once(SEPARATOR).ok_or_else(corrupted)?;
        let resource = Resource::of_name(resource).ok_or_else(corrupted)?;
        if let Row::Grant(permissions) = Row::decode_grant(&payload)? {
            let grants = roles.grants.entry(role.into()).or_default();
            Arc::make_mut(grants).insert(resource, permissions);
        }
    }
    for (identity, payload) in catalog::all_cells(tx, ROLES, IDENTITIES_PARTITION).await? {
        check_name("an identity", &identity, IDENTITY_BYTES_MAX)?;
        if let Row::Identity(role) = Row::decode_identity(&payload)? {
            roles.identities.insert(identity, role.into());
        }
    }
    check(&roles)?;
    Ok(roles)
}

/// Refuses roles that no sequence of changes makes.
fn check(roles: &Roles) -> Result<()> {
    let grants: usize = roles.grants.values().map(|grants| grants.len()).sum();
    let memberships: usize = roles.roles.values().map(|role| role.member_of.len()).sum();
    let is_bounded = roles.roles.len() <= ROLES_MAX
        && grants <= GRANTS_MAX
        && memberships <= MEMBERSHIPS_MAX
        && roles.identities.len() <= IDENTITIES_MAX;
    if is_bounded { Ok(()) } else { Err(corrupted()) }
}

/// Changes the roles as a part of a transaction; other processes and this one notice it by their
/// next [refresh](crate::Db::refresh_roles).
///
/// # Errors
///
/// The closure's errors, or those of [`Tx::get_cell`] and [`Tx::put_cell`]. Nothing is written then.
pub async fn change<T, E: From<Error>>(
    tx: &Tx,
    change: impl FnOnce(&mut Roles) -> Result<T, E>,
) -> Result<T, E> {
    change_roles(tx, change).await.map(|(result, _)| result)
}

/// Like [`change`], and returns the roles.
pub(crate) async fn change_roles<T, E: From<Error>>(
    tx: &Tx,
    change: impl FnOnce(&mut Roles) -> Result<T, E>,
) -> Result<(T, Roles), E> {
    let old = load(tx).await?;
    let mut new = old.clone();
    let result = change(&mut new)?;
    if new != old {
        new.count_change();
        check(&new)?;
        write(tx, &old, &new)?;
    }
    Ok((result, new))
}

/// Writes the difference between two sets of roles.
fn write(tx: &Tx, old: &Roles, new: &Roles) -> Result<()> {
    let cell = |partition: &str, name: &str| catalog::system_cell(ROLES, partition, name);
    let role = |role: &Arc<Role>| Row::Role(Role::clone(role)).to_readable();
    catalog::put_changes(tx, (&old.roles, &new.roles), |name| cell(ROLES_PARTITION, name), role)?;
    let none = Arc::default();
    let names: BTreeSet<_> = old.grants.keys().chain(new.grants.keys()).collect();
    for role in names {
        let before = old.grants.get(role).unwrap_or(&none);
        let now = new.grants.get(role).unwrap_or(&none);
        let key = |resource: &Resource| {
            cell(GRANTS_PARTITION, &format!("{role}{SEPARATOR}{}", resource.name()))
        };
        let grant = |permissions: &Permissions| Row::Grant(*permissions).to_readable();
        catalog::put_changes(tx, (before, now), key, grant)?;
    }
    let identity = |role: &Arc<str>| Row::Identity(role.to_string()).to_readable();
    let identities = (&old.identities, &new.identities);
    catalog::put_changes(tx, identities, |name| cell(IDENTITIES_PARTITION, name), identity)?;
    tx.put_cell(cell("", CHANGE), Row::Change(new.change).to_readable()?)
}

#[cfg(test)]
mod tests {
    use carnet_base::{Rng, SeededRng};

    use super::*;

    fn role() -> Role {
        Role {
            is_superuser: true,
            can_login: false,
            password: Some(StoredPassword::new("$argon2id$x")),
            options: [("a".to_owned(), "b".to_owned())].into(),
            member_of: ["staff".into()].into(),
        }
    }

    #[test]
    fn rows_round_trip() {
        for role in [role(), Role::default()] {
            let row = Row::Role(role);
            assert_eq!(Row::decode_role(&row.encode()).unwrap(), row);
        }
        for permissions in [Permissions::ALL, Permissions::of(&[Permission::Modify])] {
            let row = Row::Grant(permissions);
            assert_eq!(Row::decode_grant(&row.encode()).unwrap(), row);
        }
        let row = Row::Identity("ann".into());
        assert_eq!(Row::decode_identity(&row.encode()).unwrap(), row);
        assert_eq!(Row::decode_change(&Row::Change(4).encode()).unwrap(), Row::Change(4));
    }

    #[test]
    fn unknown_formats_and_values_are_refused() {
        let later = br#"{"format":2,"permissions":["SELECT"]}"#;
        let error = Row::decode_grant(later).unwrap_err();
        assert!(error.to_string().contains("later version"), "{error}");
        assert!(Row::decode_grant(br#"{"format":1,"permissions":["FLY"]}"#).is_err());
        assert!(Row::decode_grant(br#"{"format":1,"permissions":[],"more":1}"#).is_err());
    }

    #[test]
    fn no_message_or_debug_output_has_a_hash() {
        assert!(!format!("{:?}", role()).contains("argon2"));
        let broken = br#"{"format":1,"hash":"$argon2id$x","is_superuser":"$argon2id$x"}"#;
        let error = Row::decode_role(broken).unwrap_err();
        assert!(!format!("{error:?} {error}").contains("argon2"), "{error:?}");
    }

    /// Seeded variant of `fuzz/fuzz_targets/roles.rs`.
    #[test]
    fn mutated_rows_fail_or_round_trip() {
        let seed = 34;
        let mut rng = SeededRng::new(seed);
        let whole = Row::Role(role()).encode();
        for round in 0..20_000 {
            let mut bytes = whole.to_vec();
            for _ in 0..rng.below(4) {
                let at = usize::try_from(rng.below(bytes.len() as u64)).unwrap();
                bytes[at] = b"{}[]\",:0918nul \xff"[usize::try_from(rng.below(16)).unwrap()];
            }
            if let Ok(row) = Row::decode_role(&bytes) {
                let again = Row::decode_role(&row.encode());
                assert_eq!(again.unwrap(), row, "seed {seed}, round {round}");
            }
        }
    }
}
