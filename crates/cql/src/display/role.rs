//! `Display` of statements about roles and permissions, without their passwords.

use std::fmt::{self, Display, Formatter};

use carnet::roles::Permission;

use super::{join, when};
use crate::ast::{Literal, Name, Password, ResourceName, RoleOptions, RoleStatement, Secret};

/// A text in single quotes.
struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Literal::String(self.0.to_owned()))
    }
}

impl Display for Password {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let hashed = when(matches!(self, Self::Hashed(_)), "HASHED ");
        write!(f, "{hashed}PASSWORD = '{}'", Secret::SHOWN)
    }
}

/// `key: value` of `OPTIONS`.
struct Entry<'a>(&'a (String, String));

impl Display for Entry<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", Quoted(&self.0.0), Quoted(&self.0.1))
    }
}

/// `WITH …`, unless it is empty.
impl Display for RoleOptions {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { password, login, superuser, options } = self;
        let mut separator = " WITH ";
        let mut next = || std::mem::replace(&mut separator, " AND ");
        if let Some(password) = password {
            write!(f, "{}{password}", next())?;
        }
        if let Some(login) = login {
            write!(f, "{}LOGIN = {login}", next())?;
        }
        if let Some(superuser) = superuser {
            write!(f, "{}SUPERUSER = {superuser}", next())?;
        }
        if let Some(options) = options {
            write!(f, "{}OPTIONS = {{", next())?;
            join(f, options.iter().map(Entry), ", ")?;
            f.write_str("}")?;
        }
        Ok(())
    }
}

impl Display for ResourceName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keyspaces => f.write_str("ALL KEYSPACES"),
            Self::Keyspace(name) => write!(f, "KEYSPACE {name}"),
            Self::Tables(name) => write!(f, "ALL TABLES IN KEYSPACE {name}"),
            Self::Table(name) => write!(f, "TABLE {name}"),
            Self::Roles => f.write_str("ALL ROLES"),
            Self::Role(name) => write!(f, "ROLE {name}"),
            Self::Levels => f.write_str("ALL SERVICE LEVELS"),
            Self::Level(name) => write!(f, "SERVICE LEVEL {name}"),
        }
    }
}

/// The permissions of a statement.
struct Listed<'a>(Option<&'a Vec<Permission>>);

impl Display for Listed<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(permissions) => join(f, permissions.iter(), ", "),
            None => f.write_str("ALL PERMISSIONS"),
        }
    }
}

/// ` OF role`, if it is given.
struct Of<'a>(Option<&'a Name>);

impl Display for Of<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |name| write!(f, " OF {name}"))
    }
}

impl Display for RoleStatement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { if_not_exists, name, options } => {
                let condition = when(*if_not_exists, " IF NOT EXISTS");
                write!(f, "CREATE ROLE{condition} {name}{options}")
            }
            Self::Alter { if_exists, name, options } => {
                write!(f, "ALTER ROLE{} {name}{options}", when(*if_exists, " IF EXISTS"))
            }
            Self::Drop { if_exists, name } => {
                write!(f, "DROP ROLE{} {name}", when(*if_exists, " IF EXISTS"))
            }
            Self::List { of, no_recursive } => {
                let no_recursive = when(*no_recursive, " NORECURSIVE");
                write!(f, "LIST ROLES{}{no_recursive}", Of(of.as_ref()))
            }
            Self::ListUsers => f.write_str("LIST USERS"),
            Self::ListSuperusers => f.write_str("LIST SUPERUSERS"),
            Self::GrantRole { role, to } => write!(f, "GRANT {role} TO {to}"),
            Self::RevokeRole { role, from } => write!(f, "REVOKE {role} FROM {from}"),
            Self::Grant { permissions, on, to } => {
                write!(f, "GRANT {} ON {on} TO {to}", Listed(permissions.as_ref()))
            }
            Self::Revoke { permissions, on, from } => {
                write!(f, "REVOKE {} ON {on} FROM {from}", Listed(permissions.as_ref()))
            }
            Self::ListPermissions { permissions, on, of, no_recursive } => {
                write!(f, "LIST {}", Listed(permissions.as_ref()))?;
                if let Some(on) = on {
                    write!(f, " ON {on}")?;
                }
                write!(f, "{}{}", Of(of.as_ref()), when(*no_recursive, " NORECURSIVE"))
            }
            Self::AddIdentity { if_not_exists, identity, role } => {
                let condition = when(*if_not_exists, " IF NOT EXISTS");
                let role = Quoted(role.as_str());
                write!(f, "ADD IDENTITY{condition} {} TO ROLE {role}", Quoted(identity))
            }
            Self::DropIdentity { if_exists, identity } => {
                let condition = when(*if_exists, " IF EXISTS");
                write!(f, "DROP IDENTITY{condition} {}", Quoted(identity))
            }
            Self::ListIdentities => f.write_str("LIST IDENTITIES"),
        }
    }
}
