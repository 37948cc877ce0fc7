//! Statements about roles and permissions.

use std::fmt;

use carnet::roles::{Permission, Resource};

use super::name::{Name, TableName};

/// A statement about roles, permissions or identities. The statements about users are other forms
/// of those about roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleStatement {
    /// `CREATE ROLE` or `CREATE USER`.
    Create {
        /// Whether it has `IF NOT EXISTS`.
        if_not_exists: bool,
        /// Name of the role.
        name: Name,
        /// Options after `WITH`.
        options: RoleOptions,
    },
    /// `ALTER ROLE` or `ALTER USER`.
    Alter {
        /// Whether it has `IF EXISTS`.
        if_exists: bool,
        /// Name of the role.
        name: Name,
        /// Options after `WITH`.
        options: RoleOptions,
    },
    /// `DROP ROLE` or `DROP USER`.
    Drop {
        /// Whether it has `IF EXISTS`.
        if_exists: bool,
        /// Name of the role.
        name: Name,
    },
    /// `LIST ROLES [OF role] [NORECURSIVE]`.
    List {
        /// Role whose roles are listed.
        of: Option<Name>,
        /// Whether roles that it has through others are left out.
        no_recursive: bool,
    },
    /// `LIST USERS`: the roles that can log in.
    ListUsers,
    /// `LIST SUPERUSERS`: the roles with superuser status.
    ListSuperusers,
    /// `GRANT role TO role`.
    GrantRole {
        /// Role that is granted.
        role: Name,
        /// Role that gets it.
        to: Name,
    },
    /// `REVOKE role FROM role`.
    RevokeRole {
        /// Role that is revoked.
        role: Name,
        /// Role that loses it.
        from: Name,
    },
    /// `GRANT permissions ON resource TO role`.
    Grant {
        /// Permissions; `None` for `ALL`.
        permissions: Option<Vec<Permission>>,
        /// Resource of the permissions.
        on: ResourceName,
        /// Role that gets them.
        to: Name,
    },
    /// `REVOKE permissions ON resource FROM role`.
    Revoke {
        /// Permissions; `None` for `ALL`.
        permissions: Option<Vec<Permission>>,
        /// Resource of the permissions.
        on: ResourceName,
        /// Role that loses them.
        from: Name,
    },
    /// `LIST permissions [ON resource] [OF role] [NORECURSIVE]`.
    ListPermissions {
        /// Permissions; `None` for `ALL`.
        permissions: Option<Vec<Permission>>,
        /// Resource of the permissions.
        on: Option<ResourceName>,
        /// Role that has them.
        of: Option<Name>,
        /// Whether inherited permissions are left out.
        no_recursive: bool,
    },
    /// `ADD IDENTITY 'identity' TO ROLE 'role'`.
    AddIdentity {
        /// Whether it has `IF NOT EXISTS`.
        if_not_exists: bool,
        /// Identity of a client's certificate.
        identity: String,
        /// Role as which it logs in.
        role: Name,
    },
    /// `DROP IDENTITY 'identity'`.
    DropIdentity {
        /// Whether it has `IF EXISTS`.
        if_exists: bool,
        /// Identity of a client's certificate.
        identity: String,
    },
    /// A list of identities: `LIST IDENTITIES`.
    ListIdentities,
}

impl RoleStatement {
    /// Returns the kind of the statement, in words of CQL.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Create { .. } => "CREATE ROLE",
            Self::Alter { .. } => "ALTER ROLE",
            Self::Drop { .. } => "DROP ROLE",
            Self::List { .. } => "LIST ROLES",
            Self::ListUsers => "LIST USERS",
            Self::ListSuperusers => "LIST SUPERUSERS",
            Self::GrantRole { .. } | Self::Grant { .. } => "GRANT",
            Self::RevokeRole { .. } | Self::Revoke { .. } => "REVOKE",
            Self::ListPermissions { .. } => "LIST PERMISSIONS",
            Self::AddIdentity { .. } => "ADD IDENTITY",
            Self::DropIdentity { .. } => "DROP IDENTITY",
            Self::ListIdentities => "LIST IDENTITIES",
        }
    }
}

/// Options of a role; the others keep their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleOptions {
    /// `PASSWORD` or `HASHED PASSWORD`.
    pub password: Option<Password>,
    /// Value of `LOGIN`, if given.
    pub login: Option<bool>,
    /// Value of `SUPERUSER`, if given.
    pub superuser: Option<bool>,
    /// Entries of `OPTIONS`.
    pub options: Option<Vec<(String, String)>>,
}

/// A password in a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Password {
    /// The password itself.
    Plain(Secret),
    /// Hash of a password.
    Hashed(Secret),
}

/// Text that is written nowhere but where it is needed: `Debug` and `Display` do not have it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Text in place of a secret, in single quotes.
    pub const SHOWN: &'static str = "***";

    /// Creates a secret.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text, which the caller must not write anywhere.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Name of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceName {
    /// All keyspaces: `ALL KEYSPACES`.
    Keyspaces,
    /// A keyspace: `KEYSPACE name`.
    Keyspace(Name),
    /// `ALL TABLES IN KEYSPACE name`.
    Tables(Name),
    /// `[TABLE] name`.
    Table(TableName),
    /// All roles: `ALL ROLES`.
    Roles,
    /// A role: `ROLE name`.
    Role(Name),
    /// `ALL SERVICE LEVELS`.
    Levels,
    /// `SERVICE LEVEL name`.
    Level(Name),
}

impl ResourceName {
    /// Returns the name of a resource.
    #[must_use]
    pub fn of(resource: &Resource) -> Self {
        match resource {
            Resource::Keyspaces => Self::Keyspaces,
            Resource::Keyspace(name) => Self::Keyspace(Name::new(name)),
            Resource::Tables(keyspace) => Self::Tables(Name::new(keyspace)),
            Resource::Table { keyspace, table } => Self::Table(TableName {
                keyspace: Some(Name::new(keyspace)),
                table: Name::new(table),
            }),
            Resource::Roles => Self::Roles,
            Resource::Role(name) => Self::Role(Name::new(name)),
            Resource::Levels => Self::Levels,
            Resource::Level(name) => Self::Level(Name::new(name)),
        }
    }

    /// Returns the resource; `None` for a table without a keyspace, if there is no current one.
    #[must_use]
    pub fn resource(&self, keyspace: Option<&str>) -> Option<Resource> {
        Some(match self {
            Self::Keyspaces => Resource::Keyspaces,
            Self::Keyspace(name) => Resource::Keyspace(name.text.clone()),
            Self::Tables(name) => Resource::Tables(name.text.clone()),
            Self::Table(name) => {
                let keyspace = name.keyspace.as_ref().map(Name::as_str).or(keyspace)?;
                Resource::table(keyspace, name.table.as_str())
            }
            Self::Roles => Resource::Roles,
            Self::Role(name) => Resource::Role(name.text.clone()),
            Self::Levels => Resource::Levels,
            Self::Level(name) => Resource::Level(name.text.clone()),
        })
    }
}
