//! The set of roles of a database: memberships, permissions and identities.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use carnet_base::{Error, ErrorKind, Result};

use super::limits::{
    GRANTS_MAX, IDENTITIES_MAX, IDENTITY_BYTES_MAX, MEMBERSHIPS_MAX, NAME_BYTES_MAX, ROLES_MAX,
    check_count, check_name,
};
use super::permission::Permissions;
use super::resource::Resource;
use super::rights::Rights;
use super::role::{Role, RoleChanges};

/// Permissions of a role by resource; none is empty.
pub(super) type Grants = BTreeMap<Resource, Permissions>;

/// The roles of a database, their permissions, and the identities that log in as them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    pub(super) roles: BTreeMap<Arc<str>, Arc<Role>>,
    pub(super) grants: BTreeMap<Arc<str>, Arc<Grants>>,
    /// Roles by identity.
    pub(super) identities: BTreeMap<String, Arc<str>>,
    /// Number of changes since the creation of the database.
    pub(super) change: u64,
}

impl Roles {
    /// Creates a role.
    ///
    /// # Errors
    ///
    /// `AlreadyExists`; `Invalid` beyond a limit.
    pub fn create(&mut self, name: &str, options: &RoleChanges) -> Result<()> {
        check_name("the name of a role", name, NAME_BYTES_MAX)?;
        if self.get(name).is_some() {
            return Err(Error::new(ErrorKind::AlreadyExists, format!("{name} already exists")));
        }
        check_count("roles", self.roles.len(), ROLES_MAX)?;
        let role = Role::default().changed(options)?;
        self.roles.insert(name.into(), Arc::new(role));
        Ok(())
    }

    /// Changes the given options of a role.
    ///
    /// # Errors
    ///
    /// `Invalid` if the role does not exist, or beyond a limit.
    pub fn alter(&mut self, name: &str, options: &RoleChanges) -> Result<()> {
        let role = self.roles.get_mut(name).ok_or_else(|| no_role(name))?;
        *role = Arc::new(Role::clone(role).changed(options)?);
        Ok(())
    }

    /// Drops a role with its permissions and memberships, the permissions on it, and its
    /// identities.
    ///
    /// # Errors
    ///
    /// `Invalid` if the role does not exist.
    pub fn drop(&mut self, name: &str) -> Result<()> {
        self.roles.remove(name).ok_or_else(|| no_role(name))?;
        self.grants.remove(name);
        self.identities.retain(|_, role| &**role != name);
        for role in self.roles.values_mut().filter(|role| role.member_of.contains(name)) {
            Arc::make_mut(role).member_of.remove(name);
        }
        self.drop_resource(&Resource::Role(name.to_owned()));
        Ok(())
    }

    /// Grants a role to another one, which has its permissions from then on.
    ///
    /// # Errors
    ///
    /// `Invalid` if a role does not exist, one of them has the other one already, or above
    /// [`MEMBERSHIPS_MAX`].
    pub fn grant_role(&mut self, role: &str, to: &str) -> Result<()> {
        let granted = self.stored_name(role)?;
        self.stored_name(to)?;
        for (member, of) in [(to, role), (role, to)] {
            if member == of || self.has(member, of) {
                return Err(Error::invalid(format!("{member} is a member of {of}")));
            }
        }
        let count = self.roles.values().map(|role| role.member_of.len()).sum();
        check_count("memberships of roles", count, MEMBERSHIPS_MAX)?;
        if let Some(member) = self.roles.get_mut(to) {
            Arc::make_mut(member).member_of.insert(granted);
        }
        Ok(())
    }

    /// Revokes a role that was granted to another one.
    ///
    /// # Errors
    ///
    /// `Invalid` if a role does not exist, or the role was not granted to the other one directly.
    pub fn revoke_role(&mut self, role: &str, from: &str) -> Result<()> {
        self.stored_name(role)?;
        let member = self.roles.get_mut(from).ok_or_else(|| no_role(from))?;
        if !member.member_of.contains(role) {
            return Err(Error::invalid(format!("{from} is not a member of {role}")));
        }
        Arc::make_mut(member).member_of.remove(role);
        Ok(())
    }

    /// Grants permissions on a resource. Others than those of its kind are not granted.
    ///
    /// # Errors
    ///
    /// `Invalid` if the role does not exist, or above [`GRANTS_MAX`].
    pub fn grant(&mut self, permissions: Permissions, on: Resource, to: &str) -> Result<()> {
        let role = self.stored_name(to)?;
        let permissions = permissions.common(on.applicable());
        if permissions.is_empty() {
            return Ok(());
        }
        let is_new = self.grants.get(to).is_none_or(|grants| !grants.contains_key(&on));
        if is_new {
            let count = self.grants.values().map(|grants| grants.len()).sum();
            check_count("resources on which roles have permissions", count, GRANTS_MAX)?;
        }
        let grants = Arc::make_mut(self.grants.entry(role).or_default());
        let has = grants.entry(on).or_default();
        *has = has.with(permissions);
        Ok(())
    }

