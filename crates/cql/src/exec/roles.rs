//! Execution of statements that change roles and permissions.

use carnet::roles::{
    self, Permission, Permissions, Resource, Rights, RoleChanges, Roles, StoredPassword,
};
use carnet::{ErrorKind, Tx, catalog, passwords};

use super::authorize::{check, gone};
use super::executor::Executor;
use super::parameters::Session;
use super::run::Run;
use crate::ast::{Password, ResourceName, RoleOptions, RoleStatement};
use crate::cql_error::CqlError;
use crate::result::Response;
use crate::system;

/// A statement that changes roles, with its names resolved and its password hashed.
struct Change<'a> {
    statement: &'a RoleStatement,
    options: RoleChanges,
    /// Resource of `GRANT` and `REVOKE`.
    resource: Option<Resource>,
}

impl Executor {
    pub(super) async fn role_statement(
        &self,
        session: &Session,
        statement: &RoleStatement,
        run: &Run<'_>,
    ) -> Result<Response, CqlError> {
        match statement {
            RoleStatement::List { .. }
            | RoleStatement::ListUsers
            | RoleStatement::ListSuperusers
            | RoleStatement::ListPermissions { .. }
            | RoleStatement::ListIdentities => self.list_roles(session, statement, run).await,
            _ => self.change_roles(session, statement, run).await,
        }
    }

    async fn change_roles(
        &self,
        session: &Session,
        statement: &RoleStatement,
        run: &Run<'_>,
    ) -> Result<Response, CqlError> {
        let resource = match statement {
            RoleStatement::Grant { on, .. } | RoleStatement::Revoke { on, .. } => {
                Some(resolved(on, run.keyspace.as_deref())?)
            }
            _ => None,
        };
        let mut change = Change { statement, options: RoleChanges::default(), resource };
        // Also before a password is hashed, which is costly.
        let actor = session.role();
        authorize(&self.shared.db.roles(), actor, &change)?;
        if let RoleStatement::Create { options, .. } | RoleStatement::Alter { options, .. } =
            statement
        {
            change.options = self.changes(options).await?;
        }
        let (change, db) = (&change, &self.shared.db);
        let body = |tx: Tx| async move {
            if let (RoleStatement::Grant { .. }, Some(resource)) = (statement, &change.resource) {
                self.check_exists(&tx, resource).await?;
            }
            roles::change(&tx, |roles| {
                authorize(roles, actor, change)?;
                apply(roles, actor, change)
            })
            .await
        };
        run.transaction(db).try_run(body).await?;
        self.apply_roles().await;
        Ok(Response::Void)
    }

    /// Applies a change of the roles to the next statement. Without the cluster's answer, the next check
    /// of the server applies it: the change itself is done.
    pub(super) async fn apply_roles(&self) {
        if let Err(error) = self.shared.db.refresh_roles().await {
            tracing::warn!(%error, "cannot read the changed roles yet");
        }
    }

    /// Returns the hash that is stored of a password.
    async fn stored(&self, password: &Password) -> Result<StoredPassword, CqlError> {
        let hash = match (password, self.shared.hashing.get()) {
            (Password::Hashed(hash), _) => {
                passwords::check_hash(hash.expose())
                    .map_err(|why| CqlError::invalid(format!("HASHED PASSWORD: {why}")))?;
                hash.expose().to_owned()
            }
            (Password::Plain(secret), Some(hashing)) => hashing.hash(secret).await?,
            (Password::Plain(secret), None) => passwords::hash(secret.expose())?,
        };
        Ok(StoredPassword::new(hash))
    }

    async fn changes(&self, options: &RoleOptions) -> Result<RoleChanges, CqlError> {
        let password = match &options.password {
            Some(password) => Some(self.stored(password).await?),
            None => None,
        };
        Ok(RoleChanges {
            is_superuser: options.superuser,
            can_login: options.login,
            password,
            options: options.options.as_ref().map(|entries| entries.iter().cloned().collect()),
        })
    }

