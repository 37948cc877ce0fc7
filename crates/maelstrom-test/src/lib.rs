//! Runs Maelstrom nodes and checks the histories of their clients, like Maelstrom, but without it.
//!
//! # Problem
//!
//! Maelstrom is a separate program, and not available everywhere. But it does only a few things to
//! a node: it carries messages, simulates services and clients, and checks the answers.
//!
//! ```text
//!           ┌──────────────────────── World ────────────────────────┐
//!  clients ─┤ requests ─► network ─► nodes ─► network ─► services   │
//!           │            latency, loss,                 late, lost, │ ─► history ─► checker
//!           │             partitions                     in error   │
//!           └─────────▲─────────────────────────────────────────────┘
//!                     │ time, and what nodes write
//!        `processes`: the real binary over pipes, in real time
//!        `simulated`: nodes in this process, on virtual time, by one seed
//! ```
//!
//! # Invariants
//!
//! * The world does no I/O and has no clock: with [`simulated`] a seed gives one run.
//! * Messages are counted as Maelstrom counts them: messages of servers are all that neither come
//!   from nor go to a client, divided by the number of requests that clients made.
//! * A partition cuts nodes from each other, as in Maelstrom; it cuts them from services only if
//!   [`Plan::partition_services`] is set. Messages of clients are never lost.
//!
//! # What differs from Maelstrom
//!
//! Services can be late, silent or in error here. Registers are judged by the project's checker,
//! which assumes that each value is written once; so the generator of `lin-kv` writes none twice.

mod clients;
mod net;
pub mod pictures;
mod plan;
pub mod processes;
mod report;
mod service;
pub mod simulated;
mod trace;
mod workload;
mod world;

pub use net::{Conditions, Distribution};
pub use plan::Plan;
pub use report::Report;
pub use service::Faults;
pub use trace::{Request, Sent, Trace};
pub use workload::{Kind, Verdict};