    /// Revokes permissions on a resource that were granted to a role itself.
    ///
    /// # Errors
    ///
    /// `Invalid` if the role does not exist.
    pub fn revoke(&mut self, permissions: Permissions, on: &Resource, from: &str) -> Result<()> {
        self.stored_name(from)?;
        let Some(grants) = self.grants.get_mut(from) else { return Ok(()) };
        let grants = Arc::make_mut(grants);
        if let Some(has) = grants.get_mut(on) {
            *has = has.without(permissions);
        }
        grants.retain(|_, has| !has.is_empty());
        if grants.is_empty() {
            self.grants.remove(from);
        }
        Ok(())
    }

    /// Revokes all permissions on a dropped resource and on all that went with it.
    pub fn drop_resource(&mut self, dropped: &Resource) {
        for grants in self.grants.values_mut() {
            if grants.keys().any(|resource| resource.goes_with(dropped)) {
                Arc::make_mut(grants).retain(|resource, _| !resource.goes_with(dropped));
            }
        }
        self.grants.retain(|_, grants| !grants.is_empty());
    }

    /// Lets an identity of a client's certificate log in as a role.
    ///
    /// # Errors
    ///
    /// `AlreadyExists`; `Invalid` if the role does not exist, or beyond a limit.
    pub fn add_identity(&mut self, identity: &str, role: &str) -> Result<()> {
        check_name("an identity", identity, IDENTITY_BYTES_MAX)?;
        let role = self.stored_name(role)?;
        if self.identities.contains_key(identity) {
            let message = format!("identity {identity} already exists");
            return Err(Error::new(ErrorKind::AlreadyExists, message));
        }
        check_count("identities", self.identities.len(), IDENTITIES_MAX)?;
        self.identities.insert(identity.to_owned(), role);
        Ok(())
    }

    /// Drops an identity.
    ///
    /// # Errors
    ///
    /// `Invalid` if it does not exist.
    pub fn drop_identity(&mut self, identity: &str) -> Result<()> {
        let dropped = self.identities.remove(identity);
        let missing = || Error::invalid(format!("identity {identity} doesn't exist"));
        dropped.map(|_| ()).ok_or_else(missing)
    }

    /// Returns a role.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Role> {
        self.roles.get(name).map(|role| &**role)
    }

    /// Returns all roles in ascending order of name.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Role)> {
        self.roles.iter().map(|(name, role)| (name, &**role))
    }

    /// Returns the permissions that were granted to a role itself, by resource.
    pub fn grants_of(&self, role: &str) -> impl Iterator<Item = (&Resource, Permissions)> {
        let grants = self.grants.get(role).into_iter().flat_map(|grants| grants.iter());
        grants.map(|(resource, permissions)| (resource, *permissions))
    }

    /// Returns all identities and the roles as which they log in.
    pub fn identities(&self) -> impl Iterator<Item = (&str, &Arc<str>)> {
        self.identities.iter().map(|(identity, role)| (identity.as_str(), role))
    }

    /// Returns the role of an identity.
    #[must_use]
    pub fn role_of(&self, identity: &str) -> Option<&Arc<str>> {
        self.identities.get(identity)
    }

    /// Returns a role and all roles that it has, directly or through others, beginning with itself;
    /// none if it does not exist.
    #[must_use]
    pub fn all_of(&self, name: &str) -> Vec<Arc<str>> {
        let Some((name, _)) = self.roles.get_key_value(name) else { return Vec::new() };
        let mut seen: BTreeSet<&Arc<str>> = [name].into();
        let (mut found, mut next) = (Vec::new(), VecDeque::from([name]));
        while let Some(name) = next.pop_front() {
            found.push(Arc::clone(name));
            let more = self.roles.get(name).into_iter().flat_map(|role| &role.member_of);
            next.extend(more.filter(|role| seen.insert(role)));
        }
        found
    }

    /// Returns `true` if a role is another one or has it, directly or through others.
    #[must_use]
    pub fn has(&self, name: &str, other: &str) -> bool {
        self.all_of(name).iter().any(|role| **role == *other)
    }

    /// Returns `true` if a role or one that it has is a superuser.
    #[must_use]
    pub fn is_superuser(&self, name: &str) -> bool {
        self.all_of(name).iter().any(|role| self.get(role).is_some_and(|role| role.is_superuser))
    }

    /// Returns `true` if a client can log in as a superuser by a password.
    #[must_use]
    pub fn has_superuser(&self) -> bool {
        let can = |role: &Role| role.can_login && role.password.is_some();
        self.iter().any(|(name, role)| can(role) && self.is_superuser(name))
    }

    /// Returns what a role may do; `None` if it does not exist.
    #[must_use]
    pub fn rights(&self, name: &str) -> Option<Rights> {
        self.get(name)?;
        let mut rights = Rights::new(self.all_of(name), self.is_superuser(name));
        for role in rights.names().to_vec() {
            for (resource, permissions) in self.grants_of(&role) {
                rights.add(resource, permissions);
            }
        }
        Some(rights)
    }

    /// Returns the number of changes since the creation of the database.
    pub(crate) const fn change(&self) -> u64 {
        self.change
    }

    /// Counts a change, by which processes notice it.
    pub(super) const fn count_change(&mut self) {
        self.change += 1;
    }

    fn stored_name(&self, name: &str) -> Result<Arc<str>> {
        let stored = self.roles.get_key_value(name);
        stored.map(|(name, _)| Arc::clone(name)).ok_or_else(|| no_role(name))
    }
}

