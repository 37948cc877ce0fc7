//! I/O scheduler: decides which request the device gets next, and limits background work.
//!
//! ```text
//!  wal, reads ──▶ by deadline ───────────────────────┐
//!                                                    ├─▶ bucket of the disk's model ─▶ device
//!  flush, compaction, maintenance ─▶ by shares ─▶ rate ┘                                  │
//!                                                  ▲                                      │
//!                                     Backoff ◀────┴──────── latency of reads ◀───────────┘
//! ```
//!
//! [`Scheduler`] decides and does no I/O; `now` is an argument. [`Model`] computes the device time
//! of a request, and [`Backoff`] lowers the rate of background requests while reads are slow in the
//! device. [`Turns`] is the driver: threads that flush, compact and verify take turns from it, and
//! it observes the reads that reach the device.
//!
//! # Rules
//!
//! 1. The log comes first, then reads by deadline, then background classes by their shares.
//! 2. Background requests reach the device in pieces of at most [`PIECE_BYTES`]. Threads that write
//!    larger requests may use longer pieces while there are no reads, which halves the cost of a
//!    table.
//! 3. Background classes together have a floor, 5 % of the device unless [`Scheduler::set_floor`]
//!    raises it, regardless of foreground load and back-off. Each of them gets at least 5 % of
//!    their total.
//! 4. [`Dispatch::WaitUntil`] is the time at which the *next* request can be paid for, not a batch.
//! 5. An idle device does not wait for tokens, so a pessimistic model costs no throughput.
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

/// Class of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Writes of the log.
    Wal,
    /// Reads of statements, by service level.
    Read(u16),
    /// Writes of flushed tables.
    Flush,
    /// Reads and writes of compactions.
    Compaction,
    /// Backups, verification, migrations.
    Maintenance,
}

impl Class {
    /// Number of kinds of classes.
    pub const KINDS: usize = 5;

    /// Names of the kinds, in the order of [`Class::kind`].
    pub const NAMES: [&'static str; Self::KINDS] =
        ["wal", "read", "flush", "compaction", "maintenance"];

    /// Returns the index of the kind; all levels of reads are one kind.
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

    /// Returns the index among background classes; `None` for the log and reads.
    const fn background(self) -> Option<usize> {
        match self {
            Self::Wal | Self::Read(_) => None,
            Self::Flush => Some(0),
            Self::Compaction => Some(1),
            Self::Maintenance => Some(2),
        }
    }
}

/// Direction of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the device.
    Read,
    /// To the device.
    Write,
}

/// A request to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Direction of the transfer.
    pub direction: Direction,
    /// Size in bytes.
    pub bytes: usize,
    /// Deadline; it orders reads among each other, and writes of the log.
    pub deadline: Moment,
    /// Whether the scheduler splits a background request; otherwise its sender has done so.
    pub splits: bool,
}
