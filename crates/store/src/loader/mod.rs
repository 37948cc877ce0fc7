//! Grouping of a read of many cells into requests. Pure.
//!
//! # The problem
//!
//! With one request for each cell, every cell pays the cost of a request. A single request for all
//! cells is processed by one thread of one node, and that node's other requests wait behind it
//! ("When Multiget Goes Bad"). The best point in between depends on the server, on its load, and on
//! the size of a row.
//!
//! ```text
//!             columns 1 2 3 4               [`Planner`]: rows that need the same columns share a
//!   row A             x x                   request, since a request asks for every pair of its
//!   row B             x x                   rows and columns:
//!   row C                 x x x …
//!   row D             x x                      {A, B, D} × {1, 2}     {C} × {3, 4, …}
//!                                               └────── a batch ──────┘  of limited size
//!
//!   batch 1 ──▶ lane ──▶ ┐                  [`Tuner`]: the number of cells in a batch and the
//!   batch 2 ──▶ lane ──▶ ├▶ cluster            number of lanes, learned from the answers
//!   batch 3 …            ┘
//! ```
//!
//! *Selective batching* ([`batches`]) decides which groups may share a batch. It is the rule of
//! AtlasDB's transactions2 decision record: a large group has batches of its own, small ones are
//! put together. The record groups by column, for a special request that takes any cells. Stock CQL
//! has no such request and pays for each partition that a statement touches, so the groups here are
//! rows.
//!
//! # How the tuner learns
//!
//! There are sixteen *levels*, numbers of lanes from 1 to 256. For each the tuner keeps the cost of
//! a cell, of a batch and of the lateness of the last lane: a curve through the times of whole
//! reads. For a read of N cells the curve gives the best number of waves of batches and the
//! expected time. The tuner takes the fastest level, and the smaller of two that are nearly equal,
//! which leaves more room for other reads. It tries the neighbours of the best level from time to
//! time, more rarely each time that they are no better, and at once when the server changes.
//!
//! Reads share a tuner if they are alike in the size of a row and in the number of cells: the costs
//! of reads of twenty cells say little about reads of ten thousand.
//!
//! # Invariants
//!
//! * Every cell is requested once, and no other cell is.
//! * No batch exceeds its limit, whatever the tuner has learned.
//! * The tuner has no clock and no randomness: the same answers lead to the same settings.
//!
//! # Deliberately absent
//!
//! Requests with additional pairs of rows and columns, to save a request: a node pays for absent
//! cells as for others. Grouping by the node that owns a row.

mod fit;
mod plan;
mod selective;
#[cfg(test)]
mod simulated;
mod tuner;

pub use plan::{Batch, Grouping, Planner, Request};
pub use selective::{Cut, Limits, Piece, batches};
pub use tuner::{Done, Setting, Tuner};
