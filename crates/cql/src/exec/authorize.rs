//! Permissions that statements need.
//!
//! A session without a role is not checked: authentication is off, or its user is one of the password
//! file, who may do everything while the file names it. A statement on rows is checked with the schemas of its tables, in the
//! transaction that runs it; a schema change as well. Whatever is not listed here needs no permission,
//! and every kind of statement is listed: a new kind does not compile without its entry.

use std::sync::Arc;

use carnet::catalog::{self, TableSchema};
use carnet::roles::{self, Permission, Permissions, Resource, Rights};
use carnet::{Tx, index};

use super::ddl_target::place;
use super::executor::Executor;
use super::parameters::Session;
use crate::ast::{Name, ResourceName, Statement, TableName, Write};
use crate::compile::{Tables, table_key};
use crate::cql_error::CqlError;
use crate::result::{ChangeKind, ChangeTarget, SchemaChange};
use crate::system;

impl Executor {
    /// Returns what the role of a session may do; `None` if the session is not checked.
    ///
    /// # Errors
    ///
    /// `Unauthorized` if the role was dropped, or the user is not in the password file any more.
    pub(super) fn rights(&self, session: &Session) -> Result<Option<Arc<Rights>>, CqlError> {
        let Some(role) = session.role() else {
            return self.check_user_of(session).map(|()| None);
        };
        let db = &self.shared.db;
        // The version is read first: roles that are read after it are as new.
        let rights = session.rights(db.roles_version(), || db.roles().rights(role));
        rights.map(Some).ok_or_else(|| gone(role))
    }

    /// Checks that the user of a session is still one of the password file.
    fn check_user_of(&self, session: &Session) -> Result<(), CqlError> {
        // Another server has checked the user of a statement that it forwards.
        let Some(user) = session.user().filter(|_| !session.is_forwarded()) else { return Ok(()) };
        match &*self.shared.levels.users.load() {
            Some(users) if !users.contains(user) => Err(CqlError::unauthorized(format!(
                "user {user} was removed from the users file: log in as another one"
            ))),
            _ => Ok(()),
        }
    }

    /// Checks that a role may run statements by a service level that they name.
    pub(super) fn check_level(&self, rights: &Rights, level: &str) -> Result<(), CqlError> {
        let levels = self.shared.db.levels();
        let is_own = |role: &Arc<str>| levels.attached(role).is_some_and(|own| **own == *level);
        if rights.names().iter().any(is_own) {
            return Ok(());
        }
        check(rights, &Resource::Level(level.to_owned()), Permission::Execute)
    }
}

/// Makes the error of a session whose role was dropped.
pub(super) fn gone(role: &str) -> CqlError {
    CqlError::unauthorized(format!("role {role} was dropped: log in as another one"))
}

/// Fails if a role does not have a permission on a resource.
pub(super) fn check(
    rights: &Rights,
    resource: &Resource,
    permission: Permission,
) -> Result<(), CqlError> {
    if rights.allows(resource, permission) {
        return Ok(());
    }
    let role = rights.role();
    let (on, to) = (ResourceName::of(resource), Name::new(&**role));
    Err(CqlError::unauthorized(format!(
        "role {role} has no {permission} permission on {resource} or any of its parents: a superuser \
         may GRANT {permission} ON {on} TO {to}"
    )))
}

/// Checks a statement that has a plan, with the schemas of its tables.
pub(super) fn check_rows(
    rights: Option<&Rights>,
    statement: &Statement,
    tables: &Tables,
) -> Result<(), CqlError> {
    let Some(rights) = rights.filter(|rights| !rights.is_superuser()) else { return Ok(()) };
    let need = |name: &TableName, permission| match tables.get(&table_key(name)) {
        Some(schema) => check_table(rights, schema, permission),
        None => Err(CqlError::invalid(format!("table {name} does not exist"))),
    };
    let write = |write: &Write| {
        need(write.table(), Permission::Modify)?;
        // The answer of a condition tells what the row has.
        if write.is_conditional() { need(write.table(), Permission::Select) } else { Ok(()) }
    };
    match statement.planned() {
        Statement::Select(select) => need(&select.from, Permission::Select),
        Statement::Write(one) => write(one),
        Statement::Batch(batch) => batch.writes.iter().try_for_each(write),
        Statement::Transaction(transaction) => {
            let mut reads = transaction.selects();
            reads.try_for_each(|select| need(&select.from, Permission::Select))?;
            transaction.writes().try_for_each(write)
        }
        // These have no plan.
        Statement::Open(_)
        | Statement::Use(_)
        | Statement::CreateKeyspace(_)
        | Statement::AlterKeyspace(_)
        | Statement::DropKeyspace(_)
        | Statement::CreateTable(_)
        | Statement::CopyTable(_)
        | Statement::AlterTable(_)
        | Statement::DropTable(_)
        | Statement::CreateType(_)
        | Statement::AlterType(_)
        | Statement::DropType(_)
        | Statement::CreateIndex(_)
        | Statement::DropIndex(_)
        | Statement::CreateView(_)
        | Statement::AlterView(_)
        | Statement::DropView(_)
        | Statement::Truncate(..)
        | Statement::Describe(_)
        | Statement::Level(_)
        | Statement::Role(_)
        | Statement::ShowBottleneck
        | Statement::KillStatement(_)
        | Statement::Explain(_)
        | Statement::Unsupported(_) => Ok(()),
    }
}