/// Makes the error for a role that does not exist.
#[must_use]
pub fn no_role(name: &str) -> Error {
    Error::invalid(format!("{name} doesn't exist"))
}

#[cfg(test)]
mod tests {
    use carnet_base::{Rng, SeededRng};

    use super::super::permission::Permission;
    use super::super::role::StoredPassword;
    use super::*;

    const SELECT: Permissions = Permissions::of(&[Permission::Select]);

    fn with(names: &[&str]) -> Roles {
        let mut roles = Roles::default();
        for name in names {
            roles.create(name, &RoleChanges::default()).unwrap();
        }
        roles
    }

    #[test]
    fn permissions_are_inherited_over_roles_and_resources() {
        let mut roles = with(&["ann", "staff", "all"]);
        roles.grant_role("staff", "ann").unwrap();
        roles.grant_role("all", "staff").unwrap();
        roles.grant(SELECT, Resource::Keyspace("k".into()), "all").unwrap();
        let rights = roles.rights("ann").unwrap();
        assert!(rights.allows_table("k", "t", Permission::Select));
        assert!(rights.allows(&Resource::Tables("k".into()), Permission::Select));
        assert!(!rights.allows_table("k", "t", Permission::Modify));
        assert!(!rights.allows_table("other", "t", Permission::Select));
        assert!(!rights.allows(&Resource::Keyspaces, Permission::Select), "it is not below k");
        roles.revoke_role("all", "staff").unwrap();
        assert!(!roles.rights("ann").unwrap().allows_table("k", "t", Permission::Select));
    }

    #[test]
    fn superuser_status_is_inherited_and_login_is_not() {
        let mut roles = with(&["ann", "root"]);
        let changes = RoleChanges {
            is_superuser: Some(true),
            can_login: Some(true),
            password: Some(StoredPassword::new("x")),
            ..RoleChanges::default()
        };
        roles.grant_role("root", "ann").unwrap();
        assert!(!roles.has_superuser());
        roles.alter("root", &changes).unwrap();
        assert!(roles.is_superuser("ann") && !roles.get("ann").unwrap().can_login);
        assert!(roles.rights("ann").unwrap().allows(&Resource::Roles, Permission::Create));
        assert!(roles.has_superuser());
    }

    #[test]
    fn dropped_names_leave_no_permissions() {
        let mut roles = with(&["ann", "bob"]);
        let alter = Permissions::of(&[Permission::Alter]);
        roles.grant(alter, Resource::Role("bob".into()), "ann").unwrap();
        roles.grant(SELECT, Resource::table("k", "t"), "bob").unwrap();
        roles.grant(SELECT, Resource::Tables("k".into()), "bob").unwrap();
        roles.grant(SELECT, Resource::table("l", "t"), "bob").unwrap();
        roles.grant_role("bob", "ann").unwrap();
        roles.add_identity("spiffe://x/bob", "bob").unwrap();
        roles.drop_resource(&Resource::Keyspace("k".into()));
        let left: Vec<_> = roles.grants_of("bob").map(|(resource, _)| resource.clone()).collect();
        assert_eq!(left, [Resource::table("l", "t")]);
        let left: Vec<_> = roles.grants_of("ann").map(|(resource, _)| resource.clone()).collect();
        assert_eq!(left, [Resource::Role("bob".into())]);
        roles.drop("bob").unwrap();
        assert_eq!(roles, with(&["ann"]));
    }

