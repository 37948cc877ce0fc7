//! Which tables to compact next: decided purely, from what the manifest knows.
//!
//! A choice is a function of [`Levels`], [`Config`] and [`State`] (what is running, how far the
//! mark has come, where the rotation stands); so a policy is tested on tables of numbers, and a
//! run is replayed from its choices. [`Leveled`] is for reads and space, [`Tiered`] for writes.
//! They keep the same order of sources, so that a database may change from one to the other.
//!
//! Both were run on memtables of 500 random cells, settling after each (fan-out 10; 4 memtables
//! make a batch, 4 runs a tier). *Written* is bytes to disk for each byte flushed, the flush
//! itself included; *space* is versions on disk for each key that is there, the worst of the
//! second half; *runs* is the most that a point read may have had to look into:
//!
//! | load | memtables | leveled: written | space | runs | tiered: written | space | runs |
//! | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
//! | new keys | 25 | 4.6 | 1.00 | 5 | 2.2 | 1.00 | 7 |
//! | new keys | 100 | 7.3 | 1.00 | 6 | 3.7 | 1.00 | 9 |
//! | new keys | 400 | 11.4 | 1.00 | 6 | 4.4 | 1.00 | 12 |
//! | overwriting 20 memtables | 100 | 5.0 | 1.15 | 5 | 2.8 | 2.30 | 9 |
//! | overwriting 20 memtables | 400 | 5.7 | 1.15 | 5 | 2.9 | 2.50 | 9 |
//! | the same, 25 % deletes | 400 | 4.6 | 1.21 | 5 | 2.8 | 2.50 | 8 |
//! | ascending keys | 400 | 1.0 | 1.00 | 6 | 1.0 | 1.00 | 2 |
//!
//! ```text
//! cargo test --release -p carnet-storage --lib table_of_amplification -- --ignored --nocapture
//! ```
//!
//! Invariants:
//!
//! 1. The order of sources is kept: only neighbours are compacted, and where two compactions run
//!    at once they share no table and, from level 1 on, no keys of a level that both touch. So
//!    what lies behind a compaction's output can only move further back while it runs, and what
//!    it concluded from it at its beginning stays true.
//! 2. It comes to rest: what was compacted for a reason is not chosen again for the same reason.
//! 3. A table is dropped or moved unread only where the manifest alone proves that it may be.

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

/// Decides about compaction. It has no clock, no disk and no memory of its own.
pub trait Policy: Send + Sync {
    /// Decides what to do next, beside what is being done.
    fn choose(&self, levels: &Levels, config: &Config, state: &State) -> Choice;

    /// Estimates how many bytes must be rewritten before there is nothing left to do.
    fn pending_bytes(&self, levels: &Levels, config: &Config) -> u64;

    /// Returns into how many runs a point read may have to look.
    fn runs(&self, levels: &Levels) -> usize {
        let deeper = (1..crate::manifest::LEVELS).filter(|level| !levels.level(*level).is_empty());
        levels.level(0).len() + deeper.count()
    }

    /// Returns how long level 0 is, in thousandths of the length from which on writers are slowed.
    fn level0_permille(&self, _levels: &Levels, _config: &Config) -> u64 {
        0
    }

    /// Says how far behind compaction is.
    fn backlog(&self, levels: &Levels, config: &Config) -> Backlog {
        Backlog {
            runs: self.runs(levels),
            pending_bytes: self.pending_bytes(levels, config),
            level0_permille: self.level0_permille(levels, config),
        }
    }

    /// Says how much writers must be slowed, so that compaction keeps up.
    fn pressure(&self, levels: &Levels, config: &Config) -> Pressure {
        Pressure::of(self.backlog(levels, config), config)
    }

    /// Says whether more than one thread should compact: see [`Backlog::wants_help`].
    fn wants_help(&self, levels: &Levels, config: &Config) -> bool {
        self.backlog(levels, config).wants_help(config)
    }
}
