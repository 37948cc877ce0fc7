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
//!        │ commit ≤ R is      │ versions this            │ no commit in (R, C) wrote a cell
//!        │ resolved, visible  │ transaction writes       │ that this one wrote or relied on
//! ```
//!
//! A version (S, C) is visible at R iff C ≤ R. An undecided or aborted version is invisible: no
//! reader ever waits for a live writer, or aborts one.
//!
//! # Modules
//!
//! * [`CommitChecker`] decides: the clock, the active snapshots, P, and the [conflict state](conflict).
//!   It does no I/O; the log's owner calls its decision in the critical section in which it
//!   reserves the commit's place.
//! * [`reader`] finds the visible version of a cell, below all invisible ones.
//! * [`Transaction`] buffers writes, overlays them on its reads, and remembers its reads.
//! * [`IdleWatch`] rolls back idle transactions, and lists open ones.
//! * [`Backoff`] computes the wait before a transaction runs again, and [`Contention`] lets
//!   transactions take turns at a cell that many change.
//!
//! # Invariants
//!
//! * R is registered as active before it is released, and S is drawn after R.
//! * If a cell's versions are ordered by S, the write-write check is made at every isolation level,
//!   also for blind writes. It makes the order of S the order of C for each cell, on which every
//!   reader relies. If versions are ordered by C, a transaction's writes are checked only if its
//!   read set does not name all of its reads ([`VersionOrder`]).
//! * A transaction whose R lies below the conflict state's low watermark is refused: the commits
//!   that it would have to be checked against are forgotten. R is compared, not S.
//! * Reads are checked up to C, not up to the moment of checking: both are one critical section.
//!
//! # Deliberately absent
//!
//! Locks; waiting for other transactions; validating reads by reading again.

mod commit_checker;
pub mod conflict;
mod contention;
mod entry;
mod history;
mod idle;
mod isolation;
mod limits;
mod memory;
mod merge;
#[cfg(all(test, shuttle))]
mod models;
mod open;
pub mod reader;
mod reads;
mod retry;
mod settle;
mod snapshots;
mod sync;
mod transaction;

pub use commit_checker::CommitChecker;
pub use conflict::{DEFAULT_BYTES_MAX as CONFLICT_BYTES_MAX, VersionOrder};
pub use contention::{Contention, Ticket, TurnQueue, Turns};
pub use entry::Entry;
pub use idle::{IdleLimits, IdleWatch};
pub use isolation::Isolation;
pub use limits::Limits;
pub use open::{Label, OpenTransaction};
pub use retry::Backoff;
pub use transaction::{Terms, Transaction};