    /// A role without log-in, one without a password, and one that is no superuser.
    #[test]
    fn superuser_by_password_has_log_in_password_and_status() {
        let changes = |is_superuser, can_login, has_password: bool| RoleChanges {
            is_superuser: Some(is_superuser),
            can_login: Some(can_login),
            password: has_password.then(|| StoredPassword::new("x")),
            ..RoleChanges::default()
        };
        for (is_superuser, can_login, has_password) in
            [(true, false, true), (true, true, false), (false, true, true)]
        {
            let mut roles = Roles::default();
            roles.create("ann", &changes(is_superuser, can_login, has_password)).unwrap();
            assert!(!roles.has_superuser(), "{is_superuser} {can_login} {has_password}");
            roles.create("root", &changes(true, true, true)).unwrap();
            assert!(roles.has_superuser());
        }
    }

    #[test]
    fn identities_log_in_as_their_roles() {
        let mut roles = with(&["ann"]);
        assert!(roles.add_identity("spiffe://x/ann", "bob").is_err(), "there is no bob");
        roles.add_identity("spiffe://x/ann", "ann").unwrap();
        assert_eq!(roles.role_of("spiffe://x/ann").map(|role| &**role), Some("ann"));
        let again = roles.add_identity("spiffe://x/ann", "ann").unwrap_err();
        assert_eq!(again.kind(), ErrorKind::AlreadyExists);
        roles.drop_identity("spiffe://x/ann").unwrap();
        assert_eq!(roles.role_of("spiffe://x/ann"), None);
        assert!(roles.drop_identity("spiffe://x/ann").is_err());
    }

    /// A resource on which the role has permissions takes no further place.
    #[test]
    fn resources_of_grants_are_limited() {
        let mut roles = with(&["ann"]);
        let table = |number: usize| Resource::table("k", &format!("t{number}"));
        for number in 0..GRANTS_MAX {
            roles.grant(SELECT, table(number), "ann").unwrap();
        }
        assert!(roles.grant(SELECT, table(GRANTS_MAX), "ann").is_err());
        let modify = Permissions::of(&[Permission::Modify]);
        roles.grant(modify, table(0), "ann").unwrap();
        assert!(roles.rights("ann").unwrap().allows_table("k", "t0", Permission::Modify));
        assert!(roles.grant(SELECT, table(0), "bob").is_err(), "there is no bob");
    }

    #[test]
    fn inapplicable_permissions_are_not_granted() {
        let mut roles = with(&["ann"]);
        roles.grant(Permissions::ALL, Resource::table("k", "t"), "ann").unwrap();
        let (_, granted) = roles.grants_of("ann").next().unwrap();
        assert_eq!(granted, Resource::table("k", "t").applicable());
        assert!(!granted.contains(Permission::Create));
        roles.revoke(Permissions::ALL, &Resource::table("k", "t"), "ann").unwrap();
        assert_eq!(roles, with(&["ann"]));
    }

    #[test]
    fn numbers_and_sizes_are_bounded() {
        let mut roles = Roles::default();
        let mut count = 0;
        while roles.create(&format!("r{count}"), &RoleChanges::default()).is_ok() {
            count += 1;
        }
        assert_eq!(count, ROLES_MAX);
        for name in ["", "a\0b", &"x".repeat(NAME_BYTES_MAX + 1)] {
            assert!(Roles::default().create(name, &RoleChanges::default()).is_err());
        }
        let options = (0..65).map(|number| (number.to_string(), String::new())).collect();
        let many = RoleChanges { options: Some(options), ..RoleChanges::default() };
        assert!(Roles::default().create("ann", &many).is_err());
    }

    /// Random changes, against the definition: a role has what any role has that can be reached.
    #[test]
    fn memberships_have_no_cycle_and_rights_follow_them() {
        let names = ["a", "b", "c", "d", "e", "f"];
        for seed in 0..60 {
            let mut rng = SeededRng::new(seed);
            let mut roles = with(&names);
            let mut pick = |of: usize| usize::try_from(rng.below(of as u64)).unwrap();
            for _ in 0..40 {
                let (one, other) = (names[pick(6)], names[pick(6)]);
                let table = Resource::table("k", names[pick(6)]);
                let _ = match pick(5) {
                    0..=1 => roles.grant_role(one, other),
                    2 => roles.revoke_role(one, other),
                    3 => roles.grant(SELECT, table, one),
                    _ => roles.revoke(SELECT, &table, one),
                };
                check(&roles, &names, seed);
            }
        }
    }

    fn check(roles: &Roles, names: &[&str], seed: u64) {
        for name in names {
            let direct = &roles.get(name).unwrap().member_of;
            let above = direct.iter().any(|role| roles.has(role, name));
            assert!(!above, "seed {seed}: {name} is a member of itself");
            let rights = roles.rights(name).unwrap();
            for table in names {
                let on = Resource::table("k", table);
                let expected = names.iter().any(|role| {
                    roles.has(name, role)
                        && roles.grants_of(role).any(|(resource, _)| *resource == on)
                });
                let found = rights.allows_table("k", table, Permission::Select);
                assert_eq!(found, expected, "seed {seed}: {name} on {table}");
            }
        }
    }
}
