//! A deterministic simulator for Carnet.
//!
//! # The problem
//!
//! A database may lose an acknowledged commit once in a million crashes, or let two doctors go home
//! in one of a billion interleavings, and pass every handwritten test. So here a *seed* draws the
//! settings, the clients' transactions, the order in which tasks and workers run, the faults and
//! their times, and the unsynced bytes that survive. The same seed draws the same again, to the
//! last event.
//!
//! ```text
//!             seed
//!     ┌────────┼──────────┐
//!  executor  clients    faults        one thread, virtual time (executor)
//!     └───┐    │    ┌─────┘
//!      the unmodified database, with simulated Clock, Spawn and Disk
//!              │
//!           record ──▶ verdict        replay by timestamps, and as clients saw it
//! ```
//!
//! # Modules
//!
//! * [`executor`]: tasks, workers and timers of many processes in one thread; [`processors`]: polls
//!   that cost time.
//! * `workload`: kinds of transactions, each with an invariant.
//! * `embedded`: the scenario of one process and its disk; `cluster`: several processes over a weak
//!   cluster; `overload`: a server under load.
//! * `run_record` and `verdict`: the record of a run, and its judgement.
//! * [`mutant`]: deliberate bugs, each of which must be found.
//!
//! # Deliberately absent
//!
//! Threads: races of two cores on one cache line are tested by the engine's models under a
//! scheduler (`crates/storage/src/engine/models.rs`).

mod client;
mod cluster;
mod database;
mod dispatch;
mod embedded;
pub mod executor;
pub mod mutant;
mod order;
mod overload;
pub mod processors;
mod random;
mod rules;
mod run;
mod run_record;
mod scenario;
mod verdict;
mod workload;

pub use mutant::Mutant;
pub use order::Order;
pub use run::Run;
pub use scenario::Scenario;
pub use workload::Workload;
