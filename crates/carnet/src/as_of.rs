//! Moments in the past, for time-travel reads and restores.

use carnet_base::{Timestamp, WallTime};

/// A moment in the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsOf {
    /// The state after all commits up to a timestamp.
    Timestamp(Timestamp),
    /// The state at a wall time, mapped by [`Db::timestamp_at`](crate::Db::timestamp_at).
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
