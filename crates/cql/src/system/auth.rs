//! Tables of roles and permissions, as Cassandra has them: tools read them to list and to copy roles.
//!
//! Hashes of passwords are shown to superusers only: `SELECT` on all keyspaces does not suffice to
//! try passwords at leisure.

use std::sync::Arc;

use carnet::roles::{Permission, Role, Roles};
use carnet::{DataType, Uuid};

use super::encode::{self, Cell};
use super::table::{AUTH, Content, SystemColumn, SystemTable, clustering, partition, regular};

/// Roles as a statement may see them.
pub(crate) struct RolesView<'a> {
    pub(crate) roles: &'a Roles,
    /// Whether hashes of passwords are shown.
    pub(crate) has_hashes: bool,
}

/// Returns the tables by name.
pub(super) fn tables() -> [SystemTable; 8] {
    let text = || DataType::Text;
    let texts = || DataType::set(DataType::Text);
    let cidr = DataType::Tuple([DataType::Inet, DataType::Smallint].into());
    [
        table(
            ("cidr_groups", "list of CIDR groups", 0x9c48af00_13f6_3059_bb0e_8fcabba6eecb),
            Content::Nothing,
            vec![partition("cidr_group", text()), regular("cidrs", DataType::set(cidr)).frozen()],
        ),
        table(
            ("cidr_permissions", "user cidr permissions", 0xb8b43d5f_d6c0_331c_8f7d_765ea658f4c4),
            Content::Nothing,
            vec![partition("role", text()), regular("cidr_groups", texts()).frozen()],
        ),
        table(
            (
                "identity_to_role",
                "mtls authorized identities lookup table",
                0x0bd47a48_d6ba_3c8e_b442_0f6349329bda,
            ),
            Content::Identities,
            vec![partition("identity", text()), regular("role", text())],
        ),
        table(
            (
                "network_permissions",
                "user network permissions",
                0xd46780c2_2f1c_3db9_b4c1_b8d9fbc0cc23,
            ),
            Content::Nothing,
            vec![partition("role", text()), regular("dcs", texts()).frozen()],
        ),
        table(
            // Cassandra spells it so.
            (
                "resource_role_permissons_index",
                "index of db roles with permissions granted on a resource",
                0x5f2fbdad_91f1_3946_bd25_d5da3a5c35ec,
            ),
            Content::RolesOfResources,
            vec![partition("resource", text()), clustering("role", text())],
        ),
        table(
            (
                "role_members",
                "role memberships lookup table",
                0x0ecdaa87_f8fb_3e60_88d1_74fb36fe5c0d,
            ),
            Content::RoleMembers,
            vec![partition("role", text()), clustering("member", text())],
        ),
        table(
            (
                "role_permissions",
                "permissions granted to db roles",
                0x3afbe79f_2194_31a7_add7_f5ab90d8ec9c,
            ),
            Content::RolePermissions,
            vec![
                partition("role", text()),
                clustering("resource", text()),
                regular("permissions", texts()),
            ],
        ),
        table(
            ("roles", "role definitions", 0x5bc52802_de25_35ed_aeab_188eecebb090),
            Content::Roles,
            vec![
                partition("role", text()),
                regular("can_login", DataType::Boolean),
                regular("is_superuser", DataType::Boolean),
                regular("member_of", texts()),
                regular("salted_hash", text()),
            ],
        ),
    ]
}

fn table(
    (name, comment, uuid): (&'static str, &'static str, u128),
    content: Content,
    columns: Vec<SystemColumn>,
) -> SystemTable {
    SystemTable { keyspace: AUTH, name, comment, uuid: Uuid::from_u128(uuid), content, columns }
}

/// Returns the rows of one of these tables, in the order of its key.
pub(super) fn rows(table: &SystemTable, view: &RolesView<'_>) -> Vec<Vec<Cell>> {
    match table.content {
        Content::Roles => roles(table, view),
        Content::RoleMembers => members(table, view.roles),
        Content::RolePermissions => permissions(table, view.roles),
        Content::RolesOfResources => resources(table, view.roles),
        Content::Identities => identities(table, view.roles),
        _ => Vec::new(),
    }
}

fn roles(table: &SystemTable, view: &RolesView<'_>) -> Vec<Vec<Cell>> {
    let hash = |role: &Role| {
        let password = role.password.as_ref().filter(|_| view.has_hashes)?;
        encode::text(password.hash())
    };
    let row = |(name, role): (&Arc<str>, &Role)| {
        let of = role.member_of.iter().map(|name| &**name);
        // An empty set is null in Cassandra.
        let member_of = if of.len() == 0 { None } else { encode::texts(of) };
        table.row([
            ("role", encode::text(name)),
            ("can_login", encode::boolean(role.can_login)),
            ("is_superuser", encode::boolean(role.is_superuser)),
            ("member_of", member_of),
            ("salted_hash", hash(role)),
        ])
    };
    view.roles.iter().map(row).collect()
}

/// Returns a row for each role that another one has.
fn members(table: &SystemTable, roles: &Roles) -> Vec<Vec<Cell>> {
    let of = roles.iter().flat_map(|(member, role)| {
        role.member_of.iter().map(move |granted| (&**granted, &**member))
    });
    let mut pairs: Vec<_> = of.collect();
    pairs.sort_unstable();
    let row = |(role, member)| {
        table.row([("role", encode::text(role)), ("member", encode::text(member))])
    };
    pairs.into_iter().map(row).collect()
}

fn permissions(table: &SystemTable, roles: &Roles) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for (role, _) in roles.iter() {
        let mut grants: Vec<_> = roles.grants_of(role).collect();
        grants.sort_by_cached_key(|(resource, _)| resource.name());
        rows.extend(grants.into_iter().map(|(resource, permissions)| {
            let mut names: Vec<_> = permissions.iter().map(Permission::name).collect();
            names.sort_unstable();
            table.row([
                ("role", encode::text(role)),
                ("resource", encode::text(&resource.name())),
                ("permissions", encode::texts(names.into_iter())),
            ])
        }));
    }
    rows
}

/// Returns a row for each resource on which a role has permissions.
fn resources(table: &SystemTable, roles: &Roles) -> Vec<Vec<Cell>> {
    let of = roles.iter().flat_map(|(role, _)| {
        roles.grants_of(role).map(move |(resource, _)| (resource.name(), Arc::clone(role)))
    });
    let mut pairs: Vec<_> = of.collect();
    pairs.sort_unstable();
    let row = |(resource, role): (String, Arc<str>)| {
        table.row([("resource", encode::text(&resource)), ("role", encode::text(&role))])
    };
    pairs.into_iter().map(row).collect()
}

fn identities(table: &SystemTable, roles: &Roles) -> Vec<Vec<Cell>> {
    let row = |(identity, role): (&str, &Arc<str>)| {
        table.row([("identity", encode::text(identity)), ("role", encode::text(role))])
    };
    roles.identities().map(row).collect()
}
