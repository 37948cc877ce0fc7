//! The I/O scheduler: which request the device gets next, and how much of background work it bears.
//!
//! ```text
//!  wal, reads ──▶ by deadline ───────────────────────┐
//!                                                    ├─▶ bucket of the disk's model ─▶ device
//!  flush, compaction, maintenance ─▶ by shares ─▶ rate ┘                                  │
//!                                                  ▲                                      │
//!                                     Backoff ◀────┴──────── latency of reads ◀───────────┘
//! ```
//!
//! [`Scheduler`] decides and does no I/O; `now` is an argument. [`Model`] gives the device time that a
//! request costs, [`Backoff`] lowers the rate of background requests while reads are slow in the device.
//! [`Turns`] is the driver: threads that flush, compact and verify take turns from it, and reads that reach
//! the device report to it.
//!
//! # Rules
//!
//! 1. The log comes first, then reads by their deadlines, then background classes by their shares.
//! 2. Background requests reach the device in pieces of at most [`PIECE_BYTES`]; from threads that write
//!    larger ones, while there are no reads, pieces may be longer: it halves the cost of a table.
//! 3. Background classes together have a floor, 5 % of the device unless [`Scheduler::set_floor`] raises it,
//!    whatever foreground load and back-off say; each of them has at least 5 % of what all get.
//! 4. [`Dispatch::WaitUntil`] is when the *next* request is affordable, never a batch.
//! 5. An idle device waits for no tokens, so that a pessimistic model costs no throughput.
//! 6. A request that is cancelled before its dispatch costs nothing.

mod backoff;
mod bucket;
mod check;
pub mod file;
mod latencies;
mod model;
mod scheduler;
mod shares;
#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
mod totals;
mod turns;

use carnet_base::Moment;

pub use backoff::{Backoff, Goal};
pub(crate) use check::fits;
pub use model::{Combine, Flow, Model};
pub use scheduler::{Config, Dispatch, Id, Piece, Scheduler};
pub use totals::ClassTotals;
pub use turns::{Turn, Turns, Waits};

/// Maximum size of a piece of a background request, in bytes.
pub const PIECE_BYTES: usize = 128 << 10;

/// The class of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Writes of the log.
    Wal,
    /// Reads of statements, by the number of their service level.
    Read(u16),
    /// Writes of memtables' tables.
    Flush,
    /// Reads and writes of compactions.
    Compaction,
    /// Backups, verification, migrations.
    Maintenance,
}

impl Class {
    /// The number of kinds of classes.
    pub const KINDS: usize = 5;

    /// The names of the kinds, in the order of [`Class::kind`].
    pub const NAMES: [&'static str; Self::KINDS] =
        ["wal", "read", "flush", "compaction", "maintenance"];

    /// Returns the number of the kind; all levels of reads are one kind.
    #[must_use]
    pub const fn kind(self) -> usize {
        match self {
            Self::Wal => 0,
            Self::Read(_) => 1,
            Self::Flush => 2,
            Self::Compaction => 3,
            Self::Maintenance => 4,
        }
    }

    /// Returns the number among background classes; `None` for the log and reads.
    const fn background(self) -> Option<usize> {
        match self {
            Self::Wal | Self::Read(_) => None,
            Self::Flush => Some(0),
            Self::Compaction => Some(1),
            Self::Maintenance => Some(2),
        }
    }
}

/// The direction of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the device.
    Read,
    /// To the device.
    Write,
}

/// A request for the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The direction.
    pub direction: Direction,
    /// The size in bytes.
    pub bytes: usize,
    /// By when it should be done; it orders reads among each other, and writes of the log.
    pub deadline: Moment,
    /// Whether a background request is dispatched in pieces; otherwise its sender has cut it.
    pub splits: bool,
}