    /// Fails if a keyspace, table or level does not exist. The transaction depends on it: no
    /// permission is stored on an object that was dropped meanwhile. Roles are checked with the change.
    async fn check_exists(&self, tx: &Tx, resource: &Resource) -> Result<(), CqlError> {
        let exists = match resource {
            Resource::Keyspaces | Resource::Roles | Resource::Levels | Resource::Role(_) => true,
            Resource::Keyspace(name) | Resource::Tables(name) => {
                system::is_system_keyspace(name) || catalog::keyspace(tx, name).await?.is_some()
            }
            Resource::Table { keyspace, table } => {
                system::find(keyspace, table).is_some()
                    || catalog::table(tx, keyspace, table).await?.is_some()
            }
            Resource::Level(name) => self.shared.db.levels().get(name).is_some(),
        };
        if exists { Ok(()) } else { Err(CqlError::invalid(format!("{resource} doesn't exist"))) }
    }
}

/// Returns the resource of a statement, with the current keyspace for a table without one.
pub(super) fn resolved(on: &ResourceName, keyspace: Option<&str>) -> Result<Resource, CqlError> {
    on.resource(keyspace).ok_or_else(|| {
        CqlError::invalid(format!(
            "No keyspace has been specified. USE a keyspace, or explicitly specify \
             keyspace.tablename ({on})"
        ))
    })
}

/// Checks that a role may make a change; without a role, everything is allowed.
fn authorize(roles: &Roles, actor: Option<&str>, change: &Change<'_>) -> Result<(), CqlError> {
    let Some(actor) = actor else { return Ok(()) };
    let rights = &roles.rights(actor).ok_or_else(|| gone(actor))?;
    let role = |name: &str| Resource::Role(name.to_owned());
    let only_superusers = |what: &str| {
        CqlError::unauthorized(format!("role {actor} is no superuser: only superusers {what}"))
    };
    // What a superuser's name or password gives is everything.
    let guard = |name: &str, what: &str| match roles.is_superuser(name) && !rights.is_superuser() {
        true => Err(only_superusers(&format!("{what} {name}, which has superuser status"))),
        false => Ok(()),
    };
    match change.statement {
        RoleStatement::Create { options, .. } => {
            check(rights, &Resource::Roles, Permission::Create)?;
            if options.superuser == Some(true) && !rights.is_superuser() {
                return Err(only_superusers("can create a role with superuser status"));
            }
        }
        RoleStatement::Alter { name, options, .. } => {
            let name = name.as_str();
            if options.superuser.is_some() && roles.has(actor, name) {
                return Err(CqlError::unauthorized(
                    "You aren't allowed to alter your own superuser status or that of a role \
                     granted to you",
                ));
            }
            if options.superuser.is_some() && !rights.is_superuser() {
                return Err(only_superusers("can alter the superuser status of a role"));
            }
            let is_own = name == actor && options.login.is_none() && options.options.is_none();
            if !is_own {
                check(rights, &role(name), Permission::Alter)?;
            }
            guard(name, "can alter")?;
        }
        RoleStatement::Drop { name, .. } => {
            check(rights, &role(name.as_str()), Permission::Drop)?;
            guard(name.as_str(), "can drop")?;
            if name.as_str() == actor {
                return Err(CqlError::invalid("Cannot DROP primary role for current login"));
            }
        }
        RoleStatement::GrantRole { role: name, .. }
        | RoleStatement::RevokeRole { role: name, .. }
        | RoleStatement::AddIdentity { role: name, .. } => {
            check(rights, &role(name.as_str()), Permission::Authorize)?;
            guard(name.as_str(), "can grant and revoke")?;
        }
        RoleStatement::Grant { .. } | RoleStatement::Revoke { .. } => {
            let Some(resource) = &change.resource else { return Ok(()) };
            authorize_permissions(rights, change.statement, resource)?;
        }
        RoleStatement::DropIdentity { identity, .. } => {
            let name = roles.role_of(identity);
            let resource = name.map_or(Resource::Roles, |name| role(name));
            check(rights, &resource, Permission::Authorize)?;
            name.map_or(Ok(()), |name| guard(name, "can drop an identity of"))?;
        }
        // These change nothing.
        RoleStatement::List { .. }
        | RoleStatement::ListUsers
        | RoleStatement::ListSuperusers
        | RoleStatement::ListPermissions { .. }
        | RoleStatement::ListIdentities => {}
    }
    Ok(())
}

