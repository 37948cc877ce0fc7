//! Carnet in a machine where nothing happens by chance.
//!
//! # The problem
//!
//! A database that loses an acknowledged commit once in a million crashes, or lets two doctors go
//! home in one of a billion interleavings, passes every test that somebody thought of. So nobody
//! thinks of them here: a *seed* draws the settings, what clients do, the order in which tasks
//! and workers run, what breaks and when, and which unsynced bytes survive. The same seed draws
//! the same again, to the last event.
//!
//! ```text
//!             seed
//!     ┌────────┼──────────┐
//!  executor  clients    faults        one thread, virtual time (executor)
//!     └───┐    │    ┌─────┘
//!      the database as it is shipped, over Clock, Spawn and Disk of its own
//!              │
//!           ledger ──▶ verdict        replay by timestamps, and as clients saw it
//! ```
//!
//! # The rooms
//!
//! * [`executor`]: tasks, workers and timers of many processes in one thread; [`processors`]: where
//!   polls cost time.
//! * `workload`: kinds of transactions, each with something that must never be seen.
//! * `embedded`: the scenario of one process and its disk; `overload`: of a server under load.
//! * `ledger` and `verdict`: what is written down, and what is made of it.
//! * [`mutant`]: deliberate breaks, each of which must be found.
//!
//! # Deliberately absent
//!
//! Threads: what two cores do to the same cache line at once is the business of the engine's
//! models under a scheduler (`crates/storage/src/engine/models.rs`).

mod client;
mod cluster;
mod database;
mod dice;
mod embedded;
pub mod executor;
mod ledger;
pub mod mutant;
mod overload;
pub mod processors;
mod rules;
mod run;
mod verdict;
mod workload;

pub use mutant::Mutant;
pub use run::{Order, Run, Scenario};
pub use workload::Workload;
