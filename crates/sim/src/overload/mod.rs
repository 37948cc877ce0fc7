//! More requests than the processors can serve: the gate, the run queue and time slices under load.
//!
//! ```text
//!  clients ──▶ connection ──▶ gate (carnet_admission) ──▶ statement in turns ──▶ answer
//!  open loop,    a task          the real one               reads of the real
//!  batch, slow,                                             database, each cell
//!  disconnecting                                            costs processor time
//! ```
//!
//! The server's crate lies above the simulator's, so connections and the order of running
//! statements are reimplemented here (`server`, `turns`), with the same gate, run queue and time
//! slices.
//!
//! The load of the level *gold* rises from half of the capacity to ten times as much and falls
//! again; after that gold and *silver* are both saturated. All the time *batch* clients have the
//! maximum number of statements in flight, clients disconnect, and some read late.

mod batch;
mod connection;
mod in_turns;
mod judgement;
mod load;
mod permits;
mod phases;
mod request;
mod scenario;
mod send;
mod server;
mod setup;
mod statement;
mod tally;
mod turns;
mod world;

pub(crate) use scenario::run;
