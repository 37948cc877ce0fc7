//! Compaction policies: decide which tables to compact next, from the manifest alone.
//!
//! A choice is a pure function of [`Levels`](crate::manifest::Levels), [`Config`] and [`CompactionState`]
//! (running compactions, GC watermark, cursors), so policies are tested without files and runs can
//! be replayed. [`Leveled`] favors reads and space, [`Tiered`] favors writes. Both keep the same
//! order of sources, so a database may switch between them.
//!
//! Simulated amplification of both: docs/design/0019-compaction-under-load.md#policies.
//!
//! Invariants:
//!
//! 1. The order of sources is kept: only neighbors are compacted. Concurrent compactions share no
//!    table and, from level 1 on, no keys of a level that both use. So older data can only move to
//!    deeper levels while a compaction runs, and the statements that [`Below`](super::Below) makes
//!    at its start remain true.
//! 2. A policy terminates: tables that were compacted for a reason are not chosen again for it.
//! 3. A rewrite that dropped nothing is not repeated before the GC watermark, the level or the table
//!    has changed. So an idle database writes nothing.
//! 4. A table is dropped or moved unread only if the manifest alone proves that it is safe.

mod config;
mod decision;
#[cfg(test)]
mod edge_tests;
mod garbage;
mod leveled;
mod plan;
mod pressure;
#[cfg(test)]
mod simulation_tests;
mod state;
#[cfg(test)]
mod tests;
mod tiered;

pub use config::Config;
pub use decision::Policy;
pub use garbage::everything;
pub use leveled::Leveled;
pub use plan::{Choice, Plan, Reason};
pub use pressure::{Backlog, Pressure};
pub use state::CompactionState;
pub use tiered::Tiered;
