//! Backups, migrations of the commit table, and requests of the control socket.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use carnet_base::{Encoding, Error, ErrorKind, Result, Timestamp};
use carnet_store_local::{BackupFigures, LocalStore};

use super::builder::Builder;
use super::database::Db;
use crate::admin;
use crate::backup::{Backup, Progress};
use crate::control::{self, ControlRequest, Done, Owner};

impl Builder {
    /// Carries out a request: opens the directory itself, or asks the process that has it open.
    ///
    /// # Errors
    ///
    /// Same as [`Builder::open`], or the error of the other process; `Unavailable` if it goes away before it replies.
    /// `Invalid` if the directory belongs to another user and no process has it open. If a process has the directory
    /// open without a control socket, the error says what to do.
    pub fn carry_out(
        self,
        directory: &Path,
        request: &ControlRequest,
        mut tell: impl FnMut(&Progress),
    ) -> Result<Done> {
        if let Some(refusal) = control::refusal_of_owner(directory) {
            return control::ask(directory, request, tell)?.ok_or(refusal);
        }
        let in_use = match self.open(directory) {
            Ok(db) => {
                return db.carry_out_and_close(request, &mut |progress| {
                    tell(progress);
                    Ok(())
                });
            }
            Err(error) if error.kind() == ErrorKind::Unavailable => error,
            Err(error) => return Err(error),
        };
        control::ask(directory, request, tell)?.ok_or_else(|| {
            Error::unavailable(format!(
                "{in_use}; that process cannot be asked because it has no control socket: `carnet serve` \
                 and `carnet stress` have one, and so has a program that opens the database with \
                 Builder::control"
            ))
        })
    }
}

impl Db {
    /// Takes a backup into a directory of backups, which is created if it does not exist. The
    /// backup contains every commit acknowledged before this call, and all commits up to the one
    /// in its label. The call blocks its thread; transactions continue. Table files of an earlier
    /// backup in the directory are shared with it.
    ///
    /// ```
    /// # fn main() -> carnet::Result<()> {
    /// # let dir = tempfile::tempdir().expect("a temporary directory");
    /// # let path = |name| dir.path().join(name);
    /// use carnet::{Db, backup};
    ///
    /// let db = Db::open(path("data"))?;
    /// let stock = db.raw("stock")?;
    /// db.transact(|tx| stock.put(tx, "apples", "3"))?;
    /// let taken = db.backup(path("backups"))?;
    /// db.transact(|tx| stock.delete(tx, "apples"))?;
    ///
    /// backup::restore(path("backups"), path("restored"), &backup::Which::default())?;
    /// let restored = Db::open(path("restored"))?;
    /// let snapshot = restored.snapshot()?;
    /// assert_eq!(restored.raw("stock")?.get(&snapshot, "apples")?.as_deref(), Some(&b"3"[..]));
    /// # assert!(taken.label.commit <= db.published());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// - `Invalid` if the directory holds backups of another database, or lies in a database.
    /// - `Corrupted`, with file and offset, if a table is damaged; older backups are kept.
    /// - `Unavailable` if another backup into the directory is running, a disk fails, or the store
    ///   has stopped.
    /// - `Unsupported` for a database in memory.
    pub fn backup(&self, dest: impl AsRef<Path>) -> Result<Backup> {
        self.backup_with(dest, |_| {})
    }

    /// Like [`Db::backup`], but reports its progress.
    ///
    /// # Errors
    ///
    /// Same as [`Db::backup`].
    pub fn backup_with(
        &self,
        dest: impl AsRef<Path>,
        mut tell: impl FnMut(&Progress),
    ) -> Result<Backup> {
        admin::take(&self.inner.store, dest.as_ref(), Duration::ZERO, |progress| {
            tell(progress);
            Ok(())
        })
    }

    /// Returns the figures of the backups that this process has taken; `None` for a database without a
    /// directory.
    #[must_use]
    pub fn backup_figures(&self) -> Option<BackupFigures> {
        self.inner.store.local().map(LocalStore::backup_figures)
    }

    /// Switches the commit table to another encoding while transactions run, without copying data
    /// or blocking. Returns the first start timestamp written in the new encoding; `None` if the
    /// table uses it already. Over a cluster, the start timestamps below that one are used up
    /// first.
    ///
    /// # Errors
    ///
    /// `Unavailable` when the store has stopped, or after thousands of migrations; `Unsupported`
    /// for a database in memory; `Invalid` for v1 over a cluster.
    pub fn migrate(&self, to: Encoding) -> Result<Option<Timestamp>> {
        admin::migrate(&self.inner.store, to)
    }

    /// Carries out a request and closes the database. A backup closes it as soon as it has linked
    /// the tables, so that a server can start while their bytes are read.
    pub(crate) fn carry_out_and_close(
        self,
        request: &ControlRequest,
        tell: &mut dyn FnMut(&Progress) -> Result<()>,
    ) -> Result<Done> {
        if let ControlRequest::Backup { .. } = request {
            let store = Arc::clone(&self.inner.store);
            let close = move || {
                self.close()?;
                drop(self);
                Ok(())
            };
            return admin::back_up_and_release(store, request, tell, close);
        }
        let done = self.inner.store.carry_out(request, tell)?;
        self.close()?;
        Ok(done)
    }

    /// Returns where each encoding of the commit table begins, in ascending order; empty for a
    /// database in memory, which has no commit table.
    #[must_use]
    pub fn commit_encodings(&self) -> Vec<(Timestamp, Encoding)> {
        admin::encodings(&self.inner.store)
    }
}