/// Checks a permission on the rows of a table; on those of a view, that on its base table.
fn check_table(
    rights: &Rights,
    schema: &TableSchema,
    permission: Permission,
) -> Result<(), CqlError> {
    let table = schema.base.as_ref().map_or(&schema.name, |base| &base.table);
    if rights.allows_table(&schema.keyspace, table, permission) {
        return Ok(());
    }
    if permission == Permission::Select && system::is_readable(&schema.keyspace, table) {
        return Ok(());
    }
    check(rights, &Resource::table(&schema.keyspace, table), permission)
}

/// Checks a schema change, in its transaction.
pub(super) async fn check_schema(
    tx: &Tx,
    rights: Option<&Rights>,
    statement: &Statement,
    current: Option<&str>,
) -> Result<(), CqlError> {
    let Some(rights) = rights.filter(|rights| !rights.is_superuser()) else { return Ok(()) };
    let need = |resource: Resource, permission| check(rights, &resource, permission);
    let keyspace = |name: &Name| Resource::Keyspace(name.text.clone());
    let table = |name: &TableName| {
        place(name, current).map(|(keyspace, table)| Resource::table(keyspace, table))
    };
    let keyspace_of =
        |name: &TableName| place(name, current).map(|(keyspace, _)| keyspace.to_owned());
    match statement {
        Statement::CreateKeyspace(_) => need(Resource::Keyspaces, Permission::Create),
        Statement::AlterKeyspace(alter) => need(keyspace(&alter.name), Permission::Alter),
        Statement::DropKeyspace(drop) => need(keyspace(&drop.name), Permission::Drop),
        Statement::CreateTable(create) => {
            need(Resource::Tables(keyspace_of(&create.table)?), Permission::Create)
        }
        Statement::CopyTable(copy) => {
            need(Resource::Tables(keyspace_of(&copy.table)?), Permission::Create)?;
            need(table(&copy.like)?, Permission::Select)
        }
        Statement::AlterTable(alter) => need(table(&alter.table)?, Permission::Alter),
        Statement::DropTable(drop) => need(table(&drop.table)?, Permission::Drop),
        Statement::Truncate(name, _) => need(table(name)?, Permission::Modify),
        Statement::CreateType(create) => {
            need(Resource::Keyspace(keyspace_of(&create.name)?), Permission::Create)
        }
        Statement::AlterType(alter) => {
            need(Resource::Keyspace(keyspace_of(&alter.name)?), Permission::Alter)
        }
        Statement::DropType(drop) => {
            need(Resource::Keyspace(keyspace_of(&drop.name)?), Permission::Drop)
        }
        Statement::CreateIndex(create) => need(table(&create.table)?, Permission::Alter),
        Statement::DropIndex(drop) => {
            let (keyspace, name) = place(&drop.name, current)?;
            match index::index_table(tx, keyspace, name).await? {
                Some(of) => need(Resource::table(keyspace, &of.name), Permission::Alter),
                None => Ok(()),
            }
        }
        Statement::CreateView(create) => {
            // A view is in the keyspace of its base table.
            let (keyspace, _) = place(&create.name, current)?;
            let base = Resource::table(keyspace, create.table.table.as_str());
            need(base, Permission::Alter)
        }
        Statement::AlterView(alter) => need_base(tx, rights, &alter.name, current).await,
        Statement::DropView(drop) => need_base(tx, rights, &drop.name, current).await,
        // These are no schema changes.
        Statement::Select(_)
        | Statement::Write(_)
        | Statement::Batch(_)
        | Statement::Transaction(_)
        | Statement::Open(_)
        | Statement::Use(_)
        | Statement::Describe(_)
        | Statement::Level(_)
        | Statement::Role(_)
        | Statement::ShowBottleneck
        | Statement::KillStatement(_)
        | Statement::Explain(_)
        | Statement::Unsupported(_) => Ok(()),
    }
}

/// Checks that a role may alter the base table of a view. A missing view is reported by its change.
async fn need_base(
    tx: &Tx,
    rights: &Rights,
    view: &TableName,
    current: Option<&str>,
) -> Result<(), CqlError> {
    let (keyspace, name) = place(view, current)?;
    let Some(schema) = catalog::table(tx, keyspace, name).await? else { return Ok(()) };
    let Some(base) = &schema.base else { return Ok(()) };
    check(rights, &Resource::table(keyspace, &base.table), Permission::Alter)
}

/// Updates the permissions on what a schema change has created or dropped, in its transaction: the
/// role that creates an object has all permissions on it, and those on a dropped one are revoked.
/// Returns `true` if it may have changed the roles.
pub(super) async fn follow(
    tx: &Tx,
    rights: Option<&Rights>,
    change: Option<&SchemaChange>,
) -> Result<bool, CqlError> {
    let Some(SchemaChange { kind, keyspace, target }) = change else { return Ok(false) };
    let resource = match target {
        ChangeTarget::Keyspace => Resource::Keyspace(keyspace.clone()),
        ChangeTarget::Table(table) => Resource::table(keyspace, table),
        ChangeTarget::Type(_) => return Ok(false),
    };
    match (kind, rights) {
        (ChangeKind::Created, Some(rights)) => {
            let role = rights.role();
            roles::change(tx, |roles| roles.grant(Permissions::ALL, resource, role)).await?;
        }
        (ChangeKind::Dropped, _) => {
            roles::change(tx, |roles| {
                roles.drop_resource(&resource);
                Ok::<_, carnet::Error>(())
            })
            .await?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}