/// Checks that a role has the permissions that it grants or revokes.
fn authorize_permissions(
    rights: &Rights,
    statement: &RoleStatement,
    resource: &Resource,
) -> Result<(), CqlError> {
    check(rights, resource, Permission::Authorize)?;
    let (RoleStatement::Grant { permissions, .. } | RoleStatement::Revoke { permissions, .. }) =
        statement
    else {
        return Ok(());
    };
    let mut permissions = given(permissions.as_ref(), resource)?.iter();
    permissions.try_for_each(|permission| check(rights, resource, permission))
}

/// Returns the permissions of a statement; for `ALL`, all that apply to the resource.
pub(super) fn given(
    permissions: Option<&Vec<Permission>>,
    resource: &Resource,
) -> Result<Permissions, CqlError> {
    let applicable = resource.applicable();
    let Some(permissions) = permissions else { return Ok(applicable) };
    let given = Permissions::of(permissions);
    let other = given.without(applicable).iter().next();
    match other {
        None => Ok(given),
        Some(other) => {
            let names: Vec<_> = applicable.iter().map(Permission::name).collect();
            Err(CqlError::invalid(format!(
                "the permission {other} does not apply to {resource}, which has {}",
                names.join(", ")
            )))
        }
    }
}

fn apply(roles: &mut Roles, actor: Option<&str>, change: &Change<'_>) -> Result<(), CqlError> {
    let options = &change.options;
    match change.statement {
        RoleStatement::Create { if_not_exists, name, .. } => {
            match roles.create(name.as_str(), options) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    return if *if_not_exists { Ok(()) } else { Err(exists(error.message())) };
                }
                result => result?,
            }
            if let Some(actor) = actor {
                let created = Resource::Role(name.as_str().to_owned());
                roles.grant(Permissions::ALL, created, actor)?;
            }
        }
        RoleStatement::Alter { if_exists, name, .. } => {
            if *if_exists && roles.get(name.as_str()).is_none() {
                return Ok(());
            }
            roles.alter(name.as_str(), options)?;
        }
        RoleStatement::Drop { if_exists, name } => {
            if *if_exists && roles.get(name.as_str()).is_none() {
                return Ok(());
            }
            roles.drop(name.as_str())?;
        }
        RoleStatement::GrantRole { role, to } => roles.grant_role(role.as_str(), to.as_str())?,
        RoleStatement::RevokeRole { role, from } => {
            roles.revoke_role(role.as_str(), from.as_str())?;
        }
        RoleStatement::Grant { permissions, to, .. } => {
            let Some(on) = &change.resource else { return Ok(()) };
            if let Resource::Role(role) = on
                && roles.get(role).is_none()
            {
                return Err(CqlError::invalid(format!("{on} doesn't exist")));
            }
            roles.grant(given(permissions.as_ref(), on)?, on.clone(), to.as_str())?;
        }
        RoleStatement::Revoke { permissions, from, .. } => {
            let Some(on) = &change.resource else { return Ok(()) };
            roles.revoke(given(permissions.as_ref(), on)?, on, from.as_str())?;
        }
        RoleStatement::AddIdentity { if_not_exists, identity, role } => {
            match roles.add_identity(identity, role.as_str()) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    return if *if_not_exists { Ok(()) } else { Err(exists(error.message())) };
                }
                result => result?,
            }
        }
        RoleStatement::DropIdentity { if_exists, identity } => {
            if *if_exists && roles.role_of(identity).is_none() {
                return Ok(());
            }
            roles.drop_identity(identity)?;
        }
        RoleStatement::List { .. }
        | RoleStatement::ListUsers
        | RoleStatement::ListSuperusers
        | RoleStatement::ListPermissions { .. }
        | RoleStatement::ListIdentities => {}
    }
    Ok(())
}

/// Makes the error for a role or identity that exists, which Cassandra reports as invalid.
fn exists(message: &str) -> CqlError {
    CqlError::invalid(message)
}
