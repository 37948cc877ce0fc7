//! How a read of many cells is put into requests. Pure.
//!
//! # The problem
//!
//! One request for each cell is paid for cell by cell. One request for all of them is worked on by
//! one thread of one node, and what else that node is asked waits behind it ("When Multiget Goes
//! Bad"). What lies between is best depends on the server, on its load, and on what a row weighs.
//!
//! ```text
//!             columns 1 2 3 4               [`Planner`]: rows that are asked for the same columns
//!   row A             x x                   share a request, since a request asks for every pair
//!   row B             x x                   of its rows and columns:
//!   row C                 x x x …
//!   row D             x x                      {A, B, D} × {1, 2}     {C} × {3, 4, …}
//!                                               └────── a batch ──────┘  of at most so many cells
//!
//!   batch 1 ──▶ lane ──▶ ┐                  [`Tuner`]: how many cells a batch holds and how many
//!   batch 2 ──▶ lane ──▶ ├▶ cluster            lanes there are, learned from the answers
//!   batch 3 …            ┘
//! ```
//!
//! Which groups may share a batch is *selective batching* ([`batches`]), the rule of AtlasDB's
//! transactions2 decision record: a large group has batches of its own, small ones are put
//! together. The record groups by column, for a request of its own that takes any cells. Stock CQL
//! has none, and pays for each partition that a statement touches: hence groups by row.
//!
//! # How the tuner learns
//!
//! For each of sixteen *levels*, numbers of lanes from 1 to 256, it keeps what a cell, a batch and
//! the lateness of the last lane cost: a curve through what whole reads took. From it follow, for a
//! read of N cells, the best number of waves of batches and how long the read will take. The level
//! that is fastest is taken, and of two nearly alike the smaller one, which makes others wait less.
//! The neighbours of the best level are tried now and then, more rarely each time that they are no
//! better, and at once when the server changes.
//!
//! Reads share a tuner where they are alike, in what a row weighs and in how many cells they ask
//! for: the costs of reads of twenty cells say little about reads of ten thousand.
//!
//! # Invariants
//!
//! * Every cell is asked for once, and nothing else is.
//! * No batch is larger than its limit, whatever the tuner has learned.
//! * The tuner has no clock and no dice: the same answers lead to the same settings.
//!
//! # Deliberately absent
//!
//! Requests with pairs that nobody asked for, to save one request more: a node pays for cells that
//! are not there as for others. Grouping by the node that owns a row.

mod fit;
mod plan;
mod selective;
#[cfg(test)]
mod simulated;
mod tuner;

pub use plan::{Batch, Grouping, Planner, Request};
pub use selective::{Cut, Limits, Piece, batches};
pub use tuner::{Done, Setting, Tuner};
