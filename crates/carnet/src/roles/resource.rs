//! Resources: what permissions are granted on.

use std::fmt;

use super::permission::{Permission, Permissions};

/// A resource. Permissions on one hold for all resources below it.
///
/// ```text
///   ALL KEYSPACES ─ KEYSPACE k ─ ALL TABLES IN KEYSPACE k ─ TABLE k.t
///   ALL ROLES ─ ROLE r
///   ALL SERVICE LEVELS ─ SERVICE LEVEL l
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// All keyspaces: `ALL KEYSPACES`.
    Keyspaces,
    /// A keyspace: `KEYSPACE k`.
    Keyspace(String),
    /// `ALL TABLES IN KEYSPACE k`.
    Tables(String),
    /// `TABLE k.t`: a table or a materialized view.
    Table {
        /// Keyspace of the table.
        keyspace: String,
        /// Name of the table.
        table: String,
    },
    /// All roles: `ALL ROLES`.
    Roles,
    /// A role: `ROLE r`.
    Role(String),
    /// `ALL SERVICE LEVELS`.
    Levels,
    /// `SERVICE LEVEL l`.
    Level(String),
}

/// Permissions that apply to all resources of rows but a table.
const DATA: Permissions = Permissions::of(&[
    Permission::Create,
    Permission::Alter,
    Permission::Drop,
    Permission::Select,
    Permission::Modify,
    Permission::Authorize,
]);
const CHANGE: Permissions =
    Permissions::of(&[Permission::Alter, Permission::Drop, Permission::Authorize]);
const CREATE: Permissions = Permissions::of(&[Permission::Create]);
const DESCRIBE: Permissions = Permissions::of(&[Permission::Describe]);
const EXECUTE: Permissions = Permissions::of(&[Permission::Execute]);

/// Name of all tables of a keyspace; no table has it.
const ANY_TABLE: &str = "*";

impl Resource {
    /// Creates the resource of a table.
    #[must_use]
    pub fn table(keyspace: &str, table: &str) -> Self {
        Self::Table { keyspace: keyspace.to_owned(), table: table.to_owned() }
    }

    /// Returns the name by which the resource is stored and listed, such as `data/ks/table`.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Keyspaces => "data".to_owned(),
            Self::Keyspace(keyspace) => format!("data/{keyspace}"),
            Self::Tables(keyspace) => format!("data/{keyspace}/{ANY_TABLE}"),
            Self::Table { keyspace, table } => format!("data/{keyspace}/{table}"),
            Self::Roles => "roles".to_owned(),
            Self::Role(role) => format!("roles/{role}"),
            Self::Levels => "service_levels".to_owned(),
            Self::Level(level) => format!("service_levels/{level}"),
        }
    }

    /// Returns the resource with a name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        let (kind, rest) = name.split_once('/').map_or((name, None), |(a, b)| (a, Some(b)));
        if rest.is_some_and(str::is_empty) {
            return None;
        }
        Some(match (kind, rest) {
            ("data", None) => Self::Keyspaces,
            ("data", Some(rest)) => match rest.split_once('/') {
                None => Self::Keyspace(rest.to_owned()),
                Some(("", _) | (_, "")) => return None,
                Some((_, table)) if table.contains('/') => return None,
                Some((keyspace, ANY_TABLE)) => Self::Tables(keyspace.to_owned()),
                Some((keyspace, table)) => Self::table(keyspace, table),
            },
            ("roles", None) => Self::Roles,
            ("roles", Some(role)) => Self::Role(role.to_owned()),
            ("service_levels", None) => Self::Levels,
            ("service_levels", Some(level)) => Self::Level(level.to_owned()),
            _ => return None,
        })
    }

    /// Returns the resource of which this one is a part.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        match self {
            Self::Table { keyspace, .. } => Some(Self::Tables(keyspace.clone())),
            Self::Tables(keyspace) => Some(Self::Keyspace(keyspace.clone())),
            Self::Keyspace(_) => Some(Self::Keyspaces),
            Self::Role(_) => Some(Self::Roles),
            Self::Level(_) => Some(Self::Levels),
            Self::Keyspaces | Self::Roles | Self::Levels => None,
        }
    }

    /// Returns the resource and all that it is a part of.
    #[must_use]
    pub fn chain(&self) -> Vec<Self> {
        std::iter::successors(Some(self.clone()), Self::parent).collect()
    }

    /// Returns the permissions that can be granted on the resource.
    #[must_use]
    pub const fn applicable(&self) -> Permissions {
        match self {
            Self::Keyspaces | Self::Keyspace(_) | Self::Tables(_) => DATA,
            Self::Table { .. } => DATA.without(CREATE),
            Self::Roles => CHANGE.with(CREATE).with(DESCRIBE),
            Self::Role(_) => CHANGE,
            Self::Levels => CHANGE.with(CREATE).with(DESCRIBE).with(EXECUTE),
            Self::Level(_) => CHANGE.with(DESCRIBE).with(EXECUTE),
        }
    }

    /// Returns `true` if the resource goes when the other one is dropped.
    pub(super) fn goes_with(&self, dropped: &Self) -> bool {
        match (self, dropped) {
            (Self::Tables(of) | Self::Table { keyspace: of, .. }, Self::Keyspace(keyspace)) => {
                of == keyspace
            }
            _ => self == dropped,
        }
    }
}

/// As Cassandra shows it, for example `<table ks.t>`.
impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keyspaces => f.write_str("<all keyspaces>"),
            Self::Keyspace(keyspace) => write!(f, "<keyspace {keyspace}>"),
            Self::Tables(keyspace) => write!(f, "<all tables in {keyspace}>"),
            Self::Table { keyspace, table } => write!(f, "<table {keyspace}.{table}>"),
            Self::Roles => f.write_str("<all roles>"),
            Self::Role(role) => write!(f, "<role {role}>"),
            Self::Levels => f.write_str("<all service levels>"),
            Self::Level(level) => write!(f, "<service level {level}>"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        let all = [
            Resource::Keyspaces,
            Resource::Keyspace("k".into()),
            Resource::Tables("k".into()),
            Resource::table("k", "t"),
            Resource::Roles,
            Resource::Role("a/b c".into()),
            Resource::Levels,
            Resource::Level("gold".into()),
        ];
        for resource in all {
            assert_eq!(Resource::of_name(&resource.name()), Some(resource));
        }
        for wrong in
            ["", "data/", "data//t", "data/k/", "data/k/t/u", "roles/", "functions", "mbean/x"]
        {
            assert_eq!(Resource::of_name(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn chain_ends_at_the_root() {
        let chain = Resource::table("k", "t").chain();
        let shown: Vec<String> = chain.iter().map(Resource::to_string).collect();
        let expected = ["<table k.t>", "<all tables in k>", "<keyspace k>", "<all keyspaces>"];
        assert_eq!(shown, expected);
    }
}
