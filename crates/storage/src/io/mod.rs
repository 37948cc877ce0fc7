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
//!    larger requests may use longer pieces while there are no reads, which halves the cost of
//!    writing a table.
//! 3. Background classes together have a floor, 5 % of the device unless [`Scheduler::set_floor`]
//!    raises it, regardless of foreground load and back-off. Each of them gets at least 5 % of
//!    their total.
//! 4. [`Dispatch::WaitUntil`] is the time at which the *next* request can be paid for, not a batch.
//! 5. An idle device does not wait for tokens, so a pessimistic model costs no throughput.
//! 6. A request that is cancelled before its dispatch costs nothing.

mod backoff;
mod bucket;
mod class;
mod latencies;
mod model;
mod queued;
mod read_queue;
mod request;
mod scheduler;
mod shares;
#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
mod totals;
mod turns;
mod watch;

pub use backoff::{Backoff, Goal};
pub use class::Class;
pub use model::{Combine, Flow, Model};
pub(crate) use read_queue::{ReadLimits, ReadQueue};
pub use request::{Direction, Id, PIECE_BYTES, Request};
pub use scheduler::{Config, Dispatch, Piece, Scheduler};
pub use totals::ClassTotals;
pub use turns::{Turn, Turns, Waits};
pub use watch::Watch;
