//! Backups of a database, and what else is done to one as a whole while it is in use.

use std::path::Path;

use carnet_base::{Encoding, Result, Timestamp};

use super::Db;
use crate::admin;
use crate::backup::{Backup, Progress};
use crate::control::{Done, Owner, Request};

impl Db {
    /// Takes a backup to a directory of backups, which is made if it is not there: every commit
    /// that was acknowledged before this call is in it, and those up to the one that names it. It
    /// blocks the calling thread; transactions go on. Tables that an earlier backup there has are
    /// shared with it.
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
    /// `Invalid` where the directory holds backups of another database, or lies in a database;
    /// `Corrupted`, naming the file and the place, where a table is damaged: older backups stay
    /// then; `Unavailable` where another backup is being taken there, a disk fails, or the store
    /// has stopped; `Unsupported` for a database in memory.
    pub fn backup(&self, dest: impl AsRef<Path>) -> Result<Backup> {
        self.backup_with(dest, |_| {})
    }

    /// As [`Db::backup`], telling how far it has come.
    ///
    /// # Errors
    ///
    /// As [`Db::backup`].
    pub fn backup_with(
        &self,
        dest: impl AsRef<Path>,
        mut tell: impl FnMut(&Progress),
    ) -> Result<Backup> {
        admin::take(&self.inner.store, dest.as_ref(), |progress| {
            tell(progress);
            Ok(())
        })
    }

    /// Lets another encoding of the commit table begin, while transactions run: nothing is copied
    /// and nobody waits. Returns the first start timestamp that is written in it; `None` where it
    /// is the last one already. Over a cluster the starts up to there are used up first.
    ///
    /// # Errors
    ///
    /// `Unavailable` when the store has stopped, or after thousands of migrations; `Unsupported`
    /// for a database in memory; `Invalid` for v1 over a cluster.
    pub fn migrate(&self, to: Encoding) -> Result<Option<Timestamp>> {
        admin::migrate(&self.inner.store, to)
    }

    pub(crate) fn carry_out(
        &self,
        request: &Request,
        tell: &mut dyn FnMut(&Progress) -> Result<()>,
    ) -> Result<Done> {
        self.inner.store.carry_out(request, tell)
    }

    /// Returns where each encoding of the commit table begins, rising; nothing for a database in
    /// memory, which has no commit table.
    #[must_use]
    pub fn commit_encodings(&self) -> Vec<(Timestamp, Encoding)> {
        admin::encodings(&self.inner.store)
    }
}
