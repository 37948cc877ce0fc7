//! Compaction policies: decide which tables to compact next, from the manifest alone.
//!
//! A choice is a pure function of [`Levels`], [`Config`] and [`State`] (running compactions, GC
//! watermark, cursors), so policies are tested without files and runs can be replayed. [`Leveled`]
//! favors reads and space, [`Tiered`] favors writes. Both keep the same order of sources, so a
//! database may switch between them.
//!
//! Simulated amplification of both: docs/design/0019-compaction-under-load.md#policies.
//!
//! Invariants:
//!
//! 1. The order of sources is kept: only neighbors are compacted. Concurrent compactions share no
//!    table and, from level 1 on, no keys of a level that both use. So older data can only move to
//!    deeper levels while a compaction runs, and what [`Below`](super::Below) states at its start
//!    remains true.
//! 2. A policy terminates: tables that were compacted for a reason are not chosen again for it.
//! 3. A table is dropped or moved unread only if the manifest alone proves that it is safe.

mod config;
mod garbage;
mod leveled;
mod plan;
mod pressure;
#[cfg(test)]
mod simulation;
mod state;
#[cfg(test)]
mod tests;
mod tiered;

pub use config::Config;
pub use garbage::everything;
pub use leveled::Leveled;
pub use plan::{Choice, Plan, Reason};
pub use pressure::{Backlog, Pressure};
pub use state::State;
pub use tiered::Tiered;

use crate::manifest::Levels;

/// Compaction policy: a pure decision without clock, disk or state of its own.
pub trait Policy: Send + Sync {
    /// Chooses the next action, besides the running compactions.
    fn choose(&self, levels: &Levels, config: &Config, state: &State) -> Choice;

    /// Estimates the bytes to rewrite until no compaction is due.
    fn pending_bytes(&self, levels: &Levels, config: &Config) -> u64;

    /// Returns the maximum number of sorted runs that a point read may search.
    fn runs(&self, levels: &Levels) -> usize {
        let deeper = (1..crate::manifest::LEVELS).filter(|level| !levels.level(*level).is_empty());
        levels.level(0).len() + deeper.count()
    }

    /// Returns the size of level 0, in thousandths of the size from which writers are throttled.
    fn level0_permille(&self, _levels: &Levels, _config: &Config) -> u64 {
        0
    }

    /// Returns the backlog of compaction.
    fn backlog(&self, levels: &Levels, config: &Config) -> Backlog {
        Backlog {
            runs: self.runs(levels),
            pending_bytes: self.pending_bytes(levels, config),
            level0_permille: self.level0_permille(levels, config),
        }
    }

    /// Returns how much writers must be throttled so that compaction keeps up.
    fn pressure(&self, levels: &Levels, config: &Config) -> Pressure {
        Pressure::of(self.backlog(levels, config), config)
    }

    /// Returns `true` if more than one thread should compact: see [`Backlog::wants_help`].
    fn wants_help(&self, levels: &Levels, config: &Config) -> bool {
        self.backlog(levels, config).wants_help(config)
    }
}
