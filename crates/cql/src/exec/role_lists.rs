//! Lists of roles, permissions and identities.

use std::sync::Arc;

use carnet::DataType;
use carnet::roles::{Permission, Permissions, Resource, Rights, Role, Roles};

use super::authorize::check;
use super::executor::Executor;
use super::parameters::Session;
use super::roles::resolved;
use super::run::Run;
use crate::ast::{Name, RoleStatement};
use crate::cql_error::CqlError;
use crate::result::{ColumnSpec, Response, Rows};
use crate::system::{Cell, boolean, text, text_map};

/// What `LIST ROLES` shows as the data centers of every role, as Cassandra does by default.
const ALL_DATA_CENTERS: &str = "ALL";

impl Executor {
    pub(super) async fn list_roles(
        &self,
        session: &Session,
        statement: &RoleStatement,
        run: &Run<'_>,
    ) -> Result<Response, CqlError> {
        let db = &self.shared.db;
        let tx = run.transaction(db).snapshot_async(None).await?;
        db.refresh_roles_by(&tx).await?;
        let (roles, rights) = (db.roles(), self.rights(session)?);
        let viewer = Viewer { roles: &roles, rights: rights.as_deref() };
        let rows = match statement {
            RoleStatement::List { of, no_recursive } => {
                viewer.roles(of.as_ref().map(Name::as_str), !no_recursive)?
            }
            RoleStatement::ListUsers => viewer.users(|_, role| role.can_login),
            RoleStatement::ListSuperusers => {
                viewer.users(|name, _| viewer.roles.is_superuser(name))
            }
            RoleStatement::ListPermissions { permissions, on, of, no_recursive } => {
                let on = on.as_ref().map(|on| resolved(on, run.keyspace.as_deref())).transpose()?;
                let wanted =
                    permissions.as_ref().map_or(Permissions::ALL, |list| Permissions::of(list));
                let of = of.as_ref().map(Name::as_str);
                viewer.permissions(wanted, on.as_ref(), of, !no_recursive)?
            }
            RoleStatement::ListIdentities => viewer.identities(),
            other => return Err(CqlError::unsupported(other)),
        };
        Ok(Response::Rows(rows))
    }
}

/// The roles, and the role that sees a list of them.
struct Viewer<'a> {
    roles: &'a Roles,
    /// `None` for a viewer that is not checked.
    rights: Option<&'a Rights>,
}

impl Viewer<'_> {
    /// Returns `true` if all roles are shown, with a permission to list them.
    fn sees_all(&self) -> bool {
        self.rights.is_none_or(|rights| rights.allows(&Resource::Roles, Permission::Describe))
    }

    /// Returns `true` if a role is the viewer's, or one that it has.
    fn has(&self, role: &str) -> bool {
        self.rights.is_none_or(|rights| rights.names().iter().any(|name| **name == *role))
    }

    fn roles(&self, of: Option<&str>, is_recursive: bool) -> Result<Rows, CqlError> {
        let sees_all = self.sees_all();
        let own = self.rights.map(|rights| &**rights.role());
        let of = of.or(own.filter(|_| !sees_all));
        let names = match of {
            None => self.roles.iter().map(|(name, _)| Arc::clone(name)).collect(),
            Some(of) => {
                if let Some(rights) = self.rights.filter(|_| !self.has(of)) {
                    check(rights, &Resource::Roles, Permission::Describe)?;
                }
                let role = self.roles.get(of).ok_or_else(|| missing(of))?;
                let mut names = self.roles.all_of(of);
                names.retain(|name| is_recursive || **name == *of || role.member_of.contains(name));
                names.sort();
                names
            }
        };
        let rows = names.iter().filter_map(|name| {
            let role = self.roles.get(name)?;
            let options = role.options.iter().map(|(key, value)| (key.as_str(), value.as_str()));
            Some(vec![
                text(name),
                boolean(role.is_superuser),
                boolean(role.can_login),
                text_map(options),
                text(ALL_DATA_CENTERS),
            ])
        });
        let map = DataType::map(DataType::Text, DataType::Text);
        let columns = [
            ("role", DataType::Text),
            ("super", DataType::Boolean),
            ("login", DataType::Boolean),
            ("options", map),
            ("datacenters", DataType::Text),
        ];
        Ok(listed("roles", &columns, rows.collect()))
    }

    fn users(&self, is_listed: impl Fn(&str, &Role) -> bool) -> Rows {
        let sees_all = self.sees_all();
        let roles = self.roles.iter().filter(|(name, _)| sees_all || self.has(name));
        let rows = roles.filter(|(name, role)| is_listed(name, role)).map(|(name, _)| {
            vec![text(name), boolean(self.roles.is_superuser(name)), text(ALL_DATA_CENTERS)]
        });
        let columns = [
            ("name", DataType::Text),
            ("super", DataType::Boolean),
            ("datacenters", DataType::Text),
        ];
        listed("users", &columns, rows.collect())
    }

    fn permissions(
        &self,
        wanted: Permissions,
        on: Option<&Resource>,
        of: Option<&str>,
        is_recursive: bool,
    ) -> Result<Rows, CqlError> {
        let is_super = self.rights.is_none_or(Rights::is_superuser);
        if !is_super && !of.is_some_and(|of| self.has(of)) {
            let whose = of.unwrap_or("everyone");
            return Err(CqlError::unauthorized(format!(
                "You are not authorized to view {whose}'s permissions"
            )));
        }
        let mut roles = match of {
            None => self.roles.iter().map(|(name, _)| Arc::clone(name)).collect(),
            Some(of) if self.roles.get(of).is_none() => return Err(missing(of)),
            Some(of) if is_recursive => self.roles.all_of(of),
            Some(of) => vec![of.into()],
        };
        roles.sort();
        let on = on.map(|on| if is_recursive { on.chain() } else { vec![on.clone()] });
        let is_on = |resource: &Resource| on.as_ref().is_none_or(|on| on.contains(resource));
        let mut rows = Vec::new();
        for role in &roles {
            for (resource, has) in self.roles.grants_of(role).filter(|(on, _)| is_on(on)) {
                let shown = text(&resource.to_string());
                rows.extend(has.common(wanted).iter().map(|permission| {
                    vec![text(role), text(role), shown.clone(), text(permission.name())]
                }));
            }
        }
        let columns = ["role", "username", "resource", "permission"];
        Ok(listed("permissions", &columns.map(|name| (name, DataType::Text)), rows))
    }

    fn identities(&self) -> Rows {
        let sees_all = self.sees_all();
        let shown = self.roles.identities().filter(|(_, role)| sees_all || self.has(role));
        let rows = shown.map(|(identity, role)| vec![text(identity), text(role)]).collect();
        let columns = ["identity", "role"].map(|name| (name, DataType::Text));
        listed("identity_to_role", &columns, rows)
    }
}

fn missing(role: &str) -> CqlError {
    carnet::roles::no_role(role).into()
}

fn listed(table: &str, columns: &[(&str, DataType)], rows: Vec<Vec<Cell>>) -> Rows {
    let column = |(name, data_type): &(&str, DataType)| ColumnSpec {
        keyspace: "system_auth".to_owned(),
        table: table.to_owned(),
        name: (*name).to_owned(),
        data_type: data_type.clone(),
    };
    let columns: Vec<ColumnSpec> = columns.iter().map(column).collect();
    Rows { columns: columns.into(), rows: rows.into(), paging_state: None }
}
