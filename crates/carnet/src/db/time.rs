//! Wall times: the way from commits to them and back, and reads of what was.

use carnet_base::{Error, ErrorKind, Moment, Result, Timestamp, WallTime, block_on};
use carnet_store::{BeginKind, CommitLog, Context};

use super::{Db, TransactionOptions};
use crate::tx::{Snapshot, Tx};

/// A moment of the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsOf {
    /// Every commit up to a timestamp is visible, and none after.
    Timestamp(Timestamp),
    /// As [`Db::timestamp_at`] says of a wall time.
    Wall(WallTime),
}

impl From<Timestamp> for AsOf {
    fn from(at: Timestamp) -> Self {
        Self::Timestamp(at)
    }
}

impl From<WallTime> for AsOf {
    fn from(at: WallTime) -> Self {
        Self::Wall(at)
    }
}

impl Db {
    /// Reads the clock of the database by which deadlines count.
    #[must_use]
    pub fn now(&self) -> Moment {
        self.inner.clock.now()
    }

    /// Reads the wall clock of the database.
    #[must_use]
    pub fn wall_time(&self) -> WallTime {
        self.inner.clock.wall()
    }

    /// Returns the newest commit that was visible at a wall time, to about a second: what was
    /// committed in the second before may be left out, what was committed later never is in it.
    ///
    /// What is old is known less exactly: an hour ago to two seconds, yesterday to a minute.
    ///
    /// # Errors
    ///
    /// `Invalid` for a time ahead of the database's clock, `TooOld` for one of which nothing is
    /// known any more, or was when it was written.
    pub fn timestamp_at(&self, wall: WallTime) -> Result<Timestamp> {
        block_on(self.timestamp_at_async(wall))
    }

    /// As [`Db::timestamp_at`], for asynchronous code.
    ///
    /// # Errors
    ///
    /// As [`Db::timestamp_at`].
    pub async fn timestamp_at_async(&self, wall: WallTime) -> Result<Timestamp> {
        self.inner.store.timestamp_at(&Context::unbounded(), wall).await
    }

    /// Returns when a commit became visible: about a second before it did at most, and never
    /// after. Old commits are known less exactly, as for [`Db::timestamp_at`].
    ///
    /// Of two commits the later one never has the earlier wall time, whatever the machine's clock
    /// did.
    ///
    /// # Errors
    ///
    /// `Invalid` for a timestamp ahead of the last commit, `TooOld` for one of which nothing is
    /// known any more.
    pub fn wall_time_of(&self, commit: Timestamp) -> Result<WallTime> {
        block_on(self.wall_time_of_async(commit))
    }

    /// As [`Db::wall_time_of`], for asynchronous code.
    ///
    /// # Errors
    ///
    /// As [`Db::wall_time_of`].
    pub async fn wall_time_of_async(&self, commit: Timestamp) -> Result<WallTime> {
        self.inner.store.wall_time_of(&Context::unbounded(), commit).await
    }

    /// Takes a read-only view of a moment of the past, which goes back as far as the
    /// [retention](crate::Builder::retention) does.
    ///
    /// ```
    /// # fn main() -> carnet::Result<()> {
    /// # let db = carnet::Db::builder().in_memory();
    /// let stock = db.raw("stock")?;
    /// db.transact(|tx| stock.put(tx, "apples", "3"))?;
    /// let before = db.published();
    /// db.transact(|tx| stock.put(tx, "apples", "0"))?;
    /// let snapshot = db.snapshot_as_of(before)?;
    /// assert_eq!(stock.get(&snapshot, "apples")?.as_deref(), Some(&b"3"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `Invalid` for a moment that is not over; `TooOld` for one that the sweep has gone past,
    /// naming how far it has come; `Unavailable` when the store has stopped.
    pub fn snapshot_as_of(&self, at: impl Into<AsOf>) -> Result<Snapshot> {
        self.transaction().snapshot_as_of(at)
    }

    /// As [`Db::snapshot_as_of`], for asynchronous code: the transaction refuses writes.
    ///
    /// # Errors
    ///
    /// As [`Db::snapshot_as_of`].
    pub async fn snapshot_as_of_async(&self, at: impl Into<AsOf>) -> Result<Tx> {
        self.transaction().snapshot_as_of_async(at).await
    }

    /// Returns the sweep mark: what a snapshot at or above it sees is all there, an older one is
    /// refused.
    ///
    /// # Errors
    ///
    /// `Unavailable`, `Unsupported` where the store keeps none.
    pub async fn swept(&self) -> Result<Timestamp> {
        self.inner.store.swept(&Context::unbounded()).await
    }
}

impl TransactionOptions<'_> {
    /// As [`Db::snapshot_as_of`].
    ///
    /// # Errors
    ///
    /// As [`Db::snapshot_as_of`].
    pub fn snapshot_as_of(&self, at: impl Into<AsOf>) -> Result<Snapshot> {
        block_on(self.snapshot_as_of_async(at)).map(Snapshot::new)
    }

    /// As [`Db::snapshot_as_of_async`].
    ///
    /// # Errors
    ///
    /// As [`Db::snapshot_as_of`].
    pub async fn snapshot_as_of_async(&self, at: impl Into<AsOf>) -> Result<Tx> {
        let at = match at.into() {
            AsOf::Timestamp(at) => at,
            AsOf::Wall(wall) => self.db().timestamp_at_async(wall).await?,
        };
        match self.begin_kind(BeginKind::ReadOnlyAt(at)).await {
            Err(error) if error.kind() == ErrorKind::TooOld => {
                Err(too_old(self.db(), at, error).await)
            }
            begun => begun,
        }
    }
}

/// Says how far the sweep has come, as people tell the time.
#[cold]
async fn too_old(db: &Db, at: Timestamp, error: Error) -> Error {
    let Ok(mark) = db.swept().await else { return error };
    let Ok(wall) = db.wall_time_of_async(mark).await else { return error };
    let message = format!(
        "what was visible at {at} may be swept: the sweep has come to {mark}, which was at {wall}"
    );
    Error::new(ErrorKind::TooOld, message).with_source(error)
}
