//! Runs Maelstrom nodes and checks what their clients saw: as Maelstrom does, without it.
//!
//! # Problem
//!
//! Maelstrom is a program of its own, and not everywhere to be had. What it does to a node is
//! little, though: it carries messages, plays services and clients, and looks at the answers.
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
//! * Messages are counted as Maelstrom counts them: those of servers are all that neither come from
//!   nor go to a client, divided by the number of requests that clients made.
//! * A partition cuts nodes from each other, as Maelstrom's; it cuts them from services only where
//!   [`Plan::partition_services`] says so. Clients' messages are never lost.
//!
//! # What differs from Maelstrom
//!
//! Services can be late, silent or in error here. Registers are judged by the project's checker,
//! which takes each value for written once; so the generator of `lin-kv` writes none twice.

mod clients;
mod net;
mod plan;
pub mod processes;
mod report;
mod service;
pub mod simulated;
mod workload;
mod world;

pub use net::{Conditions, Distribution};
pub use plan::Plan;
pub use report::Report;
pub use service::Faults;
pub use workload::{Kind, Verdict};
