//! Wall times: the way from commits to them and back.

use carnet_base::{Result, Timestamp, WallTime, block_on};
use carnet_store::{CommitLog, Context};

use super::Db;

impl Db {
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
}
