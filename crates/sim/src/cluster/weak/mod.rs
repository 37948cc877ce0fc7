//! A cluster as weak as its traits allow: three replicas, and every allowed fault.
//!
//! ```text
//!            blind write                          conditional write
//!   process ──┬─▶ A   now                process ──▶ one agreed state for each row and register
//!             ├─▶ B   later, after any       ╲▶ or: *in doubt*, on one replica
//!             └─▶ C   never   other call        seen by every second read, or by none,
//!   two of three: acknowledged                  until the next round completes or discards it
//! ```
//!
//! * A blind write arrives at each replica at a different time, or never. Two arrivals make an
//!   acknowledgement, fewer a timeout. Messages in flight still arrive, even after later calls.
//! * A read uses two replicas, drawn at random, and sees the data of either.
//! * A conditional write is agreed on or not. A timeout shows neither: the write had no effect, or
//!   its full effect, or the proposal lives on one replica, where one plain read may see it and the
//!   next may not. The next round on the same row completes it or makes it impossible, or it
//!   completes later by itself.
//! * In some runs rounds *forget*: an entry that a round missed lives on, unless that round put
//!   another entry into its column, which a fence does not.
//! * A delete leaves a tombstone at each replica that it reaches. The tombstone is collected after
//!   a grace period; data that a replica missed the delete of may come back then.
//! * Processes can be cut off from replicas, and replicas can be down.

mod cells;
mod fault_rates;
mod handle;
mod replica;
mod rows;
mod state;
mod views;

pub(super) use fault_rates::FaultRates;
pub(super) use handle::WeakCluster;
