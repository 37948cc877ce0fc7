//! What a role may do, inherited permissions included.

use std::collections::HashMap;
use std::sync::Arc;

use super::permission::{Permission, Permissions};
use super::resource::Resource;

/// Permissions of a role and of all roles that it has, as of a version of the roles.
#[derive(Clone, Debug)]
pub struct Rights {
    /// The role, then the roles that it has.
    names: Vec<Arc<str>>,
    is_superuser: bool,
    keyspaces: Permissions,
    by_keyspace: HashMap<String, InKeyspace>,
    roles: Named,
    levels: Named,
}

#[derive(Clone, Debug, Default)]
struct InKeyspace {
    whole: Permissions,
    all_tables: Permissions,
    tables: HashMap<String, Permissions>,
}

/// Permissions on all of some objects, and on each.
#[derive(Clone, Debug, Default)]
struct Named {
    all: Permissions,
    by_name: HashMap<String, Permissions>,
}

impl Named {
    fn of(&self, name: &str) -> Permissions {
        self.by_name.get(name).map_or(self.all, |own| self.all.with(*own))
    }
}

impl Rights {
    /// Creates the rights of a role without permissions, given its name and the names of the roles that
    /// it has.
    pub(super) fn new(names: Vec<Arc<str>>, is_superuser: bool) -> Self {
        Self {
            names,
            is_superuser,
            keyspaces: Permissions::NONE,
            by_keyspace: HashMap::new(),
            roles: Named::default(),
            levels: Named::default(),
        }
    }

    /// Creates the rights of a superuser that is not stored as a role.
    #[must_use]
    pub fn of_superuser(name: Arc<str>) -> Self {
        Self::new(vec![name], true)
    }

    pub(super) fn add(&mut self, resource: &Resource, more: Permissions) {
        let of = match resource {
            Resource::Keyspaces => &mut self.keyspaces,
            Resource::Keyspace(keyspace) => &mut self.keyspace(keyspace).whole,
            Resource::Tables(keyspace) => &mut self.keyspace(keyspace).all_tables,
            Resource::Table { keyspace, table } => {
                self.keyspace(keyspace).tables.entry(table.clone()).or_default()
            }
            Resource::Roles => &mut self.roles.all,
            Resource::Role(role) => self.roles.by_name.entry(role.clone()).or_default(),
            Resource::Levels => &mut self.levels.all,
            Resource::Level(level) => self.levels.by_name.entry(level.clone()).or_default(),
        };
        *of = of.with(more);
    }

    fn keyspace(&mut self, name: &str) -> &mut InKeyspace {
        self.by_keyspace.entry(name.to_owned()).or_default()
    }

    /// Returns the name of the role.
    #[must_use]
    pub fn role(&self) -> &Arc<str> {
        &self.names[0]
    }

    /// Returns the name of the role and of the roles that it has.
    #[must_use]
    pub fn names(&self) -> &[Arc<str>] {
        &self.names
    }

    /// Returns `true` if the role or one that it has is a superuser.
    #[must_use]
    pub const fn is_superuser(&self) -> bool {
        self.is_superuser
    }

    /// Returns `true` if the role has a permission on a table or a resource that it belongs to.
    #[must_use]
    pub fn allows_table(&self, keyspace: &str, table: &str, permission: Permission) -> bool {
        self.is_superuser
            || self.keyspaces.contains(permission)
            || self.by_keyspace.get(keyspace).is_some_and(|of| {
                of.whole.with(of.all_tables).contains(permission)
                    || of.tables.get(table).is_some_and(|own| own.contains(permission))
            })
    }

    /// Returns `true` if the role has a permission on a resource or one that it belongs to.
    #[must_use]
    pub fn allows(&self, resource: &Resource, permission: Permission) -> bool {
        let keyspace = |name: &str| self.by_keyspace.get(name);
        let has = match resource {
            Resource::Table { keyspace, table } => {
                return self.allows_table(keyspace, table, permission);
            }
            Resource::Keyspaces => self.keyspaces,
            Resource::Keyspace(name) => {
                self.keyspaces.with(keyspace(name).map_or(Permissions::NONE, |of| of.whole))
            }
            Resource::Tables(name) => {
                let own = keyspace(name).map(|of| of.whole.with(of.all_tables));
                self.keyspaces.with(own.unwrap_or_default())
            }
            Resource::Roles => self.roles.all,
            Resource::Role(role) => self.roles.of(role),
            Resource::Levels => self.levels.all,
            Resource::Level(level) => self.levels.of(level),
        };
        self.is_superuser || has.contains(permission)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resources() -> Vec<Resource> {
        let mut all = vec![Resource::Keyspaces, Resource::Roles, Resource::Levels];
        for name in ["a", "b"] {
            all.push(Resource::Keyspace(name.to_owned()));
            all.push(Resource::Tables(name.to_owned()));
            all.extend(["t", "u"].map(|table| Resource::table(name, table)));
            all.push(Resource::Role(name.to_owned()));
            all.push(Resource::Level(name.to_owned()));
        }
        all
    }

    /// One or two grants of one role, asked for with every permission on every resource.
    #[test]
    fn rights_reach_the_resource_and_what_belongs_to_it() {
        let all = resources();
        let granted = Permissions::of(&[Permission::Select, Permission::Authorize]);
        for first in &all {
            for second in &all {
                let mut rights = Rights::new(vec!["r".into()], false);
                rights.add(first, granted);
                rights.add(second, granted);
                for asked in &all {
                    let chain = asked.chain();
                    let is_covered = chain.contains(first) || chain.contains(second);
                    for permission in Permission::ALL {
                        assert_eq!(
                            rights.allows(asked, permission),
                            is_covered && granted.contains(permission),
                            "{permission} on {asked}, with {first} and {second}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn permissions_on_a_chain_add_up() {
        let table = Resource::table("a", "t");
        let mut rights = Rights::new(vec!["r".into()], false);
        for (on, permission) in table.chain().iter().zip(Permission::ALL) {
            rights.add(on, Permissions::of(&[permission]));
        }
        let allowed = Permission::ALL.map(|permission| rights.allows(&table, permission));
        assert_eq!(allowed, [true, true, true, true, false, false, false, false]);
    }

    #[test]
    fn superusers_may_do_everything() {
        let rights = Rights::of_superuser("s".into());
        assert!(rights.is_superuser() && rights.role().as_ref() == "s");
        for asked in resources() {
            assert!(Permission::ALL.iter().all(|permission| rights.allows(&asked, *permission)));
        }
    }
}
