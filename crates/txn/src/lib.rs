//! Transactions over any store: the rules by which they see, conflict and commit.
//!
//! # The problem
//!
//! Cells are written blindly, in any order, under the *start* timestamp S of their transaction.
//! Nothing about a cell says whether its transaction committed, or when. The order of commits
//! lives in one small place, the commit table, as entries S → C.
//!
//! # The clock of one transaction
//!
//! ```text
//!        R ≤ P                S                          C
//!  ──────┬────────────────────┬──────────────────────────┬──────────────▶ one logical clock
//!        │ snapshot: every    │ unique; names the        │ decided in one critical section:
//!        │ commit ≤ R is      │ versions this            │ nobody committed in (R, C) what
//!        │ resolved, visible  │ transaction writes       │ this one wrote or relied on
//! ```
//!
//! A version (S, C) is visible at R iff C ≤ R. An undecided or aborted version is invisible: no
//! reader ever waits for a live writer, or aborts one.
//!
//! # The rooms
//!
//! * [`Sequencer`] decides: the clock, the active snapshots, P, and the [conflict
//!   state](conflict). It does no I/O; the log's owner calls its decision in the critical section
//!   in which it reserves the commit's place.
//! * [`reader`] finds the visible version of a cell, below all that are not.
//! * [`Transaction`] buffers writes, lays them over what it reads, and remembers what it read.
//! * [`IdleWatch`] rolls back transactions that nobody calls any more, and names those that are open.
//! * [`Backoff`] says how long to wait before a transaction runs again, and [`Contention`] whose
//!   turn it is at a cell that many change.
//!
//! # Invariants
//!
//! * R is registered as active before it is released, and S is drawn after R.
//! * Where a cell's versions are ordered by S, the write-write check is made at every isolation
//!   level, for blind writes too: that per cell the order of S is the order of C depends on it, and
//!   so does every reader. Where they are ordered by C, a transaction is checked for its writes only
//!   if it read something that its read set does not name ([`VersionOrder`]).
//! * A transaction whose R lies below the conflict state's low watermark is refused: what it
//!   would have to be checked against is forgotten. R is compared, not S.
//! * Reads are checked up to C, not up to the moment of checking: both are one critical section.
//!
//! # Deliberately absent
//!
//! Locks; waiting for other transactions; validating reads by reading again.

pub mod conflict;
mod contention;
mod history;
mod idle;
mod isolation;
mod limits;
#[cfg(all(test, shuttle))]
mod models;
mod open;
pub mod reader;
mod reads;
mod retry;
mod sequencer;
mod snapshots;
mod sync;
mod transaction;

pub use conflict::VersionOrder;
pub use contention::{Contention, Turns};
pub use idle::{IdleLimits, IdleWatch};
pub use isolation::Isolation;
pub use limits::Limits;
pub use open::{Label, OpenTransaction};
pub use retry::Backoff;
pub use sequencer::Sequencer;
pub use transaction::{Entry, Terms, Transaction, TransactionPage};
