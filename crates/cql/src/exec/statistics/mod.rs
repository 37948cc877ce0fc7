//! Statistics of statements by fingerprint, and the last rows that statements lost to others.
//!
//! ```text
//!   a statement ends ──▶ the figures of its fingerprint ──▶ system_views.statement_statistics
//!          │               ▲  one copy for each thread         slowest in total first
//!          │               └─ kept by a prepared statement, else found by its hash
//!          └─ lost a row ──▶ the last conflicts ──▶ system_views.conflicts
//! ```
//!
//! Each execution adds to counters that its thread has alone. The number of fingerprints is limited: the
//! least used ones give way, and their figures go into one entry for all others.

mod conflicts;
mod figures;
mod histogram;
mod kinds;
mod registry;

pub(super) use conflicts::{Conflict, Conflicts};
pub(super) use figures::Executed;
pub(super) use kinds::KindDurations;
pub use kinds::StatementKind;
pub(super) use registry::{Slot, Statistics};
