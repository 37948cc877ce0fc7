//! Parser of `GRANT`, `REVOKE` and `LIST`.

use carnet::roles::Permission;

use super::{Parse, Parser};
use crate::ast::{ResourceName, RoleStatement};
use crate::error::Failure;

/// Permissions of Cassandra that Carnet does not have, with the feature that they belong to.
const OTHERS: [&str; 2] = ["UNMASK", "SELECT_MASKED"];

/// Objects that `LIST` lists.
const LISTED: &str = "ROLES, USERS, SUPERUSERS, IDENTITIES, ALL PERMISSIONS, a permission, SERVICE LEVEL, \
                      ALL SERVICE LEVELS, ALL ATTACHED SERVICE LEVELS, ATTACHED SERVICE LEVEL OF or \
                      EFFECTIVE SERVICE LEVEL OF";

impl Parser<'_> {
    /// Parses what follows `GRANT`.
    pub(super) fn grant(&mut self) -> Parse<RoleStatement> {
        if self.is_word_at(1, "TO") {
            let role = self.role_name()?;
            self.expect_word("TO")?;
            return Ok(RoleStatement::GrantRole { role, to: self.role_name()? });
        }
        let permissions = self.permissions()?;
        self.expect_word("ON")?;
        let on = self.resource()?;
        self.expect_word("TO")?;
        Ok(RoleStatement::Grant { permissions, on, to: self.role_name()? })
    }

    /// Parses what follows `REVOKE`.
    pub(super) fn revoke(&mut self) -> Parse<RoleStatement> {
        if self.is_word_at(1, "FROM") {
            let role = self.role_name()?;
            self.expect_word("FROM")?;
            return Ok(RoleStatement::RevokeRole { role, from: self.role_name()? });
        }
        let permissions = self.permissions()?;
        self.expect_word("ON")?;
        let on = self.resource()?;
        self.expect_word("FROM")?;
        Ok(RoleStatement::Revoke { permissions, on, from: self.role_name()? })
    }

    /// Parses what follows `LIST`.
    pub(super) fn list_of_roles(&mut self) -> Parse<RoleStatement> {
        if self.eat_word("USERS") {
            return Ok(RoleStatement::ListUsers);
        }
        if self.eat_word("SUPERUSERS") {
            return Ok(RoleStatement::ListSuperusers);
        }
        if self.eat_word("IDENTITIES") {
            return Ok(RoleStatement::ListIdentities);
        }
        if self.eat_word("ROLES") {
            let of = if self.eat_word("OF") { Some(self.role_name()?) } else { None };
            let no_recursive = self.eat_word("NORECURSIVE");
            return Ok(RoleStatement::List { of, no_recursive });
        }
        let others = OTHERS.into_iter();
        let mut known = Permission::ALL.iter().map(|one| one.name()).chain(others).chain(["ALL"]);
        if !known.any(|word| self.is_word(word)) {
            return Err(self.expected(LISTED));
        }
        let permissions = self.permissions()?;
        let on = if self.eat_word("ON") { Some(self.resource()?) } else { None };
        let of = if self.eat_word("OF") { Some(self.role_name()?) } else { None };
        let no_recursive = self.eat_word("NORECURSIVE");
        Ok(RoleStatement::ListPermissions { permissions, on, of, no_recursive })
    }

    /// Parses `ALL [PERMISSIONS]` or a list of permissions, each once.
    fn permissions(&mut self) -> Parse<Option<Vec<Permission>>> {
        if self.eat_word("ALL") {
            self.eat_word("PERMISSIONS");
            return Ok(None);
        }
        let mut permissions = Vec::new();
        loop {
            let at = self.at();
            let permission = self.permission()?;
            if permissions.contains(&permission) {
                return Err(Failure::invalid(at, format!("{permission} is given twice")));
            }
            permissions.push(permission);
            if !self.eat_word("PERMISSION") {
                self.eat_word("PERMISSIONS");
            }
            if !self.eat_symbol(",") {
                return Ok(Some(permissions));
            }
        }
    }

    fn permission(&mut self) -> Parse<Permission> {
        if let Some(other) = OTHERS.into_iter().find(|other| self.is_word(other)) {
            let what = format!("the permission {other}; there are no masked columns");
            return Err(Failure::unsupported(self.at(), &what));
        }
        let permission = Permission::ALL.into_iter().find(|one| self.eat_word(one.name()));
        permission.ok_or_else(|| self.expected("ALL, a permission, or a role and TO or FROM"))
    }

    fn resource(&mut self) -> Parse<ResourceName> {
        let at = self.at();
        let unsupported = |what: &str| Err(Failure::unsupported(at, what));
        if self.is_words(&["ALL", "FUNCTIONS"]) || self.is_word("FUNCTION") {
            return unsupported(
                "permissions on functions; every role may use them, and none is defined",
            );
        }
        if self.is_words(&["ALL", "MBEANS"]) || self.is_word("MBEAN") || self.is_word("MBEANS") {
            return unsupported("permissions on MBEANS; there is no JMX");
        }
        if self.eat_words(&["ALL", "KEYSPACES"]) {
            return Ok(ResourceName::Keyspaces);
        }
        if self.eat_words(&["ALL", "TABLES", "IN", "KEYSPACE"]) {
            return self.name("a keyspace").map(ResourceName::Tables);
        }
        if self.eat_words(&["ALL", "ROLES"]) {
            return Ok(ResourceName::Roles);
        }
        if self.eat_words(&["ALL", "SERVICE", "LEVELS"])
            || self.eat_words(&["ALL", "SERVICE_LEVELS"])
        {
            return Ok(ResourceName::Levels);
        }
        if self.is_word("ALL") {
            self.advance();
            return Err(self.expected("KEYSPACES, TABLES IN KEYSPACE, ROLES or SERVICE LEVELS"));
        }
        if self.eat_service_level() {
            return self.level_name().map(ResourceName::Level);
        }
        // A table may have the name of a kind of resource.
        if !self.is_word_at(1, "TO") && !self.is_word_at(1, "FROM") {
            if self.eat_word("KEYSPACE") {
                return self.name("a keyspace").map(ResourceName::Keyspace);
            }
            if self.eat_word("ROLE") {
                return self.role_name().map(ResourceName::Role);
            }
            if !self.eat_word("TABLE") {
                self.eat_word("COLUMNFAMILY");
            }
        }
        self.table_name("a table").map(ResourceName::Table)
    }
}
