//! Roles of a database.

use std::sync::Arc;

use carnet_base::{Error, Result};

use super::database::Db;
use super::options::TransactionOptions;
use crate::roles::{self, Roles};
use crate::tx::Tx;

impl Db {
    /// Returns the roles as this process last read or changed them; see
    /// [`refresh_roles`](Self::refresh_roles).
    #[must_use]
    pub fn roles(&self) -> Arc<Roles> {
        self.inner.roles.get()
    }

    /// Returns a number that changes with [`Db::roles`]. Roles that are read after it are at least as
    /// new.
    #[must_use]
    pub fn roles_version(&self) -> u64 {
        self.inner.roles.version()
    }

    /// Changes the roles in a transaction. The next statements of this process use them; other
    /// processes over a cluster use them after their next refresh.
    ///
    /// ```
    /// # fn main() -> carnet::Result<()> {
    /// use carnet::roles::{Permission, Permissions, Resource, RoleChanges};
    ///
    /// let db = carnet::Db::builder().in_memory();
    /// carnet::block_on(db.change_roles(|roles| {
    ///     roles.create("ann", &RoleChanges::default())?;
    ///     roles.grant(Permissions::of(&[Permission::Select]), Resource::table("bank", "accounts"), "ann")
    /// }))?;
    /// let rights = db.roles().rights("ann").unwrap();
    /// assert!(rights.allows_table("bank", "accounts", Permission::Select));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The closure's errors, or those of [`Db::run`].
    pub async fn change_roles<T>(&self, change: impl Fn(&mut Roles) -> Result<T>) -> Result<T> {
        self.transaction().change_roles(change).await
    }

    /// Reloads the roles if another process has changed them.
    ///
    /// # Errors
    ///
    /// Same as [`Db::snapshot`]; `Corrupted` if a record cannot be decoded. The cached roles are
    /// kept.
    pub async fn refresh_roles(&self) -> Result<()> {
        let tx = self.snapshot_async().await?;
        self.refresh_roles_by(&tx).await
    }

    /// Like [`Db::refresh_roles`], but reads from the caller's snapshot, which must be recent.
    ///
    /// # Errors
    ///
    /// Same as [`Db::refresh_roles`].
    pub async fn refresh_roles_by(&self, tx: &Tx) -> Result<()> {
        let (at, cached) = (tx.schema_at(), &self.inner.roles);
        if cached.is_current(at) {
            return Ok(());
        }
        // Each change of the catalog ends the cached roles, and few of them are changes of roles.
        let known = cached.get();
        if roles::load_change(tx).await? == known.change() {
            cached.confirm(at.read, &known);
        }
        if !cached.is_current(at) {
            cached.offer(at.read, roles::load(tx).await?);
        }
        Ok(())
    }
}

impl TransactionOptions<'_> {
    /// Like [`Db::change_roles`], but with the caller's own error type.
    ///
    /// # Errors
    ///
    /// Same as [`Db::change_roles`].
    pub async fn change_roles<T, E: From<Error>>(
        self,
        change: impl Fn(&mut Roles) -> Result<T, E>,
    ) -> Result<T, E> {
        let db = self.db();
        let change = &change;
        let (tx, roles, result) = self
            .try_run(|tx| async move {
                let (result, roles) = roles::change_roles(&tx, change).await?;
                Ok::<_, E>((tx, roles, result))
            })
            .await?;
        let at = tx.committed().unwrap_or_else(|| tx.read_timestamp());
        db.inner.roles.offer(at, roles);
        Ok(result)
    }
}
