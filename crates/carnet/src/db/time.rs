//! Wall times: their mapping to commits, and time-travel reads (`AS OF`).

use std::time::Duration;

use carnet_base::{
    Error, ErrorKind, Moment, Result, TimeSlice, Timer, Timestamp, Wait, WallTime, YieldNow,
    block_on,
};
use carnet_store::{BeginKind, Context};

use super::database::Db;
use super::options::TransactionOptions;
use crate::as_of::AsOf;
use crate::tx::{Snapshot, Tx};

impl Db {
    /// Returns the current time of the database's clock, to which deadlines refer.
    #[must_use]
    pub fn now(&self) -> Moment {
        self.inner.clock.now()
    }

    /// Begins a time slice for work that may never wait and belongs to no transaction; see
    /// [`Tx::time_slice`].
    #[must_use]
    pub fn time_slice(&self, yield_now: YieldNow) -> TimeSlice<'_> {
        TimeSlice::begin(&*self.inner.clock, yield_now)
    }

    /// Returns a future that completes after a time.
    #[must_use]
    pub fn wait(&self, time: Duration) -> Wait {
        self.inner.timer.wait(time)
    }

    /// Returns the current wall time of the database's clock.
    #[must_use]
    pub fn wall_time(&self) -> WallTime {
        self.inner.clock.wall()
    }

    /// Returns the second since 1970-01-01 UTC by which columns expire for a read of now.
    pub(crate) fn wall_seconds(&self) -> i64 {
        let wall = self.inner.data.wall_time().unwrap_or_else(|| self.wall_time());
        wall.0.div_euclid(1_000_000)
    }

    /// Returns the newest commit that was visible at a wall time, with a precision of about a
    /// second: commits of the second before may be missing; later commits are never included.
    ///
    /// The precision falls with age: two seconds for an hour ago, a minute for yesterday.
    ///
    /// # Errors
    ///
    /// `Invalid` for a time ahead of the database's clock; `TooOld` if the database has no record
    /// of that time, or no longer has one.
    pub fn timestamp_at(&self, wall: WallTime) -> Result<Timestamp> {
        block_on(self.timestamp_at_async(wall))
    }

    /// Async variant of [`Db::timestamp_at`].
    ///
    /// # Errors
    ///
    /// Same as [`Db::timestamp_at`].
    pub async fn timestamp_at_async(&self, wall: WallTime) -> Result<Timestamp> {
        self.inner.data.timestamp_at(&Context::unbounded(), wall).await
    }

    /// Returns the wall time at which a commit became visible: at most about a second too early,
    /// and never too late. The precision falls with age, as for [`Db::timestamp_at`].
    ///
    /// A later commit never gets an earlier wall time, even if the machine's clock was set back.
    ///
    /// # Errors
    ///
    /// `Invalid` for a timestamp above the last commit; `TooOld` if the database no longer has a
    /// record of that time.
    pub fn wall_time_of(&self, commit: Timestamp) -> Result<WallTime> {
        block_on(self.wall_time_of_async(commit))
    }

    /// Async variant of [`Db::wall_time_of`].
    ///
    /// # Errors
    ///
    /// Same as [`Db::wall_time_of`].
    pub async fn wall_time_of_async(&self, commit: Timestamp) -> Result<WallTime> {
        self.inner.data.wall_time_of(&Context::unbounded(), commit).await
    }

    /// Takes a read-only snapshot of a past state, which must lie within the
    /// [retention](crate::Builder::retention).
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
    /// `Invalid` for a moment in the future; `TooOld` if it is below the GC watermark, which the
    /// error names; `Unavailable` when the store has stopped.
    pub fn snapshot_as_of(&self, at: impl Into<AsOf>) -> Result<Snapshot> {
        self.transaction().snapshot_as_of(at)
    }

    /// Async variant of [`Db::snapshot_as_of`]: the transaction refuses writes.
    ///
    /// # Errors
    ///
    /// Same as [`Db::snapshot_as_of`].
    pub async fn snapshot_as_of_async(&self, at: impl Into<AsOf>) -> Result<Tx> {
        self.transaction().snapshot_as_of_async(at).await
    }

    /// Returns the GC watermark: snapshots at or above it are complete, older ones are refused.
    ///
    /// # Errors
    ///
    /// `Unavailable`; `Unsupported` if the store keeps no watermark.
    pub async fn swept(&self) -> Result<Timestamp> {
        self.inner.data.swept(&Context::unbounded()).await
    }
}

impl TransactionOptions<'_> {
    /// Like [`Db::snapshot_as_of`], with these settings.
    ///
    /// # Errors
    ///
    /// Same as [`Db::snapshot_as_of`].
    pub fn snapshot_as_of(&self, at: impl Into<AsOf>) -> Result<Snapshot> {
        block_on(self.snapshot_as_of_async(at)).map(Snapshot::new)
    }

    /// Like [`Db::snapshot_as_of_async`], with these settings.
    ///
    /// # Errors
    ///
    /// Same as [`Db::snapshot_as_of`].
    pub async fn snapshot_as_of_async(&self, at: impl Into<AsOf>) -> Result<Tx> {
        let (at, wall) = match at.into() {
            AsOf::Timestamp(at) => (at, None),
            AsOf::Wall(wall) => (self.db().timestamp_at_async(wall).await?, Some(wall)),
        };
        let tx = match self.begin_kind(BeginKind::ReadOnlyAt(at)).await {
            Err(error) if error.kind() == ErrorKind::TooOld => {
                return Err(too_old(self.db(), at, error).await);
            }
            begun => begun?,
        };
        let wall = match (wall, self.has_wall_time()) {
            (None, false) => self.db().wall_time_of_async(at).await.ok(),
            (wall, _) => wall,
        };
        if let Some(wall) = wall {
            tx.set_wall_time(wall);
        }
        Ok(tx)
    }
}

/// Adds the GC watermark and its wall time to the error.
#[cold]
async fn too_old(db: &Db, at: Timestamp, error: Error) -> Error {
    let Ok(mark) = db.swept().await else { return error };
    let Ok(wall) = db.wall_time_of_async(mark).await else { return error };
    let message = format!(
        "the state at {at} may be garbage-collected: the GC watermark is {mark}, committed at {wall}"
    );
    Error::new(ErrorKind::TooOld, message).with_source(error)
}
