//! Service levels of a database.

use std::sync::Arc;

use carnet_base::{Error, Result};

use super::database::Db;
use super::options::TransactionOptions;
use crate::levels::{self, Levels};
use crate::tx::Tx;

impl Db {
    /// Returns the service levels as this process last read or changed them; see
    /// [`refresh_levels`](Self::refresh_levels).
    #[must_use]
    pub fn levels(&self) -> Arc<Levels> {
        self.inner.levels.get()
    }

    /// Changes the service levels in a transaction. The next statements of this process use them;
    /// other processes over a cluster use them after their next refresh.
    ///
    /// ```
    /// # fn main() -> carnet::Result<()> {
    /// use carnet::levels::Setting;
    ///
    /// let db = carnet::Db::builder().in_memory();
    /// carnet::block_on(db.change_levels(|levels| {
    ///     levels.create("reports", &[Setting::Shares(Some(100))])?;
    ///     levels.attach("reports", "ann")
    /// }))?;
    /// assert_eq!(&*db.levels().effective(&["ann"]).level.name, "reports");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The closure's errors, or those of [`Db::run`].
    pub async fn change_levels<T>(&self, change: impl Fn(&mut Levels) -> Result<T>) -> Result<T> {
        self.transaction().change_levels(change).await
    }

    /// Reloads the service levels if another process has changed them.
    ///
    /// # Errors
    ///
    /// Same as [`Db::snapshot`]; `Corrupted` if a record cannot be decoded. The cached levels are
    /// kept.
    pub async fn refresh_levels(&self) -> Result<()> {
        let tx = self.snapshot_async().await?;
        self.refresh_levels_by(&tx).await
    }

    /// Like [`Db::refresh_levels`], but reads from the caller's snapshot, which must be recent.
    ///
    /// # Errors
    ///
    /// Same as [`Db::refresh_levels`].
    pub async fn refresh_levels_by(&self, tx: &Tx) -> Result<()> {
        let at = tx.schema_at();
        if !self.inner.levels.is_current(at) {
            self.inner.levels.offer(at.read, levels::load(tx).await?);
        }
        Ok(())
    }
}

impl TransactionOptions<'_> {
    /// Like [`Db::change_levels`], but with the caller's own error type.
    ///
    /// # Errors
    ///
    /// Same as [`Db::change_levels`].
    pub async fn change_levels<T, E: From<Error>>(
        self,
        change: impl Fn(&mut Levels) -> Result<T, E>,
    ) -> Result<T, E> {
        let db = self.db();
        let change = &change;
        let (tx, levels, result) = self
            .try_run(|tx| async move {
                let old = levels::load(&tx).await?;
                let mut new = old.clone();
                let result = change(&mut new)?;
                if new != old {
                    levels::write(&tx, &old, &new)?;
                }
                Ok::<_, E>((tx, new, result))
            })
            .await?;
        let at = tx.committed().unwrap_or_else(|| tx.read_timestamp());
        db.inner.levels.offer(at, levels);
        Ok(result)
    }
}
